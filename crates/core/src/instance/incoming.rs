//! Requests that arrive during a run: the only way in which a problem grows.

use super::{Instance, Request, Task};
use crate::id::{RequestId, TaskId, WorkflowId};
use crate::time::{Span, Time};

/// A request that arrives during a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRequest {
    /// What people call it.
    pub name: String,
    /// What it runs.
    pub workflow: WorkflowId,
    /// When it arrives.
    pub arrival: Time,
    /// Higher first.
    pub priority: i32,
    /// From arrival.
    pub deadline: Option<Span>,
    /// How long each node is expected to take at batch 1, in the order of the workflow's nodes.
    pub executions: Vec<Span>,
}

impl NewRequest {
    fn at(&self, first_task: TaskId) -> Request {
        Request {
            name: self.name.clone(),
            workflow: self.workflow,
            arrival: self.arrival,
            first_task,
            priority: self.priority,
            deadline: self.deadline,
        }
    }
}

impl Instance {
    /// Adds a request behind the others.
    pub fn push_request(&mut self, new: NewRequest) -> RequestId {
        let id = RequestId::from(self.requests.len());
        let first_task = TaskId::from(self.tasks.len());
        self.requests.push(new.at(first_task));
        let models = &self.workflows[new.workflow].models;
        let tasks = models.iter().zip(&new.executions).enumerate().map(|(node, (&model, &execution))| Task {
            execution,
            request: id,
            model,
            workflow: new.workflow,
            node: node as u32,
        });
        self.tasks.extend(tasks);
        id
    }

    /// Puts a request in the place of one of the same workflow.
    pub(crate) fn replace_request(&mut self, id: RequestId, new: NewRequest) {
        assert_eq!(self.requests[id].workflow, new.workflow, "a request's nodes are those of its workflow");
        for (task, &execution) in self.tasks_of(id).zip(&new.executions) {
            self.tasks[task].execution = execution;
            self.intervals.get_mut(task).into_iter().for_each(|interval| *interval = Default::default());
        }
        self.requests[id] = new.at(self.requests[id].first_task);
    }
}
