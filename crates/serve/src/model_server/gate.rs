//! Who is using an instance: it is not taken away under a running call, and takes no new ones once it is to go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The way into an instance.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    emptied: Notify,
}

#[derive(Debug, Default)]
struct State {
    inside: usize,
    closed: bool,
}

/// Somebody who is inside, until it is dropped.
#[derive(Debug)]
pub struct Pass(Arc<Gate>);

impl Gate {
    /// Goes in, unless the gate is closed.
    pub fn enter(self: &Arc<Gate>) -> Option<Pass> {
        let mut state = self.state();
        if state.closed {
            return None;
        }
        state.inside += 1;
        Some(Pass(Arc::clone(self)))
    }

    /// How many are inside.
    pub fn inside(&self) -> usize {
        self.state().inside
    }

    /// Whether nobody gets in any more.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Closes it; `false` where somebody else did before.
    pub fn close(&self) -> bool {
        !std::mem::replace(&mut self.state().closed, true)
    }

    /// Returns once nobody is inside; the gate has to be closed.
    pub async fn empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.inside() == 0 {
                return;
            }
            emptied.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.inside -= 1;
        if state.inside == 0 {
            self.0.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use std::sync::Arc;
    use std::time::Duration;

    #[tokio::test]
    async fn closing_waits_for_those_inside_and_lets_nobody_in() {
        let gate = Arc::new(Gate::default());
        let (first, second) = (gate.enter().unwrap(), gate.enter().unwrap());
        assert!(gate.close() && !gate.close() && gate.enter().is_none());
        drop(first);
        assert!(tokio::time::timeout(Duration::from_millis(20), gate.empty()).await.is_err());
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.empty().await }
        });
        drop(second);
        tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();
    }
}
