//! How soon a model can be on GPUs that start empty, and what a load takes at the least.

use crate::cost::SwitchRule;
use crate::id::{IdVec, ModelId};
use crate::instance::{Instance, Model};
use crate::time::Span;

/// The least time between an idle, empty cluster and the first execution of each model: its own load, or (where switching
/// is cheaper than loading) another model's load and a switch. Longer chains cost more: each link moves its model again.
pub(super) fn entry_costs(instance: &Instance) -> IdVec<ModelId, Span> {
    let cost = &instance.cluster.switch;
    if cost.rule != SwitchRule::Transfer {
        return instance.models.iter().map(|model| cold(instance, model)).collect();
    }
    let chain = |via: &Model| via.load_seconds + via.memory_gb / cost.pcie_gb_per_s;
    let cheapest = instance.models.iter().map(chain).fold(f64::INFINITY, f64::min);
    let by_chain = |model: &Model| cheapest + model.memory_gb / cost.pcie_gb_per_s + cost.overhead_seconds;
    instance.models.iter().map(|model| cold(instance, model).min(rounded_down(by_chain(model)))).collect()
}

/// The least that any load of each model takes: onto an empty GPU, or in the place of the smallest other model.
pub(super) fn load_costs(instance: &Instance) -> IdVec<ModelId, Span> {
    let switch = |(id, model): (ModelId, &Model)| {
        let others = instance.models.iter_enumerated().filter(|&(other, _)| other != id);
        let smallest = others.map(|(_, other)| other.memory_gb).fold(f64::INFINITY, f64::min);
        if smallest.is_infinite() {
            return cold(instance, model);
        }
        let replaced = instance.cluster.switch.of(Some(smallest), model.memory_gb, model.load_seconds);
        cold(instance, model).min(replaced)
    };
    instance.models.iter_enumerated().map(switch).collect()
}

fn cold(instance: &Instance, model: &Model) -> Span {
    instance.cluster.switch.of(None, model.memory_gb, model.load_seconds)
}

/// A run rounds twice (load, then switch): a microsecond less keeps the bound valid.
fn rounded_down(seconds: f64) -> Span {
    Span(((seconds * 1e6).floor() as u64).saturating_sub(1))
}
