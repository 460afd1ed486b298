//! What requests took in repeated runs, and how sure a measure of it is.

use super::{Measure, Target};
use crate::id::WorkflowId;
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::report::request_latencies;
use crate::time::Span;
use serde::{Deserialize, Serialize};

/// One request that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredRequest {
    /// What it ran.
    pub workflow: WorkflowId,
    /// Seconds from its arrival to its end; infinite where it never ended.
    pub latency: f64,
    /// Whether it missed its deadline, where it has one.
    pub late: Option<bool>,
    /// The trace that it belongs to.
    pub trace: u32,
}

/// The requests of several traces under one policy on one number of GPUs.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The requests.
    pub requests: Vec<MeasuredRequest>,
    /// The makespan of each run, in seconds.
    pub makespans: Vec<f64>,
}

/// A measure over repeated traces, beside its target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// The measure over all traces: seconds, or a share. Absent where requests never ended.
    pub value: Option<f64>,
    /// Half of the 95% confidence interval of the value; zero with one trace.
    pub plus_minus: f64,
    /// What 5% of the traces stay below.
    pub low: Option<f64>,
    /// What 95% of the traces stay below.
    pub high: Option<f64>,
    /// Requests that it is measured over.
    pub requests: u64,
    /// Of these, the ones that decide it: those beyond a percentile, or all.
    pub rests_on: u64,
    /// Whether the target is kept.
    pub met: bool,
    /// Whether more traces would hardly change that.
    pub settled: bool,
}

impl Sample {
    /// Adds the requests of a run that belong to a trace.
    pub fn add(&mut self, instance: &Instance, log: &ExecutionLog, trace_of: &[Option<u32>], makespan: Span) {
        for (id, latency) in request_latencies(instance, log) {
            let request = &instance.requests[id];
            let Some(trace) = trace_of[id.index()] else { continue };
            self.requests.push(MeasuredRequest {
                workflow: request.workflow,
                latency: latency.map_or(f64::INFINITY, Span::seconds),
                late: request.deadline.map(|deadline| latency.is_none_or(|latency| latency > deadline)),
                trace,
            });
        }
        self.makespans.push(makespan.seconds());
    }

    /// Adds what another run gave, whose traces are others.
    pub fn extend(&mut self, other: &Sample) {
        let first = self.traces();
        self.requests
            .extend(other.requests.iter().map(|one| MeasuredRequest { trace: one.trace + first, ..*one }));
        self.makespans.extend(&other.makespans);
    }

    /// How many traces there are.
    #[must_use]
    pub fn traces(&self) -> u32 {
        self.requests.iter().map(|one| one.trace + 1).max().unwrap_or(0)
    }

    /// The requests of traces from `first` on.
    #[must_use]
    pub fn from_trace(&self, first: u32) -> Sample {
        let requests = self.requests.iter().filter(|one| one.trace >= first).copied().collect();
        Sample { requests, makespans: self.makespans.clone() }
    }

    /// The values that a target is about, with the trace of each.
    fn values(&self, target: &Target, workflow: Option<WorkflowId>) -> Vec<(u32, f64)> {
        if target.measure == Measure::Makespan {
            return self.makespans.iter().zip(0..).map(|(&value, trace)| (trace, value)).collect();
        }
        let of_it =
            self.requests.iter().filter(|one| workflow.is_none_or(|workflow| workflow == one.workflow));
        match target.measure {
            Measure::Deadline => {
                of_it.filter_map(|one| Some((one.trace, f64::from(u8::from(one.late?))))).collect()
            }
            _ => of_it.map(|one| (one.trace, one.latency)).collect(),
        }
    }

    /// A target's measure in each trace that has a request for it.
    #[must_use]
    pub fn by_trace(&self, target: &Target, workflow: Option<WorkflowId>) -> Vec<(u32, f64)> {
        let mut values = self.values(target, workflow);
        values.sort_by_key(|&(trace, _)| trace);
        let of_trace = |rows: &[(u32, f64)]| {
            let mut values: Vec<f64> = rows.iter().map(|&(_, value)| value).collect();
            Some((rows.first()?.0, measure(target.measure, &mut values)?))
        };
        values.chunk_by(|one, other| one.0 == other.0).filter_map(of_trace).collect()
    }

    /// How a target fares.
    #[must_use]
    pub fn reached(&self, target: &Target, workflow: Option<WorkflowId>) -> Reached {
        let mut all: Vec<f64> = self.values(target, workflow).into_iter().map(|(_, value)| value).collect();
        let value = measure(target.measure, &mut all).unwrap_or(0.0);
        let mut traces: Vec<f64> =
            self.by_trace(target, workflow).into_iter().map(|(_, value)| value).collect();
        let plus_minus = 1.96 * deviation(&traces) / (traces.len().max(1) as f64).sqrt();
        let finite = |value: f64| value.is_finite().then_some(value);
        let count = all.len() as u64;
        let beyond = |share: f64| ((count as f64 * (1.0 - share)).round() as u64).clamp(1, count.max(1));
        Reached {
            value: finite(value),
            plus_minus: if plus_minus.is_finite() { plus_minus } else { 0.0 },
            low: quantile(&mut traces, 0.05).and_then(finite),
            high: quantile(&mut traces, 0.95).and_then(finite),
            requests: count,
            rests_on: target.measure.percentile().map_or(count, beyond),
            met: target.is_kept(value),
            settled: !value.is_finite() || (value - target.at_most).abs() >= plus_minus,
        }
    }
}

/// A measure of values, which are put in order.
fn measure(measure: Measure, values: &mut [f64]) -> Option<f64> {
    match measure {
        Measure::Mean | Measure::Deadline => {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        }
        // Of repeated batches: one that is kept in 95% of them.
        Measure::Makespan => quantile(values, 0.95),
        Measure::P50 | Measure::P95 | Measure::P99 => quantile(values, measure.percentile()?),
    }
}

/// Linear interpolation, as in [`crate::report::Stats`].
fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = share * values.len().checked_sub(1)? as f64;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    // Between two infinite values there is no difference to take a part of.
    Some(if low == high { low } else { low + (high - low) * (place - place.floor()) })
}

/// The standard deviation of a sample; zero of fewer than two.
fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(latencies: &[(u32, f64)]) -> Sample {
        let of = |&(trace, latency)| MeasuredRequest {
            workflow: WorkflowId((latency as u32) % 2),
            latency,
            late: (trace == 0).then_some(latency > 4.0),
            trace,
        };
        Sample { requests: latencies.iter().map(of).collect(), makespans: vec![7.0, 9.0] }
    }

    fn reached(sample: &Sample, target: &str, workflow: Option<u32>) -> Reached {
        sample.reached(&target.parse().unwrap(), workflow.map(WorkflowId))
    }

    #[test]
    fn measures_are_over_all_traces_and_their_spread_is_between_them() {
        let sample = sample(&[(0, 1.0), (0, 2.0), (0, 6.0), (1, 3.0), (1, 5.0), (1, 7.0)]);
        let mean = reached(&sample, "mean=5s", None);
        assert_eq!((mean.value, mean.requests, mean.rests_on), (Some(4.0), 6, 6));
        // The traces' means are 3 and 5: a deviation of sqrt(2), over sqrt(2) traces.
        assert!((mean.plus_minus - 1.96).abs() < 1e-9 && mean.met && !mean.settled);
        assert_eq!(reached(&sample, "p50=4s", None).value, Some(4.0));
        assert_eq!(reached(&sample, "p50=4s", Some(0)).value, Some(4.0), "of 2 and 6");
        assert_eq!(reached(&sample, "p99=7s", None).rests_on, 1);
        let late = reached(&sample, "deadline=60%", None);
        assert_eq!((late.requests, late.met), (3, true), "one in three is late");
        assert_eq!(reached(&sample, "makespan=9s", None).value, Some(8.9));
    }

    #[test]
    fn a_request_that_never_ends_keeps_no_percentile_above_it() {
        let sample = sample(&[(0, 1.0), (0, f64::INFINITY)]);
        let p99 = reached(&sample, "p99=1h", None);
        assert_eq!((p99.value, p99.met, p99.settled), (None, false, true));
        assert!(reached(&sample, "mean=1h", None).value.is_none());
    }
}
