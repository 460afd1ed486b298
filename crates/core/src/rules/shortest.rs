//! `srpt`: shortest remaining first, a yardstick for mean latency.
//!
//! Optimises mean latency as the textbook does, and knows nothing of switching. At each event every ready task that fits is
//! started, those of the request with the least work left first (execution time x GPUs of its unfinished tasks; higher
//! priority first); one that does not fit is skipped. GPUs are chosen as by `baseline`.
//!
//! Cost: O(log n + nodes of the request) per task and O(models) per event.

use super::info::without_params;
use super::ready::ReadyByModel;
use super::{Policy, place};
use crate::engine::{Decision, TaskState, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;

without_params!(
    "srpt",
    BOTH,
    "the request with the least work left first, regardless of switching costs; a yardstick",
    yardstick(),
    |instance, _| Shortest::new(instance)
);

/// The request with the least work left first.
pub struct Shortest {
    ready: ReadyByModel,
    /// Until GPUs fall free again, a model that did not fit will not fit.
    blocked: IdVec<ModelId, bool>,
}

impl Shortest {
    /// With an empty queue.
    pub fn new(instance: &Instance) -> Shortest {
        let models = instance.models.len();
        Shortest { ready: ReadyByModel::new(models), blocked: vec![false; models].into() }
    }
}

/// GPU time of the tasks of a request that are not done.
fn work_left(view: &View<'_>, task: TaskId) -> u64 {
    let instance = view.instance();
    let open =
        instance.tasks_of(instance.request_of(task)).filter(|&task| view.state(task) != TaskState::Done);
    open.map(|task| view.expected(task).0 * u64::from(instance.models[instance.model_of(task)].gpus)).sum()
}

impl Policy for Shortest {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        let instance = view.instance();
        let priority = instance.requests[instance.request_of(task)].priority;
        let rank = (-i64::from(priority), work_left(view, task));
        self.ready.push(task, view, rank);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        let mut found = None;
        for model in self.ready.models() {
            if !self.blocked[model] {
                found = place::affinity_first(view, model, view.idle()).map(|gpus| (model, gpus));
                if found.is_some() {
                    break;
                }
                self.blocked[model] = true;
            }
        }
        let (model, gpus) = found?;
        self.ready.pop(model).map(|task| Decision::Start { task, gpus })
    }

    fn freed(&mut self, _gpus: Gpus, _view: &View<'_>) {
        self.blocked.iter_mut().for_each(|blocked| *blocked = false);
    }

    fn lost(&mut self, _gpu: GpuId, _view: &View<'_>) {
        self.blocked.iter_mut().for_each(|blocked| *blocked = false);
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lost(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.given_up(task, view);
    }
}
