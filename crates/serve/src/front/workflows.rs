//! Workflows: requests that are accepted, written down, and done, whatever happens meanwhile.

use super::calls::{caller, refused};
use super::{Front, Shared};
use crate::extract::{Named, Params};
use crate::fault::Fault;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gswarm_core::input::{RequestSpec, Source, WorkflowSpec, read_requests};
use gswarm_core::instance::Mode;
use gswarm_exec::backend::escaped;
use gswarm_exec::call::missing_inputs;
use gswarm_exec::service::Refusal;
use gswarm_exec::wire::{
    AcceptedRequest, CancelledRequest, QueuedRequest, RequestList, RequestRecord, RequestState,
    RequestStatus, WorkflowDetail, WorkflowEdge, WorkflowList, WorkflowStep,
};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};

/// A request of a workflow, as it is submitted: for the document. It is read like a file of requests, with the same checks.
#[derive(Deserialize, Serialize, ToSchema)]
pub(super) struct Submission {
    /// What it is to be called; chosen here where nothing is said. The same name and the same content again is the same
    /// request.
    request_id: Option<String>,
    /// What the workflow reads.
    #[serde(default)]
    input_data: Map<String, Value>,
    /// Options by node.
    #[serde(default)]
    node_configs: Map<String, Value>,
    /// What nodes are expected to take, in seconds.
    #[serde(default)]
    node_execution_times: Map<String, Value>,
    /// Higher first.
    priority: Option<i32>,
    /// From now on.
    deadline_seconds: Option<f64>,
    /// Kept as it is.
    metadata: Option<Value>,
}

/// The workflows.
#[utoipa::path(get, path = "/v1/workflows", responses((status = 200, body = WorkflowList)))]
pub(super) async fn list(State(front): State<Shared>) -> Json<WorkflowList> {
    let describe = |workflow: &WorkflowSpec| {
        let nodes = workflow.nodes.iter().map(|node| WorkflowStep {
            id: node.id.clone(),
            model: front.client.scenario.models[usize::from(node.model)].id.clone(),
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
        });
        let name = |at: u32| workflow.nodes[at as usize].id.clone();
        let edges = workflow.edges.iter().map(|&(from, to)| WorkflowEdge { from: name(from), to: name(to) });
        WorkflowDetail {
            id: workflow.id.clone(),
            name: workflow.name.clone(),
            nodes: nodes.collect(),
            edges: edges.collect(),
        }
    };
    Json(WorkflowList { workflows: front.client.workflows().iter().map(describe).collect() })
}

/// Submits a request. Once this is answered with 202, the request is written down and will be done.
#[utoipa::path(post, path = "/v1/workflows/{workflow}/requests", params(("workflow" = String, Path)),
    request_body = Submission,
    responses((status = 202, body = AcceptedRequest),
              (status = 200, description = "it was accepted before", body = AcceptedRequest),
              (status = 400), (status = 404), (status = 409), (status = 415), (status = 429), (status = 503), (status = 507)))]
pub(super) async fn submit(
    State(front): State<Shared>,
    Named(workflow): Named,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match accepted(&front, &workflow, &headers, &body).await {
        Ok(response) => response,
        Err(fault) => fault.openai(),
    }
}

async fn accepted(
    front: &Front,
    workflow: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response, Fault> {
    let known = front.client.workflows();
    if !known.iter().any(|other| other.id == workflow) {
        let names: Vec<&str> = known.iter().map(|other| other.id.as_str()).take(20).collect();
        let shown: String = workflow.chars().take(100).collect();
        let message = format!("there is no workflow `{shown}`; the workflows are: {}", names.join(", "));
        return Err(Fault::not_found("workflow_not_found", message));
    }
    crate::openai::says_json(headers)?;
    let mut fields: Map<String, Value> = crate::openai::parse(body)?;
    if let Some(other) = fields.get("workflow_id").filter(|&other| other != workflow) {
        return Err(Fault::param(
            "workflow_id",
            format!("the URL names the workflow `{workflow}`, but the body {other}"),
        ));
    }
    let key = headers.get("idempotency-key").and_then(|value| value.to_str().ok());
    if let Some(key) = key {
        fields.entry("request_id").or_insert_with(|| Value::from(key));
    }
    if fields.get("request_id").is_none_or(Value::is_null) {
        fields.insert("request_id".to_owned(), Value::from(fresh_name()));
    }
    fields.insert("workflow_id".to_owned(), Value::from(workflow));
    let text = Value::Object(fields).to_string();
    let (spec, mut warnings) = read(front, &text)?;
    warnings.extend(lacks(front, &spec));
    fits(front, &spec)?;
    // An address that ends in dots is another one.
    let is_dots = matches!(spec.id.as_str(), "." | "..");
    if is_dots || spec.id.chars().count() > LONGEST_NAME || spec.id.chars().any(char::is_control) {
        let message = format!(
            "request_id may have up to {LONGEST_NAME} characters, no control characters, and cannot be . or .."
        );
        return Err(Fault::param("request_id", message));
    }
    let id = spec.id.clone();
    let client = front.client.on_behalf_of(caller(headers));
    let (status, state) = match client.submit(Arc::new(spec), text.clone()).await {
        Ok(_) => (StatusCode::ACCEPTED, RequestState::Accepted),
        // The same request again, after an answer that was lost, is no fault.
        Err(Refusal::Taken) if was_sent(front, &id).await?.is_some_and(|sent| sent == text) => {
            (StatusCode::OK, record(front, &id).await?.status)
        }
        Err(refusal) => return Err(refused(&refusal)),
    };
    let url = format!("/v1/requests/{}", escaped(&id));
    let result_url = format!("{url}/result");
    let body = AcceptedRequest { request_id: id, status: state, url: url.clone(), result_url, warnings };
    Ok((status, [(header::LOCATION, url)], Json(body)).into_response())
}

fn read(front: &Front, text: &str) -> Result<(RequestSpec, Vec<String>), Fault> {
    let source = Source { name: "the request", bytes: text.as_bytes() };
    let reading = read_requests(&front.client.scenario, source, Mode::Offline);
    let said = reading.diagnostics.iter().map(|one| {
        let place = one.path.trim_start_matches("requests[0].").trim_start_matches("requests[0]");
        let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
        format!("{}: {place}{}", one.code.code(), one.message)
    });
    let said: Vec<String> = said.collect();
    match reading.scenario.and_then(|mut scenario| scenario.requests.pop()) {
        Some(spec) => Ok((spec, said)),
        None => Err(Fault::invalid(shown(&said))),
    }
}

/// Inputs that its nodes read and nobody gives: they are called without.
fn lacks(front: &Front, spec: &RequestSpec) -> Vec<String> {
    let workflow = &front.client.scenario.workflows[usize::from(spec.workflow)];
    let missing = missing_inputs(workflow, spec);
    let words = missing.iter().take(MOST_SHOWN).map(|(node, input)| {
        format!("`{node}` reads `{input}`, but neither input_data nor a direct predecessor provides it")
    });
    let more = missing.len().saturating_sub(MOST_SHOWN);
    words.chain((more > 0).then(|| format!("and {more} more inputs are missing"))).collect()
}

/// What is wrong with a request, in a message that somebody may still want to read.
fn shown(faults: &[String]) -> String {
    let mut text = faults[..faults.len().min(MOST_SHOWN)].join("; ");
    if faults.len() > MOST_SHOWN {
        text.push_str(&format!("; and {} more", faults.len() - MOST_SHOWN));
    }
    text
}

/// A workflow with a model that can never run here fails at once.
fn fits(front: &Front, spec: &RequestSpec) -> Result<(), Fault> {
    let nodes = &front.client.scenario.workflows[usize::from(spec.workflow)].nodes;
    match nodes.iter().find_map(|node| front.client.cannot_run(node.model)) {
        Some(why) => Err(Fault { code: "model_does_not_fit", ..Fault::invalid(why) }),
        None => Ok(()),
    }
}

async fn was_sent(front: &Front, id: &str) -> Result<Option<String>, Fault> {
    let (records, id) = (front.client.records.clone(), id.to_owned());
    reading(move || records.body(&id)).await
}

/// Reads the ledger, away from the threads that answer.
async fn reading<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, gswarm_exec::journal::JournalError> + Send + 'static,
) -> Result<T, Fault> {
    let read = tokio::task::spawn_blocking(read).await;
    match read {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(Fault::unavailable("ledger_failed", error.to_string())),
        Err(error) => Err(Fault::internal(error.to_string())),
    }
}

fn fresh_name() -> String {
    format!("req-{:016x}", rand::rng().random::<u64>())
}

/// How many.
#[derive(Deserialize, IntoParams)]
pub(super) struct HowMany {
    /// Most requests to be answered.
    limit: Option<u32>,
}

/// The requests that were submitted last.
#[utoipa::path(get, path = "/v1/requests", params(HowMany),
    responses((status = 200, body = RequestList), (status = 400)))]
pub(super) async fn latest(State(front): State<Shared>, Params(many): Params<HowMany>) -> Response {
    let records = front.client.records.clone();
    let limit = many.limit.unwrap_or(100).min(1000);
    match reading(move || records.latest(limit)).await {
        Ok(requests) => Json(RequestList { requests, total: None }).into_response(),
        Err(fault) => fault.openai(),
    }
}

/// Where a request stands, and why.
#[utoipa::path(get, path = "/v1/requests/{request}", params(("request" = String, Path)),
    responses((status = 200, body = RequestStatus), (status = 404)))]
pub(super) async fn status(State(front): State<Shared>, Named(request): Named) -> Response {
    let name = request.clone();
    let open = front.client.ask(move |standing| standing.request(&name)).await.flatten();
    if let Some(queued) = open {
        let queued = QueuedRequest { status: Some(RequestState::Open), ..queued };
        return Json(RequestStatus::Open(queued)).into_response();
    }
    match record(&front, &request).await {
        Ok(found) => Json(RequestStatus::Recorded(RequestRecord { outputs: None, ..found })).into_response(),
        Err(fault) => fault.openai(),
    }
}

async fn record(front: &Front, request: &str) -> Result<RequestRecord, Fault> {
    let (records, id) = (front.client.records.clone(), request.to_owned());
    let found = reading(move || records.request(&id)).await?;
    found.ok_or_else(|| {
        let shown: String = request.chars().take(100).collect();
        Fault::not_found("request_not_found", format!("there is no request `{shown}`"))
    })
}

/// How long to wait.
#[derive(Deserialize, IntoParams)]
pub(super) struct Patience {
    /// Seconds to wait for its end.
    wait: Option<f64>,
}

/// What a request's nodes have written: 200 once it has ended, 202 before.
#[utoipa::path(get, path = "/v1/requests/{request}/result", params(("request" = String, Path), Patience),
    responses((status = 200, body = RequestRecord), (status = 202, body = RequestRecord), (status = 400), (status = 404)))]
pub(super) async fn result(
    State(front): State<Shared>,
    Named(request): Named,
    Params(patience): Params<Patience>,
) -> Response {
    let wait = patience.wait.unwrap_or(0.0);
    if !(0.0..=LONGEST_WAIT).contains(&wait) {
        return Fault::param("wait", format!("wait must be from 0 to {LONGEST_WAIT} seconds")).openai();
    }
    // Whether it ended or the time is over, the ledger says which.
    let _ = tokio::time::timeout(Duration::from_secs_f64(wait), front.client.wait(request.clone())).await;
    match record(&front, &request).await {
        Ok(found) if found.ended_at.is_none() => (StatusCode::ACCEPTED, Json(found)).into_response(),
        Ok(found) => Json(found).into_response(),
        Err(fault) => fault.openai(),
    }
}

/// The longest name of a request, in characters: it has to fit into an address.
const LONGEST_NAME: usize = 256;
const LONGEST_WAIT: f64 = 300.0;
/// Faults of a request that its answer tells.
const MOST_SHOWN: usize = 50;

/// Takes a request back. What has been done stays written down.
#[utoipa::path(delete, path = "/v1/requests/{request}", params(("request" = String, Path)),
    responses((status = 200, body = CancelledRequest), (status = 404), (status = 409)))]
pub(super) async fn cancel(State(front): State<Shared>, Named(request): Named) -> Response {
    if front.client.cancel(request.clone()).await {
        let status = RequestState::Cancelled;
        return Json(CancelledRequest { request_id: request, status }).into_response();
    }
    match record(&front, &request).await {
        Ok(found) => {
            let message = format!("the request has ended already: {}", found.status.name());
            Fault::conflict("request_ended", message).openai()
        }
        Err(fault) => fault.openai(),
    }
}
