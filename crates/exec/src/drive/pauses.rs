//! Retries with exponential back-off. A failed task waits without holding a GPU. The pause doubles with each failure of
//! the task, or of its model.

use super::acts::LONGEST_PAUSE;
use super::machine::{Book, Machine};
use crate::health::Leaves;
use crate::journal::JournalError;
use gswarm_core::engine::{Event, TaskState};
use gswarm_core::{ModelId, Span, TaskId, Time};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A pause is doubled so often at most.
const DOUBLED: u32 = 5;

/// Tasks that wait for their next try, and models that could not be used.
pub(super) struct Pauses {
    backoff: Span,
    until: BinaryHeap<Reverse<(Time, TaskId)>>,
    /// Loads and calls that failed, by model.
    failed: FxHashMap<ModelId, u32>,
}

impl Pauses {
    pub fn new(backoff: Span) -> Pauses {
        Pauses { backoff, until: BinaryHeap::new(), failed: FxHashMap::default() }
    }

    /// When the next pause is over.
    pub fn next(&self) -> Time {
        self.until.peek().map_or(Time::NEVER, |&Reverse((at, _))| at)
    }

    /// A task whose pause is over by now.
    pub fn over(&mut self, now: Time) -> Option<TaskId> {
        let &Reverse((at, task)) = self.until.peek()?;
        (at <= now).then(|| {
            self.until.pop();
            task
        })
    }

    /// The pause after a first failure.
    pub fn shortest(&self) -> Span {
        self.backoff
    }

    /// The pause after so many failures.
    fn after(&self, failures: u32) -> Span {
        Span(self.backoff.0 << failures.saturating_sub(1).min(DOUBLED))
    }

    /// A model was used.
    pub fn went_well(&mut self, model: ModelId) {
        self.failed.remove(&model);
    }

    /// A model could not be used.
    pub fn failed(&mut self, model: ModelId) {
        *self.failed.entry(model).or_insert(0) += 1;
    }

    /// How long a server that leaves rotation is left alone. Where what it failed is to go elsewhere, that is longer than any
    /// pause of a task.
    pub fn of_server(&self, Leaves { times, moves }: Leaves) -> Span {
        let doubled = times.saturating_sub(1).min(16);
        let pause = Span(self.backoff.0.saturating_mul(1 << doubled).min(LONGEST_PAUSE.0));
        if moves { pause.max(Span(self.backoff.0 << (DOUBLED + 1))) } else { pause }
    }
}

impl<B: Book> Machine<'_, B> {
    /// Tasks that have failed at this moment wait before they are tried again.
    pub(super) fn pause(&mut self, at: Time, tasks: &[TaskId]) -> Result<(), JournalError> {
        if let Some(&task) = tasks.first() {
            self.pauses.failed(self.engine.view().instance().model_of(task));
        }
        for &task in tasks {
            let view = self.engine.view();
            // It may have failed too often.
            if view.state(task) != TaskState::Ready {
                continue;
            }
            let by_model = self.pauses.failed.get(&view.instance().model_of(task)).copied().unwrap_or(0);
            let pause = self.pauses.after(view.failures(task).max(by_model));
            self.book.event(&view, at, Event::Held(task), None)?;
            self.engine.handle(at, Event::Held(task));
            self.pauses.until.push(Reverse((at + pause, task)));
        }
        Ok(())
    }
}
