//! Some requests on some GPUs, flattened for speed: an order of tasks becomes a schedule in tens of nanoseconds a task.
//!
//! Each task in turn goes to the window where `start + thrift x (start - free)` is least: the earliest start, unless that
//! wastes GPU-time on switching or waiting that another window would not.

use super::decode::{EMPTY, SwitchTable};
use super::phases;
use crate::id::{Gpus, ModelId, RequestId, TaskId};
use crate::instance::Instance;
use rustc_hash::FxHashMap;

/// A cell's problem. Tasks are numbered from 0, request after request.
pub(super) struct Cell {
    pub gpus: Gpus,
    pub requests: Vec<RequestId>,
    /// The tasks, as the whole problem numbers them.
    pub tasks: Vec<TaskId>,
    execution: Vec<u64>,
    arrival: Vec<u64>,
    model: Vec<u32>,
    first_input: Vec<u32>,
    inputs: Vec<u32>,
    /// The kind of each task: those of one model in one phase. A solution says on which windows each kind may run.
    kind: Vec<u32>,
    /// The phase and model of each kind.
    kinds: Vec<(u32, u32)>,
    /// Per model: the first GPUs of its windows, counted from the first GPU of the cell.
    windows: Vec<Vec<u32>>,
    width: Vec<u32>,
}

/// The room that decoding needs, kept between calls.
#[derive(Clone, Default)]
pub(super) struct Scratch {
    free: Vec<u64>,
    held: Vec<u32>,
    end: Vec<u64>,
    pub start: Vec<u64>,
    pub window: Vec<u32>,
}

/// What the search chooses.
#[derive(Clone)]
pub(super) struct Choice {
    /// The tasks, inputs before what needs them.
    pub order: Vec<u32>,
    /// The windows that each kind of task may run on.
    pub windows: Vec<Vec<u32>>,
    /// How much waste counts against an early start.
    pub thrift: f64,
}

/// What an order leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    pub makespan: u64,
    /// The mean of the GPUs' last ends: what is left to gain when the makespan stands still.
    pub mean_end: u64,
}

impl Outcome {
    /// What the search lowers: mostly the makespan, a little the rest.
    pub fn energy(self) -> f64 {
        self.makespan as f64 + 0.25 * self.mean_end as f64
    }
}

impl Cell {
    pub fn new(instance: &Instance, requests: Vec<RequestId>, gpus: Gpus) -> Cell {
        let tasks: Vec<TaskId> = requests.iter().flat_map(|&request| instance.tasks_of(request)).collect();
        let mut cell = Cell {
            gpus,
            execution: tasks.iter().map(|&task| instance.execution(task).0).collect(),
            arrival: tasks
                .iter()
                .map(|&task| instance.requests[instance.request_of(task)].arrival.0)
                .collect(),
            model: tasks.iter().map(|&task| instance.model_of(task).0).collect(),
            first_input: vec![0],
            inputs: Vec::new(),
            kind: Vec::new(),
            kinds: Vec::new(),
            windows: instance.models.iter().map(|model| tiles_within(model, gpus)).collect(),
            width: instance.models.iter().map(|model| model.gpus).collect(),
            requests,
            tasks,
        };
        let mut offset = 0;
        for &request in &cell.requests {
            let first = instance.requests[request].first_task.0;
            let count = instance.tasks_of(request).count() as u32;
            for task in instance.tasks_of(request) {
                cell.inputs.extend(instance.predecessors(task).map(|before| before.0 - first + offset));
                cell.first_input.push(cell.inputs.len() as u32);
            }
            offset += count;
        }
        let phases = phases::of(instance);
        let mut numbers: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        for (at, &task) in cell.tasks.iter().enumerate() {
            let key = (phases.of(instance, task), cell.model[at]);
            let next = numbers.len() as u32;
            let number = *numbers.entry(key).or_insert(next);
            if number == next {
                cell.kinds.push(key);
            }
            cell.kind.push(number);
        }
        cell
    }

    /// Every window for every kind of task.
    pub fn all_windows(&self) -> Vec<Vec<u32>> {
        (0..self.kinds.len()).map(|kind| self.windows_of(kind).to_vec()).collect()
    }

    /// The windows that another cell of the same GPUs chose for the same kinds of task.
    pub fn windows_like(&self, other: &Cell, choice: &Choice) -> Vec<Vec<u32>> {
        let chosen = |kind: &(u32, u32)| {
            other.kinds.iter().position(|of| of == kind).map(|at| choice.windows[at].clone())
        };
        let all = |&(_, model): &(u32, u32)| self.windows[model as usize].clone();
        self.kinds.iter().map(|kind| chosen(kind).unwrap_or_else(|| all(kind))).collect()
    }

    /// The windows that a kind of task can run on at all.
    pub fn windows_of(&self, kind: usize) -> &[u32] {
        &self.windows[self.kinds[kind].1 as usize]
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether every task has a window here.
    pub fn holds_all(&self) -> bool {
        self.model.iter().all(|&model| !self.windows[model as usize].is_empty())
    }

    pub fn inputs(&self, task: u32) -> &[u32] {
        &self.inputs[self.first_input[task as usize] as usize..self.first_input[task as usize + 1] as usize]
    }

    /// GPU-time of all tasks over the number of GPUs.
    pub fn area(&self) -> u64 {
        let work: u128 = (0..self.len())
            .map(|task| u128::from(self.execution[task]) * u128::from(self.width[self.model[task] as usize]))
            .sum();
        (work / u128::from(self.gpus.count)) as u64
    }

    /// Turns an order into a schedule.
    pub fn decode(&self, table: &SwitchTable, choice: &Choice, scratch: &mut Scratch) -> Outcome {
        let count = self.gpus.count as usize;
        scratch.free.clear();
        scratch.free.resize(count, 0);
        scratch.held.clear();
        scratch.held.resize(count, EMPTY);
        scratch.end.resize(self.len(), 0);
        scratch.start.resize(self.len(), 0);
        scratch.window.resize(self.len(), 0);
        for &task in &choice.order {
            self.append(table, task, choice, scratch);
        }
        let makespan = scratch.free.iter().copied().max().unwrap_or(0);
        Outcome { makespan, mean_end: scratch.free.iter().sum::<u64>() / count.max(1) as u64 }
    }

    fn append(&self, table: &SwitchTable, task: u32, choice: &Choice, scratch: &mut Scratch) {
        let at = task as usize;
        let model = self.model[at];
        let width = self.width[model as usize] as usize;
        let inputs = self.inputs(task).iter().map(|&before| scratch.end[before as usize]);
        let ready = inputs.max().unwrap_or(0).max(self.arrival[at]);
        let (mut best, mut best_score, mut best_start) = (0, f64::INFINITY, 0);
        for &first in &choice.windows[self.kind[at] as usize] {
            let range = first as usize..first as usize + width;
            let (mut free, mut switch, mut idle) = (0, 0, 0);
            for gpu in range {
                free = free.max(scratch.free[gpu]);
                switch = switch.max(table.span(scratch.held[gpu], ModelId(model)).0);
                idle += scratch.free[gpu];
            }
            let start = ready.max(free + switch);
            // What the GPUs of the window lose between what they did last and this.
            let waste = start - idle / width as u64;
            let score = start as f64 + choice.thrift * waste as f64;
            if score < best_score {
                (best, best_score, best_start) = (first, score, start);
            }
        }
        let end = best_start + self.execution[at];
        let range = best as usize..best as usize + width;
        scratch.free[range.clone()].fill(end);
        scratch.held[range].fill(model + 1);
        (scratch.start[at], scratch.end[at], scratch.window[at]) = (best_start, end, best);
    }

    /// The schedule that was decoded last, in the numbers of the whole problem: (start, end, task, GPUs).
    pub fn schedule(&self, scratch: &Scratch) -> Vec<(u64, u64, TaskId, Gpus)> {
        let item = |task: usize| {
            let width = self.width[self.model[task] as usize];
            let gpus = Gpus::new(self.gpus.first.0 + scratch.window[task], width);
            (scratch.start[task], scratch.end[task], self.tasks[task], gpus)
        };
        (0..self.len()).map(item).collect()
    }
}

fn tiles_within(model: &crate::instance::Model, cell: Gpus) -> Vec<u32> {
    let mut next = 0;
    let mut tiles = Vec::new();
    for first in model.starts.within(cell, model.gpus).iter() {
        if first.0 >= next {
            tiles.push(first.0);
            next = first.0 + model.gpus;
        }
    }
    tiles
}
