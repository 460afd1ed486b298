//! What would happen on other GPUs or under another policy: `POST /v1/what-if`.

use super::history::BarKind;
use gswarm_core::input::ClusterSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What to change: parts of a run specification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfRequest {
    /// The cluster, of which `gpus` can be another number; default: as many as there are.
    #[schema(value_type = Option<Object>)]
    pub cluster: Option<ClusterSpec>,
    /// The policy: its name, or its name and parameters; default: the present one. Parameters of the present policy that are
    /// not given stay as they are.
    #[schema(value_type = Option<Object>)]
    pub policy: Option<Value>,
    /// Short for `cluster.gpus`.
    pub gpus: Option<u32>,
}

/// The rest of the open work, simulated to its end twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIf {
    /// On the present GPUs, under the present policy.
    pub as_it_is: WhatIfOutcome,
    /// With the changes.
    pub what_if: WhatIfOutcome,
    /// Assumptions, in sentences.
    pub assumed: Vec<String>,
}

/// One of the two simulations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIfOutcome {
    /// The name of its policy.
    pub policy: String,
    /// Its GPUs.
    pub gpus: u32,
    /// Requests that are simulated: those that are open, and those to come.
    pub requests: u64,
    /// Of these, the ones to come.
    pub coming: u64,
    /// Seconds from now until all of them have ended.
    pub ends_in: f64,
    /// Mean request latency.
    pub mean: f64,
    /// Median request latency.
    pub p50: f64,
    /// 99th percentile of request latency.
    pub p99: f64,
    /// Loads.
    pub loads: u64,
    /// Mean share of the time in which a GPU is busy.
    pub utilisation: f64,
    /// The first executions and loads.
    pub bars: Vec<PlannedBar>,
}

/// A simulated execution or load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedBar {
    /// Execution or load.
    pub kind: BarKind,
    /// Where.
    pub gpus: Vec<u32>,
    /// The model.
    pub model: String,
    /// The request; none of a load.
    #[schema(required)]
    pub request: Option<String>,
    /// The node; none of a load.
    #[schema(required)]
    pub node: Option<String>,
    /// From, in seconds from now.
    pub start: f64,
    /// To, in seconds from now.
    pub end: f64,
}
