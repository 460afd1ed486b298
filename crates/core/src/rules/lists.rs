//! One list of tasks per GPU, followed in order: what policies with a plan, and those that assign at once, share.
//!
//! A task stands in the list of each of its GPUs and starts when it is first in all of them, ready, and the GPUs are idle
//! (or run a batch of its model with room). Lists filled in one global order in which inputs come before what needs them
//! cannot deadlock. When a GPU is lost the lists are void: what is left runs by the rule of [`Baseline`].

use super::{Baseline, Policy};
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, IdVec, TaskId};
use crate::instance::{Instance, Residency};
use crate::time::Span;
use std::collections::VecDeque;

const NOWHERE: GpuId = GpuId(u32::MAX);

/// Gives GPUs to a task that has just become ready.
type Assign<'i> = Box<dyn FnMut(TaskId) -> Gpus + Send + 'i>;

/// Follows the lists; a policy that does more wraps it.
pub(crate) struct Lists<'i> {
    instance: &'i Instance,
    lists: IdVec<GpuId, VecDeque<TaskId>>,
    /// Execution time in each list.
    work: IdVec<GpuId, Span>,
    tasks: IdVec<TaskId, Slot>,
    /// GPUs whose first task may have become able to start.
    look_at: Vec<GpuId>,
    /// For tasks that are in no list when they become ready.
    assign: Option<Assign<'i>>,
    /// Whether idle GPUs steal work.
    steals: bool,
    /// Whether models are loaded ahead.
    preloads: bool,
    /// GPUs whose first task may wait for its inputs: its model can come over meanwhile.
    to_prepare: Vec<GpuId>,
    fallback: Option<Baseline>,
}

/// What is known of a task, in one place: looking at a list should touch memory once for each task.
#[derive(Clone, Copy)]
struct Slot {
    /// First GPU of its window.
    place: GpuId,
    ready: bool,
    /// Started, here or by a policy that took the task out of its list.
    gone: bool,
    /// Its model was loaded ahead of it, so that it must run where it is.
    prepared: bool,
}

impl<'i> Lists<'i> {
    pub fn new(instance: &'i Instance) -> Lists<'i> {
        let (tasks, gpus) = (instance.tasks(), instance.cluster.gpus as usize);
        Lists {
            instance,
            lists: vec![VecDeque::new(); gpus].into(),
            work: vec![Span::ZERO; gpus].into(),
            tasks: vec![Slot { place: NOWHERE, ready: false, gone: false, prepared: false }; tasks].into(),
            look_at: Vec::new(),
            assign: None,
            steals: false,
            preloads: false,
            to_prepare: Vec::new(),
            fallback: None,
        }
    }

    /// Filled with `placed`, in this order.
    pub fn of(instance: &'i Instance, placed: &[(TaskId, Gpus)]) -> Lists<'i> {
        let mut lists = Lists::new(instance);
        placed.iter().for_each(|&(task, gpus)| lists.assign(task, gpus));
        lists
    }

    /// Empty lists; `assign` gives each task its GPUs when it becomes ready.
    pub fn assigned_when_ready(
        instance: &'i Instance,
        assign: impl FnMut(TaskId) -> Gpus + Send + 'i,
    ) -> Lists<'i> {
        Lists { assign: Some(Box::new(assign)), ..Lists::new(instance) }
    }

    /// Idle GPUs steal work.
    pub fn stealing(self) -> Lists<'i> {
        Lists { steals: true, ..self }
    }

    /// While a GPU waits for the inputs of its next task, the model comes over.
    pub fn preloading(mut self) -> Lists<'i> {
        self.to_prepare = self.lists.keys().collect();
        Lists { preloads: true, ..self }
    }

    /// Puts a task at the end of the lists of its GPUs.
    pub fn assign(&mut self, task: TaskId, gpus: Gpus) {
        self.tasks[task].place = gpus.first;
        for gpu in gpus.iter() {
            self.lists[gpu].push_back(task);
            self.work[gpu] += self.instance.execution(task);
        }
    }

    pub fn window(&self, task: TaskId) -> Gpus {
        Gpus { first: self.tasks[task].place, count: self.instance.models[self.instance.model_of(task)].gpus }
    }

    /// Whether the lists are void because a GPU was lost.
    pub fn is_void(&self) -> bool {
        self.fallback.is_some()
    }

    /// The first task in the list of a GPU that was not started.
    pub fn first(&mut self, gpu: GpuId) -> Option<TaskId> {
        while let Some(&task) = self.lists[gpu].front() {
            if !self.tasks[task].gone {
                return Some(task);
            }
            self.lists[gpu].pop_front();
        }
        None
    }

    /// The tasks in the list of a GPU that were not started, last first.
    pub fn last_first(&self, gpu: GpuId) -> impl Iterator<Item = TaskId> + '_ {
        self.lists[gpu].iter().rev().copied().filter(|&task| !self.tasks[task].gone)
    }

    pub fn is_ready(&self, task: TaskId) -> bool {
        self.tasks[task].ready
    }

    /// Whether a task has left its lists: it was started, or given up.
    pub fn is_gone(&self, task: TaskId) -> bool {
        self.tasks[task].gone
    }

    /// Whether a task's model was loaded ahead of it.
    pub fn is_prepared(&self, task: TaskId) -> bool {
        self.tasks[task].prepared
    }

    /// A task starts elsewhere than in its lists.
    pub fn take_to(&mut self, task: TaskId, gpus: Gpus) {
        self.take(task);
        self.tasks[task].place = gpus.first;
    }

    /// Other lists for what has not been started.
    pub fn renew(&mut self, order: &[(TaskId, Gpus)]) {
        self.lists.iter_mut().for_each(VecDeque::clear);
        self.work.iter_mut().for_each(|work| *work = Span::ZERO);
        order.iter().for_each(|&(task, gpus)| self.assign(task, gpus));
        self.look_at.extend(self.lists.keys());
    }

    /// Marks a task as started: it leaves its lists.
    pub fn take(&mut self, task: TaskId) {
        self.tasks[task].gone = true;
        for gpu in self.window(task).iter() {
            let left = self.work[gpu].0.saturating_sub(self.instance.execution(task).0);
            self.work[gpu] = Span(left);
            self.look_at.push(gpu);
        }
    }

    /// The next start: by the lists, or stolen.
    pub fn start(&mut self, view: &View<'_>) -> Option<Decision> {
        if let Some(fallback) = &mut self.fallback {
            return fallback.decide(view);
        }
        while let Some(gpu) = self.look_at.pop() {
            let Some(task) = self.first(gpu) else { continue };
            if !self.tasks[task].ready {
                if self.preloads {
                    self.to_prepare.push(gpu);
                }
                continue;
            }
            let gpus = self.window(task);
            let free = view.idle().contains_all(gpus)
                || view.joinable(self.instance.model_of(task)).contains(gpus.first);
            if free && gpus.iter().all(|gpu| self.first(gpu) == Some(task)) {
                self.take(task);
                return Some(Decision::Start { task, gpus });
            }
        }
        self.steal(view)
    }

    /// The next load ahead of a task that waits for its inputs, on GPUs that have nothing else to do before it. Beside an
    /// execution a model comes over only where it has room.
    pub fn preload(&mut self, view: &View<'_>) -> Option<Decision> {
        while let Some(gpu) = self.to_prepare.pop().filter(|_| self.fallback.is_none()) {
            let Some(task) = self.first(gpu) else { continue };
            let (model, gpus) = (self.instance.model_of(task), self.window(task));
            let is_next = gpus.iter().all(|gpu| self.first(gpu) == Some(task));
            let Slot { ready, prepared, .. } = self.tasks[task];
            if ready || prepared || !is_next || view.holding(model).contains_all(gpus) {
                continue;
            }
            let has_room = view.idle().contains_all(gpus)
                || self.instance.cluster.residency == Residency::Memory
                    && !gpus.iter().any(|gpu| view.is_loading(gpu))
                    && !view.load_takes_off(model, gpus, |_| true);
            if has_room && view.load_cost(model, gpus).is_some() {
                self.tasks[task].prepared = true;
                return Some(Decision::Load { model, gpus, ahead_of: None });
            }
        }
        None
    }

    /// An idle GPU with nothing to do takes a ready one-GPU task from the end of the longest list, if the task would wait
    /// there for longer than the model takes to come here.
    fn steal(&mut self, view: &View<'_>) -> Option<Decision> {
        if !self.steals || view.idle().is_empty() {
            return None;
        }
        let longest =
            self.work.iter_enumerated().max_by_key(|&(gpu, &work)| (work, std::cmp::Reverse(gpu)))?.0;
        let wait = self.work[longest];
        let idle: Vec<GpuId> = view.idle().iter().filter(|&gpu| self.work[gpu] == Span::ZERO).collect();
        let thief_of = |task: TaskId| {
            let model = self.instance.model_of(task);
            let costs = idle.iter().filter_map(|&first| {
                let gpus = Gpus { first, count: 1 };
                Some((view.load_cost(model, gpus)?, gpus))
            });
            costs.min_by_key(|&(cost, gpus)| (cost, gpus.first))
        };
        if wait == Span::ZERO || idle.is_empty() {
            return None;
        }
        let single = |task: TaskId| self.instance.models[self.instance.model_of(task)].gpus == 1;
        let candidates = self
            .last_first(longest)
            .filter(|&task| self.tasks[task].ready && !self.tasks[task].prepared && single(task));
        let found = candidates.take(STEAL_DEPTH).find_map(|task| {
            let (cost, gpus) = thief_of(task)?;
            let alone = self.instance.execution(task);
            (cost + alone < wait).then_some((task, gpus))
        });
        let (task, gpus) = found?;
        self.take(task);
        self.tasks[task].place = gpus.first;
        Some(Decision::Start { task, gpus })
    }
}

impl Policy for Lists<'_> {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        if let Some(fallback) = &mut self.fallback {
            fallback.ready(task, view);
            return;
        }
        if let Some(assign) = self.assign.as_mut().filter(|_| self.tasks[task].place == NOWHERE) {
            let gpus = assign(task);
            self.assign(task, gpus);
        }
        if self.tasks[task].gone {
            // It failed: before anything else on its GPUs it is tried again.
            self.tasks[task].prepared = false;
            self.tasks[task].gone = false;
            for gpu in self.window(task).iter() {
                self.lists[gpu].push_front(task);
                self.work[gpu] += self.instance.execution(task);
            }
        }
        self.tasks[task].ready = true;
        self.look_at.push(self.tasks[task].place);
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        match &mut self.fallback {
            Some(fallback) => fallback.freed(gpus, view),
            None => self.look_at.extend(gpus.iter()),
        }
    }

    /// A task that will never run must not stand before others.
    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        if let Some(fallback) = &mut self.fallback {
            fallback.given_up(task, view);
        } else if self.tasks[task].place != NOWHERE && !self.tasks[task].gone {
            self.take(task);
        }
    }

    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        let waiting = self.tasks.iter_enumerated().filter(|(_, slot)| slot.ready && !slot.gone);
        Baseline::take_over(&mut self.fallback, waiting.map(|(task, _)| task), view).lost(gpu, view);
    }

    /// A GPU that was gone is there again: the rule that has taken over may use it.
    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        if let Some(fallback) = &mut self.fallback {
            fallback.returned(gpu, view);
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        self.start(view).or_else(|| self.preload(view))
    }
}

/// How many tasks of the longest list are looked at: those at its end wait longest, and the rest gain little.
const STEAL_DEPTH: usize = 8;
