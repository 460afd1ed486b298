//! Models that do not fit: what needs one fails at once, instead of making others leave for it again and again.

use super::machine::{Book, Happening, Machine};
use gswarm_core::engine::{Event, TaskState};
use gswarm_core::{ModelId, RequestId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// What is known not to fit.
#[derive(Default)]
pub(super) struct Unfit {
    /// The backends onto which a model does not fit, and why; by model.
    models: BTreeMap<ModelId, (BTreeSet<usize>, String)>,
    /// Something was learnt that nobody has looked at.
    news: bool,
}

impl<B: Book> Machine<'_, B> {
    /// A model does not fit onto a backend.
    pub(super) fn does_not_fit(&mut self, member: usize, model: ModelId, why: &str) {
        let (members, reason) = self.unfit.models.entry(model).or_default();
        members.insert(member);
        *reason = why.to_owned();
        self.unfit.news = true;
    }

    /// The ends of those among some requests that need a model of which it has turned out that it fits nowhere.
    pub fn newly_doomed(&mut self, requests: impl FnOnce(&Self) -> Vec<RequestId>) -> Vec<Happening> {
        if !std::mem::take(&mut self.unfit.news) {
            return Vec::new();
        }
        requests(self).into_iter().filter_map(|request| self.cannot_complete(request)).collect()
    }

    /// The end of a request that still needs a model which fits nowhere.
    pub fn cannot_complete(&self, request: RequestId) -> Option<Happening> {
        let task = self.needs_unfit(request)?;
        let view = self.engine.view();
        let model = view.instance().model_of(task);
        let (_, why) = self.unfit.models.get(&model)?;
        let why = Some(format!("`{}` does not fit: {why}", view.instance().models[model].name));
        Some(Happening { event: Event::Withdrawn(request), why })
    }

    /// The first open task of a request whose model fits nowhere.
    fn needs_unfit(&self, request: RequestId) -> Option<TaskId> {
        if self.unfit.models.is_empty() {
            return None;
        }
        let view = self.engine.view();
        let open = |task: &TaskId| !matches!(view.state(*task), TaskState::Done | TaskState::GivenUp);
        let mut tasks = view.instance().tasks_of(request).filter(open);
        tasks.find(|&task| self.fits_nowhere(view.instance().model_of(task)))
    }

    fn fits_nowhere(&self, model: ModelId) -> bool {
        let Some((unfit, _)) = self.unfit.models.get(&model) else { return false };
        let members = self.fleet().members().iter().enumerate();
        let mut serving =
            members.filter(|(_, member)| member.models.as_ref().is_none_or(|models| models.contains(&model)));
        serving.all(|(number, _)| unfit.contains(&number))
    }

    /// The tasks that an event fails.
    pub(super) fn fails_by(&self, event: Event) -> Vec<TaskId> {
        match event {
            Event::Failed(task) => vec![task],
            Event::LoadFailed(lead) => self.engine.view().waiting_at(lead).collect(),
            Event::Withdrawn(request) => self.needs_unfit(request).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}
