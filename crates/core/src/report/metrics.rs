//! All figures of a run together.

use super::gpus::{self, GpuMetrics, Utilisation};
use super::loads::{Loaded, loads};
use super::predictions::{PredictionMetrics, predictions};
use super::requests::{Results, ServerMetrics, WorkflowMetrics};
use super::stats::{Stats, as_seconds};
use crate::instance::Instance;
use crate::log::{ExecutionLog, Status};
use crate::log_file::{BoundClaim, DeploymentSummary, RunStatus, Summary, Timing};
use crate::time::{Span, Time};
use crate::truth::TruthSpec;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// One model over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelMetrics {
    /// Its key in the configuration.
    pub model: String,
    /// Completed executions.
    pub executions: u64,
    /// Loads that replaced another model.
    pub switches: u64,
    /// Loads that replaced none.
    pub cold_loads: u64,
}

/// The models that were put in place before any execution needs it, with nothing to make room for: what a static run loads before
/// it serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeploymentMetrics {
    /// Loads, each of a model onto its GPUs.
    pub replicas: u64,
    /// Length of these loads, each counted once.
    #[serde(rename = "load_seconds", with = "as_seconds")]
    pub load: Span,
    /// From the first arrival until the last of them ended.
    #[serde(rename = "ready_after_seconds", with = "as_seconds")]
    pub ready_after: Span,
}

/// Said beside the gap once a GPU was lost.
const BOUND_NOTE: &str = "the bound assumes that no GPU was lost";

/// The metrics of a run, defined in `docs/metrics.md`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Last end minus first arrival.
    #[serde(rename = "makespan_seconds", with = "as_seconds")]
    pub makespan: Span,
    /// Requests of the input.
    pub total_requests: u64,
    /// Requests all of whose nodes completed.
    pub completed_requests: u64,
    /// The others.
    pub failed_requests: u64,
    /// Nodes that completed.
    pub completed_nodes: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Attempts that failed.
    pub failed_executions: u64,
    /// Attempts that a lost GPU, or a fault of the server, ended.
    pub lost_executions: u64,
    /// GPUs that were lost.
    pub lost_gpus: u64,
    /// Completed requests a second of makespan.
    pub requests_per_second: f64,
    /// Completed nodes a second of makespan.
    pub nodes_per_second: f64,
    /// Requests with a deadline.
    pub requests_with_deadline: u64,
    /// Of these, the ones not completed in time.
    pub deadline_misses: u64,
    /// End of a completed request's last node minus its arrival.
    pub request_latency: Stats,
    /// Each workflow that has requests, in the order of the configuration.
    #[serde(default)]
    pub workflows: Vec<WorkflowMetrics>,
    /// Start of an execution minus the moment it was ready.
    pub waiting_time: Stats,
    /// End of a completed execution minus the moment it was ready.
    pub node_latency: Stats,
    /// End of a completed execution minus its start.
    pub execution_time: Stats,
    /// Loads that replaced another model.
    pub model_switches: u64,
    /// Loads that replaced none.
    pub cold_loads: u64,
    /// Length of all loads, each counted once.
    #[serde(rename = "total_switch_seconds", with = "as_seconds")]
    pub total_switch_time: Span,
    /// Length of all loads, each on all its GPUs / (GPUs x makespan).
    pub switch_overhead: f64,
    /// The loads that put models in place before any execution needs it, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentMetrics>,
    /// A note on the lower bound's assumptions, if needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_note: Option<Cow<'static, str>>,
    /// Accuracy of predicted or learned run times, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictions: Option<PredictionMetrics>,
    /// The GPUs together.
    pub utilisation: Utilisation,
    /// Each GPU.
    pub gpus: Vec<GpuMetrics>,
    /// Each model that the configuration has.
    pub models: Vec<ModelMetrics>,
    /// Locality.
    pub servers: ServerMetrics,
}

/// Measures a run.
#[must_use]
pub fn metrics(instance: &Instance, log: &ExecutionLog) -> Metrics {
    let first = instance.requests.iter().map(|request| request.arrival).min().unwrap_or(Time::ZERO);
    let last = log.executions.iter().map(|one| one.end).max().unwrap_or(first);
    let makespan = last.since(first);
    let loads = loads(instance, log);
    let results = Results::of(instance, log);
    let status = |status| log.executions.iter().filter(move |one| one.status == status);
    let latencies: Vec<Span> = results.latencies(instance, log).filter_map(|(_, latency)| latency).collect();
    let workflows = results.workflows(instance, log);
    let over_all = |count: fn(&WorkflowMetrics) -> u64| workflows.iter().map(count).sum();
    let (requests, completed) = (instance.requests.len() as u64, latencies.len() as u64);
    let nodes = results.nodes();
    let rate = |count: u64| if makespan.0 == 0 { 0.0 } else { count as f64 / makespan.seconds() };
    let gpus = gpus::gpus(instance, log, &loads, makespan);
    let held: u128 = loads.iter().map(|load| u128::from(load.length().0) * u128::from(load.gpus.count)).sum();
    let switches = loads.iter().filter(|load| load.switch).count() as u64;
    Metrics {
        makespan,
        total_requests: requests,
        completed_requests: completed,
        failed_requests: requests - completed,
        completed_nodes: nodes,
        retries: log.executions.iter().filter(|one| one.attempt > 1).count() as u64,
        failed_executions: status(Status::Failed).count() as u64,
        lost_executions: (status(Status::Lost).count() + status(Status::Deferred).count()) as u64,
        lost_gpus: log.losses.len() as u64,
        requests_per_second: rate(completed),
        nodes_per_second: rate(nodes),
        requests_with_deadline: over_all(|one| one.requests_with_deadline),
        deadline_misses: over_all(|one| one.deadline_misses),
        request_latency: Stats::of(latencies),
        workflows,
        waiting_time: Stats::of(log.executions.iter().map(|one| one.start.since(one.ready)).collect()),
        node_latency: Stats::of(status(Status::Completed).map(|one| one.end.since(one.ready)).collect()),
        execution_time: Stats::of(status(Status::Completed).map(|one| one.end.since(one.start)).collect()),
        model_switches: switches,
        cold_loads: loads.len() as u64 - switches,
        total_switch_time: loads.iter().map(Loaded::length).sum(),
        switch_overhead: if makespan.0 == 0 {
            0.0
        } else {
            held as f64 / (f64::from(instance.cluster.gpus) * makespan.0 as f64)
        },
        deployment: deployed(log, &loads, first),
        bound_note: (!log.losses.is_empty()).then_some(BOUND_NOTE.into()),
        predictions: predictions(instance, log),
        utilisation: Utilisation::of(&gpus),
        gpus,
        models: models(instance, log, &loads),
        servers: results.servers(instance, log),
    }
}

fn deployed(log: &ExecutionLog, loads: &[Loaded], first: Time) -> Option<DeploymentMetrics> {
    if log.loads.is_empty() {
        return None;
    }
    let mut all = DeploymentMetrics::default();
    for load in loads.iter().filter(|load| load.ahead && !load.switch && !load.cut_short) {
        all.replicas += 1;
        all.load += load.length();
        all.ready_after = all.ready_after.max(load.end.since(first));
    }
    (all.replicas > 0).then_some(all)
}

fn models(instance: &Instance, log: &ExecutionLog, loads: &[Loaded]) -> Vec<ModelMetrics> {
    let mut all: Vec<ModelMetrics> = instance
        .models
        .iter()
        .map(|model| ModelMetrics { model: model.name.clone(), ..ModelMetrics::default() })
        .collect();
    for one in log.executions.iter().filter(|one| one.status == Status::Completed) {
        all[instance.model_of(one.task).index()].executions += 1;
    }
    for load in loads {
        let model = &mut all[load.model.index()];
        *if load.switch { &mut model.switches } else { &mut model.cold_loads } += 1;
    }
    all
}

/// What the summary of a run says beside its metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunInfo {
    /// The policy's name.
    pub policy: String,
    /// Whether the run was simulated.
    pub simulate: bool,
    /// Where its lengths of time come from.
    pub timing: Timing,
    /// How true times came about, where they are not the estimates.
    pub truth: Option<TruthSpec>,
    /// What the estimates were predicted by, where they are not the inputs' own.
    pub predictor: Option<String>,
    /// Whether the run learned.
    pub learn: bool,
    /// The seed, where one was used.
    pub seed: Option<u64>,
    /// No valid schedule is shorter.
    pub lower_bound: Option<Span>,
    /// Why not.
    pub bound: Option<BoundClaim>,
    /// For static runs: the models of each GPU.
    pub gpu_assignments: Option<BTreeMap<u32, Vec<String>>>,
}

/// The summary that goes with a log.
#[must_use]
pub fn summary(instance: &Instance, metrics: &Metrics, info: RunInfo) -> Summary {
    let cluster = &instance.cluster;
    let complete = metrics.completed_requests == metrics.total_requests;
    Summary {
        policy: info.policy,
        mode: instance.mode,
        simulate: info.simulate,
        timing: info.timing,
        truth: info.truth,
        predictor: info.predictor,
        learn: info.learn,
        seed: info.seed,
        status: if complete { RunStatus::Completed } else { RunStatus::Incomplete },
        gpus: cluster.gpus,
        gpus_per_server: cluster.gpus_per_server,
        gpu_memory_gb: cluster.gpu_memory_gb,
        switch: cluster.switch,
        residency: cluster.residency,
        total_requests: metrics.total_requests,
        completed_requests: metrics.completed_requests,
        total_nodes_executed: metrics.completed_nodes,
        makespan: metrics.makespan,
        model_switches: metrics.model_switches,
        cold_loads: metrics.cold_loads,
        total_switch_time: metrics.total_switch_time,
        lower_bound: info.lower_bound,
        bound: info.bound,
        deployment: info.gpu_assignments.map(|assignments| deployment(instance, metrics, assignments)),
    }
}

fn deployment(
    instance: &Instance,
    metrics: &Metrics,
    gpu_assignments: BTreeMap<u32, Vec<String>>,
) -> DeploymentSummary {
    let mut server_assignments: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (&gpu, models) in &gpu_assignments {
        let server = server_assignments.entry(instance.cluster.server_of(gpu)).or_default();
        for model in models {
            if !server.contains(model) {
                server.push(model.clone());
            }
        }
    }
    let servers = &metrics.servers;
    DeploymentSummary {
        gpu_assignments,
        server_assignments,
        utilisation: metrics.gpus.iter().map(|gpu| gpu.utilisation).collect(),
        server_efficiency: servers.server_efficiency,
        intra_server_workflows: servers.intra_server_workflows,
        inter_server_workflows: servers.inter_server_workflows,
        cross_server_communications: servers.cross_server_communications,
    }
}
