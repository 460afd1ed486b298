//! The slowest requests of a run, and the main cause of each.

use super::request::{PathStep, RequestStory, request};
use super::timeline::Timeline;
use crate::id::RequestId;
use crate::log::Status;
use crate::time::Span;
use serde::{Deserialize, Serialize};

/// How many of them are shown.
pub const SLOWEST: usize = 10;

/// A slow request. Waiting, loading, executing and retrying add up to its latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// Its id.
    pub request: String,
    /// What it runs.
    pub workflow: String,
    /// When it arrived.
    pub arrival_seconds: f64,
    /// From then to the end of its last node.
    pub latency_seconds: f64,
    /// Of the latency, waits for GPUs.
    pub waiting_seconds: f64,
    /// Loads of its own models.
    pub switching_seconds: f64,
    /// Executions.
    pub executing_seconds: f64,
    /// Failed attempts, and the waits for the next.
    pub retrying_seconds: f64,
    /// How late it was, where it has a deadline; negative where it was in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_by_seconds: Option<f64>,
    /// The node that cost it most.
    pub node: String,
    /// What that node lost most time to, as a clause: `waited 127.3 s: its GPUs executed other nodes`.
    pub why: String,
}

/// The completed requests with the highest latency, slowest first.
#[must_use]
pub fn slowest(timeline: &Timeline<'_>, most: usize) -> Vec<SlowRequest> {
    let mut all: Vec<(Span, RequestId)> =
        timeline.instance.requests.keys().filter_map(|id| Some((latency(timeline, id)?, id))).collect();
    let order =
        |one: &(Span, RequestId), other: &(Span, RequestId)| other.0.cmp(&one.0).then(one.1.cmp(&other.1));
    if all.len() > most && most > 0 {
        all.select_nth_unstable_by(most - 1, order);
    }
    all.truncate(most);
    all.sort_unstable_by(order);
    all.iter().filter_map(|&(_, id)| Some(SlowRequest::of(&request(timeline, id)?))).collect()
}

/// From arrival to the end of the last node; `None` where a node did not complete.
fn latency(timeline: &Timeline<'_>, id: RequestId) -> Option<Span> {
    let mut tasks = timeline.instance.tasks_of(id).map(|task| timeline.result(task));
    let end = tasks.try_fold(timeline.instance.requests[id].arrival, |last, one| {
        one.filter(|one| one.status == Status::Completed).map(|one| one.end.max(last))
    })?;
    Some(end.since(timeline.instance.requests[id].arrival))
}

impl SlowRequest {
    /// Summary of a request.
    #[must_use]
    pub fn of(story: &RequestStory) -> SlowRequest {
        let (node, why) = story.path.iter().max_by_key(|step| longest(step).0).map_or_else(
            || (String::new(), "none of its nodes took any time".to_owned()),
            |step| (step.node.clone(), longest(step).1),
        );
        SlowRequest {
            request: story.request.clone(),
            workflow: story.workflow.clone(),
            arrival_seconds: story.arrival.seconds(),
            latency_seconds: story.latency.seconds(),
            waiting_seconds: story.waiting.seconds(),
            switching_seconds: story.switching.seconds(),
            executing_seconds: story.executing.seconds(),
            retrying_seconds: story.retrying.seconds(),
            late_by_seconds: story.late_by_seconds,
            node,
            why,
        }
    }
}

/// What a node lost most time to, and how much.
fn longest(step: &PathStep) -> (Span, String) {
    let PathStep { model, wait, .. } = step;
    let seconds = |span: Span| format!("{:.1} s", span.seconds());
    let parts = [
        (wait.executing, format!("waited {}: its GPUs executed other nodes", seconds(wait.executing))),
        (wait.loading, format!("waited {}: its GPUs loaded other models", seconds(wait.loading))),
        (wait.idle, format!("waited {} with its GPUs idle", seconds(wait.idle))),
        (step.switching, format!("waited {} for {model} to load", seconds(step.switching))),
        (step.executing, format!("executed for {} ({model})", seconds(step.executing))),
        (step.retrying, format!("lost {} to failed attempts", seconds(step.retrying))),
    ];
    // The first of equals.
    parts.into_iter().rev().max_by_key(|(span, _)| *span).unwrap_or_default()
}
