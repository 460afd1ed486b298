//! Simulated annealing: move tasks in the order and between windows, keep improvements and, at first, some worse
//! choices.

use super::cell::{Cell, Choice, Goal, Outcome, Scratch};
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
    pub goal: Goal,
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// About the length of a short task, in microseconds: what a step may lose at first.
const HOT: f64 = 5e6;

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
    let mut scratch = Scratch::default();
    let mut walk = Walk::new(cell, by_start(cell, table, &from.choice, &mut scratch), seed);
    let mut best = from.clone();
    let mut energy = effort.goal.energy(from.outcome);
    for iteration in 0..effort.iterations {
        if iteration % 32 == 0 && (effort.stop)() {
            break;
        }
        let heat = HOT * (1.0 - iteration as f64 / effort.iterations as f64).powi(2);
        if !walk.propose() {
            continue;
        }
        let outcome = cell.decode(table, &walk.choice, &mut scratch);
        let rise = effort.goal.energy(outcome) - energy;
        if rise <= 0.0 || walk.rng.random::<f64>() < (-rise / heat).exp() {
            energy = effort.goal.energy(outcome);
            let is_better = match effort.goal {
                Goal::Shortest if outcome.makespan != best.outcome.makespan => {
                    outcome.makespan < best.outcome.makespan
                }
                goal => energy < goal.energy(best.outcome),
            };
            if is_better {
                best.choice.clone_from(&walk.choice);
                best.outcome = outcome;
            }
        } else {
            walk.undo();
        }
    }
    best
}

/// The same schedule with its tasks in the order of their starts: near in the order is then near in time.
fn by_start(cell: &Cell, table: &SwitchTable, choice: &Choice, scratch: &mut Scratch) -> Choice {
    cell.decode(table, choice, scratch);
    let mut order = choice.order.clone();
    // Stable: of tasks that start together (one of them takes no time, or they run apart) the first stays first.
    order.sort_by_key(|&task| scratch.start[task as usize]);
    Choice { order, window: choice.window.clone() }
}

/// A choice under change, where each task stands in its order, and the last step.
struct Walk<'c> {
    cell: &'c Cell,
    choice: Choice,
    place: Vec<u32>,
    /// The last step: a task that went from one place to another, and the windows that tasks had before.
    shifted: Option<(usize, usize)>,
    moved: Vec<(u32, u32)>,
    rng: ChaCha8Rng,
}

impl<'c> Walk<'c> {
    fn new(cell: &'c Cell, choice: Choice, seed: u64) -> Walk<'c> {
        let mut place = vec![0; choice.order.len()];
        (0..).zip(&choice.order).for_each(|(at, &task)| place[task as usize] = at);
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Walk { cell, choice, place, shifted: None, moved: Vec::new(), rng }
    }

    /// Takes a random step; `false` where that one is not possible.
    fn propose(&mut self) -> bool {
        self.shifted = None;
        self.moved.clear();
        let task = self.rng.random_range(0..self.choice.order.len() as u32);
        let kind: f64 = self.rng.random();
        if self.windows_of(task).len() == 1 || kind < 0.27 {
            self.propose_shift(task)
        } else if kind < 0.45 {
            self.propose_shift(task) && {
                self.propose_window(task);
                true
            }
        } else if kind < 0.7 {
            self.propose_window(task)
        } else if kind < 0.8 {
            self.propose_swap(task)
        } else {
            self.propose_visit(task)
        }
    }

    fn windows_of(&self, task: u32) -> &'c [u32] {
        &self.cell.windows[self.cell.model[task as usize] as usize]
    }

    fn another_window(&mut self, task: u32) -> Option<u32> {
        let windows = self.windows_of(task);
        let window = windows[self.rng.random_range(0..windows.len())];
        (window != self.choice.window[task as usize]).then_some(window)
    }

    fn put(&mut self, task: u32, window: u32) {
        let before = std::mem::replace(&mut self.choice.window[task as usize], window);
        self.moved.push((task, before));
    }

    /// Another window for a task.
    fn propose_window(&mut self, task: u32) -> bool {
        let window = self.another_window(task);
        window.is_some_and(|window| {
            self.put(task, window);
            true
        })
    }

    /// Two tasks that are as wide change windows.
    fn propose_swap(&mut self, task: u32) -> bool {
        let other = self.rng.random_range(0..self.choice.order.len() as u32);
        let (one, two) = (self.choice.window[task as usize], self.choice.window[other as usize]);
        let fits = self.cell.width_of(task) == self.cell.width_of(other);
        let fits = fits && self.windows_of(task).contains(&two) && self.windows_of(other).contains(&one);
        if !fits || one == two {
            return false;
        }
        self.put(task, two);
        self.put(other, one);
        true
    }

    /// A task and those of its model that follow it on its window, or some of them, go to another window.
    fn propose_visit(&mut self, task: u32) -> bool {
        let Some(window) = self.another_window(task) else { return false };
        let (model, old) = (self.cell.model[task as usize], self.choice.window[task as usize]);
        let count = self.choice.order.len();
        let most = if self.rng.random::<f64>() < 0.5 { 4 } else { count };
        let most = self.rng.random_range(1..=most);
        let old_end = old + self.cell.width_of(task);
        for at in self.place[task as usize] as usize..count {
            let next = self.choice.order[at];
            let first = self.choice.window[next as usize];
            if self.cell.model[next as usize] == model {
                if first == old {
                    self.put(next, window);
                }
            } else if first < old_end && old < first + self.cell.width_of(next) {
                break;
            }
            if self.moved.len() >= most {
                break;
            }
        }
        true
    }

    /// A new place for a task, between its inputs and what needs it.
    fn propose_shift(&mut self, task: u32) -> bool {
        let count = self.choice.order.len();
        let from = self.place[task as usize] as usize;
        let after = self.cell.inputs(task).iter().map(|&before| self.place[before as usize] as usize + 1);
        let before = self.cell.outputs(task).iter().map(|&after| self.place[after as usize] as usize - 1);
        let (low, high) = (after.max().unwrap_or(0), before.min().unwrap_or(count - 1));
        // Mostly near moves: far ones seldom help and undo what was found.
        let reach = if self.rng.random::<f64>() < 0.7 { (count / 16).max(4) } else { count };
        let (low, high) = (low.max(from.saturating_sub(reach)), high.min(from + reach));
        if low >= high {
            return false;
        }
        let to = self.rng.random_range(low..=high);
        if to == from {
            return false;
        }
        self.shift(from, to);
        self.shifted = Some((from, to));
        true
    }

    /// Takes the last step back.
    fn undo(&mut self) {
        while let Some((task, window)) = self.moved.pop() {
            self.choice.window[task as usize] = window;
        }
        if let Some((from, to)) = self.shifted.take() {
            self.shift(to, from);
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
