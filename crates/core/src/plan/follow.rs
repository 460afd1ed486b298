//! Follows a plan: the tasks of each GPU in the order of the plan.
//!
//! Where GPUs stand idle before a task whose inputs are not there yet, its model is brought over meanwhile, just in time for
//! the moment at which the plan expects the inputs. When a GPU is lost the plan is void and the rule of `baseline` takes
//! over.
//!
//! Where executions take other times than was expected, the plan is bent, or made anew: see [`super::deviation`].
//!
//! Cost: O(1) per task as long as all goes by the plan.

use super::deviation::{self, Deviation};
use super::{Plan, TimedPlan};
use crate::engine::{Decision, Policy, View};
use crate::id::{GpuId, Gpus, TaskId};
use crate::instance::{Instance, Residency};
use crate::rules::lists::Lists;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Runs a [`Plan`].
pub struct Follow<'i> {
    lists: Lists<'i>,
    /// The times that the plan leads to, where loads can be timed by them.
    timed: Option<TimedPlan>,
    /// Loads to begin, by the time at which to begin them.
    to_load: BinaryHeap<Reverse<(Time, TaskId)>>,
    prepared: Vec<bool>,
    /// The time for which a wake-up was asked last.
    wakes_at: Option<Time>,
    begun: bool,
    /// Whether the plan is followed whatever happens.
    strict: bool,
    /// What is kept once the run does not go by the plan.
    deviation: Option<Deviation>,
}

impl<'i> Follow<'i> {
    /// Ready to run `plan`, which must hold every task of the problem once.
    #[must_use]
    pub fn new(instance: &'i Instance, plan: &Plan) -> Follow<'i> {
        let lists = Lists::of(instance, &plan.0);
        let single = instance.cluster.residency == Residency::Single;
        let unbatched = instance.models.iter().all(|model| model.max_batch() == 1);
        let timed = (single && unbatched).then(|| TimedPlan::of(instance, plan));
        Follow {
            lists,
            timed,
            to_load: BinaryHeap::new(),
            prepared: vec![false; instance.tasks()],
            wakes_at: None,
            begun: false,
            strict: false,
            deviation: None,
        }
    }

    /// Follows the plan strictly, however late it is: a yardstick.
    #[must_use]
    pub fn strictly(self) -> Follow<'i> {
        Follow { strict: true, ..self }
    }

    /// A task starts where the plan has it, if not when.
    fn started(&mut self, start: Decision, view: &View<'_>) {
        let (Some(timed), Decision::Start { task, gpus }) = (&self.timed, start) else { return };
        if self.strict || self.lists.is_void() {
            return;
        }
        if self.deviation.is_none() && deviation::is_off(timed, task, gpus, view) {
            self.deviation = Some(Deviation::new(view.instance(), &self.lists, timed, view));
        }
        if let Some(deviation) = &mut self.deviation {
            deviation.started(task, gpus, false, timed, view);
        }
    }

    /// What the run does otherwise than planned: GPUs that would stand idle take other work, or there is a new plan.
    fn bend(&mut self, view: &View<'_>) -> Option<Decision> {
        let (Some(deviation), Some(timed)) = (&mut self.deviation, &mut self.timed) else { return None };
        if self.lists.is_void() {
            return None;
        }
        if let Some((plan, new)) = deviation.plan_anew(&mut self.lists, timed, view) {
            *timed = new;
            self.lists.renew(&plan.0);
            deviation.renewed(&self.lists, timed, view);
            self.to_load.clear();
            self.prepared.iter_mut().for_each(|prepared| *prepared = false);
            if let Some(Decision::Start { task, gpus }) = self.lists.decide(view) {
                deviation.started(task, gpus, false, timed, view);
                return Some(Decision::Start { task, gpus });
            }
        }
        let (task, gpus) = deviation.pull(&mut self.lists, timed, view)?;
        self.lists.take_to(task, gpus);
        deviation.started(task, gpus, true, timed, view);
        Some(Decision::Start { task, gpus })
    }

    /// Looks at the GPUs of a window that fell idle: if the next task waits for inputs, its model can come over.
    fn prepare(&mut self, gpus: Gpus, view: &View<'_>) {
        if self.lists.is_void() {
            return;
        }
        for gpu in gpus.iter() {
            let Some(task) = self.lists.first(gpu) else { continue };
            if self.lists.is_ready(task) || self.prepared[task.index()] {
                continue;
            }
            let window = self.lists.window(task);
            let first_everywhere = window.iter().all(|gpu| self.lists.first(gpu) == Some(task));
            if !first_everywhere || !view.idle().contains_all(window) {
                continue;
            }
            let (Some(timed), Some(span)) =
                (&self.timed, view.load_cost(view.instance().model_of(task), window))
            else {
                continue;
            };
            if span.0 > 0 {
                self.prepared[task.index()] = true;
                let begin = Time(timed.start[task].0.saturating_sub(span.0)).max(view.now());
                self.to_load.push(Reverse((begin, task)));
            }
        }
    }
}

impl Policy for Follow<'_> {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        self.lists.ready(task, view);
        if let (Some(deviation), Some(timed)) = (&mut self.deviation, &self.timed) {
            deviation.ready(task, timed, view);
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        if let Some(start) = self.lists.decide(view) {
            self.started(start, view);
            return Some(start);
        }
        if let Some(start) = self.bend(view) {
            return Some(start);
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.prepare(Gpus::new(0, view.instance().cluster.gpus), view);
        }
        while let Some(&Reverse((begin, task))) = self.to_load.peek() {
            if self.lists.is_void() {
                self.to_load.clear();
                break;
            }
            let gpus = self.lists.window(task);
            // Its inputs came sooner than expected, and it has started: nothing is left to prepare.
            if self.lists.first(gpus.first) != Some(task) || !view.idle().contains_all(gpus) {
                self.to_load.pop();
                continue;
            }
            if begin > view.now() {
                let asked = self.wakes_at.replace(begin) == Some(begin);
                return (!asked).then_some(Decision::Wake { at: begin });
            }
            self.to_load.pop();
            let model = view.instance().model_of(task);
            if view.holding(model).contains_all(gpus) {
                continue;
            }
            return Some(Decision::Load { model, gpus, ahead_of: Some(task) });
        }
        None
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        self.lists.freed(gpus, view);
        self.deviation.iter_mut().for_each(Deviation::ended);
        self.prepare(gpus, view);
    }

    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lists.lost(gpu, view);
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lists.returned(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.lists.given_up(task, view);
        if let (Some(deviation), Some(timed)) = (&mut self.deviation, &self.timed) {
            deviation.given_up(task, timed, view);
        }
    }
}
