//! `hybrid`: batches prepared ahead, executed as things come.
//!
//! Optimises idle time on top of a plan. The batches of `batch` give every GPU a list. At run time a GPU takes the next task
//! of its list when that is ready; else the best ready task of any batch: of the models that could begin soonest on it, the
//! one with most work ready. A GPU whose own next task waits for the other GPUs of its window takes only what will be done
//! by then.
//!
//! Cost: as `batch` to plan; O(log n) per task and O(models) per idle GPU to follow.

use super::batch::plan_batches;
use super::division::Division;
use super::info::without_params;
use super::lists::Lists;
use super::ready::ReadyByModel;
use super::reserve::clear_at;
use super::{Policy, place, sketch};
use crate::engine::{Decision, View};
use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;
use crate::time::{Span, Time};

without_params!(
    "hybrid",
    OFFLINE,
    "batches planned ahead, run as GPUs become free; for batches whose times are roughly known",
    |instance, _| Hybrid::new(instance)
);

/// Lists first, then anything that is ready.
pub struct Hybrid<'i> {
    lists: Lists<'i>,
    ready: ReadyByModel,
    total: IdVec<ModelId, Span>,
    started: IdVec<TaskId, bool>,
    tiles: IdVec<ModelId, Vec<Gpus>>,
    /// Models that fit into blocks alone, where some GPUs are in no block.
    is_wide: Option<IdVec<ModelId, bool>>,
}

impl<'i> Hybrid<'i> {
    /// Plans the whole batch.
    pub fn new(instance: &'i Instance) -> Hybrid<'i> {
        let models = instance.models.len();
        Hybrid {
            lists: Lists::of(instance, &plan_batches(instance).placed).preloading(),
            ready: ReadyByModel::new(models),
            total: vec![Span::ZERO; models].into(),
            started: vec![false; instance.tasks()].into(),
            tiles: instance.models.iter().map(sketch::tiles).collect(),
            is_wide: Division::of(instance).map(|division| division.is_wide),
        }
    }

    /// The first task of a model that was not started from its list.
    fn first_ready(&mut self, model: ModelId) -> Option<TaskId> {
        while let Some(task) = self.ready.peek(model) {
            if !self.started[task] && !self.lists.is_prepared(task) {
                return Some(task);
            }
            self.ready.pop(model);
        }
        None
    }

    fn start(&mut self, view: &View<'_>, task: TaskId) {
        self.started[task] = true;
        let total = &mut self.total[view.instance().model_of(task)];
        *total = Span(total.0.saturating_sub(view.instance().execution(task).0));
    }

    /// When the window of a GPU's own next task will be clear, if that task is ready: until then the GPU is only lent.
    fn needed_at(&mut self, view: &View<'_>, gpu: GpuId) -> Time {
        match self.lists.first(gpu) {
            Some(task) if self.lists.is_ready(task) => {
                clear_at(view, view.instance().model_of(task), self.lists.window(task))
            }
            _ => Time::NEVER,
        }
    }

    /// Idle GPUs that others may use: not those that wait for a wide task, nor those that have loaded the model of their own
    /// next task already.
    fn lent_out(&mut self, view: &View<'_>) -> GpuSet {
        let mut open = view.idle().clone();
        for gpu in view.idle().iter() {
            let Some(task) = self.lists.first(gpu) else { continue };
            let is_wide = |wide: &IdVec<ModelId, bool>| wide[view.instance().model_of(task)];
            if self.lists.is_prepared(task) || self.is_wide.as_ref().is_some_and(is_wide) {
                open.remove(gpu);
            }
        }
        open
    }

    fn best_of_any_batch(&mut self, view: &View<'_>) -> Option<Decision> {
        let models: Vec<ModelId> = self.ready.models().collect();
        let open = self.lent_out(view);
        let mut best = None;
        for model in models {
            let Some(task) = self.first_ready(model) else { continue };
            let Some((gpus, cost)) = place::cheapest_within(view, model, &open, &self.tiles[model]) else {
                continue;
            };
            let ends = view.now() + cost + view.expected(task);
            let rank = (cost, std::cmp::Reverse(self.total[model]), task);
            if best.is_none_or(|(found, _)| rank < found)
                && gpus.iter().all(|gpu| ends <= self.needed_at(view, gpu))
            {
                best = Some((rank, gpus));
            }
        }
        let ((_, _, task), gpus) = best?;
        self.lists.take(task);
        self.start(view, task);
        Some(Decision::Start { task, gpus })
    }
}

impl Policy for Hybrid<'_> {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        self.started[task] = false;
        self.ready.push_by_arrival(task, view);
        self.total[view.instance().model_of(task)] += view.instance().execution(task);
        self.lists.ready(task, view);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        let own = self.lists.start(view);
        if self.lists.is_void() {
            return own;
        }
        if let Some(Decision::Start { task, .. }) = own {
            self.start(view, task);
            return own;
        }
        if view.idle().is_empty() {
            return self.lists.preload(view);
        }
        self.best_of_any_batch(view).or_else(|| self.lists.preload(view))
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        self.lists.freed(gpus, view);
    }

    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lists.lost(gpu, view);
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lists.returned(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.lists.given_up(task, view);
        if self.ready.given_up(task, view) && !self.started[task] {
            self.start(view, task);
        }
    }
}
