//! Some requests on some GPUs, flattened for speed: a choice becomes a schedule in tens of nanoseconds per task.

use super::decode::{EMPTY, SwitchTable};
use crate::id::{Gpus, ModelId, RequestId, TaskId};
use crate::instance::Instance;

/// A cell's problem. Tasks are numbered from 0, request after request.
pub(super) struct Cell {
    pub gpus: Gpus,
    pub requests: Vec<RequestId>,
    /// The first task of each request here, and behind them the number of all tasks.
    pub first_of: Vec<u32>,
    /// The tasks, as the whole problem numbers them.
    pub tasks: Vec<TaskId>,
    pub execution: Vec<u64>,
    pub arrival: Vec<u64>,
    pub model: Vec<u32>,
    /// The request of each task, by its place in `requests`.
    pub request: Vec<u32>,
    inputs: Links,
    outputs: Links,
    /// All tasks, inputs before what needs them, request after request.
    pub in_order: Vec<u32>,
    /// Per model: the first GPUs of its windows, counted from the first GPU of the cell.
    pub windows: Vec<Vec<u32>>,
    pub width: Vec<u32>,
    /// Per model: whether it needs the whole cell, so that all else has to be cleared away for it.
    pub fills: Vec<bool>,
    /// Whether a task of a model that fills the cell needs this one, or is this one.
    pub leads_to_fill: Vec<bool>,
}

/// For each task, some other tasks.
#[derive(Default)]
struct Links {
    first: Vec<u32>,
    tasks: Vec<u32>,
}

impl Links {
    fn of(&self, task: u32) -> &[u32] {
        &self.tasks[self.first[task as usize] as usize..self.first[task as usize + 1] as usize]
    }
}

/// The room that decoding needs, kept between calls.
#[derive(Clone, Default)]
pub(super) struct Scratch {
    free: Vec<u64>,
    held: Vec<u32>,
    end: Vec<u64>,
    pub start: Vec<u64>,
}

/// What the search chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The tasks, inputs before what needs them.
    pub order: Vec<u32>,
    /// The first GPU of each task's window.
    pub window: Vec<u32>,
}

/// What a choice leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outcome {
    pub makespan: u64,
    /// The mean of the GPUs' last ends, and of the time that they spend on loading: what is left to gain while the makespan
    /// stands still.
    pub mean_end: u64,
    pub loading: u64,
    /// The mean over the requests of their end minus their arrival.
    pub latency: u64,
}

/// What a search lowers.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    /// The makespan.
    Shortest,
    /// The mean latency of requests, where all ends by a moment: a second after it counts as much as `late` seconds of
    /// latency.
    Sooner { latest: u64, late: f64 },
}

impl Goal {
    pub fn energy(self, outcome: Outcome) -> f64 {
        match self {
            Goal::Shortest => outcome.energy(),
            Goal::Sooner { latest, late } => {
                outcome.latency as f64 + late * outcome.makespan.saturating_sub(latest) as f64
            }
        }
    }
}

impl Outcome {
    /// What the search lowers: mostly the makespan, a little the rest.
    pub fn energy(self) -> f64 {
        self.makespan as f64 + 0.2 * self.mean_end as f64 + 0.5 * self.loading as f64
    }
}

impl Cell {
    pub fn new(instance: &Instance, requests: Vec<RequestId>, gpus: Gpus) -> Cell {
        let tasks: Vec<TaskId> = requests.iter().flat_map(|&request| instance.tasks_of(request)).collect();
        let mut cell = Cell {
            gpus,
            execution: tasks.iter().map(|&task| instance.execution(task).0).collect(),
            arrival: Vec::with_capacity(tasks.len()),
            model: tasks.iter().map(|&task| instance.model_of(task).0).collect(),
            request: Vec::with_capacity(tasks.len()),
            first_of: vec![0],
            inputs: Links { first: vec![0], tasks: Vec::new() },
            outputs: Links { first: vec![0], tasks: Vec::new() },
            in_order: Vec::with_capacity(tasks.len()),
            windows: instance.models.iter().map(|model| tiles_within(model, gpus)).collect(),
            width: instance.models.iter().map(|model| model.gpus).collect(),
            fills: Vec::new(),
            leads_to_fill: vec![false; tasks.len()],
            requests,
            tasks,
        };
        let mut offset = 0;
        for (place, &id) in (0..).zip(&cell.requests) {
            let request = &instance.requests[id];
            let workflow = &instance.workflows[request.workflow];
            let count = workflow.nodes.len() as u32;
            for node in 0..count {
                cell.request.push(place);
                cell.arrival.push(request.arrival.0);
                cell.inputs.tasks.extend(workflow.predecessors(node).iter().map(|other| other + offset));
                cell.inputs.first.push(cell.inputs.tasks.len() as u32);
                cell.outputs.tasks.extend(workflow.successors(node).iter().map(|other| other + offset));
                cell.outputs.first.push(cell.outputs.tasks.len() as u32);
            }
            cell.in_order.extend(workflow.order.iter().map(|node| node + offset));
            offset += count;
            cell.first_of.push(offset);
        }
        cell.mark_fills();
        cell
    }

    fn mark_fills(&mut self) {
        let narrowest = self.model.iter().map(|&model| self.width[model as usize]).min().unwrap_or(1);
        let fills = |&width: &u32| width == self.gpus.count && width > narrowest;
        self.fills = self.width.iter().map(fills).collect();
        for &task in self.in_order.iter().rev() {
            let leads = self.outputs.of(task).iter().any(|&next| self.leads_to_fill[next as usize]);
            self.leads_to_fill[task as usize] = leads || self.fills[self.model[task as usize] as usize];
        }
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether every task has a window here.
    pub fn holds_all(&self) -> bool {
        self.model.iter().all(|&model| !self.windows[model as usize].is_empty())
    }

    pub fn inputs(&self, task: u32) -> &[u32] {
        self.inputs.of(task)
    }

    pub fn outputs(&self, task: u32) -> &[u32] {
        self.outputs.of(task)
    }

    /// The number of GPUs that a task needs.
    pub fn width_of(&self, task: u32) -> u32 {
        self.width[self.model[task as usize] as usize]
    }

    /// Works out what a choice leads to.
    pub fn decode(&self, table: &SwitchTable, choice: &Choice, scratch: &mut Scratch) -> Outcome {
        let count = self.gpus.count as usize;
        scratch.free.clear();
        scratch.free.resize(count, 0);
        scratch.held.clear();
        scratch.held.resize(count, EMPTY);
        scratch.end.resize(self.len(), 0);
        scratch.start.resize(self.len(), 0);
        let mut loading = 0;
        for &task in &choice.order {
            loading += self.append(table, task, choice.window[task as usize] as usize, scratch);
        }
        let makespan = scratch.free.iter().copied().max().unwrap_or(0);
        let gpus = count.max(1) as u64;
        let mean_end = scratch.free.iter().sum::<u64>() / gpus;
        Outcome { makespan, mean_end, loading: loading / gpus, latency: self.latency(scratch) }
    }

    fn latency(&self, scratch: &Scratch) -> u64 {
        let of_request = |tasks: &[u32]| {
            let tasks = tasks[0] as usize..tasks[1] as usize;
            let end = scratch.end[tasks.clone()].iter().copied().max().unwrap_or(0);
            end.saturating_sub(self.arrival.get(tasks.start).copied().unwrap_or(0))
        };
        let sum: u64 = self.first_of.windows(2).map(of_request).sum();
        sum / self.requests.len().max(1) as u64
    }

    /// Puts a task behind all that its window has done; returns the GPU-time that its load takes.
    fn append(&self, table: &SwitchTable, task: u32, first: usize, scratch: &mut Scratch) -> u64 {
        let at = task as usize;
        let model = self.model[at];
        let width = self.width[model as usize] as usize;
        let inputs = self.inputs(task).iter().map(|&before| scratch.end[before as usize]);
        let ready = inputs.max().unwrap_or(0).max(self.arrival[at]);
        let (mut free, mut load) = (0, 0);
        for gpu in first..first + width {
            free = free.max(scratch.free[gpu]);
            load = load.max(table.span(scratch.held[gpu], ModelId(model)).0);
        }
        let start = ready.max(free + load);
        let end = start + self.execution[at];
        scratch.free[first..first + width].fill(end);
        scratch.held[first..first + width].fill(model + 1);
        (scratch.start[at], scratch.end[at]) = (start, end);
        load * width as u64
    }

    /// The schedule of a choice that was decoded last, in the numbers of the whole problem: (start, end, task, GPUs).
    pub fn schedule(&self, choice: &Choice, scratch: &Scratch) -> Vec<(u64, u64, TaskId, Gpus)> {
        let item = |task: u32| {
            let at = task as usize;
            let gpus = Gpus::new(self.gpus.first.0 + choice.window[at], self.width_of(task));
            (scratch.start[at], scratch.end[at], self.tasks[at], gpus)
        };
        (0..self.len() as u32).map(item).collect()
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
