//! The state of a service or run as a whole: `GET /v1/overview` and `GET /v1/cluster`.

use crate::health::ServerState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a service or run, all at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// What is watched.
    pub source: OverviewSource,
    /// Its name, in a word or two.
    pub title: String,
    /// The version of gswarm that answers.
    pub version: String,
    /// When it began, in seconds since 1970, where that is known.
    #[schema(required)]
    pub started_at: Option<f64>,
    /// The present time.
    pub now: f64,
    /// Seconds of `now` and of all other times in a second of the wall's clock: more than 1 where models are emulated faster
    /// than time.
    pub speed: f64,
    /// What it is doing.
    pub state: RunState,
    /// Why, where there is more to say.
    #[schema(required)]
    pub why: Option<String>,
    /// The name of the policy.
    pub policy: String,
    /// What clients may ask of it.
    pub can: Abilities,
    /// Every GPU.
    pub gpus: Vec<GpuStatus>,
    /// Every model server.
    pub backends: Vec<BackendStatus>,
    /// Totals since the start.
    pub counts: Counts,
    /// Request latency of the last minute; of a run that has ended, of all of it.
    pub latency: LatencySummary,
    /// Latency by workflow, over the last requests that completed; the highest P99 first.
    pub workflow_latency: Vec<WorkflowLatency>,
    /// The slowest of the last requests that completed, slowest first.
    pub slowest: Vec<SlowRequestRow>,
    /// The last minutes.
    pub minutes: ActivitySeries,
    /// Every model.
    pub models: Vec<ModelStatus>,
    /// Every workflow.
    pub workflows: Vec<WorkflowOutline>,
    /// The policies that a what-if may name.
    pub policies: Vec<String>,
}

/// What an overview is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverviewSource {
    /// A `gswarm serve`.
    Serve,
    /// A live run, by its journal.
    Run,
    /// A run that is over, by its log.
    Log,
}

/// What a service or run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum RunState {
    /// It runs.
    #[serde(rename = "running")]
    Running,
    /// It finishes what is under way and accepts nothing new.
    #[serde(rename = "stopping")]
    Stopping,
    /// Every request has ended.
    #[serde(rename = "finished")]
    Finished,
    /// It was killed before its requests had ended.
    #[serde(rename = "interrupted")]
    Interrupted,
    /// No model server answers.
    #[serde(rename = "waiting for servers")]
    WaitingForServers,
}

impl RunState {
    /// As people read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Stopping => "stopping",
            RunState::Finished => "finished",
            RunState::Interrupted => "interrupted",
            RunState::WaitingForServers => "waiting for servers",
        }
    }
}

/// What clients may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Abilities {
    /// Requests can be submitted.
    pub submit: bool,
    /// Requests can be cancelled.
    pub cancel: bool,
    /// What-if questions are answered.
    pub what_if: bool,
}

/// A GPU and what it does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuStatus {
    /// Its number.
    pub gpu: u32,
    /// The number of its server.
    pub server: u32,
    /// What it does.
    pub state: GpuState,
    /// The models on it.
    pub models: Vec<String>,
    /// The model that is being loaded.
    #[schema(required)]
    pub loading: Option<String>,
    /// Memory that its models take.
    pub memory_gb: f64,
    /// Memory that it has, where that is known.
    #[schema(required)]
    pub memory_total_gb: Option<f64>,
    /// Executions under way.
    pub batch: u32,
    /// Expected seconds until it is free.
    pub free_in: f64,
    /// Seconds by which what it does has outlasted its estimate; 0 where it has not.
    pub overdue: f64,
}

/// What a GPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GpuState {
    /// Nothing.
    Idle,
    /// It executes.
    Running,
    /// It loads a model.
    Loading,
    /// Its server does not answer.
    Lost,
}

impl GpuState {
    /// As people read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GpuState::Idle => "idle",
            GpuState::Running => "running",
            GpuState::Loading => "loading",
            GpuState::Lost => "lost",
        }
    }
}

/// A model server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackendStatus {
    /// Its name.
    pub name: String,
    /// Its GPUs.
    pub gpus: Vec<u32>,
    /// Whether it is in rotation.
    pub up: bool,
    /// What is thought of it.
    pub state: ServerState,
    /// For how long it has been out of rotation.
    #[schema(required)]
    pub down_seconds: Option<f64>,
    /// What is wrong with it.
    #[schema(required)]
    pub why: Option<String>,
}

/// Totals since the start, and what is open now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Requests that have not ended.
    pub open: u64,
    /// Nodes that are ready and wait.
    pub waiting_nodes: u64,
    /// Nodes that execute, or wait on their GPUs for their model.
    pub running_nodes: u64,
    /// Requests of which every node has finished.
    pub completed: u64,
    /// Requests that were given up.
    pub failed: u64,
    /// Requests that were cancelled.
    pub cancelled: u64,
    /// Executions that have finished.
    pub executions: u64,
    /// Loads that have finished.
    pub loads: u64,
    /// Models that were unloaded to make room for others.
    pub evictions: u64,
    /// Attempts that failed, or were on a GPU that was lost, and are retried.
    pub retries: u64,
    /// Rules that the records of executions break: none, unless gswarm is at fault.
    pub violations: u64,
}

/// Counts of the last minutes, in buckets of equal length, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActivitySeries {
    /// Length of a bucket.
    pub bucket_seconds: f64,
    /// When the first bucket begins.
    pub from: f64,
    /// Requests that were completed.
    pub completed: Vec<u64>,
    /// Executions that finished.
    pub executions: Vec<u64>,
    /// Loads that finished.
    pub loads: Vec<u64>,
    /// Median request latency, where a request ended.
    pub p50: Vec<Option<f64>>,
    /// 99th percentile of request latency, where a request ended.
    pub p99: Vec<Option<f64>>,
    /// The most nodes that waited.
    pub waiting: Vec<u64>,
}

impl ActivitySeries {
    /// How many of `counts`, one of these series, there were a second over the last minute.
    #[must_use]
    pub fn rate(&self, counts: &[u64]) -> f64 {
        let minute = ((60.0 / self.bucket_seconds.max(0.001)).round() as usize).max(1);
        let late = &counts[counts.len().saturating_sub(minute)..];
        if late.is_empty() {
            0.0
        } else {
            late.iter().sum::<u64>() as f64 / (late.len() as f64 * self.bucket_seconds)
        }
    }
}

/// Latency of the requests that ended within a window; without a window, of all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatencySummary {
    /// The window before now.
    #[schema(required)]
    pub window_seconds: Option<f64>,
    /// The median.
    #[schema(required)]
    pub p50: Option<f64>,
    /// The 99th percentile.
    #[schema(required)]
    pub p99: Option<f64>,
}

/// How long the requests of a workflow took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowLatency {
    /// Its key in the configuration.
    pub workflow: String,
    /// Requests that these figures are of.
    pub completed: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// A slow request. Waiting, loading and executing add up to its latency, unless an attempt failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SlowRequestRow {
    /// Its name.
    pub request: String,
    /// Its workflow.
    pub workflow: String,
    /// When it arrived.
    pub arrived: f64,
    /// From then to its end.
    pub latency: f64,
    /// Waiting for GPUs, on its critical path.
    pub waiting: f64,
    /// Loading its own models.
    pub loading: f64,
    /// Executing.
    pub executing: f64,
    /// What cost it most.
    pub why: String,
}

/// A model: where it is, and what waits for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelStatus {
    /// Its name.
    pub name: String,
    /// Nodes that are ready and wait for it.
    pub waiting: u64,
    /// The longest time that one of them has waited.
    pub longest_wait: f64,
    /// Why they wait.
    #[schema(required)]
    pub why: Option<String>,
    /// The GPUs that hold it.
    pub resident_on: Vec<u32>,
}

/// A workflow, as far as a form to submit a request needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowOutline {
    /// Its key in the configuration.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The inputs that a request gives.
    pub inputs: Vec<String>,
    /// Its nodes.
    pub nodes: Vec<WorkflowNode>,
}

/// A node of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowNode {
    /// Its id.
    pub node: String,
    /// The key of its model.
    pub model: String,
    /// The nodes whose outputs it needs.
    pub after: Vec<String>,
}

/// GPUs and model servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatus {
    /// Every GPU.
    pub gpus: Vec<GpuStatus>,
    /// Every model server.
    pub backends: Vec<BackendStatus>,
    /// Requests that have not ended.
    pub open_requests: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_minute() {
        let series = ActivitySeries {
            bucket_seconds: 5.0,
            from: 0.0,
            completed: [vec![100; 20], vec![6; 12]].concat(),
            executions: Vec::new(),
            loads: Vec::new(),
            p50: Vec::new(),
            p99: Vec::new(),
            waiting: Vec::new(),
        };
        assert!((series.rate(&series.completed) - 1.2).abs() < 1e-9);
        assert_eq!(series.rate(&[]), 0.0);
    }
}
