//! Resuming after a crash: the journal is replayed into a fresh engine, and interrupted work counts as lost.

use super::batch::Live;
use super::{LiveError, NodeFailure};
use crate::journal::{JournalEntry, Written, replay};
use gswarm_core::engine::{Event, TaskState};
use gswarm_core::policy::Policy;
use gswarm_core::{GpuId, TaskId, Time};

impl Live<'_> {
    /// Replays the journal. Finished work does not run again; the policy learns what is left.
    pub fn restore(&mut self, policy: &mut dyn Policy) -> Result<(), LiveError> {
        let entries = self.machine.book.journal.entries()?;
        let mut last = Time::ZERO;
        for Written { at, entry, note, .. } in entries {
            last = at;
            replay::could_follow(&self.machine.engine, at, entry)?;
            match entry {
                JournalEntry::Event(event) => {
                    if let Event::Arrived(request) = event {
                        self.arrivals.retain(|&(_, other)| other != request);
                    }
                    if let Some(why) = note {
                        let failed = self.machine.fails_by(event).into_iter();
                        let failures = failed.map(|task| NodeFailure { at, task, why: why.clone() });
                        self.machine.book.failures.extend(failures);
                    }
                    self.machine.engine.handle(at, event);
                }
                JournalEntry::Decision(decision) => {
                    replay::decide_again(&mut self.machine.engine, at, decision)?
                }
            }
        }
        for (task, output) in self.machine.book.journal.outputs()? {
            replay::could_be_output(&self.machine.engine, task)?;
            self.machine.book.outputs.0.insert(task, output);
        }
        self.machine.clock.go_on_from(last);
        if self.retries_failed {
            self.reopen_failed()?;
        }
        // Of a run that has come to its end nothing is changed.
        if !self.machine.engine.is_done() {
            self.start_from_empty_gpus()?;
            self.brief(policy);
            self.resumed = true;
        }
        Ok(())
    }

    /// Every request of which something was given up is open again.
    fn reopen_failed(&mut self) -> Result<(), LiveError> {
        let (now, instance) = (self.machine.clock.now(), self.machine.book.problem.instance);
        for request in instance.requests.keys() {
            let view = self.machine.engine.view();
            if instance.tasks_of(request).any(|task| view.state(task) == TaskState::GivenUp) {
                let event = Event::Reopened(request);
                self.machine.book.journal.append(now, JournalEntry::Event(event), None)?;
                self.machine.engine.handle(now, event);
            }
        }
        Ok(self.machine.book.journal.commit()?)
    }

    /// What the servers hold, and what became of their calls, nobody knows: the GPUs count as lost and found.
    fn start_from_empty_gpus(&mut self) -> Result<(), LiveError> {
        let now = self.machine.clock.now();
        let gpus = self.machine.book.problem.instance.cluster.gpus;
        let lost = (0..gpus).map(|gpu| Event::Lost(GpuId(gpu)));
        let found = (0..gpus).map(|gpu| Event::Returned(GpuId(gpu)));
        // A pause that was cut short has been long enough.
        let view = self.machine.engine.view();
        let held = self.machine.book.problem.instance.task_ids();
        let held: Vec<TaskId> = held.filter(|&task| view.state(task) == TaskState::Held).collect();
        let released = held.into_iter().map(Event::Released);
        for event in lost.chain(found).chain(released) {
            self.machine.book.journal.append(now, JournalEntry::Event(event), None)?;
            self.machine.engine.handle(now, event);
        }
        self.machine.book.journal.commit()?;
        self.machine.forget_orders();
        Ok(())
    }

    /// Tells a new policy what has been done and what waits.
    fn brief(&mut self, policy: &mut dyn Policy) {
        let view = self.machine.engine.view();
        let over = |state| matches!(state, TaskState::Done | TaskState::GivenUp);
        let tasks = || self.machine.book.problem.instance.task_ids();
        tasks().filter(|&task| over(view.state(task))).for_each(|task| policy.given_up(task, &view));
        let ready = tasks().filter(|&task| view.state(task) == TaskState::Ready);
        ready.for_each(|task| policy.ready(task, &view));
    }
}
