//! A snapshot of a run played forward under a policy, with the times that are expected.

use super::Simulation;
use super::hardware::Hardware;
use crate::engine::{Driver, Event, Policy, Snapshot};
use crate::id::{IdVec, RequestId, TaskId};
use crate::instance::Instance;
use crate::time::{Span, Time};

/// How a snapshot went on.
pub(crate) struct Played {
    /// From arrival to end, of each request that has ended.
    pub latencies: Vec<Span>,
    /// The latencies of all requests together, in seconds; where it was stopped, what they come to at least.
    pub total: f64,
    /// Whether all came to its end.
    pub ended: bool,
    /// Tasks that were started.
    pub starts: usize,
    /// Loads that were begun.
    pub loads: usize,
}

/// Events for each open task after which a policy that gets nowhere is given up.
const MOST_EVENTS: usize = 50;

/// The latencies of requests, and what they come to at least.
struct Latencies {
    /// Tasks that are left of each request.
    left: IdVec<RequestId, u32>,
    ended: Vec<Span>,
    /// The requests that are there, and their arrivals added up, in seconds.
    open: f64,
    arrivals: f64,
    total: f64,
}

impl Latencies {
    fn of(snapshot: &Snapshot) -> Latencies {
        let instance = snapshot.instance();
        let left = snapshot.tasks_left();
        let mut latencies = Latencies { left, ended: Vec::new(), open: 0.0, arrivals: 0.0, total: 0.0 };
        (0..snapshot.first_to_come.0).for_each(|id| latencies.arrived(instance, RequestId(id)));
        latencies.ended.reserve(instance.requests.len());
        latencies
    }

    fn arrived(&mut self, instance: &Instance, id: RequestId) {
        self.open += 1.0;
        self.arrivals += instance.requests[id].arrival.seconds();
    }

    fn finished(&mut self, instance: &Instance, task: TaskId, at: Time) {
        let id = instance.request_of(task);
        self.left[id] -= 1;
        if self.left[id] == 0 {
            let arrival = instance.requests[id].arrival;
            self.ended.push(at.since(arrival));
            self.total += at.since(arrival).seconds();
            self.open -= 1.0;
            self.arrivals -= arrival.seconds();
        }
    }

    fn at_least(&self, now: Time) -> f64 {
        self.total + self.open * now.seconds() - self.arrivals
    }
}

/// Plays a snapshot to its end, or until the latencies together come to more than `limit` seconds. `None` where the policy
/// does not get there.
pub(crate) fn play(snapshot: &Snapshot, policy: &mut dyn Policy, limit: f64) -> Option<Played> {
    let instance = snapshot.instance();
    let mut run = Simulation { engine: snapshot.engine(), hardware: Hardware::under_way(snapshot) };
    let count = instance.requests.len() as u32;
    let mut to_come = (snapshot.first_to_come.0..count).map(RequestId).peekable();
    let mut latencies = Latencies::of(snapshot);
    let mut events = MOST_EVENTS * (snapshot.open_tasks() + 20);
    run.ask(policy).ok()?;
    let mut total = 0.0;
    while !run.engine.is_done() && total <= limit {
        let next_arrival = to_come.peek().map_or(Time::NEVER, |&request| instance.requests[request].arrival);
        let at = run.hardware.next_time().min(next_arrival);
        if at == Time::NEVER {
            return None;
        }
        while let Some(event) = run.hardware.next_at(at) {
            events = events.checked_sub(1)?;
            if let Event::Finished(task) = event {
                latencies.finished(instance, task, at);
            }
            run.handle(at, event);
        }
        while let Some(request) = to_come.next_if(|&request| instance.requests[request].arrival == at) {
            latencies.arrived(instance, request);
            run.handle(at, Event::Arrived(request));
        }
        run.ask(policy).ok()?;
        total = latencies.at_least(at);
    }
    let ended = run.engine.is_done();
    let log = run.engine.into_log();
    let loads = log.loads.len() + log.executions.iter().filter(|one| one.switch > Span::ZERO).count();
    Some(Played { total, ended, starts: log.executions.len(), loads, latencies: latencies.ended })
}
