//! How to react when execution times deviate from the plan.
//!
//! The plan stays the default. But GPUs that would be idle take ready work: their own, out of order, or that of GPUs
//! that are behind. A task moves if it starts so much sooner that the extra loads pay off, and only if its new GPUs are
//! free again when their own next task can start. How far the GPUs are ahead of the plan or behind it is known from
//! what started last on each; where the beliefs say how far off they may be, the moment at which GPUs fall free is
//! reckoned with on the careful side.
//!
//! When GPUs have diverged by a large part of the remaining work, or learned times differ from the planned ones, the
//! rest is replanned.

use super::{Plan, SearchLimits, TimedPlan};
use crate::engine::{TaskState, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;
use crate::rules::lists::Lists;
use crate::rules::{place, sketch};
use crate::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A start that differs by more than this from the plan's is none by the plan.
const TOLERANCE: u64 = 100_000;
/// How many ready tasks of each model are looked at, and how many idle GPUs.
const DEPTH: usize = 8;
const MOST_IDLE: usize = 32;
/// The chance that GPUs are free by the moment that is reckoned with: those that others are taken from ...
const SURELY_LATE: f64 = 0.35;
/// ... and those that a task's own next one waits for.
const SURELY_NEEDED: f64 = 0.35;
/// A new plan is looked into after every so many parts of the tasks.
const LOOKS: usize = 24;
/// It is made where GPUs have come apart by this part of what is left ...
const APART: f64 = 0.04;
/// ... or the factors of models by this much.
const LEARNED: f64 = 0.06;
/// How much shorter a new plan has to be.
const WORTH: f64 = 0.005;
/// With fewer tasks for each GPU a new plan gains nothing, and with more tasks in all it takes too long.
const FEWEST_PER_GPU: usize = 4;
const MOST_TASKS: usize = 50_000;

pub(super) struct Deviation {
    /// Ready tasks that have not been started, by the planned moment; some have started since.
    ready: IdVec<ModelId, BTreeSet<(Time, TaskId)>>,
    tiles: IdVec<ModelId, Vec<Gpus>>,
    /// The task that was started last on each GPU, where the plan has it there.
    last: IdVec<GpuId, Option<TaskId>>,
    /// The factors of the models when the plan was made.
    factors: IdVec<ModelId, f64>,
    /// Tasks that ended since a new plan was last looked into.
    ended: usize,
}

/// Whether a task that starts now does so by the plan.
pub(super) fn is_off(timed: &TimedPlan, task: TaskId, gpus: Gpus, view: &View<'_>) -> bool {
    let load = view.load_cost(view.instance().model_of(task), gpus).unwrap_or_default();
    (view.now() + load).0.abs_diff(timed.start[task].0) > TOLERANCE
}

impl Deviation {
    pub fn new(instance: &Instance, lists: &Lists<'_>, timed: &TimedPlan, view: &View<'_>) -> Deviation {
        let models = instance.models.len();
        let mut deviation = Deviation {
            ready: vec![BTreeSet::new(); models].into(),
            tiles: instance.models.iter().map(sketch::tiles).collect(),
            last: vec![None; instance.cluster.gpus as usize].into(),
            factors: vec![1.0; models].into(),
            ended: 0,
        };
        deviation.gather(lists, timed, view);
        deviation
    }

    fn gather(&mut self, lists: &Lists<'_>, timed: &TimedPlan, view: &View<'_>) {
        self.ready.iter_mut().for_each(BTreeSet::clear);
        for task in view.instance().task_ids().filter(|&task| view.state(task) == TaskState::Ready) {
            if !lists.is_gone(task) {
                self.ready(task, timed, view);
            }
        }
    }

    pub fn ready(&mut self, task: TaskId, timed: &TimedPlan, view: &View<'_>) {
        self.ready[view.instance().model_of(task)].insert((timed.start[task], task));
    }

    /// A task leaves its list, for the GPUs that the plan gives it or, `pulled`, for others.
    pub fn started(&mut self, task: TaskId, gpus: Gpus, pulled: bool, timed: &TimedPlan, view: &View<'_>) {
        self.ready[view.instance().model_of(task)].remove(&(timed.start[task], task));
        gpus.iter().for_each(|gpu| self.last[gpu] = (!pulled).then_some(task));
    }

    pub fn given_up(&mut self, task: TaskId, timed: &TimedPlan, view: &View<'_>) {
        self.ready[view.instance().model_of(task)].remove(&(timed.start[task], task));
    }

    pub fn ended(&mut self) {
        self.ended += 1;
    }

    /// A ready task for GPUs that would stand idle; call it when the lists have nothing to start.
    pub fn pull(
        &mut self,
        lists: &mut Lists<'_>,
        timed: &TimedPlan,
        view: &View<'_>,
    ) -> Option<(TaskId, Gpus)> {
        if view.idle().is_empty() || self.ready.iter().all(BTreeSet::is_empty) {
            return None;
        }
        let idle = view.idle().iter().take(MOST_IDLE);
        let idle: Vec<(GpuId, Time)> =
            idle.map(|gpu| (gpu, self.needed_at(lists, timed, gpu, view))).collect();
        let mut best: Option<(u64, TaskId, Gpus)> = None;
        for model in view.instance().models.keys() {
            if self.ready[model].is_empty() {
                continue;
            }
            let Some((gpus, load)) = self.place(&idle, model, view) else { continue };
            let here = view.now() + load;
            let back = gpus.iter().map(|gpu| way_back(lists, model, gpu, view)).max().unwrap_or_default();
            let needed = gpus.iter().map(|gpu| self.needed_at(lists, timed, gpu, view)).min();
            for &(_, task) in self.ready[model].iter().take(DEPTH) {
                let sooner = self.begins_at_home(lists, timed, task, view).since(here);
                let gain = sooner.0.saturating_sub((load + back).0);
                let ends = here + view.expected(task) + back;
                let fits = needed.is_none_or(|needed| ends <= needed);
                if fits && gain > TOLERANCE && best.is_none_or(|(most, ..)| gain > most) {
                    best = Some((gain, task, gpus));
                }
            }
        }
        best.map(|(_, task, gpus)| (task, gpus))
    }

    /// The idle window on which a model is there soonest, of those that are not needed before that; among equals the one
    /// that is free for longest.
    fn place(&self, idle: &[(GpuId, Time)], model: ModelId, view: &View<'_>) -> Option<(Gpus, Span)> {
        if view.instance().models[model].gpus > 1 {
            return place::cheapest_within(view, model, view.idle(), &self.tiles[model]);
        }
        let costed = idle.iter().filter_map(|&(first, needed)| {
            let gpus = Gpus { first, count: 1 };
            let load = view.load_cost(model, gpus)?;
            (view.now() + load < needed).then_some((load, Reverse(needed), gpus))
        });
        costed.min().map(|(load, _, gpus)| (gpus, load))
    }

    /// How far a GPU is behind the plan, in microseconds; less than nothing where it is ahead.
    fn behind(&self, lists: &mut Lists<'_>, timed: &TimedPlan, gpu: GpuId, view: &View<'_>) -> i64 {
        let apart = |real: Time, planned: Time| real.0 as i64 - planned.0 as i64;
        match (self.last[gpu].filter(|_| view.is_running(gpu)), lists.first(gpu)) {
            (Some(last), _) => apart(view.free_by(gpu, SURELY_LATE), timed.end[last]),
            (None, Some(next)) => apart(view.free_by(gpu, SURELY_LATE), timed.start[next]),
            (None, None) => 0,
        }
    }

    /// When a task will begin where the plan has it, as far as its GPUs are concerned.
    fn begins_at_home(
        &self,
        lists: &mut Lists<'_>,
        timed: &TimedPlan,
        task: TaskId,
        view: &View<'_>,
    ) -> Time {
        let behind = lists.window(task).iter().map(|gpu| self.behind(lists, timed, gpu, view)).max();
        let at = timed.start[task].0 as i64 + behind.unwrap_or(0);
        Time(at.max(0) as u64).max(view.now())
    }

    /// When the next task of a GPU's own list can begin.
    fn needed_at(&self, lists: &mut Lists<'_>, timed: &TimedPlan, gpu: GpuId, view: &View<'_>) -> Time {
        let Some(task) = lists.first(gpu) else { return Time::NEVER };
        let window = lists.window(task);
        let free = window.iter().map(|gpu| view.free_by(gpu, SURELY_NEEDED)).max().unwrap_or(Time::ZERO);
        // In a window of several GPUs the others may have something else to do first.
        let others = window.iter().filter(|&other| lists.first(other) != Some(task));
        let others: Vec<GpuId> = others.collect();
        let turn = others.into_iter().map(|_| self.begins_at_home(lists, timed, task, view)).max();
        let inputs = view.instance().predecessors(task).map(|before| match view.state(before) {
            TaskState::Running => self.ends_at(before, lists, view),
            TaskState::Waiting | TaskState::Ready | TaskState::Held => {
                self.begins_at_home(lists, timed, before, view) + view.quantile(before, SURELY_NEEDED)
            }
            TaskState::Done | TaskState::GivenUp => view.now(),
        });
        let inputs = inputs.max().unwrap_or(Time::ZERO);
        free.max(inputs).max(turn.unwrap_or(Time::ZERO))
    }

    fn ends_at(&self, task: TaskId, lists: &Lists<'_>, view: &View<'_>) -> Time {
        view.free_by(lists.window(task).first, SURELY_NEEDED)
    }

    /// A plan for the rest, if it is likely to pay off.
    pub fn plan_anew(
        &mut self,
        lists: &mut Lists<'_>,
        timed: &TimedPlan,
        view: &View<'_>,
    ) -> Option<(Plan, TimedPlan)> {
        let instance = view.instance();
        if self.ended < instance.tasks() / LOOKS {
            return None;
        }
        self.ended = 0;
        let gpus: Vec<GpuId> = view.alive().iter().collect();
        let open = view.open_tasks();
        if open > MOST_TASKS
            || open < FEWEST_PER_GPU * gpus.len()
            || gpus.len() < instance.cluster.gpus as usize
        {
            return None;
        }
        let behind: Vec<i64> = gpus.iter().map(|&gpu| self.behind(lists, timed, gpu, view)).collect();
        let (least, most) = (behind.iter().min()?, behind.iter().max()?);
        let left = (timed.makespan.0 as i64 + most - view.now().0 as i64).max(1);
        let apart = (most - least) as f64 / left as f64;
        let learned = instance.models.keys().map(|model| view.learned_factor(model) / self.factors[model]);
        let (low, high) =
            learned.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), by| (low.min(by), high.max(by)));
        if apart < APART && high / low < 1.0 + LEARNED {
            return None;
        }
        for (model, factor) in self.factors.iter_mut_enumerated() {
            *factor = view.learned_factor(model);
        }
        let is_left = |task: TaskId| matches!(view.state(task), TaskState::Waiting | TaskState::Ready);
        let (rest, numbers) = instance.rest(is_left, |task| view.expected(task));
        let limits = SearchLimits { rounds: 2, sooner: false, ..SearchLimits::default() };
        let found = super::search_only(&rest, &limits, &mut |_| {}).plan;
        let short = TimedPlan::of(&rest, &found);
        // The old plan for the same tasks, by the same beliefs and from empty GPUs too: only then the two can be compared.
        let mut old: Vec<_> =
            numbers.iter_enumerated().map(|(task, &number)| (timed.start[number], task)).collect();
        old.sort_unstable();
        let old = Plan(old.into_iter().map(|(_, task)| (task, lists.window(numbers[task]))).collect());
        if short.makespan.0 as f64 > TimedPlan::of(&rest, &old).makespan.0 as f64 * (1.0 - WORTH) {
            return None;
        }
        let mut new = timed.clone();
        for (task, &number) in numbers.iter_enumerated() {
            let at = |time: Time| view.now() + Span(time.0);
            (new.start[number], new.end[number]) = (at(short.start[task]), at(short.end[task]));
        }
        new.makespan = view.now() + Span(short.makespan.0);
        Some((Plan(found.0.iter().map(|&(task, gpus)| (numbers[task], gpus)).collect()), new))
    }

    /// The new plan is in the lists.
    pub fn renewed(&mut self, lists: &Lists<'_>, timed: &TimedPlan, view: &View<'_>) {
        // What runs now is no part of it.
        self.last.iter_mut().for_each(|last| *last = None);
        self.gather(lists, timed, view);
    }
}

/// What it takes to bring the model of a GPU's next task back once another has been there.
fn way_back(lists: &mut Lists<'_>, other: ModelId, gpu: GpuId, view: &View<'_>) -> Span {
    let Some(next) = lists.first(gpu) else { return Span::ZERO };
    let (instance, model) = (view.instance(), view.instance().model_of(next));
    if model == other {
        return Span::ZERO;
    }
    let (new, old) = (&instance.models[model], &instance.models[other]);
    let again = instance.cluster.switch.of(Some(old.leaving()), new.memory_gb, new.load_seconds);
    // What has to come over in any case is no cost of the detour.
    let anyway = view.load_cost(model, lists.window(next)).unwrap_or_default();
    Span(again.0.saturating_sub(anyway.0))
}
