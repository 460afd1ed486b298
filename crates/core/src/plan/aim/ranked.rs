//! Ready tasks by a rank of their requests: the policy behind the orders that a search for short latencies begins with.

use crate::engine::Policy;
use crate::engine::{Decision, View};
use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus, ModelId, RequestId, TaskId};
use crate::instance::Instance;
use std::collections::BTreeSet;

/// Which requests come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Those with the least GPU-time.
    Work,
    /// Those with the shortest longest path.
    Path,
}

pub(super) const RANKS: [Rank; 2] = [Rank::Work, Rank::Path];

impl Rank {
    pub fn name(self) -> &'static str {
        match self {
            Rank::Work => "least work first",
            Rank::Path => "shortest path first",
        }
    }

    fn of(self, instance: &Instance, request: RequestId) -> u64 {
        let gpus = |task: TaskId| u64::from(instance.models[instance.model_of(task)].gpus);
        match self {
            Rank::Work => instance
                .tasks_of(request)
                .map(|task| instance.execution(task).0.saturating_mul(gpus(task)))
                .sum(),
            Rank::Path => {
                let spec = &instance.requests[request];
                let workflow = &instance.workflows[spec.workflow];
                let mut end = vec![0; workflow.nodes.len()];
                for &node in &workflow.order {
                    let before = workflow.predecessors(node).iter().map(|&other| end[other as usize]).max();
                    let own = instance.execution(TaskId(spec.first_task.0 + node)).0;
                    end[node as usize] = before.unwrap_or(0) + own;
                }
                end.into_iter().max().unwrap_or(0)
            }
        }
    }
}

/// Starts the task of the first rank that fits; where it keeps models, first one whose model is there.
pub(super) struct Ranked {
    ranks: Vec<u64>,
    keeps: bool,
    /// By model: (rank, task).
    ready: Vec<BTreeSet<(u64, TaskId)>>,
}

impl Ranked {
    pub fn new(instance: &Instance, rank: Rank, keeps: bool) -> Ranked {
        let ranks = instance.requests.keys().map(|request| rank.of(instance, request)).collect();
        Ranked { ranks, keeps, ready: vec![BTreeSet::new(); instance.models.len()] }
    }

    fn window(view: &View<'_>, model: ModelId, resident: bool) -> Option<Gpus> {
        let spec = &view.instance().models[model];
        let mut starts: GpuSet = view.idle().starts(spec.gpus);
        starts.keep(&spec.starts);
        let windows = starts.iter().map(|first| Gpus { first, count: spec.gpus });
        let costs = windows.filter_map(|window| Some((view.load_cost(model, window)?, window)));
        let (cost, window) = costs.min_by_key(|&(cost, window)| (cost, window.first))?;
        (!resident || cost.0 == 0).then_some(window)
    }
}

impl Policy for Ranked {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        let instance = view.instance();
        let rank = self.ranks[instance.request_of(task).index()];
        self.ready[instance.model_of(task).index()].insert((rank, task));
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        if view.idle().is_empty() {
            return None;
        }
        let mut firsts: Vec<(u64, TaskId, ModelId)> = Vec::new();
        for (model, ready) in (0..).map(ModelId).zip(&self.ready) {
            firsts.extend(ready.first().map(|&(rank, task)| (rank, task, model)));
        }
        firsts.sort_unstable();
        let passes: &[bool] = if self.keeps { &[true, false] } else { &[false] };
        for &resident in passes {
            for &(rank, task, model) in &firsts {
                if let Some(gpus) = Ranked::window(view, model, resident) {
                    self.ready[model.index()].remove(&(rank, task));
                    return Some(Decision::Start { task, gpus });
                }
            }
        }
        None
    }

    fn lost(&mut self, _gpu: GpuId, _view: &View<'_>) {}
}
