//! What happens, as it happens: `GET /v1/events`.

use super::request::RequestState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An event and when it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimedEvent {
    /// In seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// What.
    #[serde(flatten)]
    pub event: ServiceEvent,
}

impl TimedEvent {
    /// One line of JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Names, numbers and texts: nothing in it can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What may happen in a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type")]
pub enum ServiceEvent {
    /// A request was accepted.
    #[serde(rename = "request.accepted")]
    RequestAccepted {
        /// Its name.
        request: String,
        /// Its workflow.
        workflow: String,
    },
    /// A request has ended.
    #[serde(rename = "request.ended")]
    RequestEnded {
        /// Its name.
        request: String,
        /// How.
        status: RequestState,
        /// After how long.
        seconds: f64,
        /// The last thing that went wrong.
        why: Option<String>,
    },
    /// A node was started.
    #[serde(rename = "node.started")]
    NodeStarted {
        /// Its request.
        request: Option<String>,
        /// Its id.
        node: String,
        /// Its model.
        model: String,
        /// Where.
        gpus: Vec<u32>,
    },
    /// A node has finished.
    #[serde(rename = "node.finished")]
    NodeFinished {
        /// Its request.
        request: Option<String>,
        /// Its id.
        node: String,
    },
    /// An attempt at a node failed.
    #[serde(rename = "node.failed")]
    NodeFailed {
        /// Its request.
        request: Option<String>,
        /// Its id.
        node: String,
        /// Why.
        why: Option<String>,
    },
    /// A model is loaded ahead of its first node.
    #[serde(rename = "load.ahead")]
    LoadAhead {
        /// Its name.
        model: String,
        /// Where.
        gpus: Vec<u32>,
    },
    /// A load has finished.
    #[serde(rename = "load.ended")]
    LoadEnded {
        /// The first of its GPUs.
        gpu: u32,
        /// The model.
        model: Option<String>,
    },
    /// A load failed.
    #[serde(rename = "load.failed")]
    LoadFailed {
        /// The first of its GPUs.
        gpu: u32,
        /// Why.
        why: Option<String>,
    },
    /// A model was unloaded although no other took its place.
    #[serde(rename = "model.unloaded")]
    ModelUnloaded {
        /// Its name.
        model: String,
    },
    /// A GPU does not answer.
    #[serde(rename = "gpu.lost")]
    GpuLost {
        /// Its number.
        gpu: u32,
    },
    /// A GPU answers again.
    #[serde(rename = "gpu.returned")]
    GpuReturned {
        /// Its number.
        gpu: u32,
    },
    /// A model server does not answer.
    #[serde(rename = "backend.down")]
    BackendDown {
        /// Its name.
        backend: String,
        /// Why.
        why: Option<String>,
    },
    /// A model server answers again.
    #[serde(rename = "backend.up")]
    BackendUp {
        /// Its name.
        backend: String,
        /// Always null.
        why: Option<String>,
    },
    /// The listener was too slow and missed events.
    #[serde(rename = "missed")]
    Missed {
        /// How many.
        events: u64,
    },
}
