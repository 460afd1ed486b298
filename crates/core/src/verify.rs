//! A file that somebody gives for a run, a plan or bounds, against its inputs: which of them it is, on which cluster it can
//! have come about, and what the check says of it.

use crate::belief::Estimate;
use crate::check::{Place, Violation, ViolationCode, check, check_bounds, check_log, check_predicted};
use crate::input::{ClusterSpec, MAX_GB, Scenario, too_slow};
use crate::instance::{Cluster, Instance, Mode};
use crate::log_file::{BoundFile, LogFile};
use crate::plan;
use crate::policy::follow;
use crate::sim::{SimOptions, simulate};
use crate::time::{MAX_SECONDS, Time};
use crate::truth::TrueTimes;

/// An execution log; or a plan, or a file of bounds.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The log; of the other two, what they say of the problem.
    pub log: LogFile,
    bounds: Option<(BoundFile, Vec<u8>)>,
}

impl Evidence {
    /// Never fails: what cannot be read is found by the check.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Evidence {
        let log = LogFile::read_bytes(bytes);
        let is_log = !log.faults.iter().any(|fault| fault.code == ViolationCode::File);
        match (!is_log).then(|| BoundFile::read_bytes(bytes)).flatten() {
            Some(file) => Evidence { log: file.head.clone(), bounds: Some((file, bytes.to_vec())) },
            None => Evidence { log, bounds: None },
        }
    }

    /// What it breaks, all of it. Where no run can have been made on the cluster that its summary speaks of, that is a
    /// violation, and the rest is checked on the cluster of `spec`. `estimates` are what a
    /// predictor says of all tasks, where the run went by one.
    #[must_use]
    pub fn violations(
        &self,
        scenario: &Scenario,
        spec: &ClusterSpec,
        mode: Mode,
        estimates: Option<&[Estimate]>,
    ) -> Vec<Violation> {
        let build = |cluster| build_estimated(scenario, cluster, mode, estimates.unwrap_or_default());
        let (claimed, _) = self.log.cluster(spec);
        let reason = match build(claimed.clone()) {
            Ok(instance) => return self.of(&instance, scenario, estimates),
            Err(reason) => reason,
        };
        let message = format!("the run is impossible on this cluster: {reason}");
        let unusable = Violation::new(ViolationCode::SumCluster, Place::default(), message);
        let usual =
            Cluster::from_spec(&ClusterSpec { gpus: spec.gpus.or(Some(claimed.gpus)), ..spec.clone() });
        let own = usual.map(|usual| Cluster { residency: claimed.residency, ..usual });
        let mut found = match own.and_then(|own| build(own).ok()) {
            Some(instance) => self.of(&instance, scenario, estimates),
            None => self.log.faults.clone(),
        };
        found.push(unusable);
        found
    }

    fn of(&self, instance: &Instance, scenario: &Scenario, estimates: Option<&[Estimate]>) -> Vec<Violation> {
        match (&self.bounds, estimates) {
            (Some((file, bytes)), _) => of_bounds(instance, file, bytes),
            (None, None) => check(instance, &self.log),
            (None, Some(estimates)) => {
                let truth = self.log.claims.truth.as_ref();
                let all = truth.is_some_and(|spec| spec.times == TrueTimes::Requests);
                let mut believed = instance.clone();
                believed.believe_predicted(scenario, estimates, all);
                check_predicted(instance, &believed, &self.log)
            }
        }
    }
}

/// What is wrong with a file of bounds, or with a plan and its bound.
fn of_bounds(instance: &Instance, file: &BoundFile, bytes: &[u8]) -> Vec<Violation> {
    let mut found = check_bounds(instance, file);
    if file.is_plan {
        match plan::file::read(instance, bytes) {
            Ok(read) => found.extend(of_promise(instance, &read, bytes)),
            Err(faults) => {
                let violation = |fault| Violation::new(ViolationCode::Record, Place::default(), fault);
                found.extend(faults.into_iter().map(violation));
            }
        }
    }
    found
}

/// Seconds by which what a plan promises may be off: its file is written to the microsecond.
const ROUNDING: f64 = 2e-6;

/// What a plan promises and does not keep: it is followed, and the log of that is checked like any other.
fn of_promise(instance: &Instance, read: &plan::file::PlanRead, bytes: &[u8]) -> Vec<Violation> {
    let Some(promise) = plan::file::promise(bytes) else { return Vec::new() };
    let violation = |code, message: String| Violation::new(code, Place::default(), message);
    let followed = simulate(instance, follow(instance, read).as_mut(), &SimOptions::default(), &mut |_| {});
    let log = match followed {
        Ok(log) => log,
        Err(error) => {
            return vec![violation(ViolationCode::Record, format!("the plan cannot be followed: {error}"))];
        }
    };
    let mut found = check_log(instance, &log, None);
    let end = log.executions.iter().map(|one| one.end).max().unwrap_or(Time::ZERO);
    let first = instance.requests.iter().map(|request| request.arrival).min().unwrap_or(Time::ZERO);
    let makespan = end.since(first).seconds();
    if (makespan - promise.makespan).abs() > ROUNDING || promise.makespan.is_nan() {
        let message =
            format!("makespan is {} s, but following the plan takes {makespan} s", promise.makespan);
        found.push(violation(ViolationCode::SumMakespan, message));
    }
    let at_bound = (promise.makespan - promise.lower_bound).abs() <= ROUNDING;
    let reason = match (promise.optimal, promise.proof.as_deref()) {
        (true, Some("bound")) if !at_bound => {
            "the plan is marked as equal to its bound, but it is not".to_owned()
        }
        (true, Some("search")) if promise.lower_bound > promise.makespan + ROUNDING => {
            "the plan is shorter than its bound".to_owned()
        }
        (true, Some("bound" | "search")) | (false, None) => return found,
        (optimal, proof) => format!("`optimal` is {optimal}, but `proof` is {proof:?}"),
    };
    found.push(violation(ViolationCode::SumBound, reason));
    found
}

/// The problem on a cluster whose numbers nobody has vouched for.
///
/// # Errors
/// Why there is no such cluster, or why it cannot be run there.
pub fn build(scenario: &Scenario, cluster: Cluster, mode: Mode) -> Result<Instance, String> {
    build_estimated(scenario, cluster, mode, &[])
}

fn build_estimated(
    scenario: &Scenario,
    cluster: Cluster,
    mode: Mode,
    estimates: &[Estimate],
) -> Result<Instance, String> {
    let rate = cluster.switch.pcie_gb_per_s;
    let sizes = [("gpu_memory_gb", cluster.gpu_memory_gb), ("pcie_gb_per_s", rate)];
    for (field, value) in sizes {
        if !(value > 0.0 && value <= MAX_GB) {
            return Err(format!("{field} is {value:e}"));
        }
    }
    let overhead = cluster.switch.overhead_seconds;
    if !(0.0..=MAX_SECONDS).contains(&overhead) {
        return Err(format!("switch_overhead_seconds is {overhead:e}"));
    }
    if let Some(reason) = too_slow(&scenario.models, rate) {
        return Err(format!("pcie_gb_per_s is {rate:e}: {reason}"));
    }
    if cluster.gpus == 0 {
        return Err("it has no GPUs".to_string());
    }
    Instance::build_estimated(scenario, cluster, mode, estimates).map_err(|faults| {
        let reasons: Vec<String> = faults.iter().map(ToString::to_string).collect();
        reasons.join("; ")
    })
}
