//! Models that do not fit, or whose servers are misconfigured: tasks that need one fail at once, and nothing is evicted
//! for it.

use super::machine::{Book, Machine};
use crate::fleet::Fleet;
use gswarm_core::engine::Event;
use gswarm_core::{GpuId, ModelId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// The backends onto which a model does not fit, and why; by model.
#[derive(Default)]
pub(super) struct Unfit(BTreeMap<ModelId, (BTreeSet<usize>, String)>);

impl Unfit {
    /// A model does not fit onto a backend.
    pub fn add(&mut self, member: usize, model: ModelId, why: String) {
        let (members, reason) = self.0.entry(model).or_default();
        members.insert(member);
        *reason = why;
    }

    /// Whether it is so with all backends that serve the model.
    pub fn fits_nowhere(&self, fleet: &Fleet, model: ModelId) -> bool {
        let Some((unfit, _)) = self.0.get(&model) else { return false };
        let serves =
            |models: &Option<Vec<ModelId>>| models.as_ref().is_none_or(|models| models.contains(&model));
        let mut members = fleet.members().iter().enumerate().filter(|(_, member)| serves(&member.models));
        members.all(|(number, _)| unfit.contains(&number))
    }
}

impl<B: Book> Machine<'_, B> {
    /// The tasks that an event fails.
    pub(super) fn fails_by(&self, event: Event) -> Vec<TaskId> {
        match event {
            Event::Failed(task) | Event::Refused(task) | Event::Abandoned(task) => vec![task],
            Event::LoadFailed(lead) => self.engine.view().waiting_at(lead).collect(),
            _ => Vec::new(),
        }
    }

    /// The tasks that have to wait by an event, because their server failed.
    pub(super) fn defers_by(&self, event: Event) -> Vec<TaskId> {
        match event {
            Event::Deferred(task) => vec![task],
            Event::LoadDeferred(lead) => self.engine.view().waiting_at(lead).collect(),
            _ => Vec::new(),
        }
    }

    /// Why nothing was even tried for those who wait for the load of this window.
    pub(super) fn why_unfit(&self, lead: GpuId) -> Option<String> {
        let task = self.engine.view().waiting_at(lead).next()?;
        let (_, why) = self.unfit.0.get(&self.engine.view().instance().model_of(task))?;
        Some(why.clone())
    }
}
