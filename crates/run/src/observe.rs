//! Progress and notes of a run for its caller.

use gswarm_core::engine::View;
use gswarm_core::plan::{Aimed, PlanObjective, Planned};

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the files that the specification names.
    Reading,
    /// Building the problem.
    Preparing,
    /// Building the policy, which may search for a plan.
    Planning,
    /// Simulating or running live.
    Running,
    /// Checking the log and computing the bound.
    Checking,
    /// Writing files.
    Writing,
}

impl Stage {
    /// What a progress line says.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Stage::Reading => "reading the inputs",
            Stage::Preparing => "preparing",
            Stage::Planning => "planning",
            Stage::Running => "running",
            Stage::Checking => "checking the run",
            Stage::Writing => "writing",
        }
    }
}

/// Whoever waits for a run. Every method has a default that does nothing.
pub trait Observer: Send {
    /// The next stage begins.
    fn stage(&mut self, _stage: Stage) {}

    /// The run waits for something outside, such as a Ray cluster.
    fn waiting(&mut self, _what: &str) {}

    /// Whether to go on waiting for something outside.
    fn goes_on(&mut self) -> bool {
        true
    }

    /// So many nodes are done.
    fn progress(&mut self, _done: usize, _total: usize) {}

    /// The search found a better plan.
    fn better_plan(&mut self, _found: &Planned) {}

    /// The search found a plan that is better at another objective than the makespan.
    fn better_aim(&mut self, _objective: &PlanObjective, _found: &Aimed) {}

    /// Something worth knowing that is no failure: a warning about the inputs, a setting without effect.
    fn note(&mut self, _text: &str) {}

    /// Something that people may want to know, and that programs which read the result need not.
    fn remark(&mut self, text: &str) {
        self.note(text);
    }

    /// How a live run stands. `false` ends the run; what was done stays in its journal.
    fn watch(&mut self, _view: &View<'_>) -> bool {
        true
    }
}

/// Nobody waits.
pub struct Silent;

impl Observer for Silent {}
