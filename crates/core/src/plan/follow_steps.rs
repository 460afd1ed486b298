//! Follows a plan of steps: each GPU does its steps in the order of the plan, tasks join batches up to the size that the plan
//! allows, and models are brought over when the plan says so. When a GPU is lost the plan is void and the rule of `baseline`
//! takes over.
//!
//! Cost: O(1) per step.

use super::{Step, Steps, Wait};
use crate::engine::{Decision, Policy, TaskState, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::{Instance, Residency};
use crate::rules::Baseline;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Runs [`Steps`].
pub struct FollowSteps<'i> {
    instance: &'i Instance,
    steps: Vec<Step>,
    /// Per GPU the steps still to be done.
    lists: IdVec<GpuId, VecDeque<u32>>,
    gone: Vec<bool>,
    /// What each step waits for besides, where there is something.
    after: Vec<Option<Wait>>,
    /// The step of each task.
    step_of: IdVec<TaskId, u32>,
    ready: IdVec<TaskId, bool>,
    /// GPUs whose first step may have become possible.
    look_at: Vec<GpuId>,
    /// Steps that wait for their moment.
    holds: BinaryHeap<Reverse<(Time, GpuId)>>,
    asked: Option<Time>,
    /// Steps that wait for a load or for another step to end, of which nothing is told.
    behind_others: Vec<GpuId>,
    looked_at: Option<Time>,
    fallback: Option<Baseline>,
}

impl<'i> FollowSteps<'i> {
    /// Ready to run `steps`, which must hold every task of the problem once.
    #[must_use]
    pub fn new(instance: &'i Instance, steps: &Steps) -> FollowSteps<'i> {
        let mut follow = FollowSteps {
            instance,
            steps: steps.0.clone(),
            lists: vec![VecDeque::new(); instance.cluster.gpus as usize].into(),
            gone: vec![false; steps.0.len()],
            after: vec![None; steps.0.len()],
            step_of: vec![u32::MAX; instance.tasks()].into(),
            ready: vec![false; instance.tasks()].into(),
            look_at: (0..instance.cluster.gpus).map(GpuId).collect(),
            holds: BinaryHeap::new(),
            asked: None,
            behind_others: Vec::new(),
            looked_at: None,
            fallback: None,
        };
        for (number, step) in (0..).zip(&follow.steps) {
            step.gpus().iter().for_each(|gpu| follow.lists[gpu].push_back(number));
            if let Step::Run { task, .. } = *step {
                follow.step_of[task] = number;
            }
        }
        follow
    }

    /// Has steps wait for others besides, each of which must have been among those before it.
    pub(crate) fn with_waits(mut self, after: Vec<Option<Wait>>) -> FollowSteps<'i> {
        self.after = after;
        self.after.resize(self.steps.len(), None);
        self
    }

    fn has_come(&self, wait: Wait, view: &View<'_>) -> bool {
        let (Wait::Ended(number) | Wait::Loaded(number)) = wait;
        match self.steps[number as usize] {
            Step::Run { task, gpus, .. } => match view.state(task) {
                TaskState::Done => true,
                TaskState::Running => {
                    matches!(wait, Wait::Loaded(_)) && !view.waiting_at(gpus.first).any(|other| other == task)
                }
                _ => false,
            },
            Step::Load { model, gpus, .. } => {
                let loading = |gpu| view.load_on(gpu).is_some_and(|(other, ..)| other == model);
                self.gone[number as usize] && !gpus.iter().any(loading)
            }
        }
    }

    /// The first step of a GPU that is still to be done.
    fn first(&mut self, gpu: GpuId) -> Option<u32> {
        while let Some(&number) = self.lists[gpu].front() {
            if !self.gone[number as usize] {
                return Some(number);
            }
            self.lists[gpu].pop_front();
        }
        None
    }

    fn take(&mut self, number: u32) {
        self.gone[number as usize] = true;
        self.look_at.extend(self.steps[number as usize].gpus().iter());
    }

    /// What the first step of a GPU comes to, if it can be done now.
    fn step(&mut self, gpu: GpuId, view: &View<'_>) -> Option<Decision> {
        let number = self.first(gpu)?;
        let step = self.steps[number as usize];
        if !step.gpus().iter().all(|gpu| self.first(gpu) == Some(number)) {
            return None;
        }
        if step.not_before() > view.now() {
            self.holds.push(Reverse((step.not_before(), gpu)));
            return None;
        }
        if self.after[number as usize].is_some_and(|wait| !self.has_come(wait, view)) {
            self.behind_others.push(gpu);
            return None;
        }
        match step {
            Step::Run { task, gpus, batch_at_most, .. } => {
                if !self.ready[task] || !self.can_start(view, task, gpus, batch_at_most) {
                    return None;
                }
                self.take(number);
                Some(Decision::Start { task, gpus })
            }
            Step::Load { model, gpus, .. } => self.load(view, number, model, gpus),
        }
    }

    fn can_start(&self, view: &View<'_>, task: TaskId, gpus: Gpus, limit: Option<u32>) -> bool {
        let model = self.instance.model_of(task);
        if view.joinable(model).contains(gpus.first) {
            return limit.is_none_or(|limit| view.batch_at(gpus.first) < limit);
        }
        view.idle().contains_all(gpus) || view.can_execute(model, gpus)
    }

    fn load(&mut self, view: &View<'_>, number: u32, model: ModelId, gpus: Gpus) -> Option<Decision> {
        if view.holding(model).contains_all(gpus) {
            self.take(number);
            return None;
        }
        if gpus.iter().any(|gpu| view.is_loading(gpu)) {
            self.behind_others.push(gpus.first);
            return None;
        }
        let alone = self.instance.cluster.residency == Residency::Single;
        if alone && gpus.iter().any(|gpu| view.is_running(gpu)) || view.load_cost(model, gpus).is_none() {
            return None;
        }
        self.take(number);
        Some(Decision::Load { model, gpus, ahead_of: None })
    }
}

impl Policy for FollowSteps<'_> {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        if let Some(fallback) = &mut self.fallback {
            return fallback.ready(task, view);
        }
        self.ready[task] = true;
        let number = self.step_of[task];
        let gpus = self.steps[number as usize].gpus();
        if self.gone[number as usize] {
            // It failed: before anything else on its GPUs it is tried again.
            self.gone[number as usize] = false;
            gpus.iter().for_each(|gpu| self.lists[gpu].push_front(number));
        }
        self.look_at.push(gpus.first);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        if let Some(fallback) = &mut self.fallback {
            return fallback.decide(view);
        }
        if self.looked_at.replace(view.now()) != Some(view.now()) {
            self.look_at.append(&mut self.behind_others);
        }
        while self.holds.peek().is_some_and(|hold| hold.0.0 <= view.now()) {
            self.look_at.extend(self.holds.pop().map(|Reverse((_, gpu))| gpu));
        }
        while let Some(gpu) = self.look_at.pop() {
            if let Some(decision) = self.step(gpu, view) {
                return Some(decision);
            }
        }
        let &Reverse((at, _)) = self.holds.peek()?;
        (self.asked.replace(at) != Some(at)).then_some(Decision::Wake { at })
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        match &mut self.fallback {
            Some(fallback) => fallback.freed(gpus, view),
            None => self.look_at.extend(gpus.iter()),
        }
    }

    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        let waits = |&(task, &ready): &(TaskId, &bool)| ready && !self.gone[self.step_of[task] as usize];
        let waiting = self.ready.iter_enumerated().filter(waits).map(|(task, _)| task);
        Baseline::take_over(&mut self.fallback, waiting, view).lost(gpu, view);
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        if let Some(fallback) = &mut self.fallback {
            fallback.returned(gpu, view);
        }
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        if let Some(fallback) = &mut self.fallback {
            fallback.given_up(task, view);
        } else if !self.gone[self.step_of[task] as usize] {
            self.take(self.step_of[task]);
        }
    }
}
