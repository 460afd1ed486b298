//! Loads that must come between two dependent tasks. Where every window of one model overlaps every window of another, a task
//! of the second shares a GPU with the task of the first that it waits for, and its model has to come onto that GPU between.

use crate::cost::Leaving;
use crate::id::{Gpus, IdVec, ModelId};
use crate::instance::{Instance, Model, Residency};
use crate::time::Span;

/// The least between tasks of two models of which one waits for the other.
pub(super) struct Between(Option<IdVec<ModelId, IdVec<ModelId, Span>>>);

impl Between {
    /// Zero for any models: with unlimited GPUs no two tasks have to share one.
    pub const NOTHING: Between = Between(None);

    pub fn of(instance: &Instance) -> Between {
        let overlap = |one: ModelId, other: ModelId| {
            one != other && always_overlap(&instance.models[one], &instance.models[other])
        };
        let ids = || instance.models.keys();
        // Models that share a GPU are loaded beside executions.
        if instance.cluster.residency == Residency::Memory
            || !ids().any(|one| ids().any(|other| overlap(one, other)))
        {
            return Between::NOTHING;
        }
        let least = |from: ModelId, to: ModelId| match overlap(from, to) {
            true => way(instance, from, to),
            false => Span::ZERO,
        };
        Between(Some(ids().map(|from| ids().map(|to| least(from, to)).collect()).collect()))
    }

    pub fn least(&self, from: ModelId, to: ModelId) -> Span {
        self.0.as_ref().map_or(Span::ZERO, |table| table[from][to])
    }
}

/// Whether no window of one lies beside a window of the other.
fn always_overlap(one: &Model, other: &Model) -> bool {
    let end = |gpus: Gpus| gpus.first.0 + gpus.count;
    let first_end = |model: &Model| model.windows().next().map_or(u32::MAX, end);
    let last_start = |model: &Model| model.windows().last().map_or(0, |gpus| gpus.first.0);
    first_end(one) > last_start(other) && first_end(other) > last_start(one)
}

/// The cheapest way from one model on a GPU to another: at once, by way of a third, or onto a GPU that is empty.
fn way(instance: &Instance, from: ModelId, to: ModelId) -> Span {
    let load = |leaving: Option<Leaving>, model: &Model| {
        instance.cluster.switch.of(leaving, model.memory_gb, model.load_seconds)
    };
    let step = |old: ModelId, new: ModelId| load(Some(instance.models[old].leaving()), &instance.models[new]);
    let thirds = instance.models.keys().filter(|&via| via != from && via != to);
    let by_way = thirds.map(|via| step(from, via) + step(via, to));
    by_way.chain([step(from, to), load(None, &instance.models[to])]).min().unwrap_or(Span::ZERO)
}
