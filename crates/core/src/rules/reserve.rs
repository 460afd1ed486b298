//! GPUs held back for a task that needs several: without that, one-GPU tasks would keep breaking its window.

use crate::engine::View;
use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus, IdVec, ModelId};
use crate::time::{Span, Time};

/// Windows that are being cleared, each with the time from which it will be used.
pub(super) struct Reservations {
    from: IdVec<GpuId, Time>,
    held: GpuSet,
}

impl Reservations {
    pub fn new(gpus: u32) -> Reservations {
        Reservations { from: vec![Time::NEVER; gpus as usize].into(), held: GpuSet::empty(gpus) }
    }

    pub fn clear(&mut self) {
        if !self.held.is_empty() {
            self.from.iter_mut().for_each(|from| *from = Time::NEVER);
            self.held = self.held.without(&self.held);
        }
    }

    /// Holds back the window of `tiles` that will be clear soonest, of those not held already.
    pub fn reserve(&mut self, view: &View<'_>, model: ModelId, tiles: &[Gpus]) -> Option<(Gpus, Time)> {
        let open = tiles.iter().copied().filter(|&gpus| !gpus.iter().any(|gpu| self.held.contains(gpu)));
        let alive = open.filter(|&gpus| view.alive().contains_all(gpus));
        let (gpus, at) =
            alive.map(|gpus| (gpus, clear_at(view, model, gpus))).min_by_key(|&(gpus, at)| (at, gpus))?;
        self.held.insert_all(gpus);
        gpus.iter().for_each(|gpu| self.from[gpu] = at);
        Some((gpus, at))
    }

    /// Idle GPUs that are not held back.
    pub fn unheld(&self, view: &View<'_>) -> GpuSet {
        view.idle().without(&self.held)
    }

    /// Whether something that takes `span` from now on would be off these GPUs before they are needed.
    pub fn leaves_in_time(&self, view: &View<'_>, gpus: Gpus, span: Span) -> bool {
        gpus.iter().all(|gpu| view.now() + span <= self.from[gpu])
    }
}

/// When `model` could begin on a window: all its GPUs free, and the model there.
pub(super) fn clear_at(view: &View<'_>, model: ModelId, gpus: Gpus) -> Time {
    let free = gpus.iter().map(|gpu| view.free_at(gpu)).max().unwrap_or(Time::ZERO);
    free + view.load_cost(model, gpus).unwrap_or(Span::ZERO)
}
