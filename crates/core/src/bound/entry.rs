//! The earliest time at which a model can be on initially empty GPUs, and the minimum cost of a load.

use crate::cost::{Leaving, SwitchRule};
use crate::id::{IdVec, ModelId};
use crate::instance::{Instance, Model};
use crate::time::Span;

/// The least time between an idle, empty cluster and the first execution of each model: its own load, or (where switching
/// is cheaper than loading) the load of another model that executes something, and a switch. Longer chains cost more: each
/// link moves its model again.
pub(super) fn entry_costs(instance: &Instance) -> IdVec<ModelId, Span> {
    if !instance.start.is_empty() {
        // Whatever is there already may make any load shorter, or needless.
        return vec![Span::ZERO; instance.models.len()].into();
    }
    let cost = &instance.cluster.switch;
    let mut executes = vec![false; instance.models.len()];
    instance.task_ids().for_each(|task| executes[instance.model_of(task).index()] = true);
    let entry = |(id, model): (ModelId, &Model)| {
        if cost.rule != SwitchRule::Transfer {
            return cold(instance, model);
        }
        let others = instance.models.iter_enumerated().filter(|&(via, _)| via != id && executes[via.index()]);
        // Both are whole microseconds, as in a run, so that nothing is lost by rounding.
        let chains = others.map(|(_, via)| {
            cold(instance, via) + cost.of(Some(via.leaving()), model.memory_gb, model.load_seconds)
        });
        chains.min().unwrap_or(Span(u64::MAX)).min(cold(instance, model))
    };
    instance.models.iter_enumerated().map(entry).collect()
}

/// The least that any load of each model takes: onto an empty GPU, or in the place of the smallest other model.
pub(super) fn load_costs(instance: &Instance) -> IdVec<ModelId, Span> {
    let switch = |(id, model): (ModelId, &Model)| {
        let others = instance.models.iter_enumerated().filter(|&(other, _)| other != id);
        let least = others.map(|(_, other)| other.leaving()).reduce(|one, other| Leaving {
            gb: one.gb.min(other.gb),
            seconds: one.seconds.min(other.seconds),
            unused: false,
        });
        let replaced = |least| instance.cluster.switch.of(Some(least), model.memory_gb, model.load_seconds);
        least.map_or(Span(u64::MAX), replaced).min(cold(instance, model))
    };
    instance.models.iter_enumerated().map(switch).collect()
}

fn cold(instance: &Instance, model: &Model) -> Span {
    instance.cluster.switch.of(None, model.memory_gb, model.load_seconds)
}
