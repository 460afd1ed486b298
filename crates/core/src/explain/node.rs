//! Why a node started when it did.

use super::alternatives::{Alternative, alternatives};
use super::request::critical_path;
use super::timeline::{Timeline, What, begun};
use super::wait::{Wait, meanwhile};
use super::{length, moment};
use crate::id::TaskId;
use crate::log::{Execution, Status};
use crate::time::{Span, Time};
use serde::Serialize;

/// Something a node waited for: another's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeInput {
    /// `request/node`.
    pub node: String,
    /// When its result was there.
    #[serde(rename = "end_seconds", serialize_with = "moment")]
    pub end: Time,
}

/// What held a node's GPUs while it waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The node that held them, as `request/node`; `None` for a load ahead of any.
    pub node: Option<String>,
    /// Its model.
    pub model: String,
    /// Its GPUs.
    pub gpus: Vec<u32>,
    /// When it took them.
    #[serde(rename = "from_seconds", serialize_with = "moment")]
    pub from: Time,
    /// When it gave them back.
    #[serde(rename = "to_seconds", serialize_with = "moment")]
    pub to: Time,
    /// How much of that was loading its model.
    #[serde(rename = "load_seconds", serialize_with = "length")]
    pub load: Span,
    /// It took them when the node was ready already.
    pub went_first: bool,
    /// And was itself ready only later: it overtook.
    pub overtook: bool,
}

/// What a node's load took off its GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// The model.
    pub model: String,
    /// Nodes of that model that were ready and had no GPUs when it went.
    pub waiting_nodes: usize,
    /// Their execution times, added up.
    #[serde(rename = "waiting_work_seconds", serialize_with = "length")]
    pub waiting_work: Span,
}

/// A node's place among all that waited for GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueuePosition {
    /// Nodes that were ready before it and had no GPUs yet when it was ready.
    pub before: usize,
    /// Nodes that were ready later and took GPUs before it did.
    pub overtook: usize,
}

/// Why a node started when it did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeStory {
    /// `request/node`.
    pub node: String,
    /// Its model.
    pub model: String,
    /// The GPUs that it ran on.
    pub gpus: Vec<u32>,
    /// Which attempt this is; those before it failed, or lost a GPU.
    pub attempt: u32,
    /// How it ended.
    pub status: &'static str,
    /// Executions on the replica just after it started.
    pub batch: u32,
    /// When its request arrived.
    #[serde(rename = "arrival_seconds", serialize_with = "moment")]
    pub arrival: Time,
    /// What it waited for, the latest first.
    pub inputs: Vec<NodeInput>,
    /// When it could have begun.
    #[serde(rename = "ready_seconds", serialize_with = "moment")]
    pub ready: Time,
    /// When it began.
    #[serde(rename = "start_seconds", serialize_with = "moment")]
    pub start: Time,
    /// When it ended.
    #[serde(rename = "end_seconds", serialize_with = "moment")]
    pub end: Time,
    /// How the time between was spent.
    pub wait: Wait,
    /// Who else waited.
    pub queue: QueuePosition,
    /// What its GPUs were doing meanwhile, in order of time; the last ones where there are many.
    pub held_by: Vec<Holder>,
    /// Holders before those.
    pub holders_left_out: usize,
    /// What its load replaced; empty where there was no load, or nothing there.
    pub replaced: Vec<Replaced>,
    /// Where else it could have run, soonest start first, the chosen GPUs among them.
    pub alternatives: Vec<Alternative>,
    /// Whether its request would have ended sooner if only this node had: it is on the critical path.
    pub critical: bool,
}

/// Most holders that are told.
const MOST_HOLDERS: usize = 8;

/// Why a node started when it did; `None` where it never did.
#[must_use]
pub fn node(timeline: &Timeline<'_>, task: TaskId) -> Option<NodeStory> {
    let instance = timeline.instance;
    let one = timeline.result(task)?;
    let mut inputs: Vec<NodeInput> = instance
        .predecessors(task)
        .filter_map(|input| {
            Some(NodeInput { node: instance.task_name(input), end: timeline.result(input)?.end })
        })
        .collect();
    inputs.sort_by(|a, b| b.end.cmp(&a.end).then_with(|| a.node.cmp(&b.node)));
    let mut held_by = holders(timeline, one);
    let holders_left_out = held_by.len().saturating_sub(MOST_HOLDERS);
    held_by.drain(..holders_left_out);
    Some(NodeStory {
        node: instance.task_name(task),
        model: instance.models[instance.model_of(task)].name.clone(),
        gpus: one.gpus.iter().map(|gpu| gpu.0).collect(),
        attempt: one.attempt,
        status: one.status.name(),
        batch: one.batch,
        arrival: instance.requests[instance.request_of(task)].arrival,
        inputs,
        ready: one.ready,
        start: one.start,
        end: one.end,
        wait: Wait::of(timeline, one),
        queue: queue(timeline, one),
        held_by,
        holders_left_out,
        replaced: replaced(timeline, one),
        alternatives: alternatives(timeline, one),
        critical: one.status == Status::Completed
            && critical_path(timeline, instance.request_of(task)).contains(&task),
    })
}

fn queue(timeline: &Timeline<'_>, one: &Execution) -> QueuePosition {
    let mut queue = QueuePosition::default();
    for other in timeline.log.executions.iter().filter(|other| other.task != one.task) {
        queue.before += usize::from(other.ready < one.ready && begun(other) > one.ready);
        queue.overtook += usize::from(other.ready > one.ready && begun(other) < begun(one));
    }
    queue
}

/// Who held any of its GPUs between ready and start, in order of time.
fn holders(timeline: &Timeline<'_>, one: &Execution) -> Vec<Holder> {
    let instance = timeline.instance;
    let pieces = one.gpus.iter().flat_map(|gpu| timeline.during(gpu, one.ready, one.start));
    let mut all: Vec<Holder> = pieces
        .filter_map(|piece| match piece.what {
            What::Execution(number) | What::LoadFor(number) => {
                let other = &timeline.log.executions[number as usize];
                (other.task != one.task).then(|| {
                    let went_first = meanwhile(one, other);
                    Holder {
                        node: Some(instance.task_name(other.task)),
                        model: instance.models[piece.model].name.clone(),
                        gpus: other.gpus.iter().map(|gpu| gpu.0).collect(),
                        from: begun(other),
                        to: other.end,
                        load: other.switch,
                        went_first,
                        overtook: went_first && other.ready > one.ready,
                    }
                })
            }
            // Its own model, brought in ahead, is its switch.
            What::LoadAhead(_) if piece.model == instance.model_of(one.task) && piece.gpus == one.gpus => {
                None
            }
            What::LoadAhead(_) => Some(Holder {
                node: None,
                model: instance.models[piece.model].name.clone(),
                gpus: piece.gpus.iter().map(|gpu| gpu.0).collect(),
                from: piece.start,
                to: piece.end,
                load: piece.end.since(piece.start),
                went_first: piece.start >= one.ready,
                overtook: false,
            }),
        })
        .collect();
    all.sort_by(|a, b| (a.from, a.to, &a.gpus, &a.node).cmp(&(b.from, b.to, &b.gpus, &b.node)));
    all.dedup();
    all
}

/// The models that its load took off, and who waited for them at that moment.
fn replaced(timeline: &Timeline<'_>, one: &Execution) -> Vec<Replaced> {
    let instance = timeline.instance;
    let model = instance.model_of(one.task);
    if one.switch == Span::ZERO {
        return Vec::new();
    }
    let at = begun(one);
    let single = instance.cluster.residency == crate::instance::Residency::Single;
    let mut old: Vec<_> = one.gpus.iter().flat_map(|gpu| timeline.held(gpu, at)).collect();
    old.retain(|&held| held != model && (single || one.evicted.contains(&held)));
    old.sort_unstable();
    old.dedup();
    let waiting = |held| {
        let waits = move |other: &&Execution| {
            instance.model_of(other.task) == held && other.ready <= at && begun(other) > at
        };
        timeline.log.executions.iter().filter(waits)
    };
    old.into_iter()
        .map(|held| Replaced {
            model: instance.models[held].name.clone(),
            waiting_nodes: waiting(held).count(),
            waiting_work: waiting(held).map(|other| instance.execution(other.task)).sum(),
        })
        .collect()
}
