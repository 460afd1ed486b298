//! The front door to a cluster: all models of a configuration under one address, in the manner of the OpenAI API, and its
//! workflows, each request scheduled among all others.

mod calls;
mod events;
mod swap;
mod views;
mod waiting;
mod workflows;

use crate::dash::{self, ServiceSource};
use crate::guard::{BoundServer, ServerEnd};

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use gswarm_core::policy::{Policy, PolicySpec};
use gswarm_exec::drive::LiveError;
use gswarm_exec::service::{Client, Service};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Paths that need no token: for those who only ask whether it lives, and for the page, in which there is nothing of anybody.
pub const OPEN_PATHS: &[&str] =
    &["/health", "/ready", dash::PAGE_PATHS[0], dash::PAGE_PATHS[1], dash::PAGE_PATHS[2]];

/// Paths whose answers do not end.
pub const LISTENING_PATHS: &[&str] = &["/v1/events"];

/// What every handler knows.
pub(crate) struct Front {
    client: Client,
    /// Seconds since 1970.
    started: u64,
    metrics: Option<PrometheusHandle>,
    events: Arc<events::Events>,
}

type Shared = Arc<Front>;

#[derive(OpenApi)]
#[openapi(info(
    title = "gswarm front door",
    description = "All models of a cluster under one address, and workflows over them"
))]
struct Document;

/// The front door to a service. `metrics` gives what `/metrics` answers; `policy` is the one that it is run under.
pub fn router(client: Client, metrics: Option<PrometheusHandle>, policy: &PolicySpec) -> Router {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let started = since.as_secs();
    let watched = Arc::new(ServiceSource::new(client.clone(), since.as_secs_f64(), policy.clone()));
    let events = events::Events::new(client.told.clone());
    let front: Shared = Arc::new(Front { client, started, metrics, events });
    let (router, document) =
        routes().with_state(Arc::clone(&front)).merge(dash::routes(watched)).split_for_parts();
    let text = document.to_json().unwrap_or_default();
    let answer = ([(axum::http::header::CONTENT_TYPE, "application/json")], text);
    let router = router
        // Jina and llama.cpp have it without the version.
        .route("/rerank", axum::routing::post(calls::rerank).with_state(Arc::clone(&front)))
        // llama-swap's own names: it unloads at a GET too.
        .route("/unload", axum::routing::get(swap::unload_all).with_state(Arc::clone(&front)))
        .route("/api/models/unload", axum::routing::post(swap::unload_all).with_state(Arc::clone(&front)))
        .route("/upstream/{*rest}", axum::routing::any(swap::upstream).with_state(Arc::clone(&front)))
        .layer(axum::middleware::from_fn(identified));
    router.route("/openapi.json", axum::routing::get(move || std::future::ready(answer.clone())))
}

/// The header that names a request in logs of client and server.
const REQUEST_ID: &str = "x-request-id";

/// Answers with the id that the request came with, or a new one.
async fn identified(request: Request, next: Next) -> Response {
    let usable = |id: &&HeaderValue| (1..=128).contains(&id.len()) && id.to_str().is_ok();
    let given = request.headers().get(REQUEST_ID).filter(usable).cloned();
    let id = given.or_else(|| HeaderValue::from_str(&format!("req_{:016x}", rand::random::<u64>())).ok());
    let mut response = next.run(request).await;
    id.into_iter().for_each(|id| drop(response.headers_mut().insert(REQUEST_ID, id)));
    response
}

/// The OpenAPI document of the front door, the dashboard's part included.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut document = routes().into_openapi();
    document.merge(dash::answers().into_openapi());
    document
}

fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(calls::models))
        .routes(routes!(calls::model))
        .routes(routes!(calls::chat))
        .routes(routes!(calls::completions))
        .routes(routes!(calls::embeddings))
        .routes(routes!(calls::rerank))
        .routes(routes!(calls::tokenize))
        .routes(routes!(calls::responses))
        .routes(routes!(calls::images))
        .routes(routes!(calls::speech))
        .routes(routes!(workflows::list))
        .routes(routes!(workflows::submit))
        .routes(routes!(workflows::latest))
        .routes(routes!(workflows::status, workflows::cancel))
        .routes(routes!(workflows::result))
        .routes(routes!(swap::running))
        .routes(routes!(swap::unload_all))
        .routes(routes!(swap::unload_one))
        .routes(routes!(swap::logs))
        .routes(routes!(swap::server_logs))
        .routes(routes!(views::queue))
        .routes(routes!(views::cluster))
        .routes(routes!(views::events))
        .routes(routes!(views::health))
        .routes(routes!(views::ready))
        .routes(routes!(views::metrics))
}

/// Begins to count what happens in this process, for `/metrics`; `None` where something counts already.
pub fn count_everything() -> Option<PrometheusHandle> {
    let buckets = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];
    let builder =
        PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &buckets);
    builder.ok()?.install_recorder().ok()
}

/// Serves at an address until `shutdown`, then stops taking requests on and lets what is under way end.
pub async fn run(
    bound: BoundServer,
    service: (Service, Client),
    policy: (&mut dyn Policy, &PolicySpec),
    metrics: Option<PrometheusHandle>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<ServerEnd, LiveError> {
    let (service, client) = service;
    let (policy, spec) = policy;
    let stopping = client.clone();
    let stop = async move {
        shutdown.await;
        stopping.stop();
    };
    let door = bound.serve(router(client, metrics, spec), stop);
    let mut door = std::pin::pin!(door);
    let mut service = std::pin::pin!(service.run(policy));
    tokio::select! {
        ended = &mut door => {
            // The last client is gone with the router: the service ends when what it has accepted has.
            service.await?;
            Ok(ended)
        }
        served = &mut service => {
            served?;
            Ok(door.await)
        }
    }
}
