//! What no schedule can do: the least latency on any number of GPUs, and the least number of GPUs for a latency.

use super::{Measure, Target};
use crate::bound::{least_latencies, request_work};
use crate::id::TaskId;
use crate::instance::{Instance, Request};
use crate::time::Span;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What every schedule of a workload takes, whatever the number of GPUs.
#[derive(Clone, Debug)]
pub struct Floors {
    /// Arrival, and GPU-time at the least, of each request by arrival.
    requests: Vec<(u64, u128)>,
    /// The least latencies, smallest first.
    latencies: Vec<u64>,
    /// The least makespan.
    makespan: u64,
}

/// How many of `count` may exceed a percentile: with linear interpolation between neighbours, those above the lower of the two.
fn beyond(share: f64, count: usize) -> usize {
    let place = share * count.saturating_sub(1) as f64;
    count - 1 - (place.floor() as usize).min(count - 1)
}

/// How long each request takes with nothing to wait for and every model in place: its longest path.
#[must_use]
pub fn undisturbed(instance: &Instance) -> Vec<Span> {
    let of_request = |request: &Request| {
        let workflow = &instance.workflows[request.workflow];
        let mut ends = vec![Span::ZERO; workflow.nodes.len()];
        for &node in &workflow.order {
            let inputs = workflow.predecessors(node).iter().map(|&before| ends[before as usize]).max();
            let execution = instance.execution(TaskId(request.first_task.0 + node));
            ends[node as usize] = inputs.unwrap_or_default() + execution;
        }
        ends.into_iter().max().unwrap_or_default()
    };
    instance.requests.iter().map(of_request).collect()
}

impl Floors {
    /// The floors of a workload.
    #[must_use]
    pub fn of(instance: &Instance) -> Floors {
        let least = least_latencies(instance);
        let ends = instance.requests.iter().zip(least.iter()).map(|(one, least)| one.arrival.0 + least.0);
        let makespan = ends.max().unwrap_or(0);
        let mut latencies: Vec<u64> = least.iter().map(|span| span.0).collect();
        latencies.sort_unstable();
        let work = request_work(instance);
        let mut requests: Vec<(u64, u128)> =
            instance.requests.iter().zip(work.iter()).map(|(one, &work)| (one.arrival.0, work)).collect();
        requests.sort_unstable();
        Floors { requests, latencies, makespan }
    }

    /// The least that a target can be on any number of GPUs; zero where nothing is known.
    #[must_use]
    pub fn of_target(&self, target: &Target) -> Span {
        match target.measure {
            _ if target.workflow.is_some() || self.latencies.is_empty() => Span::ZERO,
            Measure::Makespan => Span(self.makespan),
            Measure::Mean => self.mean_of(self.latencies.iter().map(|&one| u128::from(one)).sum()),
            Measure::Deadline => Span::ZERO,
            Measure::P50 | Measure::P95 | Measure::P99 => {
                // Not interpolated: the lower neighbour is certain.
                let late = beyond(target.measure.percentile().unwrap_or(1.0), self.latencies.len());
                Span(self.latencies[self.latencies.len() - 1 - late])
            }
        }
    }

    fn mean_of(&self, total: u128) -> Span {
        Span((total / self.latencies.len().max(1) as u128) as u64)
    }

    /// The least that a latency can be on so many GPUs, as far as it follows from the work alone; zero where nothing does.
    #[must_use]
    pub fn latency(&self, target: &Target, gpus: u32) -> Span {
        match (target.measure, target.measure.percentile()) {
            _ if target.workflow.is_some() => Span::ZERO,
            (Measure::Mean, _) => self.mean_of(self.shortest_first(gpus)),
            // Too late for some window: then the target is out of reach, by how much is not known.
            (_, Some(share)) if self.too_much_work(target.span(), share, gpus) => Span(target.span().0 + 1),
            _ => Span::ZERO,
        }
    }

    /// All latencies added up, at the least: on one machine as fast as all GPUs together, which may part its time at will,
    /// shortest remaining first is the best there is; and such a machine can do whatever the GPUs can.
    fn shortest_first(&self, gpus: u32) -> u128 {
        let speed = u128::from(gpus.max(1));
        // In units of 1 / speed microseconds, so that nothing is rounded.
        let mut waiting: BinaryHeap<Reverse<(u128, u128)>> = BinaryHeap::new();
        let (mut now, mut total) = (0u128, 0u128);
        let mut arrivals = self.requests.iter().map(|&(at, work)| (u128::from(at) * speed, work)).peekable();
        loop {
            let next = arrivals.peek().map(|&(at, _)| at);
            match (waiting.pop(), next) {
                (None, None) => return total / speed,
                (None, Some(at)) => now = at,
                (Some(Reverse((left, arrived))), Some(at)) if now + left > at => {
                    waiting.push(Reverse((left - at.saturating_sub(now), arrived)));
                    now = now.max(at);
                }
                (Some(Reverse((left, arrived))), _) => {
                    now += left;
                    total += now - arrived;
                }
            }
            while let Some((at, work)) = arrivals.next_if(|&(at, _)| at <= now) {
                waiting.push(Reverse((work, at)));
            }
        }
    }

    /// Whether more work arrives in some time than so many GPUs can have done when the last of it would have to be done.
    /// The requests that may be late are those with most work.
    fn too_much_work(&self, at_most: Span, share: f64, gpus: u32) -> bool {
        let late = beyond(share, self.requests.len().max(1));
        let count = self.requests.len();
        let stride = (count / 64).max(1);
        (0..count).step_by(stride).any(|from| {
            let (mut kept, mut dropped) = (0u128, BinaryHeap::new());
            self.requests[from..].iter().any(|&(at, work)| {
                dropped.push(Reverse(work));
                if dropped.len() > late {
                    kept += dropped.pop().map_or(0, |Reverse(work)| work);
                }
                let time = u128::from(at - self.requests[from].0) + u128::from(at_most.0);
                kept > time * u128::from(gpus)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floors(requests: &[(u64, u128)]) -> Floors {
        Floors { requests: requests.to_vec(), latencies: vec![0; requests.len()], makespan: 0 }
    }

    #[test]
    fn the_shortest_remaining_goes_first() {
        // On one GPU: 10 from 0; 2 comes at 1 and interrupts it. 2 ends at 3, 10 at 12: 12 + 2.
        assert_eq!(floors(&[(0, 10), (1, 2)]).shortest_first(1), 14);
        // On two: at half the time each; 10 would end at 5, 2 takes 1..2: 10 ends at 6.
        assert_eq!(floors(&[(0, 10), (1, 2)]).shortest_first(2), 7);
        // A pause in between.
        assert_eq!(floors(&[(0, 4), (100, 6)]).shortest_first(1), 10);
        assert_eq!(floors(&[]).shortest_first(4), 0);
    }

    #[test]
    fn one_in_a_hundred_may_be_late() {
        assert_eq!([1, 2, 100, 101, 201].map(|count| beyond(0.99, count)), [0, 1, 1, 1, 2]);
    }

    #[test]
    fn work_that_cannot_be_done_in_time_rules_a_number_out() {
        // 200 requests of 10 at once; 198 of them within 100: 1,980 need 20 GPUs, with 2 (of 199 places, 197.01) left out.
        let all = floors(&vec![(0, 10); 200]);
        assert!(all.too_much_work(Span(100), 0.99, 19) && !all.too_much_work(Span(100), 0.99, 20));
        // Spread over time there is room.
        let spread: Vec<(u64, u128)> = (0..200).map(|at| (at * 10, 10)).collect();
        assert!(!floors(&spread).too_much_work(Span(100), 0.99, 1));
    }
}
