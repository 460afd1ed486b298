//! A backend that only takes its time: loads take what the cost rules say, calls what their estimates say, and calls that
//! share a replica slow one another down by the model's curve. For trying a cluster of any size on a laptop.

use super::{Backend, BackendError, Replica};
use crate::call::Call;
use crate::clock::Clock;
use gswarm_core::sim::Sharing;
use gswarm_core::{GpuId, Span, Time};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Servers that exist only in time.
pub struct Emulated {
    clock: Clock,
    /// Slowdown per batch size in millionths, by model.
    slowdown: Vec<Vec<u32>>,
    replicas: Mutex<FxHashMap<GpuId, Arc<Shared>>>,
}

/// The calls that share a replica.
struct Shared {
    sharing: Mutex<Sharing<u64>>,
    /// Counts the changes: whoever waits for an end reckons again after each.
    changes: watch::Sender<u64>,
}

impl Emulated {
    /// For models with these slowdowns (see [`gswarm_core::instance::Model::slowdown`]), by model.
    #[must_use]
    pub fn new(clock: Clock, slowdown: Vec<Vec<u32>>) -> Emulated {
        Emulated { clock, slowdown, replicas: Mutex::default() }
    }

    fn shared(&self, lead: GpuId) -> Arc<Shared> {
        let new = || Arc::new(Shared { sharing: Mutex::default(), changes: watch::Sender::new(0) });
        Arc::clone(locked(&self.replicas).entry(lead).or_insert_with(new))
    }

    async fn execute_shared(&self, replica: Replica, work: Span) {
        let slowdown = &self.slowdown[replica.model.index()];
        let shared = self.shared(replica.gpus.first);
        let mut changes = shared.changes.subscribe();
        let member = Member::join(&shared, &self.clock, slowdown, work);
        loop {
            changes.mark_unchanged();
            let next = locked(&shared.sharing).next_end(slowdown);
            let (at, first) = next.unwrap_or((Time::NEVER, member.id));
            if first != member.id {
                let _ = changes.changed().await;
                continue;
            }
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = self.clock.sleep_until(at) => return,
            }
        }
    }
}

/// A call among those that share a replica; it leaves when it is dropped, whether it has ended or was cancelled.
struct Member<'s> {
    id: u64,
    shared: &'s Shared,
    clock: &'s Clock,
    slowdown: &'s [u32],
}

impl<'s> Member<'s> {
    fn join(shared: &'s Shared, clock: &'s Clock, slowdown: &'s [u32], work: Span) -> Member<'s> {
        let mut id = 0;
        shared.changes.send_modify(|changes| {
            *changes += 1;
            id = *changes;
        });
        locked(&shared.sharing).join(clock.now(), id, work, slowdown);
        // Those who were told of the change before it was made look again.
        shared.changes.send_modify(|changes| *changes += 1);
        Member { id, shared, clock, slowdown }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        locked(&self.shared.sharing).leave(self.clock.now(), self.id, self.slowdown);
        self.shared.changes.send_modify(|changes| *changes += 1);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait::async_trait]
impl Backend for Emulated {
    async fn load(&self, _replica: Replica, expected: Span) -> Result<(), BackendError> {
        self.clock.sleep(expected).await;
        Ok(())
    }

    async fn unload(&self, _replica: Replica) -> Result<(), BackendError> {
        // What taking a model off costs is part of what bringing the next one costs.
        Ok(())
    }

    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        if self.slowdown[replica.model.index()].len() == 1 {
            self.clock.sleep(call.estimate).await;
        } else {
            self.execute_shared(replica, call.estimate).await;
        }
        Ok(json!({"emulated": true, "call": call.name}))
    }

    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
