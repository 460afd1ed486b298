//! How many GPUs a workload needs: the fewest with which a policy meets targets, found by simulation.
//!
//! More GPUs do not always help a policy (a model on 8 GPUs fits 16 better than 17), so the answer is searched for, not
//! computed: numbers of GPUs that no schedule could do with are ruled out by bounds; then steps that double, halving between
//! the last that failed and the first that did not (among hundreds of GPUs to within a part of the number), and a look at the
//! numbers just below. All that was tried is told. Numbers at which every node could have GPUs of its own are the end.

mod floor;
mod json;
pub use json::{SizeReport, TargetReport};
mod search;

pub use floor::Floors;
pub use search::size;

use crate::check::{check_log, report as render};
use crate::input::Scenario;
use crate::instance::{Cluster, Infeasible, Instance, Mode};
use crate::policy::{BuildContext, PolicySpec};
use crate::report::{Stats, metrics};
use crate::sim::{SimError, SimOptions, simulate};
use crate::time::{Span, duration};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

named! {
    /// What a target is about.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Measure {
        /// Last end minus first arrival.
        Makespan = "makespan",
        /// Mean request latency.
        Mean = "mean",
        /// The latency that 99% of the requests do not exceed.
        P99 = "p99",
    }
}

/// A limit that is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Of what.
    pub measure: Measure,
    /// At most this.
    pub at_most: Span,
}

/// `makespan=2h`.
impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let names: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
        let usage = || format!("give one of {} and a time, as in makespan=2h or p99=60s", names.join(", "));
        let (name, time) = text.split_once('=').ok_or_else(usage)?;
        let measure = Measure::of_name(name.trim()).ok_or_else(usage)?;
        let at_most = duration(time.trim()).map_err(|error| format!("{}: {error}", measure.name()))?;
        Ok(Target { measure, at_most })
    }
}

/// What is to be sized.
#[derive(Clone, Copy, Debug)]
pub struct SizeQuestion<'a> {
    /// The workload.
    pub scenario: &'a Scenario,
    /// The rules; the number of GPUs is what is asked for.
    pub cluster: &'a Cluster,
    /// When requests arrive.
    pub mode: Mode,
    /// Who schedules.
    pub policy: &'a PolicySpec,
    /// For every random choice.
    pub seed: u64,
    /// What has to be kept, all of it.
    pub targets: &'a [Target],
    /// No more GPUs than this.
    pub max_gpus: u32,
}

/// What came of one number of GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The number.
    pub gpus: u32,
    /// Last end minus first arrival, in seconds.
    pub makespan: f64,
    /// Mean request latency, in seconds.
    pub mean: f64,
    /// P99 of the request latency, in seconds.
    pub p99: f64,
    /// Loads that replaced another model.
    pub switches: u64,
    /// Share of the GPUs' time in which they load or execute.
    pub utilisation: f64,
    /// No schedule has a makespan below this, in seconds.
    pub bound: f64,
    /// Whether all targets are met.
    pub met: bool,
}

impl Point {
    /// A measure of it, in seconds.
    #[must_use]
    pub fn get(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Makespan => self.makespan,
            Measure::Mean => self.mean,
            Measure::P99 => self.p99,
        }
    }
}

/// How far a search is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Telling<'a> {
    /// A run on so many GPUs begins.
    Trying(u32),
    /// It is over.
    Tried(&'a Point),
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The fewest that were found to do.
    Met {
        /// How many.
        gpus: u32,
        /// Numbers below it that are not ruled out and were not tried.
        untried: u32,
    },
    /// No number of GPUs can: a target is below what the workload takes on any.
    BelowFloor {
        /// The target.
        target: Target,
        /// The least it can be.
        floor: Span,
    },
    /// Bounds rule out all numbers up to the limit.
    BeyondLimit {
        /// The target that does.
        target: Target,
        /// What it is at the least with as many GPUs as are allowed.
        bound: Span,
    },
    /// The policy did not meet the targets with any number that was tried.
    NotFound,
}

/// The answer, and what it rests on.
#[derive(Clone, Debug)]
pub struct Sizing {
    /// The answer.
    pub verdict: Verdict,
    /// With fewer GPUs than this the models do not fit.
    pub least_possible: u32,
    /// With fewer GPUs than this no schedule meets the targets.
    pub least: u32,
    /// More GPUs than this are not tried: every node could have its own.
    pub useful: u32,
    /// Every number that was simulated, in order.
    pub points: Vec<Point>,
    /// The numbers tried in the search; the other points are there for the curve.
    pub tried: Vec<u32>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SizeError {
    /// The workload cannot be run even on the most GPUs allowed.
    #[error("the workload cannot be run on {0} GPUs")]
    Infeasible(u32, Vec<Infeasible>),
    /// A simulation did not come to its end.
    #[error("on {0} GPUs: {1}")]
    Simulation(u32, SimError),
    /// A run failed the check.
    #[error("the run on {0} GPUs fails the check: {1}")]
    Broken(u32, String),
}

impl SizeQuestion<'_> {
    /// The problem on so many GPUs.
    fn on(&self, gpus: u32) -> Result<Instance, Vec<Infeasible>> {
        let residency = self.policy.kind().residency(self.cluster.residency);
        let cluster = Cluster { gpus, residency, ..self.cluster.clone() };
        Instance::build(self.scenario, cluster, self.mode)
    }

    /// Runs it on so many GPUs.
    fn run(&self, gpus: u32) -> Result<Point, SizeError> {
        let instance = self.on(gpus).map_err(|faults| SizeError::Infeasible(gpus, faults))?;
        let mut policy = self.policy.build(&instance, &BuildContext::seeded(self.seed));
        let log = simulate(&instance, policy.as_mut(), &SimOptions::default(), &mut |_| {})
            .map_err(|error| SizeError::Simulation(gpus, error))?;
        let violations = check_log(&instance, &log, None);
        if !violations.is_empty() {
            return Err(SizeError::Broken(gpus, render(&violations)));
        }
        let found = metrics(&instance, &log);
        let Stats { mean, p99, .. } = found.request_latency;
        let mut point = Point {
            gpus,
            makespan: found.makespan.seconds(),
            mean,
            p99,
            switches: found.model_switches,
            utilisation: found.utilisation.mean,
            bound: crate::bound::lower_bound(&instance).seconds(),
            met: true,
        };
        // Half a microsecond: seconds are rounded from whole microseconds.
        let kept = |target: &Target| point.get(target.measure) <= target.at_most.seconds() + 5e-7;
        point.met = self.targets.iter().all(kept);
        Ok(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        let rows = [
            ("makespan=2h", Measure::Makespan, 7200.0),
            ("p99=60", Measure::P99, 60.0),
            ("mean=1h30m", Measure::Mean, 5400.0),
            ("p99=90s", Measure::P99, 90.0),
        ];
        for (text, measure, seconds) in rows {
            assert_eq!(
                Target::from_str(text),
                Ok(Target { measure, at_most: Span::from_seconds(seconds) }),
                "{text}"
            );
        }
        for bad in ["", "makespan", "makespan=", "speed=2", "p99=-1", "p99=soon", "=2h"] {
            assert!(Target::from_str(bad).is_err(), "{bad}");
        }
    }
}
