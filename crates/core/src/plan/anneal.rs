//! Better choices by annealing: move one task to another place in the order, or allow or forbid a kind of task a window;
//! keep what is better, and at first also some of what is worse.

use super::cell::{Cell, Choice, Outcome, Scratch};
use super::decode::SwitchTable;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A choice and what it leads to.
#[derive(Clone)]
pub(super) struct Solution {
    pub choice: Choice,
    pub outcome: Outcome,
}

/// How much a search may do.
#[derive(Clone, Copy)]
pub(super) struct Effort<'a> {
    pub iterations: u64,
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// Anneals from `from`; never returns anything worse.
pub(super) fn anneal(
    cell: &Cell,
    table: &SwitchTable,
    from: &Solution,
    seed: u64,
    effort: Effort<'_>,
) -> Solution {
    if from.choice.order.len() < 2 {
        return from.clone();
    }
    let mut walk = Walk::new(cell, &from.choice, seed);
    let mut best = from.clone();
    let mut energy = from.outcome.energy();
    // From about the length of a short task down to nothing.
    let hot = 0.001 * from.outcome.makespan as f64;
    let mut scratch = Scratch::default();
    for iteration in 0..effort.iterations {
        if iteration % 32 == 0 && (effort.stop)() {
            break;
        }
        let heat = hot * (1.0 - iteration as f64 / effort.iterations as f64).powi(2);
        let Some(step) = walk.propose() else { continue };
        walk.take(step);
        let outcome = cell.decode(table, &walk.choice, &mut scratch);
        let rise = outcome.energy() - energy;
        if rise <= 0.0 || heat > 0.0 && walk.rng.random::<f64>() < (-rise / heat).exp() {
            energy = outcome.energy();
            if (outcome.makespan, outcome.mean_end) < (best.outcome.makespan, best.outcome.mean_end) {
                best.choice.clone_from(&walk.choice);
                best.outcome = outcome;
            }
        } else {
            walk.take(walk.reverse(step));
        }
    }
    best
}

/// One change, and enough to undo it.
#[derive(Clone, Copy)]
enum Step {
    /// The task at one place in the order goes to another.
    Shift { from: usize, to: usize },
    /// A kind of task may run on a window (put in at this place of its list).
    Allow { kind: usize, at: usize, window: u32 },
    /// A kind of task may no longer run on a window.
    Forbid { kind: usize, at: usize, window: u32 },
}

/// The share of steps that change windows.
const WINDOW_STEPS: f64 = 0.3;

/// A choice under change, and where each task stands in its order.
struct Walk<'c> {
    cell: &'c Cell,
    choice: Choice,
    place: Vec<u32>,
    outputs: Vec<Vec<u32>>,
    rng: ChaCha8Rng,
}

impl<'c> Walk<'c> {
    fn new(cell: &'c Cell, choice: &Choice, seed: u64) -> Walk<'c> {
        let mut place = vec![0; choice.order.len()];
        let mut outputs = vec![Vec::new(); choice.order.len()];
        for (at, &task) in choice.order.iter().enumerate() {
            place[task as usize] = at as u32;
            cell.inputs(task).iter().for_each(|&before| outputs[before as usize].push(task));
        }
        Walk { cell, choice: choice.clone(), place, outputs, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    fn propose(&mut self) -> Option<Step> {
        if self.rng.random::<f64>() < WINDOW_STEPS { self.propose_windows() } else { self.propose_shift() }
    }

    fn propose_windows(&mut self) -> Option<Step> {
        let kind = self.rng.random_range(0..self.choice.windows.len());
        let possible = self.cell.windows_of(kind);
        let window = possible[self.rng.random_range(0..possible.len())];
        let allowed = &self.choice.windows[kind];
        match allowed.binary_search(&window) {
            Ok(at) if allowed.len() > 1 => Some(Step::Forbid { kind, at, window }),
            Ok(_) => None,
            Err(at) => Some(Step::Allow { kind, at, window }),
        }
    }

    /// A task's place and a new one for it, between its inputs and what needs it.
    fn propose_shift(&mut self) -> Option<Step> {
        let count = self.choice.order.len();
        let from = self.rng.random_range(0..count);
        let task = self.choice.order[from];
        let after_inputs =
            self.cell.inputs(task).iter().map(|&before| self.place[before as usize] as usize + 1).max();
        let before_outputs =
            self.outputs[task as usize].iter().map(|&after| self.place[after as usize] as usize - 1).min();
        let (low, high) = (after_inputs.unwrap_or(0), before_outputs.unwrap_or(count - 1));
        // Mostly near moves: far ones seldom help and undo what was found.
        let reach = if self.rng.random::<f64>() < 0.7 { (count / 16).max(4) } else { count };
        let (low, high) = (low.max(from.saturating_sub(reach)), high.min(from + reach));
        if low >= high {
            return None;
        }
        let to = self.rng.random_range(low..=high);
        (to != from).then_some(Step::Shift { from, to })
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Shift { from, to } => self.shift(from, to),
            Step::Allow { kind, at, window } => self.choice.windows[kind].insert(at, window),
            Step::Forbid { kind, at, .. } => {
                self.choice.windows[kind].remove(at);
            }
        }
    }

    fn reverse(&self, step: Step) -> Step {
        match step {
            Step::Shift { from, to } => Step::Shift { from: to, to: from },
            Step::Allow { kind, at, window } => Step::Forbid { kind, at, window },
            Step::Forbid { kind, at, window } => Step::Allow { kind, at, window },
        }
    }

    fn shift(&mut self, from: usize, to: usize) {
        let order = &mut self.choice.order;
        if from < to {
            order[from..=to].rotate_left(1);
        } else {
            order[to..=from].rotate_right(1);
        }
        let (low, high) = (from.min(to), from.max(to));
        for (at, &task) in order.iter().enumerate().take(high + 1).skip(low) {
            self.place[task as usize] = at as u32;
        }
    }
}
