//! Where the search over recipes begins: a table of them, and the best of the table with GPUs set apart.

use super::ground::Ground;
use super::recipe::{Habit, ORDERS, PRECEDENCES, Recipe};
use super::search::{Found, tried};
use crate::deploy::deploy;
use rayon::prelude::*;

/// The best `count` beginnings, best first.
pub(super) fn beginnings(ground: &Ground<'_>, count: usize, stop: &(dyn Fn() -> bool + Sync)) -> Vec<Found> {
    let mut found = all_tried(ground, table(ground), stop);
    best(&mut found, count);
    let apart = found.iter().flat_map(|found| set_apart(ground, &found.recipe)).collect();
    found.extend(all_tried(ground, apart, stop));
    best(&mut found, count);
    found
}

fn best(found: &mut Vec<Found>, count: usize) {
    found.sort_by(|a, b| a.energy().total_cmp(&b.energy()));
    found.truncate(count);
}

fn all_tried(ground: &Ground<'_>, recipes: Vec<Recipe>, stop: &(dyn Fn() -> bool + Sync)) -> Vec<Found> {
    let tried = recipes.into_par_iter().enumerate().filter_map(|(place, recipe)| {
        // However little time there is, one is tried.
        if place > 0 && stop() { None } else { tried(ground, recipe) }
    });
    tried.collect()
}

/// Every order, precedence and set of habits.
fn table(ground: &Ground<'_>) -> Vec<Recipe> {
    let mut recipes = Vec::new();
    for clear in [f64::INFINITY, 1.0, 4.0] {
        for open in [0.0, 1.0, 4.0] {
            for ahead in [false, true] {
                let habit = Habit { cap: u32::MAX, open, clear, ahead };
                let pairs = PRECEDENCES.iter().flat_map(|&first| ORDERS.map(|order| (order, first)));
                recipes.extend(pairs.map(|(order, first)| Recipe::new(ground, order, first, habit)));
            }
        }
    }
    recipes
}

/// Parts of the GPUs that are tried for the widest models alone, as multiples of their share in the work.
const PARTS: [f64; 4] = [0.6, 0.8, 0.9, 1.0];

/// A recipe with some GPUs for the widest models alone, or with every model in a place of its own.
fn set_apart(ground: &Ground<'_>, recipe: &Recipe) -> Vec<Recipe> {
    let (widest, gpus) = (ground.widest, ground.instance.cluster.gpus);
    let (mut wide, mut all) = (0.0, 0.0);
    for task in ground.instance.task_ids() {
        let model = ground.instance.model_of(task);
        let width = ground.instance.models[model].gpus;
        let work = ground.instance.execution(task).seconds() * ground.share[model] * f64::from(width);
        all += work;
        wide += if width == widest { work } else { 0.0 };
    }
    let blocks = f64::from(gpus / widest);
    let part = |part: &f64| (blocks * wide / all * part).round().clamp(1.0, blocks.max(1.0)) as u32 * widest;
    let mut parts: Vec<u32> = PARTS.iter().map(part).collect();
    parts.dedup();
    let reserved = parts.into_iter().flat_map(|gpus| [(gpus, false), (gpus, true)]);
    let reserved = reserved.filter_map(|(gpus, apart)| recipe.clone().reserve(ground, gpus, apart));
    reserved.chain(recipe.clone().deployed(ground, &deploy(ground.instance))).collect()
}
