//! Where and when each node ran in the two runs.

use super::Pairs;
use crate::explain::Timeline;
use crate::id::TaskId;
use crate::log::Status;
use crate::time::Span;
use serde::Serialize;

/// Where and when a node ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodePlacement {
    /// On which GPUs.
    pub gpus: Vec<u32>,
    /// Its start, from the run's first arrival.
    pub start_seconds: f64,
    /// The load before it.
    pub switch_seconds: f64,
}

/// The first point at which two runs diverge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FirstDifference {
    /// From the first arrival.
    pub at_seconds: f64,
    /// The node, as request/node.
    pub node: String,
    /// Its model.
    pub model: String,
    /// Where and when it ran in the first run; `None` where it did not.
    pub first: Option<NodePlacement>,
    /// In the second.
    pub second: Option<NodePlacement>,
}

/// What became of the nodes that both runs have.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeChanges {
    /// Nodes that completed in both.
    pub in_both: u64,
    /// Of these: on the same GPUs, from and to the same moment.
    pub unmoved: u64,
    /// On other GPUs.
    pub on_other_gpus: u64,
    /// Started earlier in the second run.
    pub earlier: u64,
    /// Started later in the second run.
    pub later: u64,
    /// Of those that started earlier: by how much, on average.
    pub earlier_by_seconds: f64,
    /// Of those that started later.
    pub later_by_seconds: f64,
    /// Took longer to execute, or shorter, by more than a millisecond.
    pub other_length: u64,
    /// The change of all their execution times together.
    pub executing_change_seconds: f64,
    /// Completed in the first run alone.
    pub only_first: u64,
    /// Completed in the second run alone.
    pub only_second: u64,
    /// Where the two runs diverge.
    pub parts_at: Option<FirstDifference>,
}

/// Lengths of execution closer than this are the same.
const SAME_LENGTH: u64 = 1000;

pub(super) fn nodes(timelines: &[Timeline<'_>; 2], pairs: &Pairs) -> NodeChanges {
    let mut nodes = NodeChanges::default();
    let (mut earlier, mut later, mut executing) = (0.0, 0.0, 0.0);
    let mut parting: Option<(u64, [TaskId; 2])> = None;
    for &tasks in &pairs.tasks {
        let done = [0, 1]
            .map(|side| timelines[side].result(tasks[side]).filter(|one| one.status == Status::Completed));
        let begun = [0, 1].map(|side| done[side].map(|one| one.start.since(timelines[side].first).0));
        let differs_at = begun.into_iter().flatten().min();
        let same = match done {
            [Some(one), Some(other)] => {
                nodes.in_both += 1;
                let [from, to] = begun.map(Option::unwrap_or_default);
                let change = Span(from.abs_diff(to)).seconds();
                match from.cmp(&to) {
                    std::cmp::Ordering::Greater => {
                        (nodes.earlier, earlier) = (nodes.earlier + 1, earlier + change)
                    }
                    std::cmp::Ordering::Less => (nodes.later, later) = (nodes.later + 1, later + change),
                    std::cmp::Ordering::Equal => {}
                }
                let lengths = [one, other].map(|one| one.end.since(one.start));
                nodes.other_length += u64::from(lengths[0].0.abs_diff(lengths[1].0) > SAME_LENGTH);
                executing += lengths[1].seconds() - lengths[0].seconds();
                nodes.on_other_gpus += u64::from(one.gpus != other.gpus);
                let same = from == to && one.gpus == other.gpus && lengths[0] == lengths[1];
                nodes.unmoved += u64::from(same);
                same
            }
            [Some(_), None] => {
                nodes.only_first += 1;
                false
            }
            [None, Some(_)] => {
                nodes.only_second += 1;
                false
            }
            [None, None] => true,
        };
        let earliest = |at: u64| parting.is_none_or(|(before, _)| at < before);
        if !same && let Some(at) = differs_at.filter(|&at| earliest(at)) {
            parting = Some((at, tasks));
        }
    }
    nodes.earlier_by_seconds = earlier / nodes.earlier.max(1) as f64;
    nodes.later_by_seconds = later / nodes.later.max(1) as f64;
    nodes.executing_change_seconds = executing;
    nodes.parts_at = parting.map(|(at, tasks)| apart(timelines, at, tasks));
    nodes
}

fn apart(timelines: &[Timeline<'_>; 2], at: u64, tasks: [TaskId; 2]) -> FirstDifference {
    let placed = |side: usize| {
        let one = timelines[side].result(tasks[side]).filter(|one| one.status == Status::Completed)?;
        Some(NodePlacement {
            gpus: one.gpus.iter().map(|gpu| gpu.0).collect(),
            start_seconds: one.start.since(timelines[side].first).seconds(),
            switch_seconds: one.switch.seconds(),
        })
    };
    let instance = timelines[0].instance;
    let request = &instance.requests[instance.request_of(tasks[0])];
    let node = &instance.workflow_of(tasks[0]).nodes[instance.node_of(tasks[0]) as usize];
    FirstDifference {
        at_seconds: Span(at).seconds(),
        node: format!("{}/{node}", request.name),
        model: instance.models[instance.model_of(tasks[0])].name.clone(),
        first: placed(0),
        second: placed(1),
    }
}
