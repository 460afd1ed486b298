//! From a rule to a schedule: a run through time in which the blocks serve the widest models from a moment on, and every
//! other GPU stays with its model while there is work for it.

use super::super::decode::{EMPTY, SwitchTable};
use super::layout::{Layout, Place};
use super::rule::Rule;
use super::work::{Demands, Work};
use crate::id::ModelId;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// When and where a task runs: start, end, task, first GPU.
pub(super) type Run = (u64, u64, u32, u32);

/// All that does not change between dispatches.
pub(super) struct Setting<'a> {
    pub work: &'a Work,
    pub layout: &'a Layout,
    pub demands: &'a Demands,
    pub table: &'a SwitchTable,
    pub gpus: u32,
}

/// Not a task: a moment at which something else changes.
const MOMENT: u32 = u32::MAX;

struct Dispatch<'a> {
    set: &'a Setting<'a>,
    rule: &'a Rule,
    now: u64,
    free: Vec<u64>,
    held: Vec<u32>,
    events: BinaryHeap<Reverse<(u64, u32)>>,
    /// Per model: tasks that could start, by key.
    ready: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    /// Per model: GPU-time of those.
    ready_work: Vec<u64>,
    running: Vec<u32>,
    /// GPUs that are not in use.
    idle: u32,
    inputs: Vec<u32>,
    /// Per model: time of tasks that have not begun, for wide ones.
    wide_left: Vec<u64>,
    wide_unstarted: u64,
    wide_ready: u64,
    rank: Vec<u32>,
    arrived: BTreeSet<u32>,
    arrivals: Vec<(u64, u32)>,
    /// Requests in work whose wide tasks still wait for narrow ones.
    open: u64,
    narrow_left: Vec<u32>,
    runs: Vec<Run>,
}

/// What a rule leads to.
pub(super) struct Schedule {
    /// In order of starts.
    pub runs: Vec<Run>,
    pub end: u64,
    /// What the search lowers: mostly the end, a little when each GPU is done.
    pub energy: f64,
    /// The mean latency of requests.
    pub latency: f64,
}

/// How many moments pass between two questions whether to stop.
const PATIENCE: u64 = 4096;

/// Carries out a rule; `None` where the search was stopped meanwhile.
pub(super) fn dispatch(set: &Setting<'_>, rule: &Rule, stop: &(dyn Fn() -> bool + Sync)) -> Option<Schedule> {
    let mut dispatch = Dispatch::new(set, rule);
    dispatch.advance();
    let mut moments = 0;
    while let Some(Reverse((at, _))) = dispatch.events.peek().copied() {
        if moments % PATIENCE == 0 && stop() {
            return None;
        }
        moments += 1;
        dispatch.now = at;
        while let Some(&Reverse((when, task))) = dispatch.events.peek()
            && when == at
        {
            dispatch.events.pop();
            if task != MOMENT {
                dispatch.finish(task);
            }
        }
        dispatch.advance();
    }
    let mut runs = dispatch.runs;
    debug_assert_eq!(runs.len(), set.work.execution.len(), "every task runs");
    runs.sort_unstable();
    Some(replay(set, runs))
}

/// The same tasks in the same order on the same GPUs, every switch made as early as it can be.
fn replay(set: &Setting<'_>, mut runs: Vec<Run>) -> Schedule {
    let work = set.work;
    let mut free = vec![0; set.gpus as usize];
    let mut held = vec![EMPTY; set.gpus as usize];
    let mut ready: Vec<u64> = work.request.iter().map(|&request| work.arrival[request as usize]).collect();
    for (start, end, task, first) in &mut runs {
        let model = work.model[*task as usize];
        let range = *first as usize..(*first + work.width[model as usize]) as usize;
        let free_at = free[range.clone()].iter().copied().max().unwrap_or(0);
        let switch = held[range.clone()].iter().map(|&held| set.table.span(held, ModelId(model)).0).max();
        *start = ready[*task as usize].max(free_at + switch.unwrap_or(0));
        *end = *start + work.execution[*task as usize];
        free[range.clone()].fill(*end);
        held[range].fill(model + 1);
        work.outputs(*task).iter().for_each(|&after| ready[after as usize] = ready[after as usize].max(*end));
    }
    let end = free.iter().copied().max().unwrap_or(0);
    let mean = free.iter().sum::<u64>() as f64 / f64::from(set.gpus);
    Schedule { end, energy: end as f64 + 0.25 * mean, latency: latency(work, &runs), runs }
}

/// The mean over the requests of their end minus their arrival.
fn latency(work: &Work, runs: &[Run]) -> f64 {
    let mut ends = work.arrival.clone();
    for &(_, end, task, _) in runs {
        let request = work.request[task as usize] as usize;
        ends[request] = ends[request].max(end);
    }
    let latencies = ends.iter().zip(&work.arrival).map(|(end, arrival)| end - arrival);
    latencies.sum::<u64>() as f64 / ends.len().max(1) as f64
}

impl<'a> Dispatch<'a> {
    fn new(set: &'a Setting<'a>, rule: &'a Rule) -> Dispatch<'a> {
        let models = set.layout.places.len();
        let mut rank = vec![0; rule.order.len()];
        (0..).zip(&rule.order).for_each(|(at, &request)| rank[request as usize] = at);
        let mut arrivals: Vec<(u64, u32)> = (0..).zip(&set.work.arrival).map(|(id, &at)| (at, id)).collect();
        arrivals.sort_unstable_by(|a, b| b.cmp(a));
        let mut wide_left = vec![0; models];
        let mut wide_unstarted = 0;
        for (&model, &time) in set.work.model.iter().zip(&set.work.execution) {
            if set.layout.places[model as usize].is_wide {
                wide_left[model as usize] += time;
                wide_unstarted += 1;
            }
        }
        let moments = rule.turns.iter().copied().chain(arrivals.iter().map(|arrival| arrival.0));
        let mut moments: Vec<u64> = moments.filter(|&at| at > 0).collect();
        moments.sort_unstable();
        moments.dedup();
        Dispatch {
            set,
            rule,
            now: 0,
            free: vec![0; set.gpus as usize],
            held: vec![EMPTY; set.gpus as usize],
            events: moments.into_iter().map(|at| Reverse((at, MOMENT))).collect(),
            ready: vec![BinaryHeap::new(); models],
            ready_work: vec![0; models],
            running: vec![0; models],
            idle: set.gpus,
            inputs: set.work.inputs.clone(),
            wide_left,
            wide_unstarted,
            wide_ready: 0,
            rank,
            arrived: BTreeSet::new(),
            arrivals,
            open: 0,
            narrow_left: set.demands.requests.iter().map(|demand| demand.tasks_before).collect(),
            runs: Vec::with_capacity(set.work.execution.len()),
        }
    }

    fn is_wide(&self, model: u32) -> bool {
        self.set.layout.places[model as usize].is_wide
    }

    fn finish(&mut self, task: u32) {
        let set = self.set;
        let at = task as usize;
        let model = set.work.model[at];
        self.running[model as usize] -= 1;
        self.idle += set.work.width[model as usize];
        if !self.is_wide(model) && set.demands.feeds[at] {
            self.narrow_done(set.work.request[at]);
        }
        for &after in set.work.outputs(task) {
            self.inputs[after as usize] -= 1;
            if self.inputs[after as usize] == 0 {
                self.enqueue(after);
            }
        }
    }

    fn narrow_done(&mut self, request: u32) {
        let left = &mut self.narrow_left[request as usize];
        *left -= 1;
        if *left == 0 {
            self.open -= 1;
        }
    }

    fn enqueue(&mut self, task: u32) {
        let work = self.set.work;
        let at = task as usize;
        let model = work.model[at] as usize;
        let wide = self.is_wide(model as u32);
        let rank = u64::from(self.rank[work.request[at] as usize]);
        let key = if wide && self.rule.longest_first {
            u64::MAX - (work.execution[at] + self.set.demands.tail[at])
        } else {
            rank
        };
        self.wide_ready += u64::from(wide);
        self.ready_work[model] += work.execution[at] * u64::from(work.width[model]);
        self.ready[model].push(Reverse((key, task)));
    }

    /// Requests begin in order, as many at a time as the rule lets be under way.
    fn admit(&mut self) {
        while let Some(&(at, request)) = self.arrivals.last()
            && at <= self.now
        {
            self.arrivals.pop();
            self.arrived.insert(self.rank[request as usize]);
        }
        let room = self.rule.under_way + self.rule.growth * self.wide_ready as f64;
        while (self.open as f64) < room
            && let Some(rank) = self.arrived.pop_first()
        {
            let request = self.rule.order[rank as usize];
            if self.narrow_left[request as usize] > 0 {
                self.open += 1;
            }
            let (first, end) = self.set.work.tasks[request as usize];
            for task in first..end {
                if self.set.work.inputs[task as usize] == 0 {
                    self.enqueue(task);
                }
            }
        }
    }

    /// All that can start now.
    fn advance(&mut self) {
        self.admit();
        for model in 0..self.ready.len() as u32 {
            self.go_on(model);
        }
        while self.change() {}
        self.fetch();
    }

    /// Tasks for the windows that hold their model.
    fn go_on(&mut self, model: u32) {
        if self.idle < self.set.work.width[model as usize] || self.ready[model as usize].is_empty() {
            return;
        }
        let layout = self.set.layout;
        for place in &layout.places[model as usize].windows {
            let Some(&Reverse((_, task))) = self.ready[model as usize].peek() else { return };
            if self.switch(model, place) == Some(0) && self.allows(model, place, task, 0) {
                self.begin(model, place, 0);
            }
        }
    }

    /// One task on a window that must change its model: of the model with most work waiting for each replica that runs.
    fn change(&mut self) -> bool {
        let mut best: Option<(f64, u32, Place, u64)> = None;
        for model in 0..self.ready.len() as u32 {
            if self.idle < self.set.work.width[model as usize] {
                continue;
            }
            let Some(&Reverse((_, task))) = self.ready[model as usize].peek() else { continue };
            let score = self.ready_work[model as usize] as f64 / f64::from(self.running[model as usize] + 1);
            if best.as_ref().is_some_and(|best| best.0 >= score) {
                continue;
            }
            let windows = self.set.layout.places[model as usize].windows.iter();
            let costs = windows.filter_map(|place| {
                let switch = self.switch(model, place)?;
                self.allows(model, place, task, switch).then_some((switch, *place))
            });
            if let Some((switch, place)) = costs.min_by_key(|cost| cost.0) {
                best = Some((score, model, place, switch));
            }
        }
        let Some((_, model, place, switch)) = best else { return false };
        self.begin(model, &place, switch);
        true
    }

    /// Blocks whose turn has come take the wide model with most work left, before its tasks are ready.
    fn fetch(&mut self) {
        if self.wide_unstarted == 0 || self.wide_ready > 0 {
            return;
        }
        let layout = self.set.layout;
        let most = (0..self.wide_left.len() as u32)
            .max_by_key(|&model| (self.wide_left[model as usize], Reverse(model)));
        let Some(model) = most else { return };
        for place in &layout.places[model as usize].windows {
            let Some(block) = place.block else { continue };
            if self.now < self.rule.turns[block as usize] {
                continue;
            }
            let range = self.range(model, place);
            let wide_held =
                self.held[range.clone()].iter().all(|&held| held != EMPTY && self.is_wide(held - 1));
            if wide_held {
                continue;
            }
            if let Some(switch) = self.switch(model, place) {
                let end = self.now + switch;
                self.free[range.clone()].fill(end);
                self.held[range].fill(model + 1);
                self.events.push(Reverse((end, MOMENT)));
            }
        }
    }

    fn range(&self, model: u32, place: &Place) -> std::ops::Range<usize> {
        place.first as usize..(place.first + self.set.work.width[model as usize]) as usize
    }

    /// What bringing the model there takes; `None` where a GPU is in use.
    fn switch(&self, model: u32, place: &Place) -> Option<u64> {
        let mut switch = 0;
        for gpu in self.range(model, place) {
            if self.free[gpu] > self.now {
                return None;
            }
            switch = switch.max(self.set.table.span(self.held[gpu], ModelId(model)).0);
        }
        Some(switch)
    }

    /// Whether the rule lets a task run there now.
    fn allows(&self, model: u32, place: &Place, task: u32, switch: u64) -> bool {
        let Some(block) = place.block else { return true };
        let turn = self.rule.turns[block as usize];
        if self.is_wide(model) {
            return self.now >= turn;
        }
        if self.wide_unstarted == 0 || self.rule.lends && self.wide_ready == 0 {
            return true;
        }
        self.now + switch + self.set.work.execution[task as usize] <= turn
    }

    fn begin(&mut self, model: u32, place: &Place, switch: u64) {
        let at = model as usize;
        let Some(Reverse((_, task))) = self.ready[at].pop() else { return };
        let time = self.set.work.execution[task as usize];
        self.ready_work[at] -= time * u64::from(self.set.work.width[at]);
        if self.is_wide(model) {
            self.wide_left[at] -= time;
            self.wide_unstarted -= 1;
            self.wide_ready -= 1;
        }
        let (start, end) = (self.now + switch, self.now + switch + time);
        let range = self.range(model, place);
        self.free[range.clone()].fill(end);
        self.held[range].fill(model + 1);
        self.running[at] += 1;
        self.idle -= self.set.work.width[at];
        self.events.push(Reverse((end, task)));
        self.runs.push((start, end, task, place.first));
    }
}
