//! Unfinished requests of a run, and why.

use crate::id::{ModelId, RequestId, TaskId};
use crate::instance::Instance;
use crate::log::{ExecutionLog, Status};

/// A request that did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The request.
    pub request: RequestId,
    /// Its nodes that gave no result, in the order of the workflow's file.
    pub tasks: Vec<TaskId>,
    /// A model of one of them that no GPUs are left for, where that is why.
    pub no_gpus_for: Option<ModelId>,
}

/// The requests that were not finished, in the order of the file.
#[must_use]
pub fn unfinished(instance: &Instance, log: &ExecutionLog) -> Vec<Unfinished> {
    let mut done = vec![false; instance.tasks()];
    for one in log.executions.iter().filter(|one| one.status == Status::Completed) {
        done[one.task.index()] = true;
    }
    let mut alive = vec![true; instance.cluster.gpus as usize];
    for loss in log.losses.iter().filter(|loss| loss.until.is_none()) {
        alive[loss.gpu.index()] = false;
    }
    let whole = |model: ModelId| {
        instance.models[model].windows().any(|window| alive[window.range()].iter().all(|&alive| alive))
    };
    let stranded: Vec<bool> = instance.models.keys().map(|model| !whole(model)).collect();
    let of = |request: RequestId| {
        let tasks: Vec<TaskId> = instance.tasks_of(request).filter(|task| !done[task.index()]).collect();
        let mut models = tasks.iter().map(|&task| instance.model_of(task));
        let no_gpus_for = models.find(|model| stranded[model.index()]);
        (!tasks.is_empty()).then_some(Unfinished { request, tasks, no_gpus_for })
    };
    instance.requests.keys().filter_map(of).collect()
}
