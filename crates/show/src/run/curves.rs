//! Curves over time, thinned to what a chart can show.

use super::MOST_POINTS;
use gswarm_core::log::{ExecutionLog, Status};
use gswarm_core::{Instance, Time};

/// Points by x, in seconds.
pub type Curve = Vec<(f64, f64)>;

/// How many executions were ready and had no GPUs yet. Thinned, a point is the longest queue of its stretch of time.
#[must_use]
pub fn queue_length(log: &ExecutionLog) -> Curve {
    let mut steps: Vec<(Time, i64)> = Vec::with_capacity(log.executions.len() * 2);
    for one in &log.executions {
        let begun = Time(one.start.0.saturating_sub(one.switch.0));
        if begun > one.ready {
            steps.push((one.ready, 1));
            steps.push((begun, -1));
        }
    }
    // Those that go before those that come: nobody waits in no time.
    steps.sort_unstable();
    let mut curve: Curve = Vec::new();
    let mut waiting = 0;
    for (at, step) in steps {
        waiting += step;
        let point = (at.seconds(), waiting as f64);
        match curve.last_mut() {
            Some(last) if last.0 == point.0 => *last = point,
            _ => curve.push(point),
        }
    }
    by_largest(&curve)
}

/// How many loads had ended: those for executions and those ahead of any.
#[must_use]
pub fn loads_over_time(log: &ExecutionLog) -> Curve {
    let for_executions = log.executions.iter().filter(|one| one.switch.0 > 0).map(|one| one.start);
    let mut ends: Vec<Time> = for_executions.chain(log.loads.iter().map(|one| one.end)).collect();
    ends.sort_unstable();
    let last = log.executions.iter().map(|one| one.end).max().unwrap_or(Time::ZERO);
    let mut curve: Curve = vec![(0.0, 0.0)];
    curve.extend(cumulative(&ends.iter().map(|end| end.seconds()).collect::<Vec<f64>>()));
    curve.push((last.seconds().max(curve.last().map_or(0.0, |point| point.0)), ends.len() as f64));
    curve
}

/// The share of completed requests that took no longer than x, from 0 to 1.
#[must_use]
pub fn latencies(instance: &Instance, log: &ExecutionLog) -> Curve {
    let mut ends = vec![None; instance.tasks()];
    for one in log.executions.iter().filter(|one| one.status == Status::Completed) {
        ends[one.task.index()] = Some(one.end);
    }
    let latency = |(id, request): (_, &gswarm_core::instance::Request)| {
        let last =
            instance.tasks_of(id).try_fold(Time::ZERO, |last, task| Some(last.max(ends[task.index()]?)));
        last.map(|last| last.since(request.arrival).seconds())
    };
    let mut all: Vec<f64> = instance.requests.iter_enumerated().filter_map(latency).collect();
    all.sort_by(f64::total_cmp);
    let count = all.len() as f64;
    cumulative(&all).into_iter().map(|(x, y)| (x, y / count)).collect()
}

/// How many of the sorted values are at most x; thinned at even distances, the first and the last kept.
#[must_use]
pub fn cumulative(sorted: &[f64]) -> Curve {
    let step = sorted.len().div_ceil(MOST_POINTS).max(1);
    let kept = |at: usize| at.is_multiple_of(step) || at + 1 == sorted.len();
    sorted.iter().enumerate().filter(|&(at, _)| kept(at)).map(|(at, &x)| (x, at as f64 + 1.0)).collect()
}

/// The largest value of each stretch of the curve.
fn by_largest(curve: &[(f64, f64)]) -> Curve {
    if curve.len() <= MOST_POINTS {
        return curve.to_vec();
    }
    let chunk = curve.len().div_ceil(MOST_POINTS);
    let largest = |part: &[(f64, f64)]| (part[0].0, part.iter().map(|point| point.1).fold(0.0, f64::max));
    let mut thinned: Curve = curve.chunks(chunk).map(largest).collect();
    thinned.extend(curve.last());
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use gswarm_core::report::metrics;

    #[test]
    fn curves_end_where_the_metrics_say() {
        let (instance, log) = testing::run("baseline", 40);
        let metrics = metrics(&instance, &log);
        let loads = loads_over_time(&log);
        assert_eq!(loads.last().unwrap().1 as u64, metrics.model_switches + metrics.cold_loads);
        let latencies = latencies(&instance, &log);
        assert_eq!(latencies.last().unwrap(), &(metrics.request_latency.max, 1.0));
        assert_eq!(latencies[0].0, metrics.request_latency.min);
        let queue = queue_length(&log);
        assert_eq!(queue.last().unwrap().1, 0.0, "in the end nobody waits");
        // The area below the queue is the time that all waited, loads not counted.
        let area: f64 = queue.windows(2).map(|pair| (pair[1].0 - pair[0].0) * pair[0].1).sum();
        let waited: f64 = log
            .executions
            .iter()
            .map(|one| one.start.since(one.ready).seconds() - one.switch.seconds())
            .sum();
        assert!((area - waited).abs() < 1e-3, "{area} {waited}");
    }

    #[test]
    fn thinning_keeps_the_peaks_and_the_ends() {
        let curve: Curve =
            (0..10_000).map(|at| (f64::from(at), if at == 5_001 { 99.0 } else { 1.0 })).collect();
        let thinned = by_largest(&curve);
        assert!(thinned.len() <= MOST_POINTS + 1 && thinned.iter().any(|point| point.1 == 99.0));
        assert_eq!(thinned.last(), curve.last());
        let values: Vec<f64> = (1..=5_000).map(f64::from).collect();
        let counted = cumulative(&values);
        assert_eq!((counted[0], *counted.last().unwrap()), ((1.0, 1.0), (5_000.0, 5_000.0)));
    }
}
