//! Going on after a crash: the journal is read back into a fresh engine, and whatever was under way counts as lost.

use super::{Failure, Live, LiveError};
use crate::journal::{Entry, JournalError};
use gswarm_core::engine::{Event, TaskState};
use gswarm_core::policy::Policy;
use gswarm_core::{GpuId, Time};

impl Live<'_> {
    /// Takes up what the journal holds. Nothing that has finished will run again; the policy is told what is left.
    pub fn restore(&mut self, policy: &mut dyn Policy) -> Result<(), LiveError> {
        let entries = self.journal.entries()?;
        let mut last = Time::ZERO;
        for (at, entry) in entries {
            last = at;
            match entry {
                Entry::Event(event) => {
                    if let Event::Arrived(request) = event {
                        self.arrivals.retain(|&(_, other)| other != request);
                    }
                    self.engine.handle(at, event);
                }
                Entry::Decision(decision) => {
                    let damaged =
                        |why| JournalError::Damaged(format!("a decision cannot be made again: {why}"));
                    self.engine.apply(decision).map_err(damaged)?;
                }
            }
        }
        for (at, task, why) in self.journal.failures()? {
            self.failures.push(Failure { at, task, why });
        }
        self.outputs.0.extend(self.journal.outputs()?);
        self.clock.go_on_from(last);
        // Of a run that has come to its end nothing is changed.
        if !self.engine.is_done() {
            self.start_from_empty_gpus()?;
            self.brief(policy);
            self.resumed = true;
        }
        Ok(())
    }

    /// What the servers hold, and what became of their calls, nobody knows: the GPUs count as lost and found.
    fn start_from_empty_gpus(&mut self) -> Result<(), LiveError> {
        let now = self.clock.now();
        let gpus = self.problem.instance.cluster.gpus;
        let lost = (0..gpus).map(|gpu| Event::Lost(GpuId(gpu)));
        let found = (0..gpus).map(|gpu| Event::Returned(GpuId(gpu)));
        for event in lost.chain(found) {
            self.journal.append(now, Entry::Event(event), None)?;
            self.engine.handle(now, event);
        }
        self.journal.commit()?;
        // What was under way in the process that died is not under way in this one.
        self.engine.take_effects(&mut self.effects);
        self.engine.take_news(&mut self.news);
        self.effects.clear();
        self.news.clear();
        Ok(())
    }

    /// Tells a new policy what has been done and what waits.
    fn brief(&mut self, policy: &mut dyn Policy) {
        let view = self.engine.view();
        let over = |state| matches!(state, TaskState::Done | TaskState::GivenUp);
        let tasks = || self.problem.instance.task_ids();
        tasks().filter(|&task| over(view.state(task))).for_each(|task| policy.given_up(task, &view));
        let ready = tasks().filter(|&task| view.state(task) == TaskState::Ready);
        ready.for_each(|task| policy.ready(task, &view));
    }
}
