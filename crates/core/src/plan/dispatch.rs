//! Dispatches a cell by rules: a GPU keeps its model while there is work for it, else it takes the model with the most
//! waiting work per replica. A model that fills the cell waits until nothing else is ready or running, so that the cell
//! is cleared as rarely as possible.
//!
//! What work counts, how much of it makes a change of model worth while, and which task of a model goes first are a
//! [`Style`]: a search over styles finds better schedules than any one of them, at under a microsecond a task.

use super::cell::{Cell, Choice};
use super::decode::{EMPTY, SwitchTable};
use crate::id::ModelId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// How a dispatch decides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Style {
    /// How much each model's waiting work counts.
    pub weight: Vec<f64>,
    /// A GPU changes to a model if there is this many times as much work for it as the change takes; else it waits.
    pub patience: f64,
    /// How much a dear change counts against a model, for each ten seconds of it.
    pub thrift: f64,
    /// Whether what no model that fills the cell waits for is left until those are done.
    pub defers: bool,
    /// Of a model's ready tasks the one with the largest value goes first.
    pub urgency: Vec<i64>,
    /// Which requests begin when; `None` where all do as they arrive.
    pub begins: Option<Begins>,
}

/// Requests begin one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Begins {
    /// The requests, first to begin first.
    pub order: Arc<[u32]>,
    /// How many are under way at once.
    pub under_way: usize,
}

/// Which task of a model goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    RequestOrder,
    LongestTail,
    ShortestTail,
    Longest,
    Deepest,
    Shallowest,
}

impl Rule {
    pub const ALL: [Rule; 6] = [
        Rule::RequestOrder,
        Rule::LongestTail,
        Rule::ShortestTail,
        Rule::Longest,
        Rule::Deepest,
        Rule::Shallowest,
    ];

    /// The urgency of every task of a cell, in microseconds (or the like: only the order counts).
    pub fn urgency(self, cell: &Cell) -> Vec<i64> {
        match self {
            Rule::RequestOrder => request_order(cell),
            Rule::LongestTail => tails(cell),
            Rule::ShortestTail => tails(cell).into_iter().map(|tail| -tail).collect(),
            Rule::Longest => cell.execution.iter().map(|&execution| execution as i64).collect(),
            Rule::Deepest => by_depth(cell, STEP * 1_000_000),
            Rule::Shallowest => by_depth(cell, -STEP * 1_000_000),
        }
    }
}

/// So far apart are tasks whose order is all that is known of them: a second.
const STEP: i64 = 1_000_000;

fn request_order(cell: &Cell) -> Vec<i64> {
    let spans = cell.first_of.windows(2).map(|span| (span[1] - span[0]) as usize);
    (0..)
        .zip(spans)
        .flat_map(|(request, tasks): (i64, usize)| std::iter::repeat_n(-request * STEP, tasks))
        .collect()
}

/// What comes after each task on the longest way.
fn tails(cell: &Cell) -> Vec<i64> {
    let mut tails = vec![0; cell.len()];
    for &task in cell.in_order.iter().rev() {
        let after = cell.outputs(task).iter();
        let after = after.map(|&next| cell.execution[next as usize] as i64 + tails[next as usize]);
        tails[task as usize] = after.max().unwrap_or(0);
    }
    tails
}

/// By the number of tasks on the longest way to each, then by request.
fn by_depth(cell: &Cell, step: i64) -> Vec<i64> {
    let mut depth = vec![0; cell.len()];
    for &task in &cell.in_order {
        let before = cell.inputs(task).iter().map(|&before| depth[before as usize] + 1);
        depth[task as usize] = before.max().unwrap_or(0);
    }
    request_order(cell).into_iter().zip(depth).map(|(urgency, depth)| urgency + depth * step).collect()
}

impl Style {
    pub fn plain(cell: &Cell, rule: Rule, patience: f64, defers: bool) -> Style {
        let weight = vec![1.0; cell.width.len()];
        Style { weight, patience, thrift: 0.0, defers, urgency: rule.urgency(cell), begins: None }
    }
}

/// Runs a cell in a style. `None` where some task never gets a window.
pub(super) fn dispatch(cell: &Cell, table: &SwitchTable, style: &Style) -> Option<Choice> {
    let mut run = Run::new(cell, table, style);
    run.start_all();
    while let Some(Reverse((now, _, _))) = run.events.peek().copied() {
        run.now = now;
        while let Some(&Reverse((at, kind, task))) = run.events.peek() {
            if at > now {
                break;
            }
            run.events.pop();
            match kind {
                Happens::Arrival => run.ready(task),
                Happens::End => run.ended(task),
            }
        }
        run.start_all();
    }
    (run.choice.order.len() == cell.len()).then_some(run.choice)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Arrival,
    End,
}

/// What waits for one model, and where it is.
#[derive(Default)]
struct Waiting {
    /// Most urgent first, then by number.
    tasks: BinaryHeap<(i64, Reverse<u32>)>,
    work: u64,
    /// GPUs that hold the model.
    gpus: u32,
    /// Windows that hold it and fell idle: some may have been taken since.
    idle: Vec<u32>,
}

struct Run<'a> {
    cell: &'a Cell,
    table: &'a SwitchTable,
    style: &'a Style,
    now: u64,
    events: BinaryHeap<Reverse<(u64, Happens, u32)>>,
    waiting: Vec<Waiting>,
    /// Tasks that fill the cell and are still to be done, and tasks that wait until there are none.
    filling: usize,
    deferred: Vec<u32>,
    missing: Vec<u32>,
    /// How many requests have begun, how many of those are under way, and the tasks that are left of each.
    begun: usize,
    under_way: usize,
    left: Vec<u32>,
    busy: Vec<bool>,
    held: Vec<u32>,
    running: usize,
    choice: Choice,
}

impl<'a> Run<'a> {
    fn new(cell: &'a Cell, table: &'a SwitchTable, style: &'a Style) -> Run<'a> {
        let count = cell.gpus.count as usize;
        let filling = cell.model.iter().filter(|&&model| cell.fills[model as usize]).count();
        let mut run = Run {
            cell,
            table,
            style,
            now: 0,
            events: BinaryHeap::new(),
            waiting: cell.width.iter().map(|_| Waiting::default()).collect(),
            filling,
            deferred: Vec::new(),
            missing: (0..cell.len() as u32).map(|task| cell.inputs(task).len() as u32).collect(),
            begun: 0,
            under_way: 0,
            left: cell.first_of.windows(2).map(|tasks| tasks[1] - tasks[0]).collect(),
            busy: vec![false; count],
            held: vec![EMPTY; count],
            running: 0,
            choice: Choice { order: Vec::with_capacity(cell.len()), window: vec![0; cell.len()] },
        };
        match style.begins {
            Some(_) => run.begin_requests(),
            None => (0..cell.requests.len() as u32).for_each(|request| run.begin_request(request)),
        }
        run
    }

    fn begin_request(&mut self, request: u32) {
        let cell = self.cell;
        for task in cell.first_of[request as usize]..cell.first_of[request as usize + 1] {
            if self.missing[task as usize] == 0 {
                match cell.arrival[task as usize] {
                    0 => self.ready(task),
                    later => self.events.push(Reverse((later, Happens::Arrival, task))),
                }
            }
        }
    }

    /// As many as may be under way.
    fn begin_requests(&mut self) {
        let style = self.style;
        let Some(begins) = &style.begins else { return };
        while self.under_way < begins.under_way
            && let Some(&request) = begins.order.get(self.begun)
        {
            self.begun += 1;
            self.under_way += usize::from(self.left[request as usize] > 0);
            self.begin_request(request);
        }
    }

    fn ready(&mut self, task: u32) {
        if self.style.defers && self.filling > 0 && !self.cell.leads_to_fill[task as usize] {
            self.deferred.push(task);
            return;
        }
        let waiting = &mut self.waiting[self.cell.model[task as usize] as usize];
        waiting.tasks.push((self.style.urgency[task as usize], Reverse(task)));
        waiting.work += self.cell.execution[task as usize];
    }

    fn ended(&mut self, task: u32) {
        let (model, first) = (self.cell.model[task as usize] as usize, self.choice.window[task as usize]);
        self.busy[first as usize..(first + self.cell.width[model]) as usize].fill(false);
        self.waiting[model].idle.push(first);
        self.running -= 1;
        if self.cell.fills[model] {
            self.filling -= 1;
            if self.filling == 0 {
                std::mem::take(&mut self.deferred).into_iter().for_each(|task| self.ready(task));
            }
        }
        for &next in self.cell.outputs(task) {
            self.missing[next as usize] -= 1;
            if self.missing[next as usize] == 0 {
                self.ready(next);
            }
        }
        let left = &mut self.left[self.cell.request[task as usize] as usize];
        *left -= 1;
        if *left == 0 && self.style.begins.is_some() {
            self.under_way -= 1;
            self.begin_requests();
        }
    }

    fn start_all(&mut self) {
        loop {
            for model in 0..self.waiting.len() {
                self.go_on(model);
            }
            let Some((model, first, load)) = self.best_change() else { break };
            for gpu in first as usize..(first + self.cell.width[model]) as usize {
                if let Some(old) = self.held[gpu].checked_sub(1) {
                    self.waiting[old as usize].gpus -= 1;
                }
                self.held[gpu] = model as u32 + 1;
                self.waiting[model].gpus += 1;
            }
            self.start(model, first, load);
        }
    }

    /// Starts tasks of a model on windows that hold it.
    fn go_on(&mut self, model: usize) {
        while !self.waiting[model].tasks.is_empty() {
            let Some(first) = self.waiting[model].idle.pop() else { break };
            let gpus = first as usize..(first + self.cell.width[model]) as usize;
            let is_there = |gpu: usize| !self.busy[gpu] && self.held[gpu] == model as u32 + 1;
            if gpus.clone().all(is_there) {
                self.start(model, first, 0);
            }
        }
    }

    fn start(&mut self, model: usize, first: u32, load: u64) {
        let Some((_, Reverse(task))) = self.waiting[model].tasks.pop() else { return };
        let execution = self.cell.execution[task as usize];
        self.waiting[model].work -= execution;
        self.busy[first as usize..(first + self.cell.width[model]) as usize].fill(true);
        self.choice.order.push(task);
        self.choice.window[task as usize] = first;
        self.events.push(Reverse((self.now + load + execution, Happens::End, task)));
        self.running += 1;
    }

    /// The change of model that is worth most: (model, window, what it takes).
    fn best_change(&self) -> Option<(usize, u32, u64)> {
        if self.busy.iter().all(|&busy| busy) {
            return None;
        }
        let fills = &self.cell.fills;
        let others_wait =
            self.waiting.iter().zip(fills).any(|(waiting, fills)| !fills && !waiting.tasks.is_empty());
        let mut best = None;
        let mut most = 0.0;
        for (model, waiting) in self.waiting.iter().enumerate() {
            let blocked = fills[model] && (others_wait || self.running > 0);
            if waiting.tasks.is_empty() || blocked {
                continue;
            }
            let width = self.cell.width[model];
            let share = waiting.work as f64 / (1.0 + f64::from(waiting.gpus) / f64::from(width));
            for &first in &self.cell.windows[model] {
                let gpus = first as usize..(first + width) as usize;
                if gpus.clone().any(|gpu| self.busy[gpu]) {
                    continue;
                }
                let loads = gpus.map(|gpu| self.table.span(self.held[gpu], ModelId(model as u32)).0);
                let load = loads.max().unwrap_or(0);
                let is_worth_it = share >= self.style.patience * load as f64 || self.running == 0;
                let value = share * self.style.weight[model] / (1.0 + self.style.thrift * load as f64 * 1e-7);
                if is_worth_it && (value > most || best.is_none()) {
                    (best, most) = (Some((model, first, load)), value);
                }
            }
        }
        best
    }
}
