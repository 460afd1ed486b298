//! The dashboard: a page built into the program, and its API. A small trait hides whether the data comes from a service
//! or a run's folder.

mod overview;
mod page;
mod service;
pub mod view;
mod viewed;
mod what_if;

pub use overview::{DashboardAbout, Present, workflows};
pub use service::ServiceSource;
pub use viewed::RunSource;
pub use what_if::WhatIfState;

use crate::extract::Params;
use crate::fault::Fault;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_exec::chronicle::MOST_AT_ONCE;
use gswarm_exec::wire::{HistoryPage, Overview, PolicyList, WhatIf, WhatIfRequest};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Paths of the page: they need no token, for there is nothing of anybody in them.
pub const PAGE_PATHS: [&str; 3] = ["/", "/dashboard/app.js", "/dashboard/app.css"];

/// An answer, or why there is none.
pub type DashboardAnswer<'s, T> = BoxFuture<'s, Result<T, Fault>>;

/// What is left of a run, and the policy that it is run under.
pub type Ahead<'s> = BoxFuture<'s, Result<(WhatIfState, PolicySpec, u64), Fault>>;

/// Where what the dashboard shows comes from.
pub trait DashboardSource: Send + Sync + 'static {
    /// How things stand.
    fn overview(&self) -> DashboardAnswer<'_, Overview>;

    /// What happened after the thing of this number, `limit` things at most, and what goes on.
    fn history(&self, after: u64, limit: usize) -> DashboardAnswer<'_, HistoryPage>;

    /// What is left, as it is and on so many GPUs, with the policy that it is run under.
    fn onward(&self, gpus: Option<u32>) -> Ahead<'_>;
}

/// Somebody who can be asked.
pub type SharedSource = Arc<dyn DashboardSource>;

/// The page and what it asks for.
pub fn routes(source: SharedSource) -> OpenApiRouter {
    answers().with_state(source).merge(OpenApiRouter::from(page::routes()))
}

/// What the page asks for, whoever answers.
pub(crate) fn answers() -> OpenApiRouter<SharedSource> {
    OpenApiRouter::new()
        .routes(routes!(overview))
        .routes(routes!(history))
        .routes(routes!(suppose))
        .routes(routes!(policies))
}

fn told<T: Serialize>(answer: Result<T, Fault>) -> Response {
    answer.map_or_else(Fault::openai, |value| Json(value).into_response())
}

/// How things stand, all at once: GPUs, models, counts, the last minutes, and what there is to submit.
#[utoipa::path(get, path = "/v1/overview", responses((status = 200, body = Overview), (status = 503)))]
async fn overview(State(source): State<SharedSource>) -> Response {
    told(source.overview().await)
}

/// The policies, and the parameters of each.
#[utoipa::path(get, path = "/v1/policies", responses((status = 200, body = PolicyList)))]
async fn policies() -> Response {
    let all: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.description()).collect();
    Json(serde_json::json!({"policies": all})).into_response()
}

/// Which part of what happened.
#[derive(Deserialize, IntoParams)]
struct Which {
    /// The number of the last thing that is known already; 0, or nothing, for all that is kept.
    after: Option<u64>,
    /// Most things to be answered; 5000 at most.
    limit: Option<usize>,
}

/// What happened: stretches on GPUs and happenings, numbered in one row, the oldest first; and what goes on.
#[utoipa::path(get, path = "/v1/history", params(Which),
    responses((status = 200, body = HistoryPage), (status = 400), (status = 503)))]
async fn history(State(source): State<SharedSource>, Params(which): Params<Which>) -> Response {
    let limit = which.limit.unwrap_or(MOST_AT_ONCE).clamp(1, MOST_AT_ONCE);
    told(source.history(which.after.unwrap_or(0), limit).await)
}

/// What would be on more GPUs or fewer, or under another policy: the rest of what is open, simulated from where it stands.
#[utoipa::path(post, path = "/v1/what-if", request_body = WhatIfRequest,
    responses((status = 200, body = WhatIf), (status = 400), (status = 413), (status = 415), (status = 422), (status = 429),
              (status = 503)))]
async fn suppose(State(source): State<SharedSource>, headers: HeaderMap, body: Bytes) -> Response {
    let supposed = crate::openai::says_json(&headers).and_then(|()| crate::openai::parse(&body));
    match supposed {
        Ok(supposed) => told(what_if::answer(&source, supposed).await),
        Err(fault) => fault.openai(),
    }
}
