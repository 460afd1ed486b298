//! What a policy may see: the present, the past and the inputs, never the future.

use super::Engine;
use super::state::TaskState;
use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus, ModelId, TaskId};
use crate::instance::{Instance, Residency};
use crate::time::{Span, Time};

/// A look at the state of a run.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(super) engine: &'a Engine<'a>,
    part: Option<&'a Part>,
}

/// A part of the GPUs, as the whole cluster of a policy that shares it with another.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    alive: GpuSet,
    idle: GpuSet,
}

impl Part {
    /// These GPUs.
    pub fn new(gpus: GpuSet) -> Part {
        Part { idle: gpus.clone(), alive: gpus }
    }

    pub fn insert(&mut self, gpu: GpuId) {
        self.alive.insert(gpu);
    }

    pub fn remove(&mut self, gpu: GpuId) {
        self.alive.remove(gpu);
    }

    /// Brings up to date which of them are idle.
    pub fn look(&mut self, view: &View<'_>) {
        self.idle.clone_from(view.idle());
        self.idle.keep(&self.alive);
    }
}

/// A task that executes, or waits on its GPUs for its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningTask {
    /// The task.
    pub task: TaskId,
    /// Where.
    pub gpus: Gpus,
    /// Since when it executes; `None` while its model is being loaded.
    pub began: Option<Time>,
}

impl<'a> View<'a> {
    pub(super) fn new(engine: &'a Engine<'a>) -> View<'a> {
        View { engine, part: None }
    }

    /// The same look, with the GPUs of a part alone: the others count as lost.
    pub(crate) fn within<'b>(&self, part: &'b Part) -> View<'b>
    where
        'a: 'b,
    {
        View { engine: self.engine, part: Some(part) }
    }

    /// The problem. Requests that have not arrived are in it: a policy for streams must not look at them.
    #[must_use]
    pub fn instance(&self) -> &'a Instance {
        &self.engine.instance
    }

    /// The present.
    #[must_use]
    pub fn now(&self) -> Time {
        self.engine.now
    }

    /// GPUs that were not lost.
    #[must_use]
    pub fn alive(&self) -> &'a GpuSet {
        self.part.map_or(&self.engine.alive, |part| &part.alive)
    }

    /// GPUs on which nothing executes or loads.
    #[must_use]
    pub fn idle(&self) -> &'a GpuSet {
        self.part.map_or(&self.engine.idle, |part| &part.idle)
    }

    /// GPUs that never held a model, or hold none any more.
    #[must_use]
    pub fn empty(&self) -> &'a GpuSet {
        &self.engine.empty
    }

    /// GPUs that hold `model`.
    #[must_use]
    pub fn holding(&self, model: ModelId) -> &'a GpuSet {
        &self.engine.holding[model]
    }

    /// Whether `model` is on these GPUs, and nothing that executes or loads there keeps it from executing.
    #[must_use]
    pub fn can_execute(&self, model: ModelId, gpus: Gpus) -> bool {
        self.holding(model).contains_all(gpus)
            && !gpus.iter().any(|gpu| self.is_running(gpu))
            && self.engine.clashing_load(model, gpus).is_none()
    }

    /// First GPUs of the replicas of `model` that are at work and have room in their batch.
    #[must_use]
    pub fn joinable(&self, model: ModelId) -> &'a GpuSet {
        &self.engine.joinable[model]
    }

    /// Executions on the replica that starts at `lead`.
    #[must_use]
    pub fn batch_at(&self, lead: GpuId) -> u32 {
        self.engine.runs[lead].members.len() as u32
    }

    /// The tasks that wait for the load of the window that starts at `lead`.
    pub fn waiting_at(&self, lead: GpuId) -> impl Iterator<Item = TaskId> + 'a {
        let run = &self.engine.runs[lead];
        run.members.iter().filter(|_| run.loading).map(|member| member.task)
    }

    /// The model that came onto a GPU last, where it holds one.
    #[must_use]
    pub fn resident(&self, gpu: GpuId) -> Option<ModelId> {
        self.engine.gpus[gpu].residents.last().map(|resident| resident.model)
    }

    /// Where a task stands.
    #[must_use]
    pub fn state(&self, task: TaskId) -> TaskState {
        self.engine.tasks[task].state
    }

    /// When a task became ready, if it is.
    #[must_use]
    pub fn ready_at(&self, task: TaskId) -> Time {
        self.engine.tasks[task].ready_at
    }

    /// How often a task has failed.
    #[must_use]
    pub fn failures(&self, task: TaskId) -> u32 {
        self.engine.tries.get(&task).map_or(0, |tries| tries.failed)
    }

    /// The time to load `model` onto these GPUs now; zero if it is loaded there, `None` if running executions leave no
    /// room.
    #[must_use]
    pub fn load_cost(&self, model: ModelId, gpus: Gpus) -> Option<Span> {
        if self.engine.holding[model].contains_all(gpus) {
            return Some(Span::ZERO);
        }
        self.engine.plan_load(model, gpus).ok().map(|plan| plan.span)
    }

    /// Whether loading `model` onto these GPUs now would have a model leave for which `keeps` holds, or cannot be done.
    #[must_use]
    pub fn load_takes_off(&self, model: ModelId, gpus: Gpus, keeps: impl Fn(ModelId) -> bool) -> bool {
        let holds = |model: ModelId| gpus.iter().any(|gpu| self.engine.holding[model].contains(gpu));
        match (self.engine.plan_load(model, gpus), self.instance().cluster.residency) {
            (Err(_), _) => true,
            (Ok(plan), Residency::Memory) => plan.evicted.into_iter().any(keeps),
            (Ok(_), Residency::Single) => {
                self.instance().models.keys().any(|other| other != model && holds(other) && keeps(other))
            }
        }
    }

    /// The models that would leave these GPUs, all or some of them, if `model` were loaded there now.
    #[must_use]
    pub fn evicted_by(&self, model: ModelId, gpus: Gpus) -> Vec<ModelId> {
        let holds = |other: ModelId| gpus.iter().any(|gpu| self.engine.holding[other].contains(gpu));
        match (self.engine.plan_load(model, gpus), self.instance().cluster.residency) {
            (Err(_), _) => Vec::new(),
            (Ok(plan), Residency::Memory) => plan.evicted,
            (Ok(_), Residency::Single) => {
                self.instance().models.keys().filter(|&other| other != model && holds(other)).collect()
            }
        }
    }

    /// How long a task is expected to take at batch 1, by the estimates and by what was learned since.
    #[must_use]
    pub fn expected(&self, task: TaskId) -> Span {
        self.engine.expected(task)
    }

    /// The time that a share `p` of tasks like this one do not exceed at batch 1.
    #[must_use]
    pub fn quantile(&self, task: TaskId, p: f64) -> Span {
        self.engine.believed(task).quantile(p)
    }

    /// Uncertainty of a task's expected time, as the standard deviation of the logarithm; 0 if it is considered
    /// certain.
    #[must_use]
    pub fn spread(&self, task: TaskId) -> f64 {
        self.engine.believed(task).spread
    }

    /// Whether all expected times equal the estimates.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.engine.is_certain
    }

    /// The learned correction of a model's estimates.
    #[must_use]
    pub fn learned_factor(&self, model: ModelId) -> f64 {
        self.engine.beliefs[model].factor
    }

    /// When what executes or loads on a GPU is expected to end; now, where there is nothing.
    #[must_use]
    pub fn free_at(&self, gpu: GpuId) -> Time {
        self.engine.expected_free(gpu)
    }

    /// A moment by which what executes or loads on a GPU has ended with chance `p`, given that it has not yet; the expected
    /// one where times are taken to be certain.
    #[must_use]
    pub fn free_by(&self, gpu: GpuId, p: f64) -> Time {
        self.engine.free_by(gpu, p)
    }

    /// Since when a GPU is idle (or, where it is not, was idle last).
    #[must_use]
    pub fn idle_since(&self, gpu: GpuId) -> Time {
        self.engine.gpus[gpu].idle_since
    }

    /// How long a GPU has loaded for and executed what has ended.
    #[must_use]
    pub fn busy(&self, gpu: GpuId) -> Span {
        self.engine.gpus[gpu].busy
    }

    /// Whether a load goes on there.
    #[must_use]
    pub fn is_loading(&self, gpu: GpuId) -> bool {
        self.engine.gpus[gpu].load.is_some()
    }

    /// The model whose load goes on there.
    #[must_use]
    pub fn being_loaded(&self, gpu: GpuId) -> Option<ModelId> {
        let lead = self.engine.gpus[gpu].load?;
        self.engine.loads[lead].as_ref().map(|load| load.model)
    }

    /// Everything that executes, or waits on its GPUs for its model.
    pub fn under_way(&self) -> impl Iterator<Item = RunningTask> + 'a {
        let engine = self.engine;
        let active = engine.runs.iter().filter(|run| run.is_active());
        active.flat_map(move |run| {
            run.members.iter().map(move |member| RunningTask {
                task: member.task,
                gpus: run.gpus,
                began: (!run.loading).then_some(member.start),
            })
        })
    }

    /// The loads that go on, each with when it began and when it is expected to end.
    pub fn loads(&self) -> impl Iterator<Item = (ModelId, Gpus, Time, Time)> + 'a {
        let engine = self.engine;
        engine.loads.iter().flatten().map(move |load| {
            (load.model, load.gpus, load.start, engine.runs[load.gpus.first].expected_load_end)
        })
    }

    /// The load that covers a GPU: its model, its window and when it began.
    #[must_use]
    pub fn load_on(&self, gpu: GpuId) -> Option<(ModelId, Gpus, Time)> {
        let load = self.engine.loads[self.engine.gpus[gpu].load?].as_ref()?;
        Some((load.model, load.gpus, load.start))
    }

    /// The models on a GPU, those that were used last at the end.
    #[must_use]
    pub fn residents(&self, gpu: GpuId) -> Vec<ModelId> {
        let mut residents = self.engine.gpus[gpu].residents.clone();
        residents.sort_by_key(|resident| (resident.last_used, resident.model));
        residents.into_iter().map(|resident| resident.model).collect()
    }

    /// Whether a model is on some GPU, and neither executes nor loads anywhere.
    #[must_use]
    pub fn may_dismiss(&self, model: ModelId) -> bool {
        self.engine.may_dismiss(model)
    }

    /// When a model that is on some GPU was used last, or came.
    #[must_use]
    pub fn last_used(&self, model: ModelId) -> Option<Time> {
        let there = self.holding(model).iter().flat_map(|gpu| &self.engine.gpus[gpu].residents);
        there.filter(|resident| resident.model == model).map(|resident| resident.last_used).max()
    }

    /// Whether a replica executes there, or waits there for its load.
    #[must_use]
    pub fn is_running(&self, gpu: GpuId) -> bool {
        self.engine.gpus[gpu].run.is_some()
    }

    /// The model that executes on a GPU, or that tasks wait there for.
    pub(crate) fn running(&self, gpu: GpuId) -> Option<ModelId> {
        self.engine.gpus[gpu].run.map(|lead| self.engine.runs[lead].model)
    }

    /// Tasks that are neither finished nor given up.
    #[must_use]
    pub fn open_tasks(&self) -> usize {
        self.engine.open
    }
}
