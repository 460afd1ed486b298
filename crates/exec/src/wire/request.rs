//! Requests of workflows, from submission to result: `/v1/workflows` and `/v1/requests`.

use super::queue::QueuedRequest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use utoipa::ToSchema;

/// How a request ended, if it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestState {
    /// It was accepted and has not ended. The answer to a submission.
    Accepted,
    /// It has not ended.
    #[default]
    Open,
    /// Every node has finished.
    Completed,
    /// A node failed too often.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
}

impl RequestState {
    /// As files and people spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RequestState::Accepted => "accepted",
            RequestState::Open => "open",
            RequestState::Completed => "completed",
            RequestState::Failed => "failed",
            RequestState::Cancelled => "cancelled",
        }
    }

    /// The state of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<RequestState> {
        use RequestState::{Accepted, Cancelled, Completed, Failed, Open};
        [Accepted, Open, Completed, Failed, Cancelled].into_iter().find(|state| state.name() == name)
    }
}

/// A request as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RequestRecord {
    /// Its name.
    pub request_id: String,
    /// Its workflow.
    pub workflow_id: String,
    /// How it ended, if it has.
    pub status: RequestState,
    /// The last thing that went wrong.
    #[schema(required)]
    pub why: Option<String>,
    /// When it was accepted, in seconds since 1970.
    #[schema(required)]
    pub accepted_at: Option<f64>,
    /// When it ended, in seconds since 1970.
    #[schema(required)]
    pub ended_at: Option<f64>,
    /// When it arrived; only of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub arrived: Option<Option<f64>>,
    /// When it ended; only of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub ended: Option<Option<f64>>,
    /// As it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i32>)]
    pub priority: Option<Number>,
    /// As it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub deadline_seconds: Option<Number>,
    /// As it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Whether it ended after its deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_missed: Option<bool>,
    /// Outputs of its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub outputs: Option<Map<String, Value>>,
    /// Attempts that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<Vec<RequestFailure>>,
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RequestFailure {
    /// Which node.
    pub node: String,
    /// When, in seconds since 1970.
    pub at: f64,
    /// Why.
    pub why: String,
}

/// The latest requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RequestList {
    /// Latest first.
    pub requests: Vec<RequestRecord>,
    /// How many there are in all; only of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// Where a request stands: in the queue, or in the records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum RequestStatus {
    /// It has not ended.
    Open(QueuedRequest),
    /// It is known from the records only.
    Recorded(RequestRecord),
}

/// The answer to a submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AcceptedRequest {
    /// Its name.
    pub request_id: String,
    /// `accepted`; its state where the same request had been submitted before.
    pub status: RequestState,
    /// Where its state can be asked for.
    pub url: String,
    /// Where its outputs can be asked for.
    pub result_url: String,
    /// What is odd about it and was let pass.
    pub warnings: Vec<String>,
}

/// The answer to a cancellation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CancelledRequest {
    /// Its name.
    pub request_id: String,
    /// `cancelled`.
    pub status: RequestState,
}

/// The workflows of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowList {
    /// In the order of the configuration.
    pub workflows: Vec<WorkflowDetail>,
}

/// A workflow as the configuration describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowDetail {
    /// Its key in the configuration.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<WorkflowStep>,
    /// Which node needs the outputs of which.
    pub edges: Vec<WorkflowEdge>,
}

/// A node as the configuration describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowStep {
    /// Its id.
    pub id: String,
    /// The key of its model.
    pub model: String,
    /// What it reads.
    pub inputs: Vec<String>,
    /// What it writes.
    pub outputs: Vec<String>,
}

/// An edge between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowEdge {
    /// The node that writes.
    pub from: String,
    /// The node that reads.
    pub to: String,
}
