//! The machine that is simulated: the queue of what will happen, and how fast batches progress.

use super::{InjectedFaults, Sharing};
use crate::engine::{Effect, Event, Snapshot};
use crate::id::{GpuId, Gpus, IdVec, TaskId};
use crate::instance::Instance;
use crate::time::{Span, Time};
use crate::truth::Truth;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that will happen. `stamp` tells whether it still will: a batch that changes, or a GPU that is lost, makes
/// what was scheduled before stale.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Scheduled {
    at: Time,
    what: What,
    stamp: u32,
}

/// Ends in batches come first: all that end at one instant must be known before any is told, so that they are told in the
/// order of their events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The next end in the batch of the replica that starts at this GPU.
    EndInBatch(GpuId),
    Event(Event),
}

pub(super) struct Hardware<'i> {
    instance: &'i Instance,
    faults: InjectedFaults,
    truth: Truth,
    queue: BinaryHeap<Reverse<Scheduled>>,
    /// By the first GPU of the replica; only for models that batch.
    batches: IdVec<GpuId, Batch>,
    /// Executions and loads that were cut short, per task and per window.
    aborted_tasks: FxHashMap<TaskId, u32>,
    aborted_loads: FxHashMap<GpuId, u32>,
    attempts: FxHashMap<TaskId, u32>,
}

#[derive(Default)]
struct Batch {
    /// The tasks, each with whether it fails in the end.
    sharing: Sharing<(TaskId, bool)>,
    stamp: u32,
}

impl<'i> Hardware<'i> {
    pub fn new(instance: &'i Instance, faults: InjectedFaults, truth: Truth) -> Hardware<'i> {
        Hardware {
            instance,
            faults,
            truth,
            queue: BinaryHeap::new(),
            batches: (0..instance.cluster.gpus).map(|_| Batch::default()).collect(),
            aborted_tasks: FxHashMap::default(),
            aborted_loads: FxHashMap::default(),
            attempts: FxHashMap::default(),
        }
    }

    /// The machine as it stands in a snapshot.
    pub fn under_way(snapshot: &'i Snapshot) -> Hardware<'i> {
        let mut hardware = Hardware::new(snapshot.instance(), InjectedFaults::default(), Truth::default());
        let now = snapshot.now();
        for &(task, gpus, left) in &snapshot.under_way {
            hardware.begin(now, task, gpus, left, false);
        }
        for &(lead, end) in &snapshot.loads {
            hardware.schedule(end, Event::Loaded(lead));
        }
        hardware
    }

    pub fn schedule(&mut self, at: Time, event: Event) {
        let what = What::Event(event);
        self.queue.push(Reverse(Scheduled { at, what, stamp: self.stamp_of(what) }));
    }

    fn stamp_of(&self, what: What) -> u32 {
        match what {
            What::EndInBatch(lead) => self.batches[lead].stamp,
            What::Event(Event::Finished(task) | Event::Failed(task)) if !self.aborted_tasks.is_empty() => {
                self.aborted_tasks.get(&task).copied().unwrap_or(0)
            }
            What::Event(Event::Loaded(lead)) if !self.aborted_loads.is_empty() => {
                self.aborted_loads.get(&lead).copied().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// When something happens next.
    pub fn next_time(&mut self) -> Time {
        while let Some(&Reverse(next)) = self.queue.peek() {
            if self.stamp_of(next.what) == next.stamp {
                return next.at;
            }
            self.queue.pop();
        }
        Time::NEVER
    }

    /// What happens at this time, if anything more does.
    pub fn next_at(&mut self, at: Time) -> Option<Event> {
        while self.next_time() == at {
            match self.queue.pop()?.0.what {
                What::Event(event) => return Some(event),
                What::EndInBatch(lead) => self.ends_in_batch(at, lead),
            }
        }
        None
    }

    pub fn carry_out(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Load { gpus, span, .. } => self.schedule(now + span, Event::Loaded(gpus.first)),
            Effect::Execute { task, gpus } => self.execute(now, task, gpus),
            Effect::AbortTask { task, gpus } => {
                *self.aborted_tasks.entry(task).or_default() += 1;
                if self.batches[gpus.first].sharing.members().any(|(member, _)| member == task) {
                    self.leaves_batch(now, task, gpus.first);
                }
            }
            Effect::AbortLoad { gpus } => *self.aborted_loads.entry(gpus.first).or_default() += 1,
            // What it costs is part of the next load there.
            Effect::Unload { .. } => {}
            Effect::Wake { at } => self.schedule(at, Event::Woken),
        }
    }

    fn execute(&mut self, now: Time, task: TaskId, gpus: Gpus) {
        let mut work = self.truth.time(self.instance, task, now);
        let mut fails = false;
        if self.faults.fail_rate > 0.0 {
            let attempt = self.attempts.entry(task).or_default();
            *attempt += 1;
            if let Some(part) = self.faults.fails_after(task, *attempt) {
                work = Span((work.0 as f64 * part).ceil() as u64).max(Span(1)).min(work);
                fails = true;
            }
        }
        self.begin(now, task, gpus, work, fails);
    }

    fn begin(&mut self, now: Time, task: TaskId, gpus: Gpus, work: Span, fails: bool) {
        let slowdown = &self.instance.models[self.instance.model_of(task)].slowdown;
        if slowdown.len() == 1 {
            let event = if fails { Event::Failed(task) } else { Event::Finished(task) };
            self.schedule(now + work, event);
            return;
        }
        self.batches[gpus.first].sharing.join(now, (task, fails), work, slowdown);
        self.schedule_batch(gpus.first, slowdown);
    }

    /// All of a batch that end at this instant.
    fn ends_in_batch(&mut self, at: Time, lead: GpuId) {
        let Some((task, _)) = self.batches[lead].sharing.members().next() else { return };
        let slowdown = &self.instance.models[self.instance.model_of(task)].slowdown;
        while let Some((end, (task, fails))) = self.batches[lead].sharing.next_end(slowdown)
            && end == at
        {
            self.batches[lead].sharing.leave(at, (task, fails), slowdown);
            self.schedule(at, if fails { Event::Failed(task) } else { Event::Finished(task) });
        }
        self.schedule_batch(lead, slowdown);
    }

    fn leaves_batch(&mut self, now: Time, task: TaskId, lead: GpuId) {
        let slowdown = &self.instance.models[self.instance.model_of(task)].slowdown;
        let batch = &mut self.batches[lead].sharing;
        let member = batch.members().find(|&(member, _)| member == task);
        member.into_iter().for_each(|member| batch.leave(now, member, slowdown));
        self.schedule_batch(lead, slowdown);
    }

    /// Schedules the next end in a batch; what was scheduled for it before is stale.
    fn schedule_batch(&mut self, lead: GpuId, slowdown: &[u32]) {
        let batch = &mut self.batches[lead];
        batch.stamp += 1;
        if let Some((at, _)) = batch.sharing.next_end(slowdown) {
            self.queue.push(Reverse(Scheduled { at, what: What::EndInBatch(lead), stamp: batch.stamp }));
        }
    }
}
