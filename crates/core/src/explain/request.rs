//! Where a request's time went.

use super::timeline::Timeline;
use super::wait::Wait;
use super::{length, moment};
use crate::id::{RequestId, TaskId};
use crate::time::{Span, Time};
use serde::Serialize;

/// One node of the critical path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathStep {
    /// The node's name in its workflow.
    pub node: String,
    /// Its model.
    pub model: String,
    /// The GPUs that it ran on.
    pub gpus: Vec<u32>,
    /// When its inputs were there.
    #[serde(rename = "inputs_seconds", serialize_with = "moment")]
    pub inputs: Time,
    /// When it began.
    #[serde(rename = "start_seconds", serialize_with = "moment")]
    pub start: Time,
    /// When it ended.
    #[serde(rename = "end_seconds", serialize_with = "moment")]
    pub end: Time,
    /// Attempts before the last, and the waits for them.
    #[serde(rename = "retrying_seconds", serialize_with = "length")]
    pub retrying: Span,
    /// Between its inputs and its start, its own load left out.
    #[serde(rename = "waiting_seconds", serialize_with = "length")]
    pub waiting: Span,
    /// Its own load.
    #[serde(rename = "switching_seconds", serialize_with = "length")]
    pub switching: Span,
    /// Its execution.
    #[serde(rename = "executing_seconds", serialize_with = "length")]
    pub executing: Span,
    /// How the wait was spent.
    pub wait: Wait,
}

/// A node off the critical path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeSlack {
    /// The node's name in its workflow.
    pub node: String,
    /// How much later it could have ended without delaying a node that waited for it, or the request's end.
    #[serde(rename = "slack_seconds", serialize_with = "length")]
    pub slack: Span,
}

/// Where a request's time went: its critical path from arrival to end. The parts of the steps add up to the latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestStory {
    /// Its id.
    pub request: String,
    /// What it runs.
    pub workflow: String,
    /// Whether all its nodes completed.
    pub completed: bool,
    /// When it arrived.
    #[serde(rename = "arrival_seconds", serialize_with = "moment")]
    pub arrival: Time,
    /// When its last node ended.
    #[serde(rename = "end_seconds", serialize_with = "moment")]
    pub end: Time,
    /// Between the two.
    #[serde(rename = "latency_seconds", serialize_with = "length")]
    pub latency: Span,
    /// Its longest chain of executions, with nothing to wait for and every model in place.
    #[serde(rename = "undisturbed_seconds", serialize_with = "length")]
    pub undisturbed: Span,
    /// How late it was, where it has a deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_by_seconds: Option<f64>,
    /// The nodes that made it last as long as it did, in order.
    pub path: Vec<PathStep>,
    /// The path's waits, without its own loads.
    #[serde(rename = "waiting_seconds", serialize_with = "length")]
    pub waiting: Span,
    /// The path's own loads.
    #[serde(rename = "switching_seconds", serialize_with = "length")]
    pub switching: Span,
    /// The path's executions.
    #[serde(rename = "executing_seconds", serialize_with = "length")]
    pub executing: Span,
    /// The path's failed attempts.
    #[serde(rename = "retrying_seconds", serialize_with = "length")]
    pub retrying: Span,
    /// The nodes off the path.
    pub others: Vec<NodeSlack>,
}

/// The nodes that made a request last as long as it did: from its last node back, each time to the input that came last.
pub(super) fn critical_path(timeline: &Timeline<'_>, request: RequestId) -> Vec<TaskId> {
    let instance = timeline.instance;
    let end = |&task: &TaskId| timeline.result(task).map(|one| one.end);
    let latest = |tasks: &mut dyn Iterator<Item = TaskId>| {
        tasks.filter(|task| end(task).is_some()).max_by_key(|task| (end(task), std::cmp::Reverse(*task)))
    };
    let mut path: Vec<TaskId> = latest(&mut instance.tasks_of(request)).into_iter().collect();
    while let Some(&task) = path.last()
        && let Some(input) = latest(&mut instance.predecessors(task))
    {
        path.push(input);
    }
    path.reverse();
    path
}

/// Where a request's time went; `None` where nothing of it ever ran.
#[must_use]
pub fn request(timeline: &Timeline<'_>, id: RequestId) -> Option<RequestStory> {
    let instance = timeline.instance;
    let spec = &instance.requests[id];
    let workflow = &instance.workflows[spec.workflow];
    let tasks = critical_path(timeline, id);
    let mut path = Vec::with_capacity(tasks.len());
    let mut inputs = spec.arrival;
    for &task in &tasks {
        let one = timeline.result(task)?;
        let wait = Wait::of(timeline, one);
        path.push(PathStep {
            node: workflow.nodes[instance.node_of(task) as usize].clone(),
            model: instance.models[instance.model_of(task)].name.clone(),
            gpus: one.gpus.iter().map(|gpu| gpu.0).collect(),
            inputs,
            start: one.start,
            end: one.end,
            retrying: one.ready.since(inputs),
            waiting: Span(wait.total.0 - wait.switching.0),
            switching: wait.switching,
            executing: one.end.since(one.start),
            wait,
        });
        inputs = one.end;
    }
    let end = path.last()?.end;
    let latency = end.since(spec.arrival);
    let sum = |part: fn(&PathStep) -> Span| path.iter().map(part).sum::<Span>();
    let done = |task| timeline.result(task).is_some_and(|one| one.status == crate::log::Status::Completed);
    Some(RequestStory {
        request: spec.name.clone(),
        workflow: workflow.name.clone(),
        completed: instance.tasks_of(id).all(done),
        arrival: spec.arrival,
        end,
        latency,
        undisturbed: undisturbed(timeline, id),
        late_by_seconds: spec.deadline.map(|deadline| latency.seconds() - deadline.seconds()),
        waiting: sum(|step| step.waiting),
        switching: sum(|step| step.switching),
        executing: sum(|step| step.executing),
        retrying: sum(|step| step.retrying),
        others: others(timeline, id, &tasks, end),
        path,
    })
}

fn undisturbed(timeline: &Timeline<'_>, id: RequestId) -> Span {
    let instance = timeline.instance;
    let (request, mut ends) = (&instance.requests[id], Vec::new());
    let workflow = &instance.workflows[request.workflow];
    ends.resize(workflow.nodes.len(), Span::ZERO);
    for &node in &workflow.order {
        let inputs = workflow.predecessors(node).iter().map(|&input| ends[input as usize]).max();
        ends[node as usize] =
            inputs.unwrap_or(Span::ZERO) + instance.execution(TaskId(request.first_task.0 + node));
    }
    ends.into_iter().max().unwrap_or(Span::ZERO)
}

fn others(timeline: &Timeline<'_>, id: RequestId, path: &[TaskId], end: Time) -> Vec<NodeSlack> {
    let instance = timeline.instance;
    let mut all: Vec<NodeSlack> = instance
        .tasks_of(id)
        .filter(|task| !path.contains(task))
        .filter_map(|task| {
            let one = timeline.result(task)?;
            let next = instance.successors(task).filter_map(|after| timeline.result(after));
            let until = next.map(|after| after.start).min().unwrap_or(end);
            let node = instance.workflow_of(task).nodes[instance.node_of(task) as usize].clone();
            Some(NodeSlack { node, slack: until.since(one.end) })
        })
        .collect();
    all.sort_by(|a, b| a.slack.cmp(&b.slack).then_with(|| a.node.cmp(&b.node)));
    all
}
