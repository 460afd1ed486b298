//! External actions: loads, unloads and calls as separate tasks with time limits, and their results.

use super::Patience;
use crate::backend::{BackendError, Replica};
use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::keeper::{GpuAct, GpuDone, GpuReport};
use crate::work::ReplicaCall;
use gswarm_core::{ModelId, Span, TaskId};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

/// What comes back.
pub(super) enum Message {
    /// A call has ended.
    Answer { task: TaskId, ticket: u64, replica: Replica, result: Result<Value, BackendError> },
    /// A load or an unload has ended; why, where it went wrong.
    Done { done: GpuDone, why: Option<BackendError> },
    /// A model does not fit onto the GPUs of a backend, whatever else is taken off.
    Unfit { member: usize, model: ModelId, why: String },
    /// What was ordered was there already.
    Kept(GpuReport),
    /// It does again, and nothing is on it.
    Up { member: usize },
}

pub(super) struct Acts {
    fleet: Fleet,
    clock: Clock,
    patience: Patience,
    sender: UnboundedSender<Message>,
    calls: FxHashMap<TaskId, Calling>,
    /// Calls that are to begin, in the order in which they came.
    waiting: Vec<Waiting>,
    /// Backends that one call has to itself.
    taken: FxHashMap<usize, TaskId>,
    tickets: u64,
}

/// A call that is to begin.
struct Waiting {
    task: TaskId,
    replica: Replica,
    member: usize,
    work: ReplicaCall,
    /// Whether nothing else may be called there meanwhile.
    alone: bool,
}

/// A call under way.
struct Calling {
    ticket: u64,
    member: usize,
    handle: AbortHandle,
}

/// An unload is tried this often before its GPUs count as broken.
const UNLOAD_TRIES: u32 = 3;

impl Acts {
    pub fn new(fleet: Fleet, clock: Clock, patience: Patience, sender: UnboundedSender<Message>) -> Acts {
        let (calls, taken) = (FxHashMap::default(), FxHashMap::default());
        Acts { fleet, clock, patience, sender, calls, waiting: Vec::new(), taken, tickets: 0 }
    }

    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    pub fn send(&self, message: Message) {
        // The run holds the other end as long as it lasts.
        let _ = self.sender.send(message);
    }

    /// Begins something, but for calls: these wait for [`Acts::begin_calls`], which has those that `goes_alone` names have
    /// their backend to themselves.
    pub fn begin(
        &mut self,
        act: GpuAct,
        work: impl FnOnce(TaskId) -> ReplicaCall,
        goes_alone: impl FnOnce(TaskId) -> bool,
    ) {
        match act {
            GpuAct::Load { replica, expected } => self.load(replica, expected),
            GpuAct::Unload(replica) => self.unload(replica),
            GpuAct::Call { task, replica } => {
                let Some(member) = self.fleet.serves(replica) else { return };
                let (work, alone) = (work(task), goes_alone(task));
                self.waiting.push(Waiting { task, replica, member, work, alone });
            }
        }
    }

    /// Begins the calls that may begin. Whoever waits for the same backend does so in turn.
    pub fn begin_calls(&mut self) {
        let mut held_up = BTreeSet::new();
        for one in std::mem::take(&mut self.waiting) {
            let member = one.member;
            let is_taken = self.taken.contains_key(&member) || one.alone && self.calls(member);
            if is_taken || held_up.contains(&member) {
                held_up.insert(member);
                self.waiting.push(one);
            } else {
                self.call(one);
            }
        }
    }

    /// Whether an answer is the one that is waited for; then nothing more is.
    pub fn is_current(&mut self, task: TaskId, ticket: u64) -> bool {
        let current = self.calls.get(&task).is_some_and(|calling| calling.ticket == ticket);
        if current {
            self.ended(task);
        }
        current
    }

    fn ended(&mut self, task: TaskId) -> Option<Calling> {
        let calling = self.calls.remove(&task)?;
        if self.taken.get(&calling.member) == Some(&task) {
            self.taken.remove(&calling.member);
        }
        Some(calling)
    }

    /// Ends a call that nobody waits for any more; `false` where none was under way or to begin.
    pub fn cancel(&mut self, task: TaskId) -> bool {
        if let Some(at) = self.waiting.iter().position(|one| one.task == task) {
            self.waiting.remove(at);
            return true;
        }
        self.ended(task).inspect(|calling| calling.handle.abort()).is_some()
    }

    /// Whether a backend is being called.
    pub fn calls(&self, member: usize) -> bool {
        self.called(member).next().is_some()
    }

    /// What a backend is being called for.
    pub fn called(&self, member: usize) -> impl Iterator<Item = TaskId> + '_ {
        let there = self.calls.iter().filter(move |(_, calling)| calling.member == member);
        there.map(|(&task, _)| task)
    }

    pub fn stop_all(&mut self) {
        self.waiting.clear();
        self.calls.drain().for_each(|(_, calling)| calling.handle.abort());
    }

    fn load(&self, replica: Replica, expected: Span) {
        let Some(member) = self.fleet.serves(replica) else {
            let why = "no server has this model on these GPUs".to_owned();
            let why = Some(BackendError::Failed(why));
            return self.send(Message::Done { done: GpuDone::LoadFailed(replica), why });
        };
        let (backend, sender) = (Arc::clone(&self.fleet.members()[member].backend), self.sender.clone());
        let limit = expected.times(self.patience.call_factor) + self.patience.load_grace;
        let clock = self.clock.clone();
        tokio::spawn(async move {
            let result = within(&clock, limit, backend.load(replica, expected)).await;
            if let Err(error @ (BackendError::DoesNotFit(_) | BackendError::Unusable(_))) = &result {
                let _ = sender.send(Message::Unfit { member, model: replica.model, why: error.to_string() });
            }
            let done = if result.is_ok() { GpuDone::Loaded(replica) } else { GpuDone::LoadFailed(replica) };
            let _ = sender.send(Message::Done { done, why: result.err() });
        });
    }

    fn unload(&self, replica: Replica) {
        let Some(member) = self.fleet.serves(replica) else { return };
        let (backend, sender) = (Arc::clone(&self.fleet.members()[member].backend), self.sender.clone());
        let (clock, limit, backoff) = (self.clock.clone(), self.patience.load_grace, self.patience.backoff);
        tokio::spawn(async move {
            let mut tries = 0;
            let why = loop {
                tries += 1;
                match within(&clock, limit, backend.unload(replica)).await {
                    Ok(()) => break None,
                    Err(error) if tries >= UNLOAD_TRIES => break Some(error),
                    Err(_) => clock.sleep(Span(backoff.0 << tries)).await,
                }
            };
            let done =
                if why.is_none() { GpuDone::Unloaded(replica) } else { GpuDone::UnloadFailed(replica) };
            let _ = sender.send(Message::Done { done, why });
        });
    }

    fn call(&mut self, Waiting { task, replica, member, work, alone }: Waiting) {
        self.tickets += 1;
        let ticket = self.tickets;
        if alone {
            self.taken.insert(member, task);
        }
        let (backend, sender) = (Arc::clone(&self.fleet.members()[member].backend), self.sender.clone());
        let usual = work.estimate().times(self.patience.call_factor) + self.patience.call_grace;
        let limit = self.patience.call_limit.unwrap_or(usual);
        let clock = self.clock.clone();
        let call = tokio::spawn(async move {
            let result = within(&clock, limit, work.carry_out(backend.as_ref(), replica)).await;
            let _ = sender.send(Message::Answer { task, ticket, replica, result });
        });
        self.calls.insert(task, Calling { ticket, member, handle: call.abort_handle() });
    }

    /// Asks a backend again and again, ever more rarely, until it answers; for the first time after a pause.
    pub fn revive(&self, member: usize, mut pause: Span) {
        let (backend, sender) = (Arc::clone(&self.fleet.members()[member].backend), self.sender.clone());
        let (clock, limit) = (self.clock.clone(), self.patience.call_grace);
        tokio::spawn(async move {
            loop {
                clock.sleep(pause).await;
                if sender.is_closed() {
                    return;
                }
                if within(&clock, limit, backend.reset()).await.is_ok() {
                    let _ = sender.send(Message::Up { member });
                    return;
                }
                pause = Span((pause.0 * 2).min(LONGEST_PAUSE.0));
            }
        });
    }
}

/// How rarely a backend that is out is asked at most.
pub(super) const LONGEST_PAUSE: Span = Span(30_000_000);

async fn within<T>(
    clock: &Clock,
    limit: Span,
    work: impl Future<Output = Result<T, BackendError>>,
) -> Result<T, BackendError> {
    tokio::select! {
        biased;
        result = work => result,
        () = clock.sleep(limit) => Err(BackendError::TimedOut(limit.seconds())),
    }
}
