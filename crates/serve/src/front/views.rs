//! How things stand, for people and for programs: the queue, the GPUs, what happens, and numbers.

use super::Shared;
use crate::extract::{Page, Params};
use crate::fault::Fault;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::future::join_all;
use gswarm_exec::wire::{ClusterStatus, Health, Queue, TimedEvent};
use std::time::Duration;
use tokio::time::timeout;

pub(super) fn stopping() -> Response {
    Fault::unavailable("stopping", "the service is stopping").openai()
}

/// Who waits, for what, and why.
#[utoipa::path(get, path = "/v1/queue", params(Page), responses((status = 200, body = Queue), (status = 503)))]
pub(super) async fn queue(State(front): State<Shared>, Params(page): Params<Page>) -> Response {
    let (from, limit) = page.bounds();
    let queue = front.client.ask(move |standing| standing.queue(from, limit)).await;
    queue.map_or_else(stopping, |queue| Json(queue).into_response())
}

/// What is on the GPUs, and which backends answer.
#[utoipa::path(get, path = "/v1/cluster", responses((status = 200, body = ClusterStatus), (status = 503)))]
pub(super) async fn cluster(State(front): State<Shared>) -> Response {
    let cluster = front
        .client
        .ask(|standing| ClusterStatus {
            gpus: standing.gpus(),
            backends: standing.backends(),
            open_requests: standing.open() as u64,
        })
        .await;
    cluster.map_or_else(stopping, |cluster| Json(cluster).into_response())
}

/// All that happens from now on, as server-sent events.
#[utoipa::path(get, path = "/v1/events",
    responses((status = 200, description = "server-sent events", content_type = "text/event-stream", body = TimedEvent),
              (status = 503)))]
pub(super) async fn events(State(front): State<Shared>) -> Response {
    let told = front.client.told.clone();
    let blocks = front.events.listen().take_until(async move { told.over().await });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(blocks)).into_response()
}

/// Whether the process lives.
#[utoipa::path(get, path = "/health", responses((status = 200, body = Health)))]
pub(super) async fn health() -> Json<Health> {
    Json(Health::ok())
}

/// How long a backend has to answer whoever asks whether the service is ready.
const ASKED: Duration = Duration::from_secs(2);

/// Whether requests are taken on, can be written down, and some backend answers.
#[utoipa::path(get, path = "/ready", responses((status = 200, body = Health), (status = 503)))]
pub(super) async fn ready(State(front): State<Shared>) -> Response {
    let not_ready = |why: String| Fault::unavailable("not_ready", why).openai();
    match front.client.ask(|standing| standing.not_ready().ok_or_else(|| standing.up())).await {
        Some(Ok(why)) => not_ready(why),
        // A server that has died while nobody wanted anything of it is not known to be out yet.
        Some(Err(backends)) => {
            let asked = backends.iter().map(|backend| timeout(ASKED, backend.answers()));
            let answers = join_all(asked).await.into_iter().any(|answers| answers.unwrap_or(false));
            if answers {
                Json(Health { status: "ready".to_owned(), version: None }).into_response()
            } else {
                not_ready("no backend answers".to_owned())
            }
        }
        None => stopping(),
    }
}

/// Numbers, in the text form of Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, content_type = "text/plain", body = String)))]
pub(super) async fn metrics(State(front): State<Shared>) -> Response {
    let text = front.metrics.as_ref().map(|handle| handle.render()).unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
