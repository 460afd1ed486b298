//! Comparison of many runs: one row per run, and the best run for each figure.

mod lines;
mod verdict;

pub use lines::{Better, ComparisonLine, FIGURES, Figure, columns, figure_at, judged, lines};
pub use verdict::{ComparisonVerdict, PolicyWin, verdict};

use crate::explain::SlowRequest;
use crate::log_file::Summary;
use crate::report::{Metrics, WorkflowMetrics};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which run it is: the same problem under the same policy has the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// Display name of the two input files.
    pub input: String,
    /// `offline` or `online`.
    pub mode: String,
    /// Whether models batch as the configuration says, or not at all.
    pub batching: bool,
    /// Number of GPUs.
    pub gpus: u32,
    /// Who chose.
    pub policy: String,
    /// For every random choice.
    pub seed: u64,
}

/// A run with its figures. All but the last two fields are texts and numbers: a row of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRow {
    /// Display name of the two input files.
    pub input: String,
    /// A fingerprint of the inputs and of everything else that a run depends on.
    pub fingerprint: String,
    /// `offline` or `online`.
    pub mode: String,
    /// Whether models batch as the configuration says, or not at all.
    pub batching: bool,
    /// Number of GPUs.
    pub gpus: u32,
    /// Who chose.
    pub policy: String,
    /// For every random choice.
    pub seed: u64,
    /// Why the run was impossible, if it was.
    pub infeasible: Option<String>,
    /// The makespan, if it ran.
    pub makespan_seconds: Option<f64>,
    /// No valid schedule is shorter.
    pub lower_bound_seconds: Option<f64>,
    /// How far the makespan lies above it, in percent of it.
    pub gap_percent: Option<f64>,
    /// Makespan of `baseline` on the same problem, with the same seed, over this one.
    pub speedup_over_baseline: Option<f64>,
    /// Loads that replaced another model.
    pub model_switches: Option<u64>,
    /// Loads that replaced none.
    pub cold_loads: Option<u64>,
    /// Share of all GPU time that went into loads.
    pub switch_overhead: Option<f64>,
    /// Of request latency.
    pub latency_mean_seconds: Option<f64>,
    /// Of request latency.
    pub latency_p50_seconds: Option<f64>,
    /// Of request latency.
    pub latency_p99_seconds: Option<f64>,
    /// Mean over the GPUs.
    pub utilisation: Option<f64>,
    /// Busiest minus idlest GPU, in percentage points.
    pub utilisation_spread_points: Option<f64>,
    /// Requests that stayed on one server / requests.
    pub server_efficiency: Option<f64>,
    /// Requests with a deadline.
    pub requests_with_deadline: Option<u64>,
    /// Of these, the ones not completed in time.
    pub deadline_misses: Option<u64>,
    /// Requests that completed.
    pub completed_requests: Option<u64>,
    /// Requests that did not.
    pub failed_requests: Option<u64>,
    /// Seconds to prepare the policy, including planning.
    pub planning_seconds: Option<f64>,
    /// Seconds for the whole run: planning, simulation and the check of its log.
    pub run_seconds: Option<f64>,
    /// Each workflow that has requests.
    #[serde(default)]
    pub workflows: Vec<WorkflowMetrics>,
    /// The slowest requests, slowest first, with why.
    #[serde(default)]
    pub slowest: Vec<SlowRequest>,
}

impl SweepRow {
    /// A run that could not be made.
    #[must_use]
    pub fn infeasible(key: &RunKey, fingerprint: &str, why: String) -> SweepRow {
        let RunKey { input, mode, batching, gpus, policy, seed } = key.clone();
        SweepRow {
            input,
            fingerprint: fingerprint.to_owned(),
            mode,
            batching,
            gpus,
            policy,
            seed,
            infeasible: Some(why),
            ..SweepRow::default()
        }
    }

    /// A run whose log has passed the check. `seconds` are those of planning and of the whole.
    #[must_use]
    pub fn of(
        key: &RunKey,
        fingerprint: &str,
        metrics: &Metrics,
        summary: &Summary,
        seconds: [f64; 2],
    ) -> SweepRow {
        SweepRow {
            infeasible: None,
            makespan_seconds: Some(metrics.makespan.seconds()),
            lower_bound_seconds: summary.lower_bound.map(|bound| bound.seconds()),
            gap_percent: summary.gap_percent(),
            model_switches: Some(metrics.model_switches),
            cold_loads: Some(metrics.cold_loads),
            switch_overhead: Some(metrics.switch_overhead),
            latency_mean_seconds: Some(metrics.request_latency.mean),
            latency_p50_seconds: Some(metrics.request_latency.median),
            latency_p99_seconds: Some(metrics.request_latency.p99),
            utilisation: Some(metrics.utilisation.mean),
            utilisation_spread_points: Some(metrics.utilisation.spread_points),
            server_efficiency: Some(metrics.servers.server_efficiency),
            requests_with_deadline: Some(metrics.requests_with_deadline),
            deadline_misses: Some(metrics.deadline_misses),
            completed_requests: Some(metrics.completed_requests),
            failed_requests: Some(metrics.failed_requests),
            planning_seconds: Some(seconds[0]),
            run_seconds: Some(seconds[1]),
            workflows: metrics.workflows.clone(),
            ..SweepRow::infeasible(key, fingerprint, String::new())
        }
    }

    /// Which run it is.
    #[must_use]
    pub fn key(&self) -> RunKey {
        RunKey {
            input: self.input.clone(),
            mode: self.mode.clone(),
            batching: self.batching,
            gpus: self.gpus,
            policy: self.policy.clone(),
            seed: self.seed,
        }
    }
}

/// Fills in how many times faster than `baseline` each run is, where that was run too.
pub fn fill_in_speedups(rows: &mut [SweepRow]) {
    let problem = |row: &SweepRow| RunKey { policy: String::new(), ..row.key() };
    let is_baseline = |row: &&SweepRow| row.policy == "baseline";
    let baselines: BTreeMap<RunKey, f64> = rows
        .iter()
        .filter(is_baseline)
        .filter_map(|row| Some((problem(row), row.makespan_seconds?)))
        .collect();
    for row in rows {
        let baseline = baselines.get(&problem(row)).copied();
        let speedup = baseline.zip(row.makespan_seconds).filter(|&(_, makespan)| makespan > 0.0);
        row.speedup_over_baseline = speedup.map(|(baseline, makespan)| baseline / makespan);
    }
}

/// Whether two runs are of the same problem.
#[must_use]
pub fn same_problem(one: &SweepRow, other: &SweepRow) -> bool {
    same_table(one, other) && one.gpus == other.gpus
}

/// Whether two runs differ at most in their GPUs, policy and seed, and so belong in one table.
#[must_use]
pub fn same_table(one: &SweepRow, other: &SweepRow) -> bool {
    (&one.input, &one.mode, one.batching) == (&other.input, &other.mode, other.batching)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(super) fn row(policy: &str, gpus: u32, seed: u64, makespan: f64, switches: u64) -> SweepRow {
        let key = RunKey {
            input: "one".to_owned(),
            mode: "offline".to_owned(),
            batching: true,
            gpus,
            policy: policy.to_owned(),
            seed,
        };
        SweepRow {
            infeasible: None,
            makespan_seconds: Some(makespan),
            model_switches: Some(switches),
            ..SweepRow::infeasible(&key, "f", String::new())
        }
    }

    #[test]
    fn speedups_are_over_the_baseline_of_the_same_problem() {
        let mut rows = vec![
            row("baseline", 4, 0, 100.0, 9),
            row("planned", 4, 0, 40.0, 1),
            row("baseline", 8, 0, 60.0, 9),
            row("planned", 8, 0, 30.0, 3),
            row("planned", 8, 1, 30.0, 3),
        ];
        fill_in_speedups(&mut rows);
        let speedups: Vec<_> = rows.iter().map(|row| row.speedup_over_baseline).collect();
        assert_eq!(speedups, [Some(1.0), Some(2.5), Some(1.0), Some(2.0), None]);
    }
}
