//! What would happen on other GPUs or under another policy: `POST /v1/what-if`.

use super::history::BarKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What to change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WhatIfRequest {
    /// This many GPUs; default: as many as there are.
    #[serde(default)]
    pub gpus: Option<u32>,
    /// This policy; default: the present one.
    #[serde(default)]
    pub policy: Option<String>,
}

/// The rest of the open work, simulated to its end twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIf {
    /// On the present GPUs, under the present policy.
    pub as_it_is: WhatIfOutcome,
    /// With the changes.
    pub what_if: WhatIfOutcome,
    /// What was assumed, in sentences.
    pub assumed: Vec<String>,
}

/// One of the two simulations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIfOutcome {
    /// The name of its policy.
    pub policy: String,
    /// Its GPUs.
    pub gpus: u32,
    /// Requests that are open.
    pub requests: u64,
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
