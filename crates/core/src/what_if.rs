//! What would be: the rest of a run, simulated from where it stands under one policy, and checked like every run.

use crate::check::check_log;
use crate::cost::megabytes;
use crate::engine::Continuation;
use crate::instance::{Infeasible, Instance, Residency};
use crate::log::{ExecutionLog, Status};
use crate::policy::{BuildContext, PolicyKind, PolicySpec};
use crate::report::{Stats, metrics};
use crate::sim::{SimError, SimOptions, simulate};
use crate::time::{Span, Time};

/// What came of it.
#[derive(Clone, Debug)]
pub struct WhatIfRun {
    /// Under this policy.
    pub policy: PolicyKind,
    /// The problem, for the names in the log.
    pub instance: Instance,
    /// What happened, from the moment at which the run was looked at.
    pub log: ExecutionLog,
    /// Until the last node ended.
    pub ends_in: Span,
    /// Of the requests, each from when it came, which may be long before that moment.
    pub latency: Stats,
    /// Loads that were made.
    pub loads: usize,
    /// The part of the GPUs' time in which they executed, from 0 to 1.
    pub utilisation: f64,
}

/// Why nothing came of it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WhatIfError {
    /// The policy knows no requests that come later.
    #[error("`{0}` is for batches known in advance, but more requests will arrive")]
    Mode(&'static str),
    /// It puts every model in its place, for good, before anything runs.
    #[error("`{0}` places every model before anything runs, but these GPUs are in use")]
    InUse(&'static str),
    /// It cannot be run on these GPUs.
    #[error("{0}")]
    Infeasible(Infeasible),
    /// The policy did not get to the end.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The log breaks a rule: a fault of this program.
    #[error("the simulation broke a rule: {0}")]
    Violation(String),
}

/// Most rounds of search for a plan: somebody waits for the answer.
fn rounds(tasks: usize) -> u64 {
    match tasks {
        0..2_000 => 4,
        2_000..20_000 => 1,
        _ => 0,
    }
}

/// Simulates what is left of a run under a policy.
pub fn what_if(onward: &Continuation, spec: &PolicySpec, seed: u64) -> Result<WhatIfRun, WhatIfError> {
    let policy = spec.kind();
    let mut instance = onward.instance.clone();
    if !policy.supports(instance.mode) {
        return Err(WhatIfError::Mode(policy.name()));
    }
    if policy == PolicyKind::Static && !instance.start.is_empty() {
        return Err(WhatIfError::InUse(policy.name()));
    }
    instance.cluster.residency = policy.residency(instance.cluster.residency);
    if instance.cluster.residency != onward.instance.cluster.residency {
        fits(&instance)?;
    }
    let log = if instance.tasks() == 0 {
        ExecutionLog::default()
    } else {
        let spec = spec.clone().with_rounds(rounds(instance.tasks()));
        let mut built = spec.build(&instance, &BuildContext::seeded(seed));
        simulate(&instance, built.as_mut(), &SimOptions::default(), &mut |_| {})?
    };
    if let Some(violation) = check_log(&instance, &log, None).first() {
        return Err(WhatIfError::Violation(violation.to_string()));
    }
    let figures = metrics(&instance, &log);
    let loads = log.executions.iter().filter(|one| one.switch > Span::ZERO).count() + log.loads.len();
    let ends_in = log.executions.iter().map(|one| one.end).max().unwrap_or(Time::ZERO).since(Time::ZERO);
    let latency = latencies(onward, &instance, &log);
    let utilisation = figures.utilisation.mean_compute;
    Ok(WhatIfRun { policy, instance, log, ends_in, latency, loads, utilisation })
}

/// The latency of each request, with what it had waited before.
fn latencies(onward: &Continuation, instance: &Instance, log: &ExecutionLog) -> Stats {
    let mut ends = vec![Time::ZERO; instance.requests.len()];
    for one in log.executions.iter().filter(|one| one.status == Status::Completed) {
        let end = &mut ends[instance.request_of(one.task).index()];
        *end = one.end.max(*end);
    }
    let of = instance
        .requests
        .iter_enumerated()
        .map(|(id, request)| ends[id.index()].since(request.arrival) + onward.waited[id]);
    Stats::of(of.collect())
}

/// Whether the models that are used fit where models share GPUs, though they do not share them now.
fn fits(instance: &Instance) -> Result<(), WhatIfError> {
    let (has_gb, residency) = (instance.cluster.gpu_memory_gb, instance.cluster.residency);
    let used = instance.task_ids().map(|task| &instance.models[instance.model_of(task)]);
    let too_large = |model: &&crate::instance::Model| {
        residency == Residency::Memory && model.memory_per_gpu + model.slot_per_gpu > megabytes(has_gb)
    };
    match used.into_iter().find(too_large) {
        Some(model) => {
            let needs_gb = (model.memory_per_gpu + model.slot_per_gpu) as f64 / 1000.0;
            Err(WhatIfError::Infeasible(Infeasible::TooLittleMemory {
                model: model.name.clone(),
                needs_gb,
                has_gb,
            }))
        }
        None => Ok(()),
    }
}
