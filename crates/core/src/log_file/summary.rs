//! The summary of a log: the policy, the rules of the run, and its results.

use super::bound::BoundClaim;
use crate::cost::SwitchCost;
use crate::instance::{Cluster, Mode, Residency};
use crate::time::Span;
use crate::truth::TruthSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

named! {
    /// Where the lengths of executions and loads come from.
    #[derive(Default)]
    pub enum Timing {
        /// From the inputs: the check holds every length against them.
        #[default]
        Estimated = "estimated",
        /// From a clock: lengths are what they were, everything else is checked.
        Measured = "measured",
    }
}

named! {
    /// Whether every request was completed.
    #[derive(Default)]
    pub enum RunStatus {
        /// All requests.
        #[default]
        Completed = "completed",
        /// Some failed, or the run stopped before its end.
        Incomplete = "incomplete",
    }
}

/// What a static run adds: where its models are, and how the servers fared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeploymentSummary {
    /// Models of each GPU.
    pub gpu_assignments: BTreeMap<u32, Vec<String>>,
    /// Models of each server.
    pub server_assignments: BTreeMap<u32, Vec<String>>,
    /// Busy / makespan of each GPU.
    pub utilisation: Vec<f64>,
    /// Requests all of whose nodes ran on one server / requests.
    pub server_efficiency: f64,
    /// Completed requests that stayed on one server.
    pub intra_server_workflows: u64,
    /// Completed requests that did not.
    pub inter_server_workflows: u64,
    /// Workflow edges whose two ends ran on different servers.
    pub cross_server_communications: u64,
}

/// The summary of a run, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The policy's name.
    pub policy: String,
    /// When requests arrived.
    pub mode: Mode,
    /// Whether the run was simulated.
    pub simulate: bool,
    /// Where its lengths of time come from.
    pub timing: Timing,
    /// How true times came about, where they are not the estimates.
    pub truth: Option<TruthSpec>,
    /// What the estimates were predicted by, where they are not the inputs' own.
    pub predictor: Option<String>,
    /// Whether actual times corrected the estimates of later executions.
    pub learn: bool,
    /// The seed, where one was used.
    pub seed: Option<u64>,
    /// Whether all requests were completed.
    pub status: RunStatus,
    /// Number of GPUs; the file lists their ids.
    pub gpus: u32,
    /// GPUs of one server.
    pub gpus_per_server: Option<u32>,
    /// Memory of one GPU.
    pub gpu_memory_gb: f64,
    /// What switching cost.
    pub switch: SwitchCost,
    /// How many models a GPU held.
    pub residency: Residency,
    /// Requests of the input.
    pub total_requests: u64,
    /// Requests all of whose nodes completed.
    pub completed_requests: u64,
    /// Nodes that completed.
    pub total_nodes_executed: u64,
    /// Last end minus first arrival.
    pub makespan: Span,
    /// Loads that replaced another model.
    pub model_switches: u64,
    /// Loads that replaced none.
    pub cold_loads: u64,
    /// Length of all loads, each counted once.
    pub total_switch_time: Span,
    /// No valid schedule is shorter.
    pub lower_bound: Option<Span>,
    /// Why not.
    pub bound: Option<BoundClaim>,
    /// For static runs.
    pub deployment: Option<DeploymentSummary>,
}

impl Summary {
    /// How far the makespan lies above the lower bound, in percent of the bound.
    #[must_use]
    pub fn gap_percent(&self) -> Option<f64> {
        let bound = self.lower_bound.filter(|bound| bound.0 > 0)?;
        let percent = (self.makespan.seconds() - bound.seconds()) / bound.seconds() * 100.0;
        Some((percent * 1e4).round() / 1e4)
    }
}

/// A summary as a file states it: every field may be missing, and none is trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)] // The fields are those of `Summary` and of docs/formats.md.
pub struct Claims {
    pub policy: Option<String>,
    pub mode: Option<String>,
    pub simulate: Option<bool>,
    pub timing: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truth: Option<TruthSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learn: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    pub status: Option<String>,
    pub gpus: Option<Vec<u32>>,
    /// `Some(None)` where the file says `null`: all GPUs in one server.
    pub gpus_per_server: Option<Option<u32>>,
    pub cluster: Option<ClusterClaims>,
    pub total_requests: Option<u64>,
    pub completed_requests: Option<u64>,
    pub total_nodes_executed: Option<u64>,
    pub makespan: Option<f64>,
    pub model_switches: Option<u64>,
    pub cold_loads: Option<u64>,
    pub total_switch_time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_bound: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundClaim>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_assignments: Option<BTreeMap<u32, Vec<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_assignments: Option<BTreeMap<u32, Vec<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_efficiency: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intra_server_workflows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inter_server_workflows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_server_communications: Option<u64>,
}

/// The rules of the run, as a summary states them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)] // The fields are those of the configuration's `cluster` section.
pub struct ClusterClaims {
    pub gpu_memory_gb: Option<f64>,
    pub pcie_gb_per_s: Option<f64>,
    pub switch_overhead_seconds: Option<f64>,
    pub switch_cost: Option<String>,
    pub residency: Option<String>,
}

impl From<&Cluster> for ClusterClaims {
    fn from(cluster: &Cluster) -> ClusterClaims {
        ClusterClaims {
            gpu_memory_gb: Some(cluster.gpu_memory_gb),
            pcie_gb_per_s: Some(cluster.switch.pcie_gb_per_s),
            switch_overhead_seconds: Some(cluster.switch.overhead_seconds),
            switch_cost: Some(cluster.switch.rule.name().to_string()),
            residency: Some(cluster.residency.name().to_string()),
        }
    }
}

impl Claims {
    /// Whether lengths were measured by a clock.
    #[must_use]
    pub fn measured(&self) -> bool {
        self.timing.as_deref() == Some(Timing::Measured.name())
    }
}

impl From<&Summary> for Claims {
    fn from(summary: &Summary) -> Claims {
        let deployment = summary.deployment.as_ref();
        Claims {
            policy: Some(summary.policy.clone()),
            mode: Some(summary.mode.name().to_string()),
            simulate: Some(summary.simulate),
            timing: Some(summary.timing.name().to_string()),
            truth: summary.truth.clone(),
            predictor: summary.predictor.clone(),
            learn: summary.learn.then_some(true),
            seed: summary.seed,
            status: Some(summary.status.name().to_string()),
            gpus: Some((0..summary.gpus).collect()),
            gpus_per_server: Some(summary.gpus_per_server),
            cluster: Some(ClusterClaims {
                gpu_memory_gb: Some(summary.gpu_memory_gb),
                pcie_gb_per_s: Some(summary.switch.pcie_gb_per_s),
                switch_overhead_seconds: Some(summary.switch.overhead_seconds),
                switch_cost: Some(summary.switch.rule.name().to_string()),
                residency: Some(summary.residency.name().to_string()),
            }),
            total_requests: Some(summary.total_requests),
            completed_requests: Some(summary.completed_requests),
            total_nodes_executed: Some(summary.total_nodes_executed),
            makespan: Some(summary.makespan.seconds()),
            model_switches: Some(summary.model_switches),
            cold_loads: Some(summary.cold_loads),
            total_switch_time: Some(summary.total_switch_time.seconds()),
            lower_bound: summary.lower_bound.map(Span::seconds),
            bound: summary.bound.clone(),
            gap_percent: summary.gap_percent(),
            gpu_assignments: deployment.map(|d| d.gpu_assignments.clone()),
            server_assignments: deployment.map(|d| d.server_assignments.clone()),
            server_efficiency: deployment.map(|d| d.server_efficiency),
            intra_server_workflows: deployment.map(|d| d.intra_server_workflows),
            inter_server_workflows: deployment.map(|d| d.inter_server_workflows),
            cross_server_communications: deployment.map(|d| d.cross_server_communications),
        }
    }
}
