//! Small changes to a recipe.

use super::ground::Ground;
use super::recipe::Recipe;
use crate::id::{Gpus, ModelId, TaskId};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// What changes can be made on a problem.
pub(super) struct Moves {
    kinds: Vec<u32>,
    models: Vec<ModelId>,
    /// Tasks of each used kind; exchanging two of a kind changes no count.
    tasks: Vec<Vec<TaskId>>,
}

/// Thresholds that are tried: how many times a load's length the ready work has to be.
const THRESHOLDS: [f64; 8] = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];

impl Moves {
    pub fn new(ground: &Ground<'_>) -> Moves {
        let kinds: Vec<u32> = ground.used().collect();
        let mut tasks = vec![Vec::new(); ground.kinds.len()];
        ground.kind_of.iter_enumerated().for_each(|(task, &kind)| tasks[kind as usize].push(task));
        let used = |model: &ModelId| !ground.kinds_of[*model].is_empty();
        let models: Vec<ModelId> = ground.instance.models.keys().filter(used).collect();
        Moves { tasks, models, kinds }
    }

    /// Changes one thing.
    pub fn change(&self, ground: &Ground<'_>, recipe: &mut Recipe, rng: &mut ChaCha8Rng) {
        match rng.random_range(0..100) {
            0..30 => self.windows(ground, recipe, rng),
            30..40 => self.cap(ground, recipe, rng),
            40..55 => self.threshold(recipe, rng),
            55..65 => self.rank(recipe, rng),
            65..70 => {
                let model = self.any_model(rng);
                recipe.habits[model].ahead ^= true;
            }
            _ => self.order(recipe, rng),
        }
    }

    fn any_kind(&self, rng: &mut ChaCha8Rng) -> u32 {
        self.kinds[rng.random_range(0..self.kinds.len())]
    }

    fn any_model(&self, rng: &mut ChaCha8Rng) -> ModelId {
        self.models[rng.random_range(0..self.models.len())]
    }

    /// Lets a kind onto some GPUs, or keeps it off them: one window, or all within a block as wide as the widest model.
    fn windows(&self, ground: &Ground<'_>, recipe: &mut Recipe, rng: &mut ChaCha8Rng) {
        let kind = self.any_kind(rng);
        let tiles = &ground.tiles[ground.kinds[kind as usize].model];
        let chosen = tiles[rng.random_range(0..tiles.len())];
        let blocks = if rng.random_bool(0.5) { 1 } else { rng.random_range(1..=4) };
        let from = chosen.first.0 / ground.widest * ground.widest;
        let block = if rng.random_bool(0.5) { chosen } else { Gpus::new(from, ground.widest * blocks) };
        let windows = &mut recipe.windows[kind as usize];
        let allow = !windows.contains(chosen.first);
        for tile in tiles.iter().filter(|tile| block.contains(tile.first)) {
            if allow { windows.insert(tile.first) } else { windows.remove(tile.first) }
        }
        if windows.is_empty() {
            windows.insert(chosen.first);
        }
    }

    fn cap(&self, ground: &Ground<'_>, recipe: &mut Recipe, rng: &mut ChaCha8Rng) {
        let model = self.any_model(rng);
        let most = ground.instance.models[model].max_batch();
        let cap = &mut recipe.habits[model].cap;
        *cap = match rng.random_range(0..4) {
            0 => most,
            1 => rng.random_range(1..=most),
            2 => (*cap + 1).min(most),
            _ => (*cap * 3 / 4).max(1),
        };
    }

    fn threshold(&self, recipe: &mut Recipe, rng: &mut ChaCha8Rng) {
        let model = self.any_model(rng);
        let value = THRESHOLDS[rng.random_range(0..THRESHOLDS.len())];
        match rng.random_range(0..5) {
            0 | 1 => recipe.habits[model].open = value,
            2 | 3 => recipe.habits[model].clear = value,
            _ => recipe.habits[model].clear = f64::INFINITY,
        }
    }

    fn rank(&self, recipe: &mut Recipe, rng: &mut ChaCha8Rng) {
        let (a, b) = (self.any_kind(rng) as usize, self.any_kind(rng) as usize);
        recipe.rank.swap(a, b);
    }

    /// Exchanges tasks of one kind in the order; sometimes a few pairs at once.
    fn order(&self, recipe: &mut Recipe, rng: &mut ChaCha8Rng) {
        let pairs = if rng.random_bool(0.7) { 1 } else { rng.random_range(2..=6) };
        let tasks = &self.tasks[self.any_kind(rng) as usize];
        for _ in 0..pairs {
            let a = tasks[rng.random_range(0..tasks.len())];
            let b = tasks[rng.random_range(0..tasks.len())];
            let (key_a, key_b) = (recipe.keys[a], recipe.keys[b]);
            (recipe.keys[a], recipe.keys[b]) = (key_b, key_a);
        }
    }
}
