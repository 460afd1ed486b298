//! A small problem in plain numbers, and the states that a search goes through: some tasks placed, in order of their starts.

use super::shares::Setups;
use super::symmetry::Symmetry;

/// The most tasks, one bit each.
pub(super) const MOST_TASKS: usize = 64;
/// The most GPUs.
pub(super) const MOST_GPUS: usize = 16;
/// The most models that tasks use: what a GPU holds takes four bits.
pub(super) const MOST_MODELS: usize = 15;

/// A way onto a GPU: what the GPU can do ahead of its neighbours, and its share in the load itself.
pub(super) type Way = (u64, u64);

pub(super) struct Task {
    pub execution: u64,
    pub arrival: u64,
    pub model: usize,
    /// One bit for each task that it waits for.
    pub inputs: u64,
    /// The least that comes after it.
    pub tail: u64,
    pub request: usize,
}

pub(super) struct Model {
    pub width: usize,
    /// First GPUs of its windows.
    pub windows: Vec<usize>,
    /// The ways to it from each model that a GPU can hold (0: none, else the model's number plus one), by rising load and
    /// falling time before it.
    pub ways: Vec<Vec<Way>>,
    /// The shortest of them for a GPU by itself.
    pub alone: Vec<u64>,
    /// The least that lies between what a GPU holds and the model, whatever it executes on the way: for bounds.
    pub entry: Vec<u64>,
    /// The least of those from another model.
    pub least_entry: u64,
    /// No load of another model in its place, with what comes before it, takes longer.
    pub longest_after: u64,
}

/// Whether a task can be run elsewhere instead, and nothing on the GPUs where it was then comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moves {
    Always,
    /// Not where it may be what makes the next load onto an empty GPU a cheap switch.
    FromGpusInUse,
    /// A wide model behind it might load longer, too.
    Never,
}

pub(super) struct ExactProblem {
    pub gpus: usize,
    pub tasks: Vec<Task>,
    pub models: Vec<Model>,
    /// The tasks, inputs first.
    pub order: Vec<usize>,
    /// The tasks by falling tail.
    pub by_tail: Vec<usize>,
    /// Each request's tasks: the first and how many.
    pub requests: Vec<(usize, usize)>,
    pub symmetry: Symmetry,
    /// By how much sooner a GPU must be free to be as good with what it holds (the row, as in [`Model::ways`]) as with
    /// something else (the column). Rows are [`MOST_MODELS`] + 1 long.
    pub hops: Vec<u64>,
    pub setups: Setups,
    /// By GPU: one bit for each model that needs it wherever it runs.
    pub forced: Vec<usize>,
    /// Whether no detour, be it by executing another model, is shorter than the ways: then starts only become later.
    pub closed: bool,
    pub moves: Moves,
    /// What has to lie between a task and one that waits for it, by their models: row by row, the one waited for first.
    pub lags: Vec<u64>,
    /// All times are multiples of this.
    pub unit: u64,
    /// No load with what comes before it takes longer.
    pub longest_load: u64,
}

/// Some tasks placed.
#[derive(Clone)]
pub(super) struct State {
    /// One bit for each task that is placed.
    pub placed: u64,
    /// When the task placed last starts: no other starts before.
    pub now: u64,
    pub last: usize,
    pub free: [u64; MOST_GPUS],
    pub held: [u8; MOST_GPUS],
    pub end: [u64; MOST_TASKS],
}

/// A task that can be placed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    pub start: u64,
    pub task: usize,
    pub window: usize,
}

impl State {
    pub fn empty() -> State {
        State { placed: 0, now: 0, last: 0, free: [0; MOST_GPUS], held: [0; MOST_GPUS], end: [0; MOST_TASKS] }
    }

    pub fn is_placed(&self, task: usize) -> bool {
        self.placed >> task & 1 == 1
    }

    pub fn makespan(&self, problem: &ExactProblem) -> u64 {
        self.end[..problem.tasks.len()].iter().copied().max().unwrap_or(0)
    }
}

/// The tasks whose bits are set.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let bit = set.trailing_zeros() as usize;
            set &= set - 1;
            bit
        })
    })
}

impl ExactProblem {
    /// The latest end that is sooner than `target` and that a schedule can have.
    pub fn latest_before(&self, target: u64) -> u64 {
        target.saturating_sub(1) / self.unit * self.unit
    }

    pub fn all(&self) -> u64 {
        if self.tasks.len() == 64 { u64::MAX } else { (1 << self.tasks.len()) - 1 }
    }

    pub fn place(&self, state: &mut State, step: Step) {
        let task = &self.tasks[step.task];
        let end = step.start + task.execution;
        let window = step.window..step.window + self.models[task.model].width;
        state.free[window.clone()].fill(end);
        state.held[window].fill(task.model as u8 + 1);
        state.end[step.task] = end;
        state.placed |= 1 << step.task;
        (state.now, state.last) = (step.start, step.task);
    }

    /// When the inputs of a task are there, which must all be placed.
    pub fn ready(&self, state: &State, task: usize) -> u64 {
        let task = &self.tasks[task];
        bits(task.inputs).map(|before| state.end[before]).max().unwrap_or(0).max(task.arrival)
    }

    /// The soonest that a model can be on a window.
    pub fn loaded(&self, state: &State, model: &Model, window: usize) -> u64 {
        let gpus = window..window + model.width;
        if model.width == 1 {
            return state.free[window] + model.alone[state.held[window] as usize];
        }
        let ways = |gpu: usize| &model.ways[state.held[gpu] as usize];
        let (mut free, mut load, mut plain) = (0, 0, true);
        for gpu in gpus.clone() {
            free = free.max(state.free[gpu]);
            let list = ways(gpu);
            // The straight way is the last.
            load = load.max(list[list.len() - 1].1);
            plain &= list.len() == 1;
        }
        if plain {
            return free + load;
        }
        // The load takes as long as on the GPU where it takes longest: try every length.
        let mut best = free + load;
        for limit in gpus.clone().flat_map(|gpu| ways(gpu).iter().map(|way| way.1)) {
            let begins = gpus.clone().try_fold(0, |latest: u64, gpu| {
                let way = ways(gpu).iter().rfind(|way| way.1 <= limit)?;
                Some(latest.max(state.free[gpu] + way.0))
            });
            best = begins.map_or(best, |begins| best.min(begins + limit));
        }
        best
    }

    /// The steps from a state to schedules that end before `target`, by start; `None` where there is no such schedule.
    ///
    /// A step that could have been made before the last one is left out: with the two in the other order the same schedule,
    /// or a better one, is found from a step that comes earlier in this order, which the search takes first.
    pub fn steps(&self, state: &State, target: u64, steps: &mut Vec<Step>) -> Option<()> {
        steps.clear();
        let mut horizon = u64::MAX;
        for task in bits(self.all() & !state.placed) {
            let spec = &self.tasks[task];
            if spec.inputs & !state.placed != 0 || self.symmetry.waits_for_twin(state.placed, spec.request) {
                continue;
            }
            let ready = self.ready(state, task);
            let model = &self.models[spec.model];
            let mut in_time = false;
            for &window in &model.windows {
                let start = ready.max(self.loaded(state, model, window));
                if start.max(state.now) + spec.execution + spec.tail >= target {
                    continue;
                }
                in_time = true;
                horizon = horizon.min(start.max(state.now) + spec.execution + model.longest_after);
                if start > state.now || start == state.now && task > state.last || state.placed == 0 {
                    steps.push(Step { start, task, window });
                }
            }
            if !in_time && self.closed {
                return None;
            }
        }
        // A task that ends so early that any other model can follow on its GPUs before the next start may as well be run there
        // first, if nothing comes later where it was.
        let can_move = match self.moves {
            Moves::Always => true,
            Moves::FromGpusInUse => state.held[..self.gpus].iter().all(|&held| held != 0),
            Moves::Never => false,
        };
        steps.retain(|step| !can_move || step.start < horizon);
        steps.sort_unstable();
        Some(())
    }
}
