//! Work for a replica: a node of a workflow, or a direct request whose answer is streamed to its caller.

use crate::backend::{Backend, BackendError, Replica};
use crate::call::Call;
use crate::forward::{Answering, Forward, Relay};
use gswarm_core::Span;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is asked of a replica.
#[derive(Clone)]
pub enum ReplicaCall {
    /// A node of a workflow: its answer is kept for the nodes after it.
    Node(Arc<Call>),
    /// Somebody's own request: its answer goes to them.
    Direct(Arc<Direct>),
}

impl ReplicaCall {
    /// What it is expected to take on a replica of its own.
    #[must_use]
    pub fn estimate(&self) -> Span {
        match self {
            ReplicaCall::Node(call) => call.estimate,
            ReplicaCall::Direct(direct) => direct.forward.estimate,
        }
    }

    /// Asks, and returns when the answer is whole.
    pub async fn carry_out(&self, backend: &dyn Backend, replica: Replica) -> Result<Value, BackendError> {
        match self {
            ReplicaCall::Node(call) => backend.call(replica, call).await,
            ReplicaCall::Direct(direct) => direct.carry_out(backend, replica).await,
        }
    }
}

/// Somebody's own request, and where its answer goes.
pub struct Direct {
    /// What is asked.
    pub forward: Forward,
    relay: Mutex<Option<Relay>>,
}

impl Direct {
    /// A request, and where its answer will come.
    #[must_use]
    pub fn new(forward: Forward) -> (Arc<Direct>, Answering) {
        let (relay, answering) = Relay::new();
        (Arc::new(Direct { forward, relay: Mutex::new(Some(relay)) }), answering)
    }

    async fn carry_out(&self, backend: &dyn Backend, replica: Replica) -> Result<Value, BackendError> {
        let gone = || BackendError::Failed("its answer has already begun".to_owned());
        let mut taken = TakenRelay { relay: Some(self.relay().take().ok_or_else(gone)?), to: self };
        let Some(relay) = &mut taken.relay else { return Err(gone()) };
        let result = backend.forward(replica, &self.forward, relay).await;
        match result {
            Ok(()) => {
                relay.end().await;
                Ok(Value::Null)
            }
            // Half an answer is out: another try cannot take it back.
            Err(error) if relay.begun() => Ok(json!({"broken": error.to_string()})),
            Err(error) => Err(error),
        }
    }

    /// There will be no answer. Where one has begun, it is simply not whole.
    pub fn fails(&self, why: String) {
        if let Some(relay) = self.relay().take() {
            relay.fail(why);
        }
    }

    fn relay(&self) -> MutexGuard<'_, Option<Relay>> {
        self.relay.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A relay in use. Where the call fails or is broken off, the next try gets it back, unless the answer has begun.
struct TakenRelay<'d> {
    to: &'d Direct,
    relay: Option<Relay>,
}

impl Drop for TakenRelay<'_> {
    fn drop(&mut self) {
        if let Some(relay) = self.relay.take().filter(|relay| !relay.begun()) {
            *self.to.relay() = Some(relay);
        }
    }
}
