//! `round_robin` and `random`: yardsticks that look at nothing. A policy that does not beat them does no good.
//!
//! Each task is given its GPUs when it becomes ready: the next window in turn, or any window by a seeded draw. It waits
//! there, whatever is idle elsewhere. Cost: O(1) per task.

use super::Policy;
use super::lists::Lists;
use super::sketch;
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How the next window is chosen.
enum Turn {
    /// One after the other, for all models together.
    Next(u64),
    /// By chance.
    Random(Box<ChaCha8Rng>),
}

/// Assigns without looking.
pub struct Yardstick<'i> {
    lists: Lists<'i>,
    windows: IdVec<ModelId, Vec<Gpus>>,
    turn: Turn,
}

impl<'i> Yardstick<'i> {
    /// The windows in turn.
    #[must_use]
    pub fn round_robin(instance: &'i Instance) -> Yardstick<'i> {
        let windows = instance.models.iter().map(sketch::tiles).collect();
        Yardstick { lists: Lists::new(instance), windows, turn: Turn::Next(0) }
    }

    /// Any window, by chance.
    #[must_use]
    pub fn random(instance: &'i Instance, seed: u64) -> Yardstick<'i> {
        let windows = instance.models.iter().map(sketch::tiles).collect();
        let rng = Box::new(ChaCha8Rng::seed_from_u64(seed));
        Yardstick { lists: Lists::new(instance), windows, turn: Turn::Random(rng) }
    }
}

impl Policy for Yardstick<'_> {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        if !self.lists.is_assigned(task) && !self.lists.is_void() {
            let windows = &self.windows[view.instance().model_of(task)];
            let place = match &mut self.turn {
                Turn::Next(turn) => {
                    *turn += 1;
                    (*turn - 1) as usize % windows.len()
                }
                Turn::Random(rng) => rng.random_range(0..windows.len()),
            };
            self.lists.assign(task, windows[place]);
        }
        self.lists.mark_ready(task, view);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        self.lists.decide(view)
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        self.lists.freed(gpus, view);
    }

    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lists.lost(gpu, view);
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lists.returned(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.lists.given_up(task, view);
    }
}
