//! The clock of a live run: wall time, or a virtual clock that advances only when everything is idle.

use gswarm_core::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The time of a run, from its start.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The wall's, from a moment at which the run had already lasted for a time.
    Real {
        /// When this process took the run up.
        start: Instant,
        /// What the run had lasted until then, in microseconds.
        already: Arc<AtomicU64>,
        /// How many seconds of the run go by in a second: above 1 only where everything is emulated.
        speed: f64,
    },
    /// A clock that jumps to the next moment at which something happens. It needs tokio's own clock to be paused: that is
    /// how it learns that everything has come to rest.
    Virtual(Arc<Mutex<Sleepers>>),
}

/// Who waits for which moment.
#[derive(Debug, Default)]
pub struct Sleepers {
    now: Time,
    next: u64,
    waiting: BinaryHeap<Reverse<(Time, u64)>>,
    wake: rustc_hash::FxHashMap<u64, oneshot::Sender<()>>,
}

impl Clock {
    /// The wall's clock, for a run that begins now.
    #[must_use]
    pub fn real() -> Clock {
        Clock::at_speed(1.0)
    }

    /// A clock that runs `speed` times as fast as wall time, for fully emulated runs.
    #[must_use]
    pub fn at_speed(speed: f64) -> Clock {
        Clock::Real { start: Instant::now(), already: Arc::default(), speed }
    }

    /// How many seconds of the run go by in a second on the wall; 1 for a virtual clock, which knows no wall.
    #[must_use]
    pub fn speed(&self) -> f64 {
        match self {
            Clock::Real { speed, .. } => *speed,
            Clock::Virtual(_) => 1.0,
        }
    }

    /// What goes by of the run while this much goes by on the wall.
    #[must_use]
    pub fn of_wall(&self, wall: Span) -> Span {
        wall.times(self.speed())
    }

    /// A run goes on that had lasted until `at`; for everybody who holds this clock.
    pub fn go_on_from(&self, at: Time) {
        match self {
            Clock::Real { already, .. } => already.store(at.0, Ordering::Relaxed),
            Clock::Virtual(sleepers) => lock(sleepers).now = at,
        }
    }

    /// A virtual clock at zero.
    #[must_use]
    pub fn virtual_clock() -> Clock {
        Clock::Virtual(Arc::default())
    }

    /// The time of the run.
    #[must_use]
    pub fn now(&self) -> Time {
        match self {
            Clock::Real { start, already, speed } => {
                let here = start.elapsed().as_secs_f64() * speed * 1e6;
                // Rounded: cut off, it would say that the end of a sleep is a microsecond away, for ever if the clock is paused.
                Time(already.load(Ordering::Relaxed) + here.round() as u64)
            }
            Clock::Virtual(sleepers) => lock(sleepers).now,
        }
    }

    /// Returns at a moment, or at once where it has passed.
    pub async fn sleep_until(&self, at: Time) {
        match self {
            Clock::Real { speed, .. } => {
                let left = Duration::from_secs_f64(at.since(self.now()).seconds() / speed);
                if left >= SHORTEST_SLEEP {
                    tokio::time::sleep(left).await;
                }
            }
            Clock::Virtual(sleepers) => {
                let (sender, receiver) = oneshot::channel();
                {
                    let mut sleepers = lock(sleepers);
                    if at <= sleepers.now {
                        return;
                    }
                    let id = sleepers.next;
                    sleepers.next += 1;
                    sleepers.waiting.push(Reverse((at, id)));
                    sleepers.wake.insert(id, sender);
                }
                // The clock is never dropped while somebody holds it, and this does.
                let _ = receiver.await;
            }
        }
    }

    /// Returns after a time.
    pub async fn sleep(&self, span: Span) {
        self.sleep_until(self.now() + span).await;
    }

    /// Returns when everything that happens at this moment has happened. Under the real clock there is no such thing.
    pub async fn settle(&self) {
        if let Clock::Virtual(_) = self {
            at_rest().await;
        }
    }

    /// Does something while the clock goes on: a virtual one moves whenever everything has come to rest.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let goes_on = async {
            loop {
                if !self.advance().await {
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            () = goes_on => unreachable!("the clock never ends"),
        }
    }

    /// Waits until everything has come to rest, and moves a virtual clock on to the next moment at which somebody wakes.
    /// `false` where nobody ever will. The real clock moves by itself: there this never returns.
    pub async fn advance(&self) -> bool {
        let Clock::Virtual(sleepers) = self else { return std::future::pending().await };
        at_rest().await;
        let mut sleepers = lock(sleepers);
        let Some(&Reverse((at, _))) = sleepers.waiting.peek() else { return false };
        sleepers.now = at;
        while let Some(&Reverse((when, id))) = sleepers.waiting.peek()
            && when == at
        {
            sleepers.waiting.pop();
            // One that nobody waits for any more was cancelled.
            sleepers.wake.remove(&id).map(|wake| wake.send(()));
        }
        true
    }
}

/// What is shorter is over before a timer would tell: timers tell milliseconds.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

/// Tokio's paused clock moves only when every task waits: then nothing is left to do at this moment.
async fn at_rest() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn lock(sleepers: &Mutex<Sleepers>) -> std::sync::MutexGuard<'_, Sleepers> {
    sleepers.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_wall_is_longer_in_a_fast_run() {
        let second = Span(1_000_000);
        assert_eq!(Clock::at_speed(300.0).of_wall(second), Span(300_000_000));
        assert_eq!(Clock::real().of_wall(second), second);
    }
}
