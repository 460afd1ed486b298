//! Whether the remaining work can still end in time: the arguments of [`crate::bound`] for the rest of a schedule.

use super::problem::{ExactProblem, MOST_GPUS, MOST_MODELS, MOST_TASKS, State};
use super::shares::{self, Need};

/// What is left of one model, and where it can run.
#[derive(Clone, Copy)]
struct Left {
    work: u64,
    /// The earliest start of any of its tasks.
    earliest: u64,
    /// The least that comes after any of them.
    tail: u64,
    /// When each GPU can execute it at the earliest, were it not for its neighbours.
    from: [u64; MOST_GPUS],
    /// When it can be somewhere.
    anywhere: u64,
}

/// Room for the calculation, kept between calls.
pub(super) struct Bounds {
    left: [Left; MOST_MODELS],
    start: [u64; MOST_TASKS],
}

impl Bounds {
    pub fn new() -> Bounds {
        let none = Left { work: 0, earliest: u64::MAX, tail: u64::MAX, from: [0; MOST_GPUS], anywhere: 0 };
        Bounds { left: [none; MOST_MODELS], start: [0; MOST_TASKS] }
    }

    /// Whether no schedule that goes on from `state` ends by `latest`.
    pub fn exceed(&mut self, problem: &ExactProblem, state: &State, latest: u64) -> bool {
        self.enter(problem, state);
        self.paths(problem, state, latest)
            || self.replicas(problem, state, latest)
            || self.area(problem, state, latest)
            || self.switching(problem, state, latest)
            || self.shares(problem, state, latest)
    }

    /// About when a schedule that goes on from `state` ends: the longest path, and the mean over the GPUs of what they have
    /// to do.
    pub fn estimate(&mut self, problem: &ExactProblem, state: &State) -> (u64, u64) {
        self.enter(problem, state);
        self.paths(problem, state, u64::MAX / 4);
        let unplaced = problem.order.iter().filter(|&&at| !state.is_placed(at));
        let path =
            unplaced.map(|&at| self.start[at] + problem.tasks[at].execution + problem.tasks[at].tail).max();
        let from = self.executable(problem);
        let work: u64 =
            problem.models.iter().zip(&self.left).map(|(model, left)| left.work * model.width as u64).sum();
        // Where nothing is left, no GPU waits for anything.
        let wait = |(&free, from): (&u64, u64)| if work == 0 { free } else { free.max(from) };
        let free: u64 = state.free[..problem.gpus].iter().zip(from).map(wait).sum();
        let mean = (free + work) / problem.gpus as u64;
        (mean.max(path.unwrap_or(0)), mean)
    }

    /// When each GPU can execute anything that is left.
    fn executable(&self, problem: &ExactProblem) -> [u64; MOST_GPUS] {
        let mut from = [u64::MAX; MOST_GPUS];
        for left in self.left[..problem.models.len()].iter().filter(|left| left.work > 0) {
            for (from, of_model) in from.iter_mut().zip(&left.from) {
                *from = (*from).min(left.earliest.max(*of_model));
            }
        }
        from
    }

    fn enter(&mut self, problem: &ExactProblem, state: &State) {
        for (left, model) in self.left.iter_mut().zip(&problem.models) {
            (left.work, left.earliest, left.tail) = (0, u64::MAX, u64::MAX);
            for gpu in 0..problem.gpus {
                let entry = model.entry[usize::from(state.held[gpu])];
                left.from[gpu] = state.now.max(state.free[gpu] + entry);
            }
            let on =
                |&window: &usize| left.from[window..window + model.width].iter().copied().max().unwrap_or(0);
            left.anywhere = model.windows.iter().map(on).min().unwrap_or(0);
        }
    }

    /// The earliest start of every task, and what comes after it.
    fn paths(&mut self, problem: &ExactProblem, state: &State, latest: u64) -> bool {
        for &at in problem.order.iter().filter(|&&at| !state.is_placed(at)) {
            let task = &problem.tasks[at];
            let mut start = task.arrival.max(self.left[task.model].anywhere);
            let mut inputs = task.inputs;
            while inputs != 0 {
                let before = inputs.trailing_zeros() as usize;
                inputs &= inputs - 1;
                let ends = if state.is_placed(before) {
                    state.end[before]
                } else {
                    let lag = problem.lags[problem.tasks[before].model * problem.models.len() + task.model];
                    self.start[before] + problem.tasks[before].execution + lag
                };
                start = start.max(ends);
            }
            if start + task.execution + task.tail > latest {
                return true;
            }
            self.start[at] = start;
            let left = &mut self.left[task.model];
            left.work += task.execution;
            left.earliest = left.earliest.min(start);
            left.tail = left.tail.min(task.tail);
        }
        false
    }

    /// For each model: the tasks with at least so much behind them, on as many replicas as there can be from each moment on.
    fn replicas(&mut self, problem: &ExactProblem, state: &State, latest: u64) -> bool {
        for (number, model) in problem.models.iter().enumerate() {
            let left = &self.left[number];
            if left.work == 0 {
                continue;
            }
            let (mut since, mut count) = ([0; MOST_GPUS], 0);
            if model.width == 1 {
                for (since, from) in since.iter_mut().zip(&left.from) {
                    *since = left.earliest.max(*from);
                }
                count = problem.gpus;
            } else {
                let mut from = [0; MOST_GPUS];
                from[..problem.gpus].copy_from_slice(&left.from[..problem.gpus]);
                from[..problem.gpus].sort_unstable();
                for &moment in &from[..problem.gpus] {
                    let mut next = 0;
                    let mut fit = 0;
                    for &window in &model.windows {
                        let open = left.from[window..window + model.width].iter().all(|&from| from <= moment);
                        if window >= next && open {
                            fit += 1;
                            next = window + model.width;
                        }
                    }
                    while count < fit {
                        since[count] = moment.max(left.earliest);
                        count += 1;
                    }
                }
            }
            let mut work = 0;
            let tasks = problem
                .by_tail
                .iter()
                .filter(|&&at| problem.tasks[at].model == number && !state.is_placed(at));
            for task in tasks.map(|&at| &problem.tasks[at]) {
                work += task.execution;
                let end = latest - task.tail;
                let room: u64 = since[..count].iter().map(|&since| end.saturating_sub(since)).sum();
                if room < work {
                    return true;
                }
            }
        }
        false
    }

    /// All tasks with at least so much behind them, on all GPUs from when each can execute anything that is left.
    fn area(&mut self, problem: &ExactProblem, state: &State, latest: u64) -> bool {
        let from = self.executable(problem);
        let mut work = 0;
        for task in problem.by_tail.iter().filter(|&&at| !state.is_placed(at)).map(|&at| &problem.tasks[at]) {
            work += task.execution * problem.models[task.model].width as u64;
            let end = latest - task.tail;
            let room: u64 = from[..problem.gpus].iter().map(|&from| end.saturating_sub(from)).sum();
            if room < work {
                return true;
            }
        }
        false
    }

    fn shares(&self, problem: &ExactProblem, state: &State, latest: u64) -> bool {
        let mut needs = [Need::default(); MOST_MODELS];
        let models = problem.models.len();
        for (need, left) in needs.iter_mut().zip(&self.left[..models]) {
            *need = Need { time: left.work, earliest: left.earliest, tail: left.tail };
        }
        shares::exceed(problem, state, &needs[..models], latest)
    }

    /// All work and the loads that it needs at the least, from when each GPU is free.
    fn switching(&mut self, problem: &ExactProblem, state: &State, latest: u64) -> bool {
        let (mut needed, mut longest) = (0, 0);
        let soonest = state.free[..problem.gpus].iter().copied().min().unwrap_or(0);
        for (number, model) in problem.models.iter().enumerate() {
            let left = &self.left[number];
            if left.work == 0 {
                continue;
            }
            let width = model.width as u64;
            let work = left.work * width;
            needed += work;
            let holding = (0..problem.gpus).filter(|&gpu| usize::from(state.held[gpu]) == number + 1);
            let there: u64 =
                holding.map(|gpu| latest.saturating_sub(state.free[gpu].max(left.earliest))).sum();
            if work > there {
                let visit = latest.saturating_sub(state.now.max(soonest + model.least_entry)).max(1) * width;
                needed += (work - there).div_ceil(visit) * width * model.least_entry;
                longest = longest.max(model.least_entry);
            }
        }
        // Before the next start a GPU can make one load at most that counts here.
        let since = state.now.saturating_sub(longest);
        let room: u64 =
            state.free[..problem.gpus].iter().map(|&free| latest.saturating_sub(free.max(since))).sum();
        room < needed
    }
}
