//! What clients of llama-swap ask a proxy that swaps models: what is loaded, to unload it, what it says, and its own server.

use super::calls::{answer, caller, model_of, refused};
use super::{Front, Shared};
use crate::extract::Named;
use crate::fault::Fault;
use crate::openai::ModelLoad;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use gswarm_core::ModelId;
use gswarm_exec::backend::Dialect;
use gswarm_exec::forward::{Forward, RawCall};
use gswarm_exec::service::ServiceView;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::fmt::Write;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use utoipa::ToSchema;

/// An answer of `/running`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Running {
    /// The models that are loaded, or on their way.
    pub running: Vec<RunningModel>,
}

/// A model that is loaded, or on its way.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct RunningModel {
    /// Its name in requests.
    pub model: String,
    /// Its name for people.
    pub name: String,
    /// `starting` or `ready`.
    pub state: String,
    /// Its GPUs.
    pub gpus: Vec<u32>,
    /// Seconds after which it is unloaded if nobody uses it; 0 where it stays.
    pub ttl: f64,
}

/// An answer of `/unload`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct Unloaded {
    /// `ok`.
    pub msg: String,
    /// The models that leave: at once, or when their calls have ended.
    pub unloaded: Vec<String>,
}

/// How each model stands, and its GPUs.
pub(super) fn states(view: &ServiceView<'_>) -> Vec<(ModelLoad, Vec<u32>)> {
    let scene = view.scene();
    let loading = |at: usize| scene.view.loads().find(|&(model, ..)| model == ModelId::from(at));
    let models = scene.models().into_iter().enumerate();
    let states = models.map(|(at, model)| match (model.resident_on.is_empty(), loading(at)) {
        (false, _) => (ModelLoad::Loaded, model.resident_on),
        (true, Some((_, gpus, ..))) => (ModelLoad::Loading, gpus.iter().map(|gpu| gpu.0).collect()),
        (true, None) => (ModelLoad::Unloaded, Vec::new()),
    });
    states.collect()
}

/// The models that are loaded, as llama-swap lists them.
#[utoipa::path(get, path = "/running", responses((status = 200, body = Running), (status = 503)))]
pub(super) async fn running(State(front): State<Shared>) -> Response {
    let Some((states, ttl)) = front.client.ask(|view| (states(view), view.ttl().clone())).await else {
        return super::views::stopping();
    };
    let models = front.client.scenario.models.iter().zip(states).enumerate();
    let running = models.filter(|(_, (_, (state, _)))| *state != ModelLoad::Unloaded);
    let running = running.map(|(at, (spec, (state, gpus)))| RunningModel {
        model: spec.id.clone(),
        name: spec.name.clone(),
        state: if state == ModelLoad::Loaded { "ready" } else { "starting" }.to_owned(),
        gpus,
        ttl: ttl.get(&ModelId::from(at)).map_or(0.0, |ttl| ttl.seconds()),
    });
    Json(Running { running: running.collect() }).into_response()
}

/// Unloads all models: those that execute leave when their calls have ended.
#[utoipa::path(post, path = "/unload", responses((status = 200, body = Unloaded), (status = 403), (status = 503)))]
pub(super) async fn unload_all(State(front): State<Shared>, headers: HeaderMap) -> Response {
    unload(&front, &headers, (0..front.client.scenario.models.len()).map(ModelId::from).collect()).await
}

/// Unloads a model: one that executes leaves when its calls have ended.
#[utoipa::path(post, path = "/api/models/unload/{model}", params(("model" = String, Path)),
    responses((status = 200, body = Unloaded), (status = 403), (status = 404), (status = 503)))]
pub(super) async fn unload_one(
    State(front): State<Shared>,
    headers: HeaderMap,
    Named(model): Named,
) -> Response {
    match model_of(&front.client, &model) {
        Ok(model) => unload(&front, &headers, vec![model]).await,
        Err(fault) => fault.openai(),
    }
}

async fn unload(front: &Front, headers: &HeaderMap, models: Vec<ModelId>) -> Response {
    if let Err(fault) = from_here(headers) {
        return fault.openai();
    }
    let Some(leaving) = front.client.unload(models).await else { return super::views::stopping() };
    let names = leaving.iter().map(|&model| front.client.scenario.models[usize::from(model)].id.clone());
    Json(Unloaded { msg: "ok".to_owned(), unloaded: names.collect() }).into_response()
}

/// A page of somebody else's in a browser may not have this done: it could send such requests without being asked.
fn from_here(headers: &HeaderMap) -> Result<(), Fault> {
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok()).unwrap_or("none");
    if matches!(site, "none" | "same-origin") {
        return Ok(());
    }
    let message = "cross-origin requests are refused";
    Err(Fault::new(axum::http::StatusCode::FORBIDDEN, "other_site", message))
}

/// Things that happened of late, of which those that are more than a stretch on GPUs are shown.
const LINES: usize = 5_000;

/// What happened of late, a line each.
#[utoipa::path(get, path = "/logs", responses((status = 200, content_type = "text/plain", body = String), (status = 503)))]
pub(super) async fn logs(State(front): State<Shared>) -> Response {
    let lines = front.client.ask(|view| {
        let scene = view.scene();
        let page = view.chronicle().latest(LINES).history(scene.view.instance(), Vec::new());
        let mut lines = String::new();
        for one in page.happenings {
            // Writing to a text cannot fail.
            let _ = writeln!(lines, "[{:.3}s] {}", one.t, one.text);
        }
        lines
    });
    match lines.await {
        Some(lines) => ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], lines).into_response(),
        None => super::views::stopping(),
    }
}

/// Bytes of a server's output that are shown.
const SHOWN: u64 = 64 << 10;

/// What the server of a model said last, where `serve` has started it.
#[utoipa::path(get, path = "/logs/{model}", params(("model" = String, Path)),
    responses((status = 200, content_type = "text/plain", body = String), (status = 404), (status = 503)))]
pub(super) async fn server_logs(State(front): State<Shared>, Named(name): Named) -> Response {
    let model = match model_of(&front.client, &name) {
        Ok(model) => model,
        Err(fault) => return fault.openai(),
    };
    let Some(files) = front.client.ask(move |view| view.outputs(model)).await else {
        return super::views::stopping();
    };
    if files.is_empty() {
        let message = format!("gswarm has no output of `{name}`: it did not start that server");
        return Fault::not_found("no_output", message).openai();
    }
    let tail = move || -> std::io::Result<Vec<u8>> {
        let mut text = Vec::new();
        for path in files {
            let mut file = std::fs::File::open(path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(SHOWN)))?;
            file.take(SHOWN).read_to_end(&mut text)?;
        }
        Ok(text)
    };
    match tokio::task::spawn_blocking(tail).await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response(),
        _ => Fault::internal("the output cannot be read").openai(),
    }
}

/// A request for a model's own server, which is loaded for it.
pub(super) async fn upstream(
    State(front): State<Shared>,
    Path(rest): Path<String>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    // Names of models may have slashes in them: the longest that is one counts.
    let slashes = rest.match_indices('/').map(|(at, _)| (&rest[..at], &rest[at + 1..]));
    let parts = slashes.chain([(rest.as_str(), "")]).rfind(|(name, _)| front.client.model(name).is_some());
    let (name, path) = parts.unwrap_or_else(|| rest.split_once('/').unwrap_or((&rest, "")));
    match passed_on(&front, (name, path), (method, &uri), &headers, body).await {
        Ok(ticket) => answer(&front.client, ticket, None).await,
        Err(fault) => fault.openai(),
    }
}

async fn passed_on(
    front: &Front,
    (name, path): (&str, &str),
    (method, uri): (Method, &Uri),
    headers: &HeaderMap,
    body: Bytes,
) -> Result<gswarm_exec::service::Ticket, Fault> {
    from_here(headers)?;
    let client = front.client.on_behalf_of(caller(headers));
    let model = model_of(&client, name)?;
    if client.abilities(model).dialect != Dialect::OpenAi {
        let message = format!("`{name}` has no server of its own to forward requests to");
        return Err(Fault::param("model", message));
    }
    let asked = uri.query().map_or(String::new(), |query| format!("?{query}"));
    let encoded = path.split('/').map(gswarm_exec::backend::escaped).collect::<Vec<_>>().join("/");
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
    let raw =
        RawCall { method: method.to_string(), path: format!("/{encoded}{asked}"), content_type: kind, body };
    let spec = &client.scenario.models[usize::from(model)];
    let nothing = Map::new();
    let forward = Forward {
        path: "/upstream",
        kind: spec.kind.clone(),
        estimate: client.estimate(model, &nothing),
        body: nothing,
        raw: Some(Arc::new(raw)),
    };
    client.call(model, forward, 0).await.map_err(|refusal| refused(&refusal))
}
