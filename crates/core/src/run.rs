//! One run from end to end, whoever asks for it: the problem that a policy is to solve, and what its log comes to, measured, held
//! against a bound and checked.

use crate::belief::Estimate;
use crate::bound::{Bound, best_bound};
use crate::check::{Violation, check_run};
use crate::id::{Gpus, ModelId};
use crate::input::{ClusterSpec, Scenario, too_slow};
use crate::instance::{Cluster, Infeasible, Instance, Mode};
use crate::log::ExecutionLog;
use crate::log_file::Summary;
use crate::policy::PolicyKind;
use crate::report::{Metrics, RunInfo, metrics, summary};
use crate::truth::Truth;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Why a scenario gives no problem.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProblemError {
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
    #[error("the problem cannot run on these GPUs:{}", listed(.0))]
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
) -> Result<Instance, ProblemError> {
    let mut cluster = Cluster::from_spec(spec).ok_or(ProblemError::NoGpus)?;
    // The configuration's own rate was held against its models when it was read; a flag's is not.
    let rate = cluster.switch.pcie_gb_per_s;
    if let Some(reason) = too_slow(&scenario.models, rate) {
        return Err(ProblemError::TooSlow { rate, reason });
    }
    if let Some(policy) = policy {
        cluster.residency = policy.residency(cluster.residency);
    }
    Instance::build_estimated(scenario, cluster, mode, estimates).map_err(ProblemError::Infeasible)
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// What happened.
    pub log: ExecutionLog,
    /// Measured from it.
    pub metrics: Metrics,
    /// The head of its log file.
    pub summary: Summary,
}

/// Measures the log of a simulated run, says how short it could have been at best, and checks all of it. `info` says who made
/// the run; its bound and deployment are filled in here. `bound` keeps the problem's best bound, which is computed only if it
/// is not there yet.
///
/// # Errors
/// What the log breaks: a fault of whoever made it.
pub fn assess(
    instance: &Instance,
    info: RunInfo,
    truth: &Truth,
    bound: &OnceLock<Bound>,
    log: ExecutionLog,
) -> Result<RunOutcome, Vec<Violation>> {
    let metrics = metrics(instance, &log);
    // A run that gave requests up did less than the bound speaks of. A bound on estimates would be none on what happened.
    let bound = (metrics.failed_requests == 0).then(|| {
        if truth.is_estimate() {
            bound.get_or_init(|| best_bound(instance)).clone()
        } else {
            best_bound(&truth.known(instance))
        }
    });
    let info = RunInfo {
        // Only a run that learns keeps what it expected of each execution when it began.
        learn: log.executions.iter().any(|execution| execution.expected.is_some()),
        lower_bound: bound.as_ref().map(|bound| bound.value),
        bound: bound.map(|bound| bound.claim(instance)),
        gpu_assignments: (info.policy == PolicyKind::Static.name()).then(|| assignments(instance)),
        ..info
    };
    let summary = summary(instance, &metrics, info);
    let violations = check_run(instance, truth, &log, Some(&summary));
    if violations.is_empty() { Ok(RunOutcome { log, metrics, summary }) } else { Err(violations) }
}

/// The replicas of a permanent deployment: each model and its GPUs.
#[must_use]
pub fn replicas(instance: &Instance) -> Vec<(ModelId, Gpus)> {
    crate::rules::deploy(instance).replicas.clone()
}

/// The permanent deployment that `static` uses: the one that was given with the problem, else the one that does best on it.
#[must_use]
pub fn deployment(instance: &Instance) -> std::sync::Arc<crate::instance::Deployment> {
    crate::rules::deploy(instance)
}

/// The models of each GPU in a permanent deployment, which is the one that `static` uses.
#[must_use]
pub fn assignments(instance: &Instance) -> BTreeMap<u32, Vec<String>> {
    let deployment = crate::rules::deploy(instance);
    let mut models_of: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (id, model) in instance.models.iter_enumerated() {
        for gpu in deployment.windows(id).flat_map(Gpus::iter) {
            models_of.entry(gpu.0).or_default().push(model.name.clone());
        }
    }
    models_of
}
