//! Who waits, for what, and why: `GET /v1/queue`.

use super::request::RequestState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of the open requests, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// All requests that have not ended.
    pub open: u64,
    /// Nodes that are ready and wait.
    pub waiting_nodes: u64,
    /// The models that nodes wait for.
    pub by_model: Vec<ModelQueue>,
    /// The requests of this page.
    pub requests: Vec<QueuedRequest>,
}

/// What waits for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelQueue {
    /// Its name.
    pub model: String,
    /// Nodes that wait for it.
    pub waiting: u64,
    /// The longest time that one of them has waited.
    pub longest_wait: f64,
    /// Why they wait.
    pub why: String,
}

/// A request that has not ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueuedRequest {
    /// Its name.
    pub request_id: String,
    /// The workflow, or the model of a direct call.
    pub workflow_id: String,
    /// Call or workflow.
    pub kind: RequestKind,
    /// When it was accepted, in seconds since 1970.
    #[schema(required)]
    pub accepted_at: Option<f64>,
    /// Higher first.
    pub priority: i32,
    /// The last thing that went wrong.
    #[schema(required)]
    pub trouble: Option<String>,
    /// Its nodes.
    pub nodes: Vec<QueuedNode>,
    /// `open`, where this request alone was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RequestState>,
}

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// A direct call of a model.
    Call,
    /// A request of a workflow.
    Workflow,
}

/// A node of an open request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueuedNode {
    /// Its id.
    pub node: String,
    /// Its model.
    pub model: String,
    /// Where it stands.
    pub state: NodeState,
    /// Its place among the nodes that are ready for the same model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// How long it has been ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// Why it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Where a call stands that has not begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallStanding {
    /// Its model.
    pub model: String,
    /// `waiting`, `loading` while its model is on its way, or `running`.
    pub state: String,
    /// How many wait before it for the same model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Seconds until it is expected to start, as far as can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start_seconds: Option<f64>,
    /// Why it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum NodeState {
    /// It needs the outputs of others.
    #[serde(rename = "waiting")]
    Waiting,
    /// It can run.
    #[serde(rename = "ready")]
    Ready,
    /// It failed and is retried in a moment.
    #[serde(rename = "paused")]
    Paused,
    /// It runs.
    #[serde(rename = "running")]
    Running,
    /// It has finished.
    #[serde(rename = "done")]
    Done,
    /// It will not be run.
    #[serde(rename = "given up")]
    GivenUp,
}
