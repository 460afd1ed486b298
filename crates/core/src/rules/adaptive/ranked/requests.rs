//! The requests that have arrived: the remaining work of each, and its minimum remaining time.

use crate::engine::{TaskState, View};
use crate::estimate::normal_quantile;
use crate::id::{IdVec, RequestId, TaskId};
use crate::instance::Instance;
use crate::time::Span;

/// How long a task is expected to run at batch 1. Every estimate of the policy comes from here.
pub(super) fn estimate(view: &View<'_>, task: TaskId) -> Span {
    view.expected(task)
}

/// The work that is left of requests.
pub(super) struct Requests {
    /// GPU time of the tasks that have not been started, in microseconds; it grows as requests with higher numbers come in.
    left: IdVec<RequestId, u64>,
}

impl Requests {
    pub fn new(instance: &Instance) -> Requests {
        Requests { left: vec![0; instance.requests.len()].into() }
    }

    /// A task of a request is ready, for the first time or again, or will never run. What is left is added up from the state
    /// of the tasks, so that nothing is carried over from a request that had the same number before.
    pub fn changed(&mut self, view: &View<'_>, request: RequestId) {
        let waits = |task: &TaskId| matches!(view.state(*task), TaskState::Waiting | TaskState::Ready);
        let tasks = view.instance().tasks_of(request);
        let left = tasks.filter(waits).map(|task| gpu_time(view, task)).sum();
        if request.index() >= self.left.len() {
            self.left.resize(request.index() + 1, 0);
        }
        self.left[request] = left;
    }

    pub fn started(&mut self, view: &View<'_>, task: TaskId) {
        let left = &mut self.left[view.instance().request_of(task)];
        *left = left.saturating_sub(gpu_time(view, task));
    }

    /// What is left of the request of a task, in GPU seconds.
    pub fn left(&self, view: &View<'_>, task: TaskId) -> f64 {
        self.left[view.instance().request_of(task)] as f64 / 1e6
    }
}

fn gpu_time(view: &View<'_>, task: TaskId) -> u64 {
    let instance = view.instance();
    estimate(view, task).0 * u64::from(instance.models[instance.model_of(task)].gpus)
}

/// The chance with which a deadline is to be kept: that much longer than expected a chain is reckoned to take.
const SURE: f64 = 0.9;

/// How long a task and the longest chain behind it take at least; where times are not certain, in nine of ten cases at most.
pub(super) fn path(view: &View<'_>, task: TaskId) -> Span {
    let instance = view.instance();
    let workflow = instance.workflow_of(task);
    let node = instance.node_of(task);
    let first = task.0 - node;
    // Means add up, and so do the squares of deviations.
    let mut to_end = vec![(Span::ZERO, 0.0); workflow.nodes.len()];
    for &at in workflow.order.iter().rev() {
        let behind = workflow.successors(at).iter().map(|&next| to_end[next as usize]);
        let (mean, square) = behind.max_by_key(|&(mean, _)| mean).unwrap_or_default();
        let (own, spread) = (estimate(view, TaskId(first + at)), view.spread(TaskId(first + at)));
        let deviation = own.seconds() * (spread * spread).exp_m1().sqrt();
        to_end[at as usize] = (own + mean, square + deviation * deviation);
        if at == node {
            break;
        }
    }
    let (mean, square) = to_end[node as usize];
    match square {
        0.0 => mean,
        _ => mean + Span::from_seconds(normal_quantile(SURE) * square.sqrt()),
    }
}
