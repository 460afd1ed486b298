//! The dashboard of a run that is watched from outside: the page, and the same paths as the front door where they only read.

use super::{PAGE_PATHS, RunSource, routes as dash_routes, told};
use crate::extract::{Named, Page, Params};
use crate::fault::Fault;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use gswarm_exec::wire::{ClusterStatus, Health, Queue, RequestList, RequestRecord, RequestStatus};
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Paths that need no token.
pub const OPEN_PATHS: &[&str] = &["/health", PAGE_PATHS[0], PAGE_PATHS[1], PAGE_PATHS[2]];

#[derive(OpenApi)]
#[openapi(info(title = "gswarm view", description = "A live view of a running or finished run"))]
struct Document;

/// All that a viewer answers.
pub fn router(viewed: RunSource) -> Router {
    let (router, document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(health))
        .routes(routes!(queue))
        .routes(routes!(cluster))
        .routes(routes!(latest))
        .routes(routes!(request, cancel))
        .routes(routes!(result))
        .routes(routes!(submit))
        .with_state(viewed.clone())
        .merge(dash_routes(Arc::new(viewed)))
        .split_for_parts();
    let text = document.to_json().unwrap_or_default();
    let answer = ([(axum::http::header::CONTENT_TYPE, "application/json")], text);
    router.route("/openapi.json", axum::routing::get(move || std::future::ready(answer.clone())))
}

/// Whether the process lives.
#[utoipa::path(get, path = "/health", responses((status = 200, body = Health)))]
async fn health() -> Json<Health> {
    Json(Health::ok())
}

/// Who waits, for what, and why.
#[utoipa::path(get, path = "/v1/queue", params(Page), responses((status = 200, body = Queue), (status = 503)))]
async fn queue(State(viewed): State<RunSource>, Params(page): Params<Page>) -> Response {
    let (from, limit) = page.bounds();
    told(viewed.look(move |look| look.queue(from, limit)).await)
}

/// What is on the GPUs.
#[utoipa::path(get, path = "/v1/cluster", responses((status = 200, body = ClusterStatus), (status = 503)))]
async fn cluster(State(viewed): State<RunSource>) -> Response {
    told(viewed.look(|look| look.cluster()).await)
}

/// The requests that came last.
#[utoipa::path(get, path = "/v1/requests", params(Page),
    responses((status = 200, body = RequestList), (status = 503)))]
async fn latest(State(viewed): State<RunSource>, Params(page): Params<Page>) -> Response {
    let (from, limit) = page.bounds();
    told(viewed.look(move |look| look.latest(from, limit)).await)
}

fn unknown(name: &str) -> Fault {
    let shown: String = name.chars().take(100).collect();
    Fault::not_found("request_not_found", format!("there is no request `{shown}`"))
}

/// Where a request stands, and why.
#[utoipa::path(get, path = "/v1/requests/{request}", params(("request" = String, Path)),
    responses((status = 200, body = RequestStatus), (status = 404), (status = 503)))]
async fn request(State(viewed): State<RunSource>, Named(name): Named) -> Response {
    let asked = name.clone();
    let found = viewed.look(move |look| look.request(&asked)).await;
    told(found.and_then(|found| found.ok_or_else(|| unknown(&name))))
}

/// What a request's nodes have written: 200 once it has ended, 202 before.
#[utoipa::path(get, path = "/v1/requests/{request}/result", params(("request" = String, Path)),
    responses((status = 200, body = RequestRecord), (status = 202, body = RequestRecord), (status = 404), (status = 503)))]
async fn result(State(viewed): State<RunSource>, Named(name): Named) -> Response {
    let asked = name.clone();
    match viewed.look(move |look| look.result(&asked)).await {
        Ok(Some((told, true))) => Json(told).into_response(),
        Ok(Some((told, false))) => (StatusCode::ACCEPTED, Json(told)).into_response(),
        Ok(None) => unknown(&name).openai(),
        Err(fault) => fault.openai(),
    }
}

fn read_only() -> Response {
    let message = "this is a read-only view of a run; `gswarm serve` takes requests";
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "read_only", message).openai()
}

/// Nothing can be taken back here.
#[utoipa::path(delete, path = "/v1/requests/{request}", params(("request" = String, Path)),
    responses((status = 405)))]
async fn cancel() -> Response {
    read_only()
}

/// Nothing can be submitted here.
#[utoipa::path(post, path = "/v1/workflows/{workflow}/requests", params(("workflow" = String, Path)),
    responses((status = 405)))]
async fn submit() -> Response {
    read_only()
}
