//! Memory of executions: together with the models it never exceeds a GPU's memory.

use super::context::{Context, TOLERANCE, s};
use super::switching::whole_megabytes;
use crate::time::Time;
use crate::violation::ViolationCode as Code;
use rustc_hash::FxHashSet;

/// At one instant in this order: executions end, models come and go, executions begin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Ends { megabytes: u64 },
    Weights { megabytes: u64 },
    Begins { index: u32, megabytes: u64 },
}

/// `weights` are the megabytes of models on each GPU from each moment on; empty where executions take no memory.
pub(super) fn check(context: &mut Context<'_>, weights: &[Vec<(Time, u64)>]) {
    let mut lines: Vec<Vec<(Time, Change)>> = weights
        .iter()
        .map(|line| line.iter().map(|&(at, megabytes)| (at, Change::Weights { megabytes })).collect())
        .collect();
    if lines.is_empty() {
        return;
    }
    for (index, one) in context.placed() {
        let model = &context.instance.models[context.instance.model_of(one.task)];
        let Some(gb) = Some(model.slot_gb).filter(|&gb| gb > 0.0) else { continue };
        // One that ends as the next begins may be late by what is forgiven everywhere.
        let end = Time(one.end.0.saturating_sub(TOLERANCE));
        if end <= one.start {
            continue;
        }
        let megabytes = whole_megabytes(gb / f64::from(model.gpus.max(1)));
        for line in &mut lines[one.gpus.range()] {
            line.push((one.start, Change::Begins { index: index as u32, megabytes }));
            line.push((end, Change::Ends { megabytes }));
        }
    }
    let mut reported = FxHashSet::default();
    for (gpu, mut line) in lines.into_iter().enumerate() {
        line.sort_unstable();
        sweep(context, gpu as u32, &line, &mut reported);
    }
}

fn sweep(context: &mut Context<'_>, gpu: u32, line: &[(Time, Change)], reported: &mut FxHashSet<u32>) {
    let has = whole_megabytes(context.instance.cluster.gpu_memory_gb);
    let (mut weights, mut slots, mut last) = (0u64, 0u64, None);
    for (place, &(at, change)) in line.iter().enumerate() {
        match change {
            Change::Ends { megabytes } => slots = slots.saturating_sub(megabytes),
            Change::Weights { megabytes } => weights = megabytes,
            Change::Begins { index, megabytes } => {
                slots = slots.saturating_add(megabytes);
                last = Some(index);
            }
        }
        // What comes and goes at one instant counts when all of it has.
        let settled = line.get(place + 1).is_none_or(|&(next, _)| next > at);
        let used = weights.saturating_add(slots);
        let Some(index) = last.filter(|_| settled && slots > 0 && used > has) else { continue };
        // A batch that is too large on several GPUs, or for longer, is one fault.
        if reported.insert(index) {
            let gb = |megabytes: u64| megabytes as f64 / 1000.0;
            let message = format!(
                "executions of {} GB and models of {} GB at {} on a GPU of {} GB",
                gb(slots),
                gb(weights),
                s(at),
                gb(has)
            );
            let place = context.place(index as usize).on(gpu);
            context.report(Code::SlotMemory, place, message);
        }
    }
}
