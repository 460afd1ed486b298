//! Unloads without a successor: models idle for longer than their TTL, and models that a user unloads.

use super::Service;
use gswarm_core::engine::Event;
use gswarm_core::{ModelId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Which models are to leave, and when.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// How long each model stays that nobody uses; others stay until their memory is needed.
    pub ttl: BTreeMap<ModelId, Span>,
    /// Those that somebody wants off: they leave as soon as nothing of them executes.
    pub unwanted: BTreeSet<ModelId>,
}

impl Service {
    /// Takes models off once nothing of them executes. Says which of them are on GPUs, or on their way.
    pub(super) fn unload(&mut self, models: Vec<ModelId>) -> Vec<ModelId> {
        let view = self.machine.engine.view();
        let loads = |model: ModelId| view.loads().any(|(other, ..)| other == model);
        let there = |model: &ModelId| !view.holding(*model).is_empty() || loads(*model);
        let leaving: Vec<ModelId> = models.into_iter().filter(there).collect();
        self.idle.unwanted.extend(leaving.iter().copied());
        leaving
    }

    /// The models that leave now.
    pub(super) fn dismissals(&mut self) -> Vec<Event> {
        let (view, now) = (self.machine.engine.view(), self.machine.clock.now());
        let loads = |model: ModelId| view.loads().any(|(other, ..)| other == model);
        let mut leaving: Vec<ModelId> =
            self.idle.unwanted.iter().copied().filter(|&model| view.may_dismiss(model)).collect();
        // Those that have left by another way are forgotten with those that leave now.
        self.idle.unwanted.retain(|&model| {
            let there = !view.holding(model).is_empty() || loads(model);
            there && !leaving.contains(&model)
        });
        let over =
            self.idle.ttl.keys().filter(|&&model| self.lives_until(model).is_some_and(|end| end <= now));
        let over: Vec<ModelId> = over.copied().filter(|&model| !self.is_waited_for(model)).collect();
        leaving.extend(over.into_iter().filter(|model| !leaving.contains(model)).collect::<Vec<_>>());
        leaving.into_iter().map(Event::Dismissed).collect()
    }

    /// When the next model has been idle for its time to live.
    pub(super) fn next_dismissal(&self) -> Time {
        let now = self.machine.clock.now();
        let next = |&model: &ModelId| {
            // One that is over and waited for is looked at again when something happens to it.
            self.lives_until(model).filter(|&end| end > now || !self.is_waited_for(model))
        };
        self.idle.ttl.keys().filter_map(next).min().unwrap_or(Time::NEVER)
    }

    /// When a model that is idle has been so for its time to live.
    fn lives_until(&self, model: ModelId) -> Option<Time> {
        let view = self.machine.engine.view();
        let ttl = *self.idle.ttl.get(&model)?;
        view.may_dismiss(model).then(|| view.last_used(model))?.map(|used| used + ttl)
    }

    fn is_waited_for(&self, model: ModelId) -> bool {
        let instance = self.machine.engine.view().instance();
        self.machine.book.ready.keys().any(|&task| instance.model_of(task) == model)
    }
}
