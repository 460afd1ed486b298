//! `round_robin` and `random`: yardsticks that look at nothing. A policy that does not beat them does no good.
//!
//! Each task is given its GPUs when it becomes ready: the next window in turn, or any window by a seeded draw. It waits
//! there, whatever is idle elsewhere. Cost: O(1) per task.

use super::lists::Lists;
use super::sketch;
use crate::id::{Gpus, IdVec, ModelId};
use crate::instance::Instance;

/// Lists in which `choose` says which of so many windows a task gets.
pub(super) fn assign<'i>(
    instance: &'i Instance,
    mut choose: impl FnMut(usize) -> usize + Send + 'i,
) -> Lists<'i> {
    let windows: IdVec<ModelId, Vec<Gpus>> = instance.models.iter().map(sketch::tiles).collect();
    Lists::assigned_when_ready(instance, move |task| {
        let windows = &windows[instance.model_of(task)];
        windows[choose(windows.len())]
    })
}
