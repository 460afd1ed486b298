//! Why GPUs were idle, over the whole run.

use super::gaps::{Cause, CauseShare, Example, Gap, shares, sweep};
use super::timeline::{Timeline, What, begun};
use super::{length, share};
use crate::id::GpuId;
use crate::log::Execution;
use crate::time::{Span, Time};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The idle time of all GPUs by reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IdleStory {
    /// Number of GPUs.
    pub gpus: u32,
    /// From the first arrival to the last end.
    #[serde(rename = "makespan_seconds", serialize_with = "length")]
    pub makespan: Span,
    /// GPU-time in which nothing executed or loaded, on GPUs that were there.
    pub idle_gpu_seconds: f64,
    /// Of all GPU-time of the run.
    pub idle_share: f64,
    /// By reason.
    pub causes: Vec<CauseShare>,
    /// How many gaps there were.
    pub gap_count: usize,
    /// The longest, longest first.
    pub gaps: Vec<Gap>,
}

/// A gap's length, its start and GPU, and its place among those that are kept.
type Rank = (Span, Reverse<(Time, u32)>, usize);

/// Why GPUs were idle; lists up to `most` of the gaps.
#[must_use]
pub fn idle(timeline: &Timeline<'_>, most: usize) -> IdleStory {
    let mut totals = [0u128; 5];
    let mut count = 0;
    let mut longest: BinaryHeap<Reverse<Rank>> = BinaryHeap::new();
    let mut kept: Vec<Gap> = Vec::new();
    sweep(timeline, |gap, by_cause| {
        count += 1;
        totals.iter_mut().zip(by_cause).for_each(|(total, &part)| *total += u128::from(part));
        let rank = (gap.length, Reverse((gap.from, gap.gpu)));
        if longest.len() < most {
            longest.push(Reverse((rank.0, rank.1, kept.len())));
            kept.push(gap);
        } else if let Some(mut least) = longest.peek_mut()
            && (least.0.0, least.0.1) < rank
        {
            let place = least.0.2;
            *least = Reverse((rank.0, rank.1, place));
            kept[place] = gap;
        }
    });
    kept.sort_by_key(|gap| (Reverse(gap.length), gap.from, gap.gpu));
    kept.iter_mut().for_each(|gap| gap.example = example(timeline, gap));
    let gpus = timeline.instance.cluster.gpus;
    let whole = u128::from(timeline.makespan().0) * u128::from(gpus);
    let all: u128 = totals.iter().sum();
    IdleStory {
        gpus,
        makespan: timeline.makespan(),
        idle_gpu_seconds: all as f64 / 1e6,
        idle_share: share(all, whole),
        causes: shares(&totals, whole),
        gap_count: count,
        gaps: kept,
    }
}

/// A node that shows the reason for a gap: one that waited, or what came next on the GPU.
pub(super) fn example(timeline: &Timeline<'_>, gap: &Gap) -> Option<Example> {
    let (instance, log) = (timeline.instance, timeline.log);
    let model_of = |one: &Execution| &instance.models[instance.model_of(one.task)];
    let told = |one: &Execution, waited| Example {
        node: instance.task_name(one.task),
        model: model_of(one).name.clone(),
        gpus_needed: model_of(one).gpus,
        ready: one.ready,
        waited,
    };
    match gap.cause {
        Cause::Choice | Cause::TooNarrow => {
            let reaches =
                |one: &&Execution| model_of(one).windows().any(|window| window.contains(GpuId(gap.gpu)));
            // Those that waited in the middle of it say most; of them the one that needs fewest GPUs.
            let middle = gap.from + Span(gap.length.0 / 2);
            let at_middle = |one: &Execution| one.ready <= middle && begun(one) > middle;
            let waits = |one: &&Execution| one.ready < gap.to && begun(one) > gap.from.max(one.ready);
            let rank = |one: &&Execution| (!at_middle(one), model_of(one).gpus, one.ready, one.task);
            let waiting = log.executions.iter().filter(waits).filter(reaches);
            waiting.min_by_key(rank).map(|one| told(one, true))
        }
        Cause::Inputs | Cause::Arrivals => match timeline.next(GpuId(gap.gpu), gap.to)?.what {
            What::Execution(number) | What::LoadFor(number) => {
                Some(told(&log.executions[number as usize], false))
            }
            What::LoadAhead(_) => None,
        },
        Cause::Tail => None,
    }
}
