//! `adaptive`: for streams of any load.
//!
//! Optimises the latency of requests: its mean, its 99th percentile, or both ([`Objective`]). Knows nothing of requests that
//! have not arrived.
//!
//! It follows one rule at a time: rank with slack ([`ranked`]), under several sets of weights, one of the simpler queue rules,
//! or a fixed placement worked out from recent demand ([`placement`]). Every few arrivals it plays the present forward under
//! each of them ([`lookahead`]), with arrivals drawn from recent ones ([`forecast`]), and follows the rule that the objective
//! likes best ([`score`]).

mod candidates;
mod forecast;
mod lookahead;
mod objective;
mod placement;
mod ranked;
mod score;

pub use objective::{LatencyTarget, Objective};

use super::info::{BOTH, BuildContext, PolicyInfo};
use super::{Policy, param::params};
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, ModelId, TaskId};
use crate::instance::{Instance, Mode, Residency};
use crate::time::Span;
use candidates::Candidate;
use lookahead::Lookahead;

pub(crate) const INFO: PolicyInfo = PolicyInfo::new(
    "adaptive",
    BOTH,
    "low latency with few switches at any load; honours deadlines and priorities; for any stream",
);

params! {
    /// The latency that the `adaptive` policy keeps low.
    pub struct AdaptiveParams {
        /// The latency to keep low: mean, p99 or balanced (both, and few loads)
        objective: Objective = Objective::Balanced,
        /// A latency to stay below first, as in p99=60s
        target: Option<LatencyTarget>,
        /// Longest wait of a node because nodes are grouped by model
        max_collate_wait: Option<Span>,
    }
}

pub(crate) type Params = AdaptiveParams;

pub(crate) fn build<'i>(
    instance: &'i Instance,
    params: &Params,
    context: &BuildContext<'_>,
) -> Box<dyn Policy + 'i> {
    Box::new(Adaptive::seeded(instance, params, context.seed))
}

/// The rule that does best from here.
pub struct Adaptive {
    rule: Box<dyn Policy>,
    /// Chooses between rules: for streams, where no bound on waiting has to be kept.
    lookahead: Option<Lookahead>,
}

impl Adaptive {
    /// With nothing ready.
    #[must_use]
    pub fn new(instance: &Instance, params: &AdaptiveParams) -> Adaptive {
        Adaptive::seeded(instance, params, 0)
    }

    fn seeded(instance: &Instance, params: &AdaptiveParams, seed: u64) -> Adaptive {
        let own = Candidate::own(params.objective, params.max_collate_wait);
        let saves_loads =
            params.objective == Objective::Balanced && params.target.is_none() && is_short_of_gpus(instance);
        let chooses = instance.mode == Mode::Online && params.max_collate_wait.is_none() && !saves_loads;
        let rule = own.at_start(instance);
        Adaptive { rule, lookahead: chooses.then(|| Lookahead::new(params.objective, params.target, seed)) }
    }
}

/// So many models for each GPU that every load takes off one that will be asked for again: what that costs comes later than a
/// look ahead goes.
const MODELS_PER_GPU: usize = 2;

fn is_short_of_gpus(instance: &Instance) -> bool {
    let mut models: Vec<ModelId> =
        instance.workflows.iter().flat_map(|workflow| workflow.models.iter().copied()).collect();
    models.sort_unstable();
    models.dedup();
    instance.cluster.residency == Residency::Single
        && models.len() >= MODELS_PER_GPU * instance.cluster.gpus as usize
}

impl Policy for Adaptive {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        if let Some(lookahead) = &mut self.lookahead {
            lookahead.ready(task, view);
        }
        self.rule.ready(task, view);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        if let Some(lookahead) = &mut self.lookahead
            && let Some(rule) = lookahead.look(view)
        {
            self.rule = rule;
        }
        let decision = self.rule.decide(view);
        if let (Some(lookahead), Some(Decision::Start { .. })) = (&mut self.lookahead, decision) {
            lookahead.started();
        }
        decision
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        self.rule.freed(gpus, view);
    }

    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        self.rule.lost(gpu, view);
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.rule.returned(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.rule.given_up(task, view);
    }
}
