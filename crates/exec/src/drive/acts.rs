//! What is done outside: loads, unloads and calls, each on its own, with its limits of time, and what comes back of them.

use super::Patience;
use crate::backend::{BackendError, Replica};
use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::keeper::{Act, Done, Report};
use crate::work::Work;
use gswarm_core::{ModelId, Span, TaskId};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

/// What comes back.
pub(super) enum Message {
    /// A call has ended.
    Answer { task: TaskId, ticket: u64, replica: Replica, result: Result<Value, BackendError> },
    /// A load or an unload has ended; why, where it went wrong.
    Done { done: Done, why: Option<String> },
    /// A model does not fit onto the GPUs of a backend, whatever else is taken off.
    Unfit { member: usize, model: ModelId, why: String },
    /// What was ordered was there already.
    Kept(Report),
    /// A backend does not answer.
    Down { member: usize, why: String },
    /// It does again, and nothing is on it.
    Up { member: usize },
}

pub(super) struct Acts {
    fleet: Fleet,
    clock: Clock,
    patience: Patience,
    sender: UnboundedSender<Message>,
    calls: FxHashMap<TaskId, (u64, AbortHandle)>,
    tickets: u64,
    tries: FxHashMap<TaskId, u32>,
    /// Loads of a model that failed since the last that did not.
    failed_loads: Arc<Mutex<FxHashMap<ModelId, u32>>>,
}

/// An unload is tried this often before its GPUs count as broken.
const UNLOAD_TRIES: u32 = 3;

impl Acts {
    pub fn new(fleet: Fleet, clock: Clock, patience: Patience, sender: UnboundedSender<Message>) -> Acts {
        let (calls, tries) = (FxHashMap::default(), FxHashMap::default());
        Acts { fleet, clock, patience, sender, calls, tickets: 0, tries, failed_loads: Arc::default() }
    }

    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    pub fn send(&self, message: Message) {
        // The run holds the other end as long as it lasts.
        let _ = self.sender.send(message);
    }

    pub fn begin(&mut self, act: Act, work: impl FnOnce(TaskId) -> Work) {
        match act {
            Act::Load { replica, expected } => self.load(replica, expected),
            Act::Unload(replica) => self.unload(replica),
            Act::Call { task, replica } => self.call(task, replica, work(task)),
        }
    }

    /// Whether an answer is the one that is waited for; then nothing more is.
    pub fn is_current(&mut self, task: TaskId, ticket: u64) -> bool {
        let current = self.calls.get(&task).is_some_and(|&(known, _)| known == ticket);
        if current {
            self.calls.remove(&task);
        }
        current
    }

    /// Ends a call that nobody waits for any more; `false` where none was under way.
    pub fn cancel(&mut self, task: TaskId) -> bool {
        let call = self.calls.remove(&task);
        call.as_ref().inspect(|(_, handle)| handle.abort()).is_some()
    }

    /// The task's number may be given to another.
    pub fn forget(&mut self, task: TaskId) {
        self.tries.remove(&task);
    }

    pub fn stop_all(&mut self) {
        self.calls.drain().for_each(|(_, (_, handle))| handle.abort());
    }

    fn load(&self, replica: Replica, expected: Span) {
        let Some(member) = self.fleet.serves(replica) else {
            let why = Some("no backend serves this model on these GPUs".to_owned());
            return self.send(Message::Done { done: Done::LoadFailed(replica), why });
        };
        let (backend, sender) = (Arc::clone(&self.fleet.members()[member].backend), self.sender.clone());
        let limit = expected.times(self.patience.call_factor) + self.patience.load_grace;
        let (clock, backoff) = (self.clock.clone(), self.patience.backoff);
        let failed_loads = Arc::clone(&self.failed_loads);
        tokio::spawn(async move {
            let result = within(&clock, limit, backend.load(replica, expected)).await;
            let tries = count_failed(&failed_loads, replica.model, result.is_err());
            let (done, why) = match &result {
                Ok(()) => (Done::Loaded(replica), None),
                Err(error) => (Done::LoadFailed(replica), Some(error.to_string())),
            };
            match result {
                Err(BackendError::Gone(why)) => {
                    let _ = sender.send(Message::Down { member, why });
                }
                Err(BackendError::DoesNotFit(why)) => {
                    let _ = sender.send(Message::Unfit { member, model: replica.model, why });
                }
                // What is in the way may go, given a moment.
                Err(_) => clock.sleep(Span(backoff.0 << tries.min(5))).await,
                Ok(()) => {}
            }
            let _ = sender.send(Message::Done { done, why });
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
                    Err(error) if tries >= UNLOAD_TRIES => break Some(error.to_string()),
                    Err(_) => clock.sleep(Span(backoff.0 << tries)).await,
                }
            };
            let done = if why.is_none() { Done::Unloaded(replica) } else { Done::UnloadFailed(replica) };
            let _ = sender.send(Message::Done { done, why });
        });
    }

    fn call(&mut self, task: TaskId, replica: Replica, work: Work) {
        self.tickets += 1;
        let ticket = self.tickets;
        let tries = *self.tries.entry(task).and_modify(|tries| *tries += 1).or_insert(0);
        let Some(member) = self.fleet.serves(replica) else { return };
        let (backend, sender) = (Arc::clone(&self.fleet.members()[member].backend), self.sender.clone());
        let limit = work.estimate().times(self.patience.call_factor) + self.patience.call_grace;
        let (clock, backoff) = (self.clock.clone(), self.patience.backoff);
        let handle = tokio::spawn(async move {
            let result = within(&clock, limit, work.carry_out(backend.as_ref(), replica)).await;
            match &result {
                Err(BackendError::Gone(why)) => {
                    let _ = sender.send(Message::Down { member, why: why.clone() });
                }
                // A server that stumbled is given a moment before it, or another, is asked again.
                Err(BackendError::Failed(_) | BackendError::TimedOut(_)) => {
                    clock.sleep(Span(backoff.0 << tries.min(5))).await;
                }
                _ => {}
            }
            let _ = sender.send(Message::Answer { task, ticket, replica, result });
        });
        self.calls.insert(task, (ticket, handle.abort_handle()));
    }

    /// Asks a backend again and again, ever more rarely, until it answers.
    pub fn revive(&self, member: usize) {
        let (backend, sender) = (Arc::clone(&self.fleet.members()[member].backend), self.sender.clone());
        let (clock, limit) = (self.clock.clone(), self.patience.call_grace);
        let mut pause = self.patience.backoff;
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

/// How many loads of a model had failed in a row before this one.
fn count_failed(counts: &Mutex<FxHashMap<ModelId, u32>>, model: ModelId, failed: bool) -> u32 {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    if !failed {
        return counts.remove(&model).unwrap_or(0);
    }
    let count = counts.entry(model).or_insert(0);
    *count += 1;
    *count - 1
}

const LONGEST_PAUSE: Span = Span(30_000_000);

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
