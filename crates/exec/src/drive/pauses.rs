//! What is tried again, and when. A task that failed waits for a while, on no GPU; one that fails again waits twice as long, and
//! so does one whose model nobody could use before it. A backend that fails whatever it is asked is taken out for a while.

use super::acts::LONGEST_PAUSE;
use super::machine::{Book, Machine};
use crate::backend::BackendError;
use crate::journal::JournalError;
use gswarm_core::engine::{Event, TaskState};
use gswarm_core::{ModelId, Span, TaskId, Time};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// A backend is out once calls for so many tasks have failed there with none between them that went well.
const STRIKES: usize = 8;
/// A pause is doubled so often at most.
const DOUBLED: u32 = 5;

/// Tasks that wait for their next try, and what has failed since something went well.
pub(super) struct Pauses {
    backoff: Span,
    until: BinaryHeap<Reverse<(Time, TaskId)>>,
    /// Loads and calls that failed, by model.
    failed: FxHashMap<ModelId, u32>,
    /// By backend, since a call of it went well.
    strikes: FxHashMap<usize, Strikes>,
}

/// What a backend has failed at.
#[derive(Default)]
struct Strikes {
    /// Tasks whose calls failed.
    failed: BTreeSet<TaskId>,
    /// Those of them that failed since it was last taken out.
    lately: BTreeSet<TaskId>,
    /// How often it was taken out.
    times: u32,
}

impl Pauses {
    pub fn new(backoff: Span) -> Pauses {
        let (failed, strikes) = (FxHashMap::default(), FxHashMap::default());
        Pauses { backoff, until: BinaryHeap::new(), failed, strikes }
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

    /// Whether the last call of a backend went well, or there was none.
    pub fn has_gone_well(&self, member: usize) -> bool {
        !self.strikes.contains_key(&member)
    }

    /// A call of a backend has ended, and it `is_called` by others or not: one of those may yet go well. Where it has struck
    /// out, for how long to leave it alone. A task that has failed there before is tried next on a backend `elsewhere`, where
    /// there is one: this one is left alone until no pause can keep the task from that.
    pub fn judge(
        &mut self,
        member: usize,
        task: TaskId,
        error: Option<&BackendError>,
        is_called: bool,
        elsewhere: bool,
    ) -> Option<Span> {
        match error {
            None => drop(self.strikes.remove(&member)),
            Some(BackendError::Failed(_) | BackendError::TimedOut(_)) => {
                let Strikes { failed, lately, times } = self.strikes.entry(member).or_default();
                let has_failed_here = !failed.insert(task);
                lately.insert(task);
                // One that has been out before has fewer of them. One that never lets go of its calls is not waited for.
                let most = STRIKES >> (*times).min(2);
                let is_out = lately.len() >= most && (!is_called || lately.len() >= 2 * most);
                let moves = elsewhere && has_failed_here && (!is_called || failed.len() > 1);
                if is_out || moves {
                    lately.clear();
                    *times += 1;
                    let pause = self.backoff.0.saturating_mul(1 << (*times - 1).min(16)).min(LONGEST_PAUSE.0);
                    let longer = self.backoff.0 << (DOUBLED + 1);
                    return Some(Span(if moves { pause.max(longer) } else { pause }));
                }
            }
            // What is wrong with a request, or with a model, is not the backend's fault; one that is gone is out anyway.
            Some(_) => {}
        }
        None
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
