//! Which journal entries are possible next: a file that SQLite accepts may still contain events that never happened.

use super::{JournalEntry, JournalError};
use gswarm_core::engine::{Decision, Engine, Event, TaskState};
use gswarm_core::{TaskId, Time};

/// Whether an entry can follow upon what an engine has been told; before anybody looks at what it speaks of.
pub(crate) fn could_follow(engine: &Engine<'_>, at: Time, entry: JournalEntry) -> Result<(), JournalError> {
    let could = match entry {
        JournalEntry::Event(event) => engine.could_happen(at, event),
        JournalEntry::Decision(decision) => engine.could_decide(at, decision),
    };
    could.map_err(JournalError::Damaged)?;
    // In the moment of its end more may happen, and nothing after it.
    if engine.is_done() && at > engine.view().now() {
        return Err(JournalError::Damaged(format!("something happens at {at}, after the end of the run")));
    }
    Ok(())
}

/// Makes a decision again.
pub(crate) fn decide_again(
    engine: &mut Engine<'_>,
    at: Time,
    decision: Decision,
) -> Result<(), JournalError> {
    // It may have been made when nothing happened but that the policy was woken, which is not written down.
    engine.handle(at, Event::Woken);
    let damaged = |why| JournalError::Damaged(format!("a decision cannot be replayed: {why}"));
    engine.apply(decision).map_err(damaged)
}

/// Whether what is written of a task is the output of one that has finished.
pub(crate) fn could_be_output(engine: &Engine<'_>, task: TaskId) -> Result<(), JournalError> {
    let view = engine.view();
    if task.index() < view.instance().tasks() && view.state(task) == TaskState::Done {
        return Ok(());
    }
    Err(JournalError::Damaged(format!("there is an output of task {}, which has not finished", task.0)))
}
