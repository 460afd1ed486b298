//! Where the widest model does not divide the cluster: which GPUs can serve it, and which are left over.
//!
//! While the blocks serve the widest models, the GPUs left over have to have other work; and the blocks have nothing to do
//! before some requests have come through to their wide tasks. So requests with wide tasks are begun first, a few at a time.

use super::sketch;
use crate::gpuset::GpuSet;
use crate::id::{Gpus, IdVec, ModelId, RequestId, TaskId};
use crate::instance::Instance;
use crate::time::Span;
use std::cmp::Reverse;

/// The cluster, cut into blocks for the widest models and the GPUs left over.
pub(super) struct Division {
    /// Windows of the widest model, side by side.
    pub blocks: Vec<Gpus>,
    /// The GPUs in no block.
    pub rest: GpuSet,
    /// Models that fit into blocks alone.
    pub is_wide: IdVec<ModelId, bool>,
    /// What each request asks.
    pub demands: IdVec<RequestId, Demand>,
    /// The requests in the order in which to begin them: by priority, then those with wide tasks.
    pub order: Vec<RequestId>,
}

/// What a request asks of the cluster, in GPU-seconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Demand {
    /// Of the widest models.
    pub wide: f64,
    /// Of all others.
    pub narrow: f64,
    /// Its wide tasks.
    pub wide_tasks: u32,
}

impl Division {
    /// `None` where no GPU is left over, or none of them could be of use: then there is nothing to divide.
    pub fn of(instance: &Instance) -> Option<Division> {
        let mut used: IdVec<ModelId, bool> = vec![false; instance.models.len()].into();
        for request in &instance.requests {
            instance.workflows[request.workflow].models.iter().for_each(|&model| used[model] = true);
        }
        let models = || instance.models.iter_enumerated().filter(|&(id, _)| used[id]);
        let (_, widest) = models().max_by_key(|&(id, model)| (model.gpus, Reverse(id)))?;
        let blocks = sketch::tiles(widest);
        let mut rest = GpuSet::full(instance.cluster.gpus);
        blocks.iter().for_each(|&block| rest.remove_all(block));
        let fits = |id: ModelId| instance.models[id].windows().any(|window| rest.contains_all(window));
        let is_wide: IdVec<ModelId, bool> = instance.models.keys().map(|id| !fits(id)).collect();
        if rest.is_empty() || !instance.start.is_empty() || !models().any(|(id, _)| !is_wide[id]) {
            return None;
        }
        let mut division = Division {
            blocks,
            rest,
            is_wide,
            demands: IdVec::new(),
            order: instance.requests.keys().collect(),
        };
        division.demands = instance.requests.keys().map(|id| division.demand(instance, id)).collect();
        let wide_tasks: usize = division.demands.iter().map(|demand| demand.wide_tasks as usize).sum();
        if wide_tasks < MANY * division.blocks.len() {
            return None;
        }
        let Division { demands, order, .. } = &mut division;
        order.sort_by_key(|&id| (Reverse(instance.requests[id].priority), demands[id].wide_tasks == 0));
        Some(division)
    }

    fn demand(&self, instance: &Instance, request: RequestId) -> Demand {
        let mut demand = Demand::default();
        for task in instance.tasks_of(request) {
            let model = instance.model_of(task);
            let area = instance.execution(task).seconds() * f64::from(instance.models[model].gpus);
            if self.is_wide[model] {
                demand.wide += area;
                demand.wide_tasks += 1;
            } else {
                demand.narrow += area;
            }
        }
        demand
    }

    /// GPU-seconds of narrow work to do on all GPUs before the widest models begin: what the GPUs left over could not do in
    /// time later, and enough for the first requests to come through.
    pub fn head_start(&self, instance: &Instance) -> f64 {
        let (gpus, rest) = (f64::from(instance.cluster.gpus), f64::from(self.rest.len()));
        let with_wide = self.demands.iter().filter(|demand| demand.wide_tasks > 0);
        let (wide, feeding) =
            with_wide.fold((0.0, 0.0), |sum, demand| (sum.0 + demand.wide, sum.1 + demand.narrow));
        let meanwhile = KEEPS_UP * rest * wide / (gpus - rest);
        (feeding - meanwhile).max(HEAD_START * gpus * self.lead(instance).seconds())
    }

    /// How long each of the GPUs left over will have nothing to do, in seconds, if `head_start` is done on all GPUs.
    pub fn idle_left_over(&self, instance: &Instance, head_start: f64) -> f64 {
        let (gpus, rest) = (f64::from(instance.cluster.gpus), f64::from(self.rest.len()));
        let total = |part: fn(&Demand) -> f64| self.demands.iter().map(part).sum::<f64>();
        let elsewhere = head_start * (gpus - rest) / gpus;
        let work = total(|demand| demand.narrow) - elsewhere;
        (total(|demand| demand.wide) / (gpus - rest) - work / rest).max(0.0)
    }

    /// The windows of every model. Wide ones are confined to the blocks; with `apart`, the others to the GPUs left over.
    pub fn windows(&self, instance: &Instance, apart: bool) -> IdVec<ModelId, Vec<Gpus>> {
        let mut in_blocks = GpuSet::empty(instance.cluster.gpus);
        self.blocks.iter().for_each(|&block| in_blocks.insert_all(block));
        let mut windows = sketch::tiles_left(instance, &in_blocks);
        let others = match apart {
            true => sketch::tiles_left(instance, &self.rest),
            false => instance.models.iter().map(sketch::tiles).collect(),
        };
        for (model, tiles) in others.into_iter_enumerated().filter(|(model, _)| !self.is_wide[*model]) {
            windows[model] = tiles;
        }
        windows
    }

    /// The shortest way of a request to its first wide task.
    fn lead(&self, instance: &Instance) -> Span {
        let mut ends = Vec::new();
        let leads = instance.requests.iter().filter_map(|request| {
            let workflow = &instance.workflows[request.workflow];
            ends.clear();
            ends.resize(workflow.nodes.len(), Span::ZERO);
            let mut least = None;
            for &node in &workflow.order {
                let begins = workflow.predecessors(node).iter().map(|&before| ends[before as usize]).max();
                let begins = begins.unwrap_or(Span::ZERO);
                let task = TaskId(request.first_task.0 + node);
                ends[node as usize] = begins + instance.execution(task);
                if self.is_wide[workflow.models[node as usize]] {
                    least = Some(least.map_or(begins, |least: Span| least.min(begins)));
                }
            }
            least
        });
        leads.min().unwrap_or(Span::ZERO)
    }
}

/// How long all GPUs work for the first requests, in leads.
const HEAD_START: f64 = 0.5;
/// The share of their time in which the GPUs left over do useful work for the blocks: they wait for inputs and switch too.
const KEEPS_UP: f64 = 0.8;
/// Wide tasks for each block from which on it pays to divide the cluster: with few, nothing is left over for long.
const MANY: usize = 8;
