//! The search itself: depth first, the next task by start, until every schedule is found or excluded.

use super::bounds::Bounds;
use super::memo::Memo;
use super::problem::{ExactProblem, State, Step};
use super::symmetry::Canonical;

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Every schedule was found or excluded.
    Exhausted,
    /// It was stopped, or used its states up.
    Stopped,
}

/// A search, and what it may use.
pub(super) struct Tree<'a> {
    pub problem: &'a ExactProblem,
    /// Only schedules that end before this are of interest.
    pub target: u64,
    /// States that may still be looked at.
    pub states: u64,
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told of every schedule that ends before the target, with its steps; answers with the new target.
    pub found: &'a mut dyn FnMut(u64, &[Step]) -> u64,
    memo: Memo,
    bounds: Bounds,
    canonical: Canonical,
    steps: Vec<Step>,
}

impl<'a> Tree<'a> {
    pub fn new(
        problem: &'a ExactProblem,
        target: u64,
        states: u64,
        stop: &'a (dyn Fn() -> bool + Sync),
        found: &'a mut dyn FnMut(u64, &[Step]) -> u64,
    ) -> Tree<'a> {
        Tree {
            problem,
            target,
            states,
            stop,
            found,
            memo: Memo::new(MOST_TIMES),
            bounds: Bounds::new(),
            canonical: Canonical::default(),
            steps: Vec::new(),
        }
    }

    pub fn search(&mut self) -> Ended {
        let (root, latest) = (State::empty(), self.problem.latest_before(self.target));
        if self.bounds.exceed(self.problem, &root, latest) {
            return Ended::Exhausted;
        }
        self.below(&root)
    }

    fn below(&mut self, state: &State) -> Ended {
        let mut steps = Vec::new();
        if self.problem.steps(state, self.target, &mut steps).is_none() {
            return Ended::Exhausted;
        }
        for step in steps {
            let task = &self.problem.tasks[step.task];
            if step.start + task.execution + task.tail >= self.target {
                continue;
            }
            if self.states == 0 || self.states.is_multiple_of(1024) && (self.stop)() {
                return Ended::Stopped;
            }
            self.states -= 1;
            let mut next = state.clone();
            self.problem.place(&mut next, step);
            self.steps.push(step);
            let latest = self.problem.latest_before(self.target);
            if next.placed == self.problem.all() {
                self.target = (self.found)(next.makespan(self.problem), &self.steps);
            } else if !self.bounds.exceed(self.problem, &next, latest)
                && self.is_new(&next)
                && self.below(&next) == Ended::Stopped
            {
                return Ended::Stopped;
            }
            self.steps.pop();
        }
        Ended::Exhausted
    }

    fn is_new(&mut self, state: &State) -> bool {
        self.canonical.set(self.problem, state);
        !self.memo.covers(self.problem, &self.canonical)
    }
}

/// Times that are remembered: 256 MiB of them.
const MOST_TIMES: usize = 1 << 25;
