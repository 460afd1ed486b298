//! The machine that is simulated: the queue of what will happen, and how fast batches progress.

use super::Faults;
use crate::engine::{Effect, Event};
use crate::id::{GpuId, Gpus, IdVec, TaskId};
use crate::instance::Instance;
use crate::time::{Span, Time};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that will happen. `stamp` tells whether it still will: a batch that changes, or a GPU that is lost, makes
/// what was scheduled before stale.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Scheduled {
    at: Time,
    event: Event,
    /// The replica whose batch it is an event of, or [`NO_BATCH`].
    batch: GpuId,
    stamp: u32,
}

const NO_BATCH: GpuId = GpuId(u32::MAX);

pub(super) struct Hardware<'i> {
    instance: &'i Instance,
    faults: Faults,
    queue: BinaryHeap<Reverse<Scheduled>>,
    /// By the first GPU of the replica; only for models that batch.
    batches: IdVec<GpuId, Batch>,
    /// Executions and loads that were cut short, per task and per window.
    aborted_tasks: FxHashMap<TaskId, u32>,
    aborted_loads: FxHashMap<GpuId, u32>,
    attempts: FxHashMap<TaskId, u32>,
}

/// Work is counted in millionths of a microsecond, so that rounding never adds up to one.
const UNITS: u128 = 1_000_000;

#[derive(Default)]
struct Batch {
    members: Vec<(u128, TaskId, bool)>,
    /// Work that each member has had since the batch began.
    progress: u128,
    since: Time,
    stamp: u32,
}

impl<'i> Hardware<'i> {
    pub fn new(instance: &'i Instance, faults: Faults) -> Hardware<'i> {
        Hardware {
            instance,
            faults,
            queue: BinaryHeap::new(),
            batches: (0..instance.cluster.gpus).map(|_| Batch::default()).collect(),
            aborted_tasks: FxHashMap::default(),
            aborted_loads: FxHashMap::default(),
            attempts: FxHashMap::default(),
        }
    }

    pub fn schedule(&mut self, at: Time, event: Event) {
        let stamp = self.stamp_of(event, NO_BATCH);
        self.queue.push(Reverse(Scheduled { at, event, batch: NO_BATCH, stamp }));
    }

    fn stamp_of(&self, event: Event, batch: GpuId) -> u32 {
        match event {
            _ if batch != NO_BATCH => self.batches[batch].stamp,
            Event::Finished(task) | Event::Failed(task) if !self.aborted_tasks.is_empty() => {
                self.aborted_tasks.get(&task).copied().unwrap_or(0)
            }
            Event::Loaded(lead) if !self.aborted_loads.is_empty() => {
                self.aborted_loads.get(&lead).copied().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// When something happens next.
    pub fn next_time(&mut self) -> Time {
        while let Some(&Reverse(next)) = self.queue.peek() {
            if self.stamp_of(next.event, next.batch) == next.stamp {
                return next.at;
            }
            self.queue.pop();
        }
        Time::NEVER
    }

    /// What happens at this time, if anything more does.
    pub fn next_at(&mut self, at: Time) -> Option<Event> {
        if self.next_time() != at {
            return None;
        }
        let next = self.queue.pop()?.0;
        if let (Event::Finished(task) | Event::Failed(task), true) = (next.event, next.batch != NO_BATCH) {
            self.leaves_batch(at, task, next.batch);
        }
        Some(next.event)
    }

    pub fn carry_out(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Load { gpus, span, .. } => self.schedule(now + span, Event::Loaded(gpus.first)),
            Effect::Execute { task, gpus } => self.execute(now, task, gpus),
            Effect::AbortTask { task, gpus } => {
                *self.aborted_tasks.entry(task).or_default() += 1;
                if self.batches[gpus.first].members.iter().any(|&(_, member, _)| member == task) {
                    self.leaves_batch(now, task, gpus.first);
                }
            }
            Effect::AbortLoad { gpus } => *self.aborted_loads.entry(gpus.first).or_default() += 1,
            Effect::Wake { at } => self.schedule(at, Event::Woken),
        }
    }

    fn execute(&mut self, now: Time, task: TaskId, gpus: Gpus) {
        let mut work = self.instance.execution(task);
        let mut fails = false;
        if self.faults.fail_rate > 0.0 {
            let attempt = self.attempts.entry(task).or_default();
            *attempt += 1;
            if let Some(part) = self.faults.fails_after(task, *attempt) {
                work = Span((work.0 as f64 * part).ceil() as u64).max(Span(1)).min(work);
                fails = true;
            }
        }
        let slowdown = &self.instance.models[self.instance.model_of(task)].slowdown;
        if slowdown.len() == 1 {
            let event = if fails { Event::Failed(task) } else { Event::Finished(task) };
            self.schedule(now + work, event);
            return;
        }
        let batch = &mut self.batches[gpus.first];
        batch.advance(now, slowdown);
        batch.members.push((batch.progress + u128::from(work.0) * UNITS, task, fails));
        self.schedule_batch(now, gpus.first, slowdown);
    }

    fn leaves_batch(&mut self, now: Time, task: TaskId, lead: GpuId) {
        let slowdown = &self.instance.models[self.instance.model_of(task)].slowdown;
        let batch = &mut self.batches[lead];
        batch.advance(now, slowdown);
        batch.members.retain(|&(_, member, _)| member != task);
        if batch.members.is_empty() {
            batch.progress = 0;
        }
        self.schedule_batch(now, lead, slowdown);
    }

    /// Schedules the next end in a batch; what was scheduled for it before is stale.
    fn schedule_batch(&mut self, now: Time, lead: GpuId, slowdown: &[u32]) {
        let batch = &mut self.batches[lead];
        batch.stamp += 1;
        let Some(&(target, task, fails)) = batch.members.iter().min() else { return };
        let slow = u128::from(slowdown[batch.members.len() - 1]);
        let left = target.saturating_sub(batch.progress) * slow;
        let at = now + Span(left.div_ceil(UNITS * UNITS) as u64);
        let event = if fails { Event::Failed(task) } else { Event::Finished(task) };
        self.queue.push(Reverse(Scheduled { at, event, batch: lead, stamp: batch.stamp }));
    }
}

impl Batch {
    fn advance(&mut self, now: Time, slowdown: &[u32]) {
        if let Some(last) = self.members.len().checked_sub(1) {
            let elapsed = u128::from((now - self.since).0) * UNITS * UNITS;
            self.progress += elapsed / u128::from(slowdown[last]);
        }
        self.since = now;
    }
}
