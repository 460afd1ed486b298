//! Models that do not fit: what needs one fails at once, instead of making others leave for it again and again.

use super::{Happening, Live};
use gswarm_core::engine::{Event, TaskState};
use gswarm_core::{ModelId, RequestId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// The backends onto which a model does not fit, and why; by model.
pub(super) type Unfit = BTreeMap<ModelId, (BTreeSet<usize>, String)>;

impl Live<'_> {
    /// A model does not fit onto a backend. Once it is so with all that serve it, the requests that need it are given up.
    pub(super) fn does_not_fit(
        &mut self,
        member: usize,
        model: ModelId,
        why: &str,
        happened: &mut Vec<Happening>,
    ) {
        let (members, reason) = self.unfit.entry(model).or_default();
        members.insert(member);
        *reason = why.to_owned();
        let arrived = |request: &RequestId| !self.arrivals.iter().any(|(_, other)| other == request);
        let requests = self.problem.instance.requests.iter_enumerated().map(|(request, _)| request);
        let doomed: Vec<Happening> =
            requests.filter(arrived).filter_map(|request| self.cannot_complete(request)).collect();
        happened.extend(doomed);
    }

    /// The end of a request that still needs a model which fits nowhere.
    pub(super) fn cannot_complete(&self, request: RequestId) -> Option<Happening> {
        let task = self.needs_unfit(request)?;
        let instance = self.problem.instance;
        let model = instance.model_of(task);
        let (_, why) = self.unfit.get(&model)?;
        let why = Some(format!("`{}` does not fit: {why}", instance.models[model].name));
        Some(Happening { event: Event::Withdrawn(request), why })
    }

    /// The first open task of a request whose model fits nowhere.
    fn needs_unfit(&self, request: RequestId) -> Option<TaskId> {
        if self.unfit.is_empty() {
            return None;
        }
        let (view, instance) = (self.engine.view(), self.problem.instance);
        let open = |task: &TaskId| !matches!(view.state(*task), TaskState::Done | TaskState::GivenUp);
        let mut tasks = instance.tasks_of(request).filter(open);
        tasks.find(|&task| self.fits_nowhere(instance.model_of(task)))
    }

    fn fits_nowhere(&self, model: ModelId) -> bool {
        let Some((unfit, _)) = self.unfit.get(&model) else { return false };
        let members = self.acts.fleet().members().iter().enumerate();
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
