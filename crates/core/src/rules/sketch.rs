//! A rough plan: where tasks go and when they would run, reckoned without the engine. Several policies start from one.

use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::{Instance, Model, Residency, apart};
use crate::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Windows of a model that do not overlap, from the first GPU on.
pub(crate) fn tiles(model: &Model) -> Vec<Gpus> {
    model.tiles()
}

/// The same for all models, of the GPUs that are left.
pub(crate) fn tiles_left(instance: &Instance, alive: &GpuSet) -> IdVec<ModelId, Vec<Gpus>> {
    let left = |model: &Model| apart(model.windows().filter(|&window| alive.contains_all(window)));
    instance.models.iter().map(left).collect()
}

pub(crate) struct Sketch<'i> {
    instance: &'i Instance,
    free_at: IdVec<GpuId, Time>,
    /// The model that each GPU will hold; where several can share it, all that came so far.
    held: IdVec<GpuId, Vec<ModelId>>,
    /// When each task would end.
    end: IdVec<TaskId, Time>,
    tiles: IdVec<ModelId, Vec<Gpus>>,
    /// What was placed, in the order in which it was.
    pub placed: Vec<(TaskId, Gpus)>,
}

impl<'i> Sketch<'i> {
    pub fn new(instance: &'i Instance) -> Sketch<'i> {
        let gpus = instance.cluster.gpus as usize;
        Sketch {
            instance,
            free_at: vec![Time::ZERO; gpus].into(),
            held: vec![Vec::new(); gpus].into(),
            end: vec![Time::ZERO; instance.tasks()].into(),
            tiles: instance.models.iter().map(tiles).collect(),
            placed: Vec::with_capacity(instance.tasks()),
        }
    }

    pub fn instance(&self) -> &'i Instance {
        self.instance
    }

    /// Other windows for what is placed from now on.
    pub fn set_windows(&mut self, windows: IdVec<ModelId, Vec<Gpus>>) {
        self.tiles = windows;
    }

    /// GPU-seconds that `rest` can do until the first of `blocks` has nothing left to do.
    pub fn backlog(&self, blocks: &[Gpus], rest: &GpuSet) -> f64 {
        let until = blocks.iter().map(|&block| self.free_at(block)).min().unwrap_or(Time::ZERO);
        rest.iter().map(|gpu| until.since(self.free_at[gpu]).seconds()).sum()
    }

    /// When the first of some GPUs is free.
    pub fn first_free(&self, gpus: &GpuSet) -> Time {
        gpus.iter().map(|gpu| self.free_at[gpu]).min().unwrap_or(Time::ZERO)
    }

    /// Whether all inputs of a task are planned, and there by then.
    pub fn is_ready_by(&self, task: TaskId, by: Time) -> bool {
        let mut inputs = self.instance.predecessors(task).map(|before| self.end[before]);
        inputs.all(|end| end > Time::ZERO && end <= by)
    }

    /// How many replicas of a model there can be at once.
    pub fn replicas(&self, model: ModelId) -> usize {
        self.tiles[model].len()
    }

    /// What bringing a model onto a window would take after what was placed so far.
    pub fn switch(&self, model: ModelId, gpus: Gpus) -> Span {
        let (instance, spec) = (self.instance, &self.instance.models[model]);
        let costs = gpus.iter().map(|gpu| {
            let held = &self.held[gpu];
            if held.contains(&model) {
                return Span::ZERO;
            }
            let leaving = match instance.cluster.residency {
                Residency::Single => held.last().map(|&old| instance.models[old].leaving()),
                Residency::Memory => None,
            };
            instance.cluster.switch.of(leaving, spec.memory_gb, spec.load_seconds)
        });
        costs.max().unwrap_or(Span::ZERO)
    }

    /// When all of a window is free.
    pub fn free_at(&self, gpus: Gpus) -> Time {
        self.free_at.raw[gpus.range()].iter().copied().max().unwrap_or(Time::ZERO)
    }

    /// When a task's inputs would be there.
    pub fn ready_at(&self, task: TaskId) -> Time {
        let inputs = self.instance.predecessors(task).map(|before| self.end[before]).max();
        inputs.unwrap_or(self.instance.requests[self.instance.request_of(task)].arrival)
    }

    /// Puts a task on a window, behind what is there; its model comes over first.
    pub fn place(&mut self, task: TaskId, gpus: Gpus) -> Time {
        let model = self.instance.model_of(task);
        let loaded = self.free_at(gpus) + self.switch(model, gpus);
        let end = loaded.max(self.ready_at(task)) + self.instance.execution(task);
        for gpu in gpus.iter() {
            self.free_at[gpu] = end;
            if self.instance.cluster.residency == Residency::Single {
                self.held[gpu].clear();
            }
            if !self.held[gpu].contains(&model) {
                self.held[gpu].push(model);
            }
        }
        self.end[task] = end;
        self.placed.push((task, gpus));
        end
    }

    /// The window where a model could begin soonest.
    pub fn soonest(&self, model: ModelId) -> Gpus {
        let windows = self.tiles[model].iter().copied();
        let best = windows.min_by_key(|&gpus| (self.free_at(gpus) + self.switch(model, gpus), gpus.first));
        best.expect("a model that is used has a window")
    }

    /// Places tasks of one model, each on the window where it could begin soonest: load balanced, with the switch paid once
    /// per window. O(windows + n log windows).
    pub fn place_group(&mut self, model: ModelId, tasks: impl Iterator<Item = TaskId>) {
        let windows = self.tiles[model].iter();
        let begins = |gpus: Gpus| self.free_at(gpus) + self.switch(model, gpus);
        let mut heap: BinaryHeap<Reverse<(Time, Gpus)>> =
            windows.map(|&gpus| Reverse((begins(gpus), gpus))).collect();
        for task in tasks {
            let Some(mut soonest) = heap.peek_mut() else { return };
            let gpus = soonest.0.1;
            soonest.0.0 = self.place(task, gpus);
        }
    }
}

/// Tasks by level and model, each group in order of priority and then of the file.
pub(crate) fn groups(instance: &Instance, tasks: &[TaskId]) -> Vec<Vec<(ModelId, Vec<TaskId>)>> {
    let mut levels: Vec<IdVec<ModelId, Vec<TaskId>>> = Vec::new();
    for &task in tasks {
        let level = instance.level_of(task) as usize;
        while levels.len() <= level {
            levels.push(vec![Vec::new(); instance.models.len()].into());
        }
        levels[level][instance.model_of(task)].push(task);
    }
    let priority = |task: &TaskId| Reverse(instance.requests[instance.request_of(*task)].priority);
    let tidy = |level: IdVec<ModelId, Vec<TaskId>>| {
        let mut groups: Vec<(ModelId, Vec<TaskId>)> =
            level.into_iter_enumerated().filter(|(_, tasks)| !tasks.is_empty()).collect();
        groups.iter_mut().for_each(|(_, tasks)| tasks.sort_by_key(priority));
        groups
    };
    levels.into_iter().map(tidy).collect()
}
