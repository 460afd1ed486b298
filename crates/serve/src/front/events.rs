//! What happens, for many listeners: one task puts it into words, and everybody is sent the same bytes.
//!
//! Events are gathered for a moment, so that a service that is busy wakes its listeners some times in a second, and not for
//! every event.

use axum::body::Bytes;
use futures_util::stream::{Stream, unfold};
use gswarm_exec::service::EventSender;
use gswarm_exec::wire::{ServiceEvent, TimedEvent};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};
use tokio::time::{sleep, timeout};

/// How long events are gathered.
const GATHERED: Duration = Duration::from_millis(20);
/// Events in a block at most.
const TOGETHER: u64 = 1024;
/// Blocks that a slow listener may lag behind before it misses some.
const KEPT: usize = 64;
/// How long connections are silent at most: what is between may close those that seem dead.
const SILENCE: Duration = Duration::from_secs(15);

/// Some events, as they are sent.
#[derive(Clone)]
struct Block {
    text: Bytes,
    /// Events before it, since the first listener came.
    before: u64,
    events: u64,
}

/// Sends what happens to everybody who listens.
pub(super) struct Events {
    told: EventSender,
    blocks: broadcast::Sender<Block>,
    /// Whether somebody puts events into words: nobody does where nobody listens.
    is_told: Mutex<bool>,
}

impl Events {
    pub fn new(told: EventSender) -> Arc<Events> {
        Arc::new(Events { told, blocks: broadcast::Sender::new(KEPT), is_told: Mutex::new(false) })
    }

    /// What happens from now on.
    pub fn listen(self: &Arc<Events>) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + use<> {
        let listener = {
            let mut is_told = self.is_told.lock().unwrap_or_else(PoisonError::into_inner);
            let listener = self.blocks.subscribe();
            if !std::mem::replace(&mut *is_told, true) {
                tokio::spawn(Arc::clone(self).tell(self.told.listen()));
            }
            listener
        };
        unfold((listener, None), |(mut listener, seen)| async move {
            loop {
                match listener.recv().await {
                    Ok(block) => {
                        let missed = block.before - seen.unwrap_or(block.before);
                        let seen = Some(block.before + block.events);
                        let text = if missed == 0 {
                            block.text
                        } else {
                            [framed(&missing(missed)).into_bytes(), block.text.to_vec()].concat().into()
                        };
                        return Some((Ok(text), (listener, seen)));
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        })
    }

    /// Puts events into words as long as anybody listens.
    async fn tell(self: Arc<Events>, mut happenings: broadcast::Receiver<Arc<str>>) {
        let mut before = 0;
        while !self.is_over() {
            let mut block = Block { text: Bytes::new(), before, events: 0 };
            let mut text = String::new();
            match timeout(SILENCE, happenings.recv()).await {
                // A comment, which says nothing.
                Err(_) => text.push_str(":\n\n"),
                Ok(first) => {
                    let mut next = first.map_err(|error| match error {
                        RecvError::Lagged(missed) => TryRecvError::Lagged(missed),
                        RecvError::Closed => TryRecvError::Closed,
                    });
                    sleep(GATHERED).await;
                    loop {
                        let (line, events) = match next {
                            Ok(line) => (framed(&line), 1),
                            Err(TryRecvError::Lagged(missed)) => (framed(&missing(missed)), missed),
                            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                        };
                        text.push_str(&line);
                        block.events += events;
                        if block.events >= TOGETHER {
                            break;
                        }
                        next = happenings.try_recv();
                    }
                }
            }
            block.text = text.into();
            before += block.events;
            // Whoever listened may have just gone.
            let _ = self.blocks.send(block);
        }
    }

    /// Whether nobody listens any more: whoever comes next finds nobody who tells.
    fn is_over(&self) -> bool {
        let mut is_told = self.is_told.lock().unwrap_or_else(PoisonError::into_inner);
        *is_told = self.blocks.receiver_count() > 0;
        !*is_told
    }
}

fn framed(json: &str) -> String {
    format!("data: {json}\n\n")
}

fn missing(events: u64) -> String {
    TimedEvent { at: None, event: ServiceEvent::Missed { events } }.to_json()
}
