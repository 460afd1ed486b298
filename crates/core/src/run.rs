//! One run from end to end, whoever asks for it: the problem that a policy is to solve, and what its log comes to, measured, held
//! against a bound and checked.

use crate::belief::Estimate;
use crate::bound::best_bound;
use crate::check::{Violation, check_run};
use crate::id::Gpus;
use crate::input::{ClusterSpec, Scenario, too_slow};
use crate::instance::{Cluster, Infeasible, Instance, Mode};
use crate::log::ExecutionLog;
use crate::log_file::Summary;
use crate::policy::{PolicyKind, deploy};
use crate::report::{Metrics, RunInfo, metrics, summary};
use crate::truth::{Truth, TruthSpec};
use std::collections::BTreeMap;

/// Why a scenario gives no problem.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoProblem {
    /// Nobody says how many GPUs there are.
    #[error("the number of GPUs is not given")]
    NoGpus,
    /// Moving a model would take longer than a run can count.
    #[error("{rate} GB/s: {reason}")]
    TooSlow {
        /// What was given.
        rate: f64,
        /// What it would lead to.
        reason: String,
    },
    /// It cannot be run on these GPUs, for each of these reasons.
    #[error("this cannot be run on these GPUs:{}", listed(.0))]
    Infeasible(Vec<Infeasible>),
}

fn listed(faults: &[Infeasible]) -> String {
    faults.iter().map(|fault| format!("\n  - {fault}")).collect()
}

/// The problem that `policy` is to solve; the cluster is `spec`, with the usual values for what that leaves open. `estimates` are
/// what a predictor says of all tasks, for those that have no time otherwise; there are none without a predictor.
///
/// # Errors
/// Why there is none.
pub fn problem(
    scenario: &Scenario,
    spec: &ClusterSpec,
    mode: Mode,
    policy: Option<PolicyKind>,
    estimates: &[Estimate],
) -> Result<Instance, NoProblem> {
    let mut cluster = Cluster::from_spec(spec).ok_or(NoProblem::NoGpus)?;
    // The configuration's own rate was held against its models when it was read; a flag's is not.
    let rate = cluster.switch.pcie_gb_per_s;
    if let Some(reason) = too_slow(&scenario.models, rate) {
        return Err(NoProblem::TooSlow { rate, reason });
    }
    if let Some(policy) = policy {
        cluster.residency = policy.residency(cluster.residency);
    }
    Instance::build_estimated(scenario, cluster, mode, estimates).map_err(NoProblem::Infeasible)
}

/// What a log says of a run beside what happened in it.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// The policy's name.
    pub policy: String,
    /// For every random choice.
    pub seed: u64,
    /// How long executions really took.
    pub truth: Truth,
    /// How that came about, where it is not what was estimated.
    pub truth_spec: Option<TruthSpec>,
    /// The name of what predicted the estimates.
    pub predictor: Option<String>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What happened.
    pub log: ExecutionLog,
    /// Measured from it.
    pub metrics: Metrics,
    /// The head of its log file.
    pub summary: Summary,
}

/// Measures the log of a simulated run, says how short it could have been at best, and checks all of it.
///
/// # Errors
/// What the log breaks: a fault of whoever made it.
pub fn assess(instance: &Instance, setting: &Setting, log: ExecutionLog) -> Result<Outcome, Vec<Violation>> {
    let metrics = metrics(instance, &log);
    // Only a run that learns keeps what it expected of each execution when it began.
    let learn = log.executions.iter().any(|execution| execution.expected.is_some());
    let info = RunInfo { learn, ..info(instance, setting, &metrics) };
    let summary = summary(instance, &metrics, info);
    let violations = check_run(instance, &setting.truth, &log, Some(&summary));
    if violations.is_empty() { Ok(Outcome { log, metrics, summary }) } else { Err(violations) }
}

fn info(instance: &Instance, setting: &Setting, metrics: &Metrics) -> RunInfo {
    let gpu_assignments = (setting.policy == PolicyKind::Static.name()).then(|| {
        let deployment = deploy(instance);
        let mut models_of: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (id, model) in instance.models.iter_enumerated() {
            for gpu in deployment.windows(id).flat_map(Gpus::iter) {
                models_of.entry(gpu.0).or_default().push(model.name.clone());
            }
        }
        models_of
    });
    // A run that gave requests up did less than the bound speaks of. A bound on estimates would be none on what happened.
    let truth = &setting.truth;
    let known = (!truth.is_estimate()).then(|| truth.known(instance));
    let bound = (metrics.failed_requests == 0).then(|| best_bound(known.as_ref().unwrap_or(instance)));
    RunInfo {
        policy: setting.policy.clone(),
        seed: Some(setting.seed),
        truth: setting.truth_spec.clone(),
        predictor: setting.predictor.clone(),
        lower_bound: bound.as_ref().map(|bound| bound.value),
        bound: bound.map(|bound| bound.claim(instance)),
        gpu_assignments,
        ..RunInfo::default()
    }
}
