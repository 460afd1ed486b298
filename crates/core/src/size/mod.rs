//! How many GPUs a workload needs: the fewest with which a policy meets targets, found by simulation.
//!
//! More GPUs do not always help a policy (a model on 8 GPUs fits 16 better than 17), so the answer is searched for, not
//! computed: numbers of GPUs that no schedule could do with are ruled out by bounds; then steps that double, halving between
//! the last that failed and the first that did not (among hundreds of GPUs to within a part of the number), and a look at the
//! numbers just below. All that was tried is told. Numbers at which every node could have GPUs of its own are the end.

mod advice;
mod floor;
mod json;
mod sample;
mod search;
mod sentences;
mod target;
mod traffic;

pub use advice::{
    AdviceReport, AdvisedPlacement, CostReport, FloorReport, LongCheck, PolicyTried, TailPart, TriedPoint,
};
pub use floor::{Floors, undisturbed};
pub use json::{SizeReport, TargetReport};
pub use sample::{MeasuredRequest, Reached, Sample};
pub use search::{Range, fewest, size};
pub use sentences::policy_title;
pub use target::{Measure, Target};
pub use traffic::{Drawn, OfferedLoad, Traffic};

use crate::check::{check_log, report as render};
use crate::id::WorkflowId;
use crate::input::Scenario;
use crate::instance::{Cluster, Infeasible, Instance, Mode};
use crate::policy::{BuildContext, PolicySpec};
use crate::report::metrics;
use crate::sim::{SimError, SimOptions, simulate};
use crate::time::Span;
use serde::{Deserialize, Serialize};

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
    /// Largest number of GPUs to consider.
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
    /// P50 of the request latency, in seconds.
    pub p50: f64,
    /// P95 of the request latency, in seconds.
    pub p95: f64,
    /// P99 of the request latency, in seconds.
    pub p99: f64,
    /// Loads that replaced another model.
    pub switches: u64,
    /// Share of the GPUs' time in which they load or execute.
    pub utilisation: f64,
    /// No schedule has a makespan below this, in seconds. Absent of streams, which are repeated.
    pub bound: Option<f64>,
    /// How each target fares.
    pub targets: Vec<Reached>,
    /// Whether all targets are met.
    pub met: bool,
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
        let mut sample = Sample::default();
        sample.add(&instance, &log, &vec![Some(0); instance.requests.len()], found.makespan);
        let mut point = Point::of(gpus, &sample, self.scenario, self.targets);
        point.switches = found.model_switches;
        point.utilisation = found.utilisation.mean;
        point.bound = Some(crate::bound::lower_bound(&instance).seconds());
        Ok(point)
    }
}

impl Point {
    /// What a sample comes to. Switches, utilisation and the bound are not told by it.
    #[must_use]
    pub fn of(gpus: u32, sample: &Sample, scenario: &Scenario, targets: &[Target]) -> Point {
        let of_measure = |measure| {
            let target = Target { measure, workflow: None, at_most: f64::INFINITY };
            sample.reached(&target, None).value.unwrap_or(f64::INFINITY)
        };
        let reached = |target: &Target| sample.reached(target, workflow_of(scenario, target));
        let targets: Vec<Reached> = targets.iter().map(reached).collect();
        Point {
            gpus,
            makespan: of_measure(Measure::Makespan),
            mean: of_measure(Measure::Mean),
            p50: of_measure(Measure::P50),
            p95: of_measure(Measure::P95),
            p99: of_measure(Measure::P99),
            switches: 0,
            utilisation: 0.0,
            bound: None,
            met: targets.iter().all(|reached| reached.met),
            targets,
        }
    }
}

/// The workflow that a target is about.
#[must_use]
pub fn workflow_of(scenario: &Scenario, target: &Target) -> Option<WorkflowId> {
    let name = target.workflow.as_ref()?;
    let at = scenario.workflows.iter().position(|workflow| workflow.id == *name)?;
    Some(WorkflowId(at as u32))
}
