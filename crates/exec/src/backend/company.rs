//! Calls that share a replica under a clock: each slows the others down, by the model's curve.

use super::managed::locked;
use crate::clock::Clock;
use gswarm_core::sim::Sharing;
use gswarm_core::{Span, Time};
use std::sync::Mutex;
use tokio::sync::watch;

/// Those who share a replica.
pub struct Company {
    clock: Clock,
    /// Slowdown per batch size in millionths; see [`gswarm_core::instance::Model::slowdown`].
    slowdown: Vec<u32>,
    sharing: Mutex<Sharing<u64>>,
    /// Counts the changes: whoever waits for an end reckons again after each.
    changes: watch::Sender<u64>,
}

impl Company {
    /// Nobody yet.
    #[must_use]
    pub fn new(clock: Clock, slowdown: Vec<u32>) -> Company {
        Company { clock, slowdown, sharing: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// Takes as long as this much work takes in the company that there is.
    pub async fn share(&self, work: Span) {
        let mut changes = self.changes.subscribe();
        let member = Member::join(self, work);
        loop {
            changes.mark_unchanged();
            let next = locked(&self.sharing).next_end(&self.slowdown);
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

/// One of them; it leaves when it is dropped, whether it has ended or was cancelled.
struct Member<'c> {
    id: u64,
    company: &'c Company,
}

impl<'c> Member<'c> {
    fn join(company: &'c Company, work: Span) -> Member<'c> {
        let mut id = 0;
        company.changes.send_modify(|changes| {
            *changes += 1;
            id = *changes;
        });
        locked(&company.sharing).join(company.clock.now(), id, work, &company.slowdown);
        // Those who were told of the change before it was made look again.
        company.changes.send_modify(|changes| *changes += 1);
        Member { id, company }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let Company { clock, slowdown, sharing, changes } = self.company;
        locked(sharing).leave(clock.now(), self.id, slowdown);
        changes.send_modify(|changes| *changes += 1);
    }
}
