//! Ways to bring a model onto a GPU, and dominance between states of a GPU.
//!
//! Plans load a model only to execute it. Schedules may also load one that executes nothing. For a GPU by itself that is
//! never sooner, but a GPU that waits for its neighbours can load a small model meanwhile, and then has less to take off
//! when the wide model comes. A proof that no schedule is shorter must allow for that.

use super::problem::Way;
use crate::id::ModelId;
use crate::instance::Instance;
use crate::plan::decode::{EMPTY, SwitchTable};

/// What loads may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loads {
    /// What plans can do.
    AsPlanned,
    /// At least what any schedule can do: each GPU of a window can be prepared by itself.
    AnyWay,
}

/// The ways from `held`, as in [`SwitchTable`], to a model: by rising load and falling time before it, the straight one last.
pub(super) fn ways(
    instance: &Instance,
    table: &SwitchTable,
    held: u32,
    model: ModelId,
    loads: Loads,
) -> Vec<Way> {
    let straight = (0, table.span(held, model).0);
    let mut kept: Vec<Way> = Vec::new();
    if loads == Loads::AnyWay && instance.models[model].gpus > 1 {
        let others = instance.models.keys().filter(|&via| via != model && held != via.0 + 1);
        // A model that has executed nothing makes no load cheaper than one onto an empty GPU.
        let least = table.span(EMPTY, model).0;
        let mut round: Vec<Way> = others
            .map(|via| (table.span(held, via).0, table.span(via.0 + 1, model).0.max(least)))
            .filter(|way| way.1 < straight.1)
            .collect();
        round.sort_unstable_by_key(|&(before, last)| (last, before));
        for way in round {
            if kept.last().is_none_or(|shorter| way.0 < shorter.0) {
                kept.push(way);
            }
        }
    }
    kept.push(straight);
    kept
}

/// The shortest chain of loads from each state of a GPU to each of these models, whatever it executes on the way: row by row,
/// the empty GPU first.
pub(super) fn chains(table: &SwitchTable, models: &[ModelId]) -> Vec<Vec<u64>> {
    let held = std::iter::once(EMPTY).chain(models.iter().map(|model| model.0 + 1));
    let mut least: Vec<Vec<u64>> =
        held.map(|held| models.iter().map(|&model| table.span(held, model).0).collect()).collect();
    // Floyd and Warshall: by way of each model in turn.
    for via in 0..models.len() {
        for held in 0..=models.len() {
            for model in 0..models.len() {
                least[held][model] = least[held][model].min(least[held][via] + least[via + 1][model]);
            }
        }
    }
    least
}

/// Whether no load onto an empty GPU takes longer than one in the place of another model. Then a model that has executed
/// nothing is as good to replace as any other.
pub(super) fn cold_is_shortest(table: &SwitchTable, models: &[ModelId]) -> bool {
    let replaced = |model: ModelId| {
        models.iter().filter(move |&&old| old != model).map(move |old| table.span(old.0 + 1, model))
    };
    models.iter().all(|&model| replaced(model).all(|switch| table.span(EMPTY, model) <= switch))
}
