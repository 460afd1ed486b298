//! `online`: a cost for every task and GPU, for streams.
//!
//! Optimises waiting, switching and balance together. Ready tasks go first come, first served (higher priority first), and
//! one that does not fit is skipped. Each looks for the GPUs with the least alpha x wait + beta x switch + gamma x
//! future impact + delta x load:
//!
//! - wait: until the GPUs are free.
//! - switch: what bringing the model over takes.
//! - future impact: what bringing back the model that is displaced would take, times `lookahead`, times the share of the
//!   latest placements (`lookahead` for each GPU) that used it: a model in demand is worth keeping.
//! - load: 10 x (tasks given to these GPUs - mean) + 100 x (their busy time - mean) / now, as published, among idle GPUs
//!   only: nothing waits for balance.
//!
//! If busy GPUs that hold the model are the better choice, the task waits for them. An idle GPU steals: it takes a task that
//! waits for longer than its model takes to come over.
//!
//! The published program gives a task its GPUs when it becomes ready, and work stealing has to repair that; choosing when GPUs
//! are free was 4-11% shorter on the published files. Knows nothing of requests that have not arrived.
//!
//! Cost: O(log n + models x windows) per decision.

use super::info::{BOTH, BuildContext, PolicyInfo};
use super::pools::Pools;
use super::ready::ReadyByModel;
use super::reserve::clear_at;
use super::{Policy, param::params, place, sketch};
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;
use crate::time::Span;
use std::collections::VecDeque;

pub(crate) const INFO: PolicyInfo = PolicyInfo::new(
    "online",
    BOTH,
    "one cost for waiting, switching, future use and load, with work stealing; for streams",
);

params! {
    /// Weights of the `online` policy.
    pub struct OnlineParams {
        /// Weight of waiting
        alpha: f64 = 1.0,
        /// Weight of switching models
        beta: f64 = 1.5,
        /// Weight of what a switch does to later tasks
        gamma: f64 = 0.3,
        /// Weight of load imbalance
        delta: f64 = 0.5,
        /// How many later tasks are looked at
        lookahead: u32 = 3,
    }
}

pub(crate) type Params = OnlineParams;

pub(crate) fn build<'i>(
    instance: &'i Instance,
    params: &Params,
    _: &BuildContext<'_>,
) -> Box<dyn Policy + 'i> {
    Box::new(Pools::new(instance, false, |_| Online::new(instance, params)))
}

/// Least cost, decided when GPUs are free.
pub struct Online {
    params: OnlineParams,
    ready: ReadyByModel,
    windows: IdVec<ModelId, Vec<Gpus>>,
    round: u64,
    waits_in: IdVec<ModelId, u64>,
    given: IdVec<GpuId, u32>,
    given_total: u64,
    /// The models of the latest placements.
    recent: VecDeque<ModelId>,
    recent_count: IdVec<ModelId, u32>,
}

impl Online {
    /// With nothing ready.
    #[must_use]
    pub fn new(instance: &Instance, params: &OnlineParams) -> Online {
        let models = instance.models.len();
        Online {
            params: params.clone(),
            ready: ReadyByModel::new(models),
            windows: instance.models.iter().map(sketch::tiles).collect(),
            round: 1,
            waits_in: vec![0; models].into(),
            given: vec![0; instance.cluster.gpus as usize].into(),
            given_total: 0,
            recent: VecDeque::new(),
            recent_count: vec![0; models].into(),
        }
    }

    /// Idle GPUs to start on now, or `None` if waiting for others, or for anything at all, is better.
    fn choose(&self, view: &View<'_>, model: ModelId, means: &Means) -> Option<Gpus> {
        if let Some(gpus) = place::joinable(view, model) {
            return Some(gpus);
        }
        let idle = self.windows[model].iter().copied().filter(|&gpus| view.idle().contains_all(gpus));
        let costed = idle.filter_map(|gpus| {
            let switch = view.load_cost(model, gpus)?;
            Some((self.switch_cost(view, model, gpus, switch), gpus))
        });
        let with_load = |&(cost, gpus): &(f64, Gpus)| cost + self.params.delta * means.load(self, view, gpus);
        let (here, gpus) = costed.min_by(|a, b| with_load(a).total_cmp(&with_load(b)).then(a.1.cmp(&b.1)))?;
        let elsewhere =
            self.windows[model].iter().copied().filter(|&gpus| view.holding(model).contains_all(gpus));
        let wait = |gpus: Gpus| self.params.alpha * clear_at(view, model, gpus).since(view.now()).seconds();
        let soonest = elsewhere.map(wait).fold(f64::INFINITY, f64::min);
        (here <= soonest).then_some(gpus)
    }

    /// The cost of switching, now and later.
    fn switch_cost(&self, view: &View<'_>, model: ModelId, gpus: Gpus, switch: Span) -> f64 {
        if switch == Span::ZERO {
            return 0.0;
        }
        let (instance, asked) = (view.instance(), self.recent.len().max(1) as f64);
        let displaced = gpus.iter().filter_map(|gpu| view.resident(gpu)).filter(|&old| old != model);
        let back = displaced.map(|old| {
            let (new, old_spec) = (&instance.models[model], &instance.models[old]);
            let span =
                instance.cluster.switch.of(Some(new.leaving()), old_spec.memory_gb, old_spec.load_seconds);
            span.seconds() * f64::from(self.recent_count[old]) / asked
        });
        let future = back.fold(0.0, f64::max) * f64::from(self.params.lookahead);
        self.params.beta * switch.seconds() + self.params.gamma * future
    }

    fn start(&mut self, view: &View<'_>, model: ModelId, gpus: Gpus) -> Option<Decision> {
        let task = self.ready.pop(model)?;
        gpus.iter().for_each(|gpu| self.given[gpu] += 1);
        self.given_total += u64::from(gpus.count);
        self.remember(view, model);
        Some(Decision::Start { task, gpus })
    }

    /// Counts a placement of a model among the latest.
    pub(super) fn remember(&mut self, view: &View<'_>, model: ModelId) {
        self.recent.push_back(model);
        self.recent_count[model] += 1;
        if self.recent.len() > (self.params.lookahead.max(1) * view.instance().cluster.gpus) as usize
            && let Some(old) = self.recent.pop_front()
        {
            self.recent_count[old] -= 1;
        }
    }

    /// A task that waits although GPUs are idle: one whose wait is longer than the way of its model to an idle GPU, or, with
    /// nothing at work, any.
    fn steal(&self, view: &View<'_>) -> Option<(ModelId, Gpus)> {
        let nothing_runs = view.idle().len() == view.alive().len();
        self.ready.models().find_map(|model| {
            let (gpus, switch) = place::cheapest_within(view, model, view.idle(), &self.windows[model])?;
            let waits = self.windows[model].iter().map(|&gpus| clear_at(view, model, gpus).since(view.now()));
            let elsewhere = waits.filter(|&wait| wait > switch).min();
            (nothing_runs || elsewhere.is_some_and(|wait| wait > switch)).then_some((model, gpus))
        })
    }
}

/// What the load of a GPU is measured against.
struct Means {
    given: f64,
    busy: f64,
    now: f64,
}

impl Means {
    fn of(policy: &Online, view: &View<'_>) -> Means {
        let gpus = f64::from(view.alive().len().max(1));
        let busy: u64 = view.alive().iter().map(|gpu| view.busy(gpu).0).sum();
        Means {
            given: policy.given_total as f64 / gpus,
            busy: busy as f64 / 1e6 / gpus,
            now: view.now().seconds(),
        }
    }

    fn load(&self, policy: &Online, view: &View<'_>, gpus: Gpus) -> f64 {
        let of_gpu = |gpu: GpuId| {
            let share =
                if self.now > 0.0 { 100.0 * (view.busy(gpu).seconds() - self.busy) / self.now } else { 0.0 };
            10.0 * (f64::from(policy.given[gpu]) - self.given) + share
        };
        gpus.iter().map(of_gpu).fold(f64::MIN, f64::max)
    }
}

impl Policy for Online {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.push_fifo(task, view);
        self.round += 1;
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        if self.ready.is_empty() {
            return None;
        }
        let means = Means::of(self, view);
        let models: Vec<ModelId> =
            self.ready.models().filter(|&model| self.waits_in[model] != self.round).collect();
        for model in models {
            if let Some(gpus) = self.choose(view, model, &means) {
                return self.start(view, model, gpus);
            }
            self.waits_in[model] = self.round;
        }
        let (model, gpus) = self.steal(view)?;
        self.start(view, model, gpus)
    }

    fn freed(&mut self, _gpus: Gpus, _view: &View<'_>) {
        self.round += 1;
    }

    fn lost(&mut self, _gpu: GpuId, view: &View<'_>) {
        self.windows = sketch::tiles_left(view.instance(), view.alive());
        self.round += 1;
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lost(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.given_up(task, view);
    }
}
