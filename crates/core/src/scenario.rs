//! A configuration and its requests: what the input files say, with names resolved.
//!
//! What reading gives and what [`ScenarioBuilder`](crate::input::ScenarioBuilder) builds is valid: numbers are in range, graphs have no
//! cycle. [`Scenario::validate`] says the same of a scenario that was made or changed by hand.

use crate::id::{ModelId, WorkflowId};
use crate::time::Span;
use serde_json::{Map, Value};

/// A system configuration and the requests made of it.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Models, in the order of the file: index = [`ModelId`].
    pub models: Vec<ModelSpec>,
    /// Workflows, in the order of the file: index = [`WorkflowId`].
    pub workflows: Vec<WorkflowSpec>,
    /// What the configuration says of the cluster; flags win over it.
    pub cluster: ClusterSpec,
    /// Requests, in the order of the file.
    pub requests: Vec<RequestSpec>,
    /// The configuration's `metadata`, kept as it is.
    pub config_metadata: Value,
    /// The request file's `metadata`, kept as it is.
    pub requests_metadata: Value,
}

impl Scenario {
    /// What requests say of the execution times of their nodes: of all nodes, request by request.
    pub fn given_times(&self) -> impl Iterator<Item = Option<Span>> + '_ {
        self.requests.iter().flat_map(|request| {
            let nodes = self.workflows[request.workflow.index()].nodes.len();
            (0..nodes).map(|node| request.times.get(node).copied().flatten())
        })
    }
}

/// One model of the configuration.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ModelSpec {
    /// Its key in `models`.
    #[serde(skip)]
    pub id: String,
    /// Its display name; the key where none is given.
    pub name: String,
    /// `llm`, `image_generation`, `embedding`, `audio`, ...
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Size of its weights, over all its GPUs together.
    pub memory_gb: f64,
    /// Consecutive GPUs that one execution holds.
    pub gpus_required: u32,
    /// First load onto empty GPUs.
    pub load_time_seconds: f64,
    /// What taking it off its GPUs takes, as it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unload_time_seconds: Option<f64>,
    /// Output rate at batch 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// Mean number of output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_mean: Option<f64>,
    /// Its standard deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_std: Option<f64>,
    /// Mean execution time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference_time_mean: Option<f64>,
    /// Its standard deviation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference_time_std: Option<f64>,
    /// The model it derives from; kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_model: Option<String>,
    /// The values that `node_configs` may choose from; kept.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// Several executions at once on one replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batching: Option<BatchingSpec>,
    /// KV or activation memory for each concurrent execution, over all its GPUs together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gb_per_slot: Option<f64>,
}

/// How a model slows down when several executions share a replica.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct BatchingSpec {
    /// Most executions at once.
    pub max_batch: u32,
    /// (batch, slowdown), batch strictly rising from 1, slowdown from 1.0 and never falling.
    pub slowdown: Vec<(u32, f64)>,
}

impl BatchingSpec {
    /// A curve through these points. A batch of one is the measure of all slowdowns, so its point may be left out.
    #[must_use]
    pub fn new(max_batch: u32, mut slowdown: Vec<(u32, f64)>) -> BatchingSpec {
        if slowdown.first().is_some_and(|&(batch, _)| batch > 1) {
            slowdown.insert(0, (1, 1.0));
        }
        BatchingSpec { max_batch, slowdown }
    }
}

/// One workflow of the configuration.
#[derive(Clone, Debug, Default)]
pub struct WorkflowSpec {
    /// Its key in `workflows`.
    pub id: String,
    /// Its display name; the key where none is given.
    pub name: String,
    /// Its nodes, in the order of the file.
    pub nodes: Vec<NodeSpec>,
    /// (from, to) as indexes into `nodes`; no edge twice, no cycle.
    pub edges: Vec<(u32, u32)>,
}

/// One node of a workflow.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Its id inside the workflow.
    pub id: String,
    /// The model it calls.
    pub model: ModelId,
    /// Names of what it reads.
    pub inputs: Vec<String>,
    /// Names of what it writes.
    pub outputs: Vec<String>,
    /// The options of the model that a request may set for it.
    pub config_options: Vec<String>,
}

impl NodeSpec {
    /// A node that calls this model, and of which nothing else is said.
    #[must_use]
    pub fn new(id: impl Into<String>, model: ModelId) -> NodeSpec {
        NodeSpec { id: id.into(), model, inputs: Vec::new(), outputs: Vec::new(), config_options: Vec::new() }
    }
}

/// What the configuration says of the cluster.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterSpec {
    /// Number of GPUs.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub gpus: Option<u32>,
    /// GPUs of one server.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub gpus_per_server: Option<u32>,
    /// Memory of one GPU.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1e9))]
    pub gpu_memory_gb: Option<f64>,
    /// Host to GPU.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1e9))]
    pub pcie_gb_per_s: Option<f64>,
    /// Added to every switch under the `transfer` rule.
    #[schemars(range(min = 0, max = 3.2e9))]
    pub switch_overhead_seconds: Option<f64>,
    /// `transfer`, `load_time` or `measured`.
    pub switch_cost: Option<SwitchRule>,
    /// `single` or `memory`.
    pub residency: Option<Residency>,
}

impl ClusterSpec {
    /// Each field as it is given here, or else as in `other`.
    #[must_use]
    pub fn over(&self, other: &ClusterSpec) -> ClusterSpec {
        ClusterSpec {
            gpus: self.gpus.or(other.gpus),
            gpus_per_server: self.gpus_per_server.or(other.gpus_per_server),
            gpu_memory_gb: self.gpu_memory_gb.or(other.gpu_memory_gb),
            pcie_gb_per_s: self.pcie_gb_per_s.or(other.pcie_gb_per_s),
            switch_overhead_seconds: self.switch_overhead_seconds.or(other.switch_overhead_seconds),
            switch_cost: self.switch_cost.or(other.switch_cost),
            residency: self.residency.or(other.residency),
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct RequestSpec {
    /// Unique in the file.
    pub id: String,
    /// Microseconds since 1970, or since whatever zero the file's numbers count from; `None` where the file gives none.
    pub timestamp: Option<i64>,
    /// The workflow it runs.
    pub workflow: WorkflowId,
    /// Execution time per node of the workflow (same order), where the file gives one.
    pub times: Vec<Option<Span>>,
    /// Higher first.
    pub priority: i32,
    /// From arrival.
    pub deadline: Option<Span>,
    /// What the workflow reads; kept for the calls.
    pub input_data: Map<String, Value>,
    /// Options per node; kept for the calls.
    pub node_configs: Map<String, Value>,
    /// Kept as it is.
    pub metadata: Value,
}

impl RequestSpec {
    /// A request that runs this workflow, and says nothing else.
    #[must_use]
    pub fn new(id: impl Into<String>, workflow: WorkflowId) -> RequestSpec {
        RequestSpec {
            id: id.into(),
            timestamp: None,
            workflow,
            times: Vec::new(),
            priority: 0,
            deadline: None,
            input_data: Map::new(),
            node_configs: Map::new(),
            metadata: Value::Null,
        }
    }
}

named! {
    /// When requests arrive.
    #[derive(Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Mode {
        /// All at time 0.
        #[default]
        Offline = "offline",
        /// At their timestamp minus the earliest.
        Online = "online",
    }
}

named! {
    /// How many models a GPU holds.
    #[derive(Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Residency {
        /// One at a time.
        #[default]
        Single = "single",
        /// As many as fit into its memory.
        Memory = "memory",
    }
}

named! {
    /// How the cost of replacing one model by another is reckoned.
    #[derive(Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum SwitchRule {
        /// (old GB + new GB) / bandwidth + overhead.
        #[default]
        Transfer = "transfer",
        /// The new model's load time + old GB / bandwidth.
        LoadTime = "load_time",
        /// The new model's load time + what taking the old one off takes, both as they were measured.
        Measured = "measured",
    }
}
