//! `lru`: what Ollama and llama-swap do today.
//!
//! Optimises nothing but simplicity: requests are served strictly in order of arrival (higher priority first); the first
//! task in the queue waits until it has GPUs, and everything behind it waits too. It takes GPUs that hold its model, then a
//! running batch with room, then empty GPUs, then those used least recently, whose models are evicted.
//!
//! Cost: O(log n + GPUs) per task.

use super::Policy;
use super::info::without_params;
use super::ready::ReadyByModel;
use super::{place, sketch};
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;

without_params!(
    "lru",
    BOTH,
    "strictly in order of arrival, evicting the least recently used model, as Ollama and llama-swap do; a yardstick",
    yardstick(),
    |instance, _| Lru::new(instance)
);

/// Strictly first come, first served; evicts what was used least recently.
pub struct Lru {
    ready: ReadyByModel,
    /// Fixed groups of GPUs, as such servers are set up.
    tiles: IdVec<ModelId, Vec<Gpus>>,
}

impl Lru {
    /// With an empty queue.
    pub fn new(instance: &Instance) -> Lru {
        Lru {
            ready: ReadyByModel::new(instance.models.len()),
            tiles: instance.models.iter().map(sketch::tiles).collect(),
        }
    }
}

impl Lru {
    fn least_recently_used(&self, view: &View<'_>, model: ModelId) -> Option<Gpus> {
        let windows = || self.tiles[model].iter().copied().filter(|&window| view.idle().contains_all(window));
        let holding = windows().find(|&window| view.holding(model).contains_all(window));
        let found = holding.or_else(|| place::joinable(view, model));
        let found = found.or_else(|| windows().find(|&window| view.empty().contains_all(window)));
        found.or_else(|| windows().min_by_key(|&window| place::latest_idle(view, window)))
    }
}

impl Policy for Lru {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.push_by_arrival(task, view);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        // What lost GPUs leave no place for would hold up everything behind it for ever.
        let model = self.ready.models().find(|&model| !self.tiles[model].is_empty())?;
        let gpus = self.least_recently_used(view, model)?;
        self.ready.pop(model).map(|task| Decision::Start { task, gpus })
    }

    fn lost(&mut self, _gpu: GpuId, view: &View<'_>) {
        self.tiles = sketch::tiles_left(view.instance(), view.alive());
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lost(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.given_up(task, view);
    }
}
