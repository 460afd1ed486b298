//! Emulated calls that share a replica: each slows the others down, by the model's curve.

use super::managed::locked;
use crate::clock::Clock;
use gswarm_core::sim::Sharing;
use gswarm_core::{Span, Time};
use std::sync::Mutex;
use tokio::sync::{Semaphore, watch};

/// Those who share a replica.
pub struct SharedReplica {
    clock: Clock,
    /// Slowdown per batch size in millionths; see [`gswarm_core::instance::Model::slowdown`].
    slowdown: Vec<u32>,
    sharing: Mutex<Sharing<u64>>,
    /// The curve says how many there can be at once. A call that was cut off may still be leaving when the next one comes:
    /// that one waits.
    places: Semaphore,
    /// Counts the changes: whoever waits for an end reckons again after each.
    changes: watch::Sender<u64>,
}

impl SharedReplica {
    /// Nobody yet.
    #[must_use]
    pub fn new(clock: Clock, slowdown: Vec<u32>) -> SharedReplica {
        let places = Semaphore::new(slowdown.len());
        SharedReplica { clock, slowdown, sharing: Mutex::default(), places, changes: watch::Sender::new(0) }
    }

    /// Takes as long as this much work takes in the company that there is; and gives what more was done of it by then, because
    /// timers tell late. Whoever does work in pieces takes that off the next one, or many small delays add up to a large one.
    pub async fn share(&self, work: Span) -> Span {
        // Nobody ever closes it.
        let _place = self.places.acquire().await;
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
                () = self.clock.sleep_until(at) => {
                    let company = locked(&self.sharing).members().count();
                    let slow = f64::from(self.slowdown[company.clamp(1, self.slowdown.len()) - 1]) / 1e6;
                    return self.clock.now().since(at).times(1.0 / slow);
                }
            }
        }
    }
}

/// One of them; it leaves when it is dropped, whether it has ended or was cancelled.
struct Member<'c> {
    id: u64,
    company: &'c SharedReplica,
}

impl<'c> Member<'c> {
    fn join(company: &'c SharedReplica, work: Span) -> Member<'c> {
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
        let SharedReplica { clock, slowdown, sharing, changes, .. } = self.company;
        locked(sharing).leave(clock.now(), self.id, slowdown);
        changes.send_modify(|changes| *changes += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two places, three calls of a second: the third begins when one of the others is gone.
    #[tokio::test(start_paused = true)]
    async fn more_than_the_curve_knows_wait_for_a_place() {
        let clock = Clock::virtual_clock();
        let company = SharedReplica::new(clock.clone(), vec![1_000_000, 2_000_000]);
        let work = Span(1_000_000);
        let cut_off = async {
            tokio::select! {
                _ = company.share(work) => unreachable!("it is cut off"),
                () = clock.sleep(Span(1_000)) => {}
            }
        };
        let all = async { tokio::join!(cut_off, company.share(work), company.share(work)) };
        clock.run(all).await;
        // Two at a time take twice as long. The third has half a millisecond of work left when the second ends.
        assert_eq!(clock.now(), Time(2_000_500), "each has its work done");
        assert_eq!(locked(&company.sharing).members().count(), 0);
    }
}
