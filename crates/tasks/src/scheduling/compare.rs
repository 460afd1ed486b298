//! Policies side by side: the same workloads, many seeds, several loads.

use super::bound;
use super::check::{TaskViolation, check};
use super::engine::EngineError;
use super::generate::{TaskArrivals, WorkloadError, WorkloadOptions, generate};
use super::kind::TaskPolicy;
use super::machine::Machine;
use super::metrics::TaskMetrics;
use super::policy::PolicySettings;
use super::run::schedule;
use super::view::Estimates;
use super::workload::Workload;
use crate::profile::HardwareProfile;
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What to compare.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// What workloads are like; arrivals and seed are put in.
    pub workload: WorkloadOptions,
    /// Shares of what the machine can do.
    pub loads: Vec<f64>,
    /// One workload each, at every load.
    pub seeds: Vec<u64>,
    /// Who takes part.
    pub policies: Vec<TaskPolicy>,
    /// The price of energy.
    pub seconds_per_joule: f64,
}

/// One policy on one workload.
#[derive(Clone, Debug)]
pub struct ComparisonRow {
    /// The load.
    pub load: f64,
    /// The seed.
    pub seed: u64,
    /// The policy.
    pub policy: TaskPolicy,
    /// How it did.
    pub metrics: TaskMetrics,
    /// What no schedule goes below, in seconds.
    pub bound: f64,
    /// Time to schedule a task, in microseconds, on a machine that does other things meanwhile.
    pub decision_us: f64,
}

/// All rows, by load, seed and policy.
#[derive(Clone, Debug, Default)]
pub struct TaskComparison {
    /// The rows.
    pub rows: Vec<ComparisonRow>,
}

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// No workload.
    #[error(transparent)]
    Generate(#[from] WorkloadError),
    /// No predictions.
    #[error("{0}")]
    Predict(String),
    /// A policy that broke a rule.
    #[error("{policy}: {error}")]
    Engine {
        /// Which.
        policy: &'static str,
        /// How.
        error: EngineError,
    },
    /// A log that the checker refuses.
    #[error("{policy}: the log of its run breaks rules: {first}")]
    Violations {
        /// Which.
        policy: &'static str,
        /// The first of them.
        first: TaskViolation,
    },
}

/// Where predicted times come from.
pub type Predict<'a> = dyn Fn(&Workload) -> Result<Estimates, String> + Sync + 'a;

/// Runs every policy on every workload, and checks every log; `done` is told how many runs there have been, and of how
/// many.
pub fn compare(
    options: &CompareOptions,
    profile: &HardwareProfile,
    predict: &Predict<'_>,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<TaskComparison, CompareError> {
    let mut jobs: Vec<(f64, u64)> = Vec::new();
    for &load in &options.loads {
        // What is named twice is one case, and counts once.
        let once = |&seed: &u64| (!jobs.contains(&(load, seed))).then_some((load, seed));
        let new: Vec<(f64, u64)> = options.seeds.iter().filter_map(once).collect();
        jobs.extend(new);
    }
    let (runs, ran) = (jobs.len() * options.policies.len(), AtomicUsize::new(0));
    let one_more = || done(ran.fetch_add(1, Ordering::Relaxed) + 1, runs);
    let rows: Result<Vec<Vec<ComparisonRow>>, CompareError> =
        jobs.into_par_iter().map(|job| one(options, profile, predict, job, &one_more)).collect();
    Ok(TaskComparison { rows: rows?.into_iter().flatten().collect() })
}

fn one(
    options: &CompareOptions,
    profile: &HardwareProfile,
    predict: &Predict<'_>,
    (load, seed): (f64, u64),
    one_more: &(dyn Fn() + Sync),
) -> Result<Vec<ComparisonRow>, CompareError> {
    let made = WorkloadOptions { arrivals: TaskArrivals::Load(load), seed, ..options.workload.clone() };
    let workload = generate(&made, profile)?.workload;
    let machine = Machine::of(profile, options.workload.gpus);
    let estimates = predict(&workload).map_err(CompareError::Predict)?;
    let truths = workload.truths(&estimates);
    let bound = bound::makespan(&workload, &truths, &machine).seconds();
    let settings = PolicySettings { seed, seconds_per_joule: options.seconds_per_joule };
    let run = |&policy: &TaskPolicy| {
        let outcome = schedule(&workload, &machine, &estimates, policy, settings)
            .map_err(|error| CompareError::Engine { policy: policy.name(), error })?;
        if let Some(first) = check(&workload, &truths, &outcome.log).into_iter().next() {
            return Err(CompareError::Violations { policy: policy.name(), first });
        }
        one_more();
        let decision_us = outcome.took.as_secs_f64() * 1e6 / workload.tasks.len() as f64;
        Ok(ComparisonRow { load, seed, policy, metrics: outcome.metrics, bound, decision_us })
    };
    options.policies.iter().map(run).collect()
}

/// A policy at a load, over all seeds.
#[derive(Clone, Copy, Debug)]
pub struct PolicySummary {
    /// Mean makespan in seconds.
    pub makespan: f64,
    /// Its standard deviation over the seeds.
    pub deviation: f64,
    /// Mean over the seeds of makespan / clairvoyant's makespan.
    pub to_clairvoyant: f64,
    /// The same for the bound.
    pub to_bound: f64,
    /// Mean flow time in seconds.
    pub flow: f64,
    /// Mean energy in joules.
    pub joules: f64,
    /// Mean of what each task took to schedule.
    pub decision_us: f64,
    /// Seeds on which no policy but the clairvoyant was shorter.
    pub best_on: usize,
    /// How many seeds.
    pub seeds: usize,
}

impl TaskComparison {
    /// The loads, in their order.
    pub fn loads(&self) -> Vec<f64> {
        let mut loads: Vec<f64> = Vec::new();
        for row in &self.rows {
            if !loads.contains(&row.load) {
                loads.push(row.load);
            }
        }
        loads
    }

    /// The policies, in their order.
    pub fn policies(&self) -> Vec<TaskPolicy> {
        let mut policies: Vec<TaskPolicy> = Vec::new();
        for row in &self.rows {
            if !policies.contains(&row.policy) {
                policies.push(row.policy);
            }
        }
        policies
    }

    fn find(&self, load: f64, seed: u64, policy: TaskPolicy) -> Option<&ComparisonRow> {
        self.rows.iter().find(|row| row.load == load && row.seed == seed && row.policy == policy)
    }

    /// One policy at one load; `None` where it took no part.
    pub fn summary(&self, load: f64, policy: TaskPolicy) -> Option<PolicySummary> {
        let rows: Vec<&ComparisonRow> =
            self.rows.iter().filter(|row| row.load == load && row.policy == policy).collect();
        if rows.is_empty() {
            return None;
        }
        let count = rows.len() as f64;
        let mean =
            |value: &dyn Fn(&ComparisonRow) -> f64| rows.iter().map(|row| value(row)).sum::<f64>() / count;
        let makespan = mean(&|row| row.metrics.makespan.seconds());
        let variance = mean(&|row| (row.metrics.makespan.seconds() - makespan).powi(2));
        let best = |row: &&&ComparisonRow| {
            let others = self.rows.iter().filter(|other| {
                other.load == row.load && other.seed == row.seed && other.policy != TaskPolicy::Clairvoyant
            });
            others.map(|other| other.metrics.makespan).min().is_none_or(|least| row.metrics.makespan <= least)
        };
        Some(PolicySummary {
            makespan,
            deviation: (variance * count / (count - 1.0).max(1.0)).sqrt(),
            to_clairvoyant: mean(&|row| {
                let known = self.find(row.load, row.seed, TaskPolicy::Clairvoyant).unwrap_or(row);
                row.metrics.makespan.seconds() / known.metrics.makespan.seconds().max(1e-9)
            }),
            to_bound: mean(&|row| row.metrics.makespan.seconds() / row.bound.max(1e-9)),
            flow: mean(&|row| row.metrics.mean_flow.seconds()),
            joules: mean(&|row| row.metrics.joules),
            decision_us: mean(&|row| row.decision_us),
            best_on: rows.iter().filter(best).count(),
            seeds: rows.len(),
        })
    }
}
