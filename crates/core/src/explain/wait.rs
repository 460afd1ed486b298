//! The time between a node's inputs and its start, parted by what its GPUs did meanwhile.

use super::length;
use super::timeline::{Timeline, What, begun};
use crate::log::Execution;
use crate::time::{Span, Time};
use serde::Serialize;

/// How a node's wait was spent. The parts add up to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// From ready to start.
    #[serde(rename = "total_seconds", serialize_with = "length")]
    pub total: Span,
    /// Others executed on its GPUs, on one of them at least.
    #[serde(rename = "others_executing_seconds", serialize_with = "length")]
    pub executing: Span,
    /// Models were loaded for others there, and nothing executed.
    #[serde(rename = "others_loading_seconds", serialize_with = "length")]
    pub loading: Span,
    /// Its own model was loaded there.
    #[serde(rename = "switching_seconds", serialize_with = "length")]
    pub switching: Span,
    /// All its GPUs were idle.
    #[serde(rename = "idle_seconds", serialize_with = "length")]
    pub idle: Span,
}

/// What a moment of a wait counts as, where several things go on: the first that applies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Own,
    Executing,
    Loading,
}

impl Wait {
    /// The wait of one execution.
    pub(super) fn of(timeline: &Timeline<'_>, one: &Execution) -> Wait {
        let total = one.start.since(one.ready);
        let mut wait = Wait { total, ..Wait::default() };
        if total == Span::ZERO {
            return wait;
        }
        let model = timeline.instance.model_of(one.task);
        let mut edges: Vec<(Time, bool, Kind)> = Vec::new();
        for gpu in one.gpus.iter() {
            for piece in timeline.during(gpu, one.ready, one.start) {
                let own_load = |number: u32| timeline.log.executions[number as usize].start == one.start;
                let kind = match piece.what {
                    What::Execution(_) => Kind::Executing,
                    // A batch's load is borne by its first execution, and waited for by all that start with it.
                    What::LoadFor(number) if piece.model == model && own_load(number) => Kind::Own,
                    What::LoadAhead(_) if piece.model == model && piece.gpus == one.gpus => Kind::Own,
                    What::LoadFor(_) | What::LoadAhead(_) => Kind::Loading,
                };
                edges.push((piece.start.max(one.ready), true, kind));
                edges.push((piece.end.min(one.start), false, kind));
            }
        }
        edges.sort_unstable();
        let (mut open, mut at) = ([0u32; 3], one.ready);
        for (time, opens, kind) in edges {
            wait.add(&open, time.since(at));
            at = time;
            let count = &mut open[kind as usize];
            *count = if opens { *count + 1 } else { count.saturating_sub(1) };
        }
        wait.add(&open, one.start.since(at));
        wait
    }

    fn add(&mut self, open: &[u32; 3], span: Span) {
        let part = match open.iter().position(|&count| count > 0) {
            Some(0) => &mut self.switching,
            Some(1) => &mut self.executing,
            Some(_) => &mut self.loading,
            None => &mut self.idle,
        };
        *part += span;
    }
}

/// Whether `other` took GPUs while `one` was ready and had none.
pub(super) fn meanwhile(one: &Execution, other: &Execution) -> bool {
    begun(other) >= one.ready && begun(other) < begun(one)
}
