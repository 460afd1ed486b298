//! From an order of tasks to a schedule on the whole cluster, with its objective value.

use crate::id::{Gpus, TaskId};
use crate::instance::Instance;
use crate::plan::Plan;
use crate::plan::decode::{EMPTY, SwitchTable};
use crate::plan::objective::ObjectiveValues;
use crate::report::Stats;
use crate::time::Span;

/// The problem, and what every decoding of it needs.
pub(super) struct Decoder<'i> {
    pub instance: &'i Instance,
    table: SwitchTable,
    /// By model: the first GPUs of windows that do not overlap.
    windows: Vec<Vec<usize>>,
}

/// What a search chooses.
#[derive(Clone)]
pub(super) struct Order {
    /// Inputs before what needs them.
    pub tasks: Vec<TaskId>,
    /// How much GPU-time that is wasted counts against an early start.
    pub thrift: f64,
}

/// Room for decoding, kept between calls.
#[derive(Default)]
pub(super) struct Scratch {
    free: Vec<u64>,
    held: Vec<u32>,
    start: Vec<u64>,
    end: Vec<u64>,
    window: Vec<usize>,
}

impl<'i> Decoder<'i> {
    pub fn new(instance: &'i Instance) -> Decoder<'i> {
        let tiles = |model: &crate::instance::Model| {
            let mut next = 0;
            let mut tiles = Vec::new();
            for window in model.windows().filter(|window| window.count > 0) {
                if window.first.0 >= next {
                    tiles.push(window.first.index());
                    next = window.first.0 + window.count;
                }
            }
            tiles
        };
        let windows = instance.models.iter().map(tiles).collect();
        Decoder { instance, table: SwitchTable::new(instance), windows }
    }

    pub fn values(&self, order: &Order, scratch: &mut Scratch) -> ObjectiveValues {
        let switches = self.decode(order, scratch);
        let latency = |request| {
            let end = self.instance.tasks_of(request).map(|task| scratch.end[task.index()]).max();
            Span(end.unwrap_or(0).saturating_sub(self.instance.requests[request].arrival.0))
        };
        let stats = Stats::of(self.instance.requests.keys().map(latency).collect());
        let makespan = Span(scratch.free.iter().copied().max().unwrap_or(0)).seconds();
        ObjectiveValues { makespan, latency: stats.mean, p99: stats.p99, switches: switches as f64 }
    }

    /// Each task in turn goes where it starts soonest without wasting more than that is worth; counts the switches.
    fn decode(&self, order: &Order, scratch: &mut Scratch) -> u64 {
        let instance = self.instance;
        let gpus = instance.cluster.gpus as usize;
        scratch.free.clear();
        scratch.free.resize(gpus, 0);
        scratch.held.clear();
        scratch.held.resize(gpus, EMPTY);
        for list in [&mut scratch.start, &mut scratch.end] {
            list.resize(instance.tasks(), 0);
        }
        scratch.window.resize(instance.tasks(), 0);
        let mut switches = 0;
        for &task in &order.tasks {
            let model = instance.model_of(task);
            let width = instance.models[model].gpus as usize;
            let inputs = instance.predecessors(task).map(|before| scratch.end[before.index()]).max();
            let ready = inputs.unwrap_or(instance.requests[instance.request_of(task)].arrival.0);
            let (mut best, mut least, mut begins) = (0, f64::INFINITY, 0);
            for &first in &self.windows[model.index()] {
                let (mut free, mut load, mut idle) = (0, 0, 0);
                for gpu in first..first + width {
                    free = free.max(scratch.free[gpu]);
                    load = load.max(self.table.span(scratch.held[gpu], model).0);
                    idle += scratch.free[gpu];
                }
                let start = ready.max(free + load);
                let score = start as f64 + order.thrift * (start - idle / width as u64) as f64;
                if score < least {
                    (best, least, begins) = (first, score, start);
                }
            }
            let window = best..best + width;
            let other = |&held: &u32| held != EMPTY && held != model.0 + 1;
            switches += u64::from(scratch.held[window.clone()].iter().any(other));
            let end = begins + instance.execution(task).0;
            scratch.free[window.clone()].fill(end);
            scratch.held[window].fill(model.0 + 1);
            (scratch.start[task.index()], scratch.end[task.index()]) = (begins, end);
            scratch.window[task.index()] = best;
        }
        switches
    }

    /// The schedule of an order, as a plan: in order of starts.
    pub fn plan(&self, order: &Order, scratch: &mut Scratch) -> Plan {
        self.decode(order, scratch);
        let instance = self.instance;
        let mut tasks = order.tasks.clone();
        tasks.sort_by_key(|task| (scratch.start[task.index()], scratch.end[task.index()], *task));
        let placed = tasks.into_iter().map(|task| {
            let width = instance.models[instance.model_of(task)].gpus;
            (task, Gpus::new(scratch.window[task.index()] as u32, width))
        });
        Plan(placed.collect())
    }
}
