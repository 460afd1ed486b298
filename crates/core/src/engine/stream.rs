//! Requests that arrive while the engine runs. Each gets a number when it is admitted, and the number is reused once
//! the request is done. So a run without an end needs memory only for open requests.

use super::Engine;
use super::state::{Progress, TaskState};
use crate::id::{RequestId, TaskId};
use crate::instance::{Instance, NewRequest};
use crate::log::ExecutionLog;
use std::borrow::Cow;

impl Engine<'static> {
    /// An engine for requests that are not known yet: `instance` has models, workflows and a cluster.
    #[must_use]
    pub fn for_stream(instance: Instance, max_attempts: u32) -> Engine<'static> {
        Engine::over(Cow::Owned(instance), max_attempts)
    }

    /// Admits a request. Its arrival is a separate event.
    ///
    /// `reuse` is a request of the same workflow that was [retired](Engine::may_retire): its number is used again.
    pub fn admit(&mut self, request: NewRequest, reuse: Option<RequestId>) -> RequestId {
        let instance = self.instance.to_mut();
        let workflow = request.workflow;
        let id = match reuse {
            Some(id) => {
                instance.replace_request(id, request);
                id
            }
            None => instance.push_request(request),
        };
        let missing: Vec<u32> = instance.workflows[workflow].predecessor_counts().collect();
        for (task, missing) in self.instance.tasks_of(id).zip(missing) {
            let progress = Progress::waiting_for(missing);
            if task.index() < self.tasks.len() {
                self.tasks[task] = progress
            } else {
                self.tasks.push(progress)
            }
            self.tries.remove(&task);
            self.log.loads.extend(self.prepared.remove(&task));
            self.open += 1;
        }
        id
    }

    /// A task of a request that was admitted, and has not arrived, was done before this engine began.
    pub fn recall(&mut self, task: TaskId) {
        assert_eq!(
            self.tasks[task].state,
            TaskState::Waiting,
            "only what has not begun can have been done before"
        );
        self.tasks[task].state = TaskState::Done;
        self.open -= 1;
        for after in self.instance.successors(task) {
            self.tasks[after].missing -= 1;
        }
    }

    /// Whether nothing of a request is open, so that its number may be given to another.
    #[must_use]
    pub fn may_retire(&self, request: RequestId) -> bool {
        let over = |state| matches!(state, TaskState::Done | TaskState::GivenUp);
        self.instance.tasks_of(request).all(|task| over(self.tasks[task].state))
    }

    /// The records since the last call, because a run without an end must not keep all of them. A lost GPU is recorded
    /// once it has returned.
    pub fn take_log(&mut self) -> ExecutionLog {
        let mut log = std::mem::take(&mut self.log);
        let still_gone = log.losses.extract_if(.., |loss| loss.until.is_none());
        self.log.losses.extend(still_gone);
        log
    }
}
