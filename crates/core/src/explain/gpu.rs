//! What one GPU did.

use super::gaps::{CauseShare, Gap, shares, sweep};
use super::idle::example;
use super::length;
use super::timeline::{Timeline, What};
use crate::id::{GpuId, IdVec, ModelId};
use crate::time::{Span, Time};
use serde::Serialize;
use std::cmp::Reverse;

/// What one model had of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelShare {
    /// The model.
    pub model: String,
    /// Executions that the GPU took part in.
    pub executions: usize,
    /// Loads onto it.
    pub loads: usize,
    /// Time in which it executed on the GPU; a batch counts once.
    #[serde(rename = "executing_seconds", serialize_with = "length")]
    pub executing: Span,
    /// Time in which it was loaded.
    #[serde(rename = "switching_seconds", serialize_with = "length")]
    pub switching: Span,
}

/// What one GPU did from the first arrival to the last end. Executing, switching, idle and lost time add up to that.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuStory {
    /// Its id.
    pub gpu: u32,
    /// The length of the run.
    #[serde(rename = "makespan_seconds", serialize_with = "length")]
    pub makespan: Span,
    /// At least one execution.
    #[serde(rename = "executing_seconds", serialize_with = "length")]
    pub executing: Span,
    /// A load, and no execution beside it.
    #[serde(rename = "switching_seconds", serialize_with = "length")]
    pub switching: Span,
    /// Neither.
    #[serde(rename = "idle_seconds", serialize_with = "length")]
    pub idle: Span,
    /// After it was lost.
    #[serde(rename = "lost_seconds", serialize_with = "length")]
    pub lost: Span,
    /// By model, most executing first.
    pub models: Vec<ModelShare>,
    /// Idle time by reason.
    pub causes: Vec<CauseShare>,
    /// How many gaps there were.
    pub gap_count: usize,
    /// The longest, longest first.
    pub gaps: Vec<Gap>,
}

/// What a GPU did; lists up to `most` of its gaps.
#[must_use]
pub fn gpu(timeline: &Timeline<'_>, gpu: GpuId, most: usize) -> GpuStory {
    let (mut totals, mut gaps) = ([0u128; 5], Vec::new());
    sweep(timeline, |gap, by_cause| {
        if gap.gpu == gpu.0 {
            totals.iter_mut().zip(by_cause).for_each(|(total, &part)| *total += u128::from(part));
            gaps.push(gap);
        }
    });
    let count = gaps.len();
    gaps.sort_by_key(|gap| (Reverse(gap.length), gap.from));
    gaps.truncate(most);
    gaps.iter_mut().for_each(|gap| gap.example = example(timeline, gap));
    let makespan = timeline.makespan();
    let loads = |what: &What| !matches!(what, What::Execution(_));
    let executing = union(timeline, gpu, |piece, _| !loads(piece));
    let busy = union(timeline, gpu, |_, _| true);
    GpuStory {
        gpu: gpu.0,
        makespan,
        executing,
        switching: Span(busy.0 - executing.0),
        idle: Span(totals.iter().sum::<u128>() as u64),
        lost: timeline.last.since(timeline.lost_at(gpu).max(timeline.first)),
        models: models(timeline, gpu),
        causes: shares(&totals, u128::from(makespan.0)),
        gap_count: count,
        gaps,
    }
}

/// Time in which at least one of the pieces that are `counted` goes on, inside the run.
fn union(timeline: &Timeline<'_>, gpu: GpuId, counted: impl Fn(&What, ModelId) -> bool) -> Span {
    let (mut total, mut until) = (Span::ZERO, timeline.first);
    for piece in timeline.row(gpu).filter(|piece| counted(&piece.what, piece.model)) {
        let end: Time = piece.end.min(timeline.last);
        total += end.since(piece.start.max(until));
        until = until.max(end);
    }
    total
}

fn models(timeline: &Timeline<'_>, gpu: GpuId) -> Vec<ModelShare> {
    let instance = timeline.instance;
    let mut counts: IdVec<ModelId, (usize, usize)> = vec![(0, 0); instance.models.len()].into();
    for piece in timeline.row(gpu) {
        let (executions, loads) = &mut counts[piece.model];
        *if matches!(piece.what, What::Execution(_)) { executions } else { loads } += 1;
    }
    let used = counts.iter_enumerated().filter(|(_, count)| **count != (0, 0));
    let mut all: Vec<ModelShare> = used
        .map(|(model, &(executions, loads))| {
            let part = |load: bool| {
                union(timeline, gpu, |what, of| of == model && matches!(what, What::Execution(_)) != load)
            };
            ModelShare {
                model: instance.models[model].name.clone(),
                executions,
                loads,
                executing: part(false),
                switching: part(true),
            }
        })
        .collect();
    all.sort_by(|a, b| b.executing.cmp(&a.executing).then_with(|| a.model.cmp(&b.model)));
    all
}
