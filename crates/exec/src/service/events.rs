//! Broadcasts events to listeners.

use crate::wire::{ServiceEvent, TimedEvent};
use std::sync::Arc;
use tokio::sync::{broadcast, watch};

/// Happenings that a slow listener may lag behind before it misses some.
const KEPT: usize = 4096;

/// Tells what happens. Nothing is made ready where nobody listens.
#[derive(Clone)]
pub struct EventSender {
    sender: broadcast::Sender<Arc<str>>,
    over: watch::Sender<bool>,
}

impl Default for EventSender {
    fn default() -> EventSender {
        EventSender { sender: broadcast::Sender::new(KEPT), over: watch::Sender::new(false) }
    }
}

impl EventSender {
    /// Everything from now on, one JSON object each.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Arc<str>> {
        self.sender.subscribe()
    }

    /// Returns when the service begins to stop: nobody needs to go on listening.
    pub async fn over(&self) {
        // The sender is here, so that this cannot fail.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    pub(super) fn end(&self) {
        self.over.send_replace(true);
    }

    pub(super) fn anybody_listens(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(super) fn tell(&self, event: impl FnOnce() -> ServiceEvent) {
        if self.anybody_listens() {
            let at = Some(super::open_requests::unix_micros() as f64 / 1e6);
            // Whoever listened may have just gone.
            let _ = self.sender.send(Arc::from(TimedEvent { at, event: event() }.to_json()));
        }
    }
}
