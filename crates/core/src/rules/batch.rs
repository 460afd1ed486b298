//! `batch`: whole batches of one model, kept together.
//!
//! Optimises switches and balance. Tasks are grouped by level and model; a group is cut into batches small enough that
//! every replica there can be gets one. Batches are sorted by level, then by total time, longest first; each goes to the
//! GPUs where idle time plus switch time is least, and runs there one task after the other, each waiting for its own inputs
//! too. A GPU that runs out of work steals from the end of the longest list.
//!
//! Cost: O(n log n + batches x windows) to plan; O(1) per task to follow, O(GPUs) per theft.

use super::info::without_params;
use super::lists::Lists;
use super::sketch::{self, Sketch};
use super::waves::Waves;
use crate::id::{ModelId, TaskId};
use crate::instance::Instance;
use crate::time::Span;
use std::cmp::Reverse;

without_params!(
    "batch",
    OFFLINE,
    "keeps whole batches of one model together; idle GPUs steal work; for many requests of few workflows",
    |instance, _| Lists::of(instance, &plan_batches(instance).placed).stealing().preloading()
);

/// The batches of an input in the order in which they are placed, on a plan.
pub(super) fn plan_batches(instance: &Instance) -> Sketch<'_> {
    let mut plan = Sketch::new(instance);
    let mut waves = Waves::new(instance);
    while let Some(wave) = waves.next(&mut plan) {
        for level in sketch::groups(instance, &wave) {
            let mut batches: Vec<(Span, ModelId, Vec<TaskId>)> = Vec::new();
            for (model, tasks) in level {
                let size = tasks.len().div_ceil((waves.pieces() * plan.replicas(model)).max(1)).max(1);
                batches.extend(tasks.chunks(size).map(|chunk| {
                    let total = chunk.iter().map(|&task| instance.execution(task)).sum();
                    (total, model, chunk.to_vec())
                }));
            }
            batches.sort_by_key(|(total, model, tasks)| (Reverse(*total), *model, tasks[0]));
            for (_, model, tasks) in batches {
                let gpus = plan.soonest(model);
                tasks.into_iter().for_each(|task| {
                    plan.place(task, gpus);
                });
            }
        }
    }
    plan
}
