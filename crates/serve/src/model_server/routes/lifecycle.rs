//! From a hub to disk, to host memory, to serving, and back.

use super::body::{InstanceId, JsonBody};
use super::types::{
    DeletedData, DownloadData, DownloadRequest, Envelope, InstanceData, LoadData, LoadRequest, OffloadData,
    OffloadRequest, OffloadTarget, ServeRequest,
};
use crate::fault::{FailedEnvelope, Fault};
use crate::model_server::devices::{self, WantedDevices};
use crate::model_server::instance::ModelInstance;
use crate::model_server::registry::{CameFrom, on_disk};
use crate::model_server::{ModelServer, engines, hub};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gswarm_infer::Store;
use std::path::PathBuf;

/// What is answered, or why not.
pub(super) type Answer<T> = Result<Json<Envelope<T>>, Fault>;

/// Does it to the end, even where the caller goes away meanwhile.
pub(in crate::model_server) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    let ended = tokio::spawn(work).await;
    ended.unwrap_or_else(|_| Err(Fault::internal("internal server error; see the server's log")))
}

/// An instance, as answers show it.
pub(super) fn describe(server: &ModelServer, instance: &ModelInstance) -> InstanceData {
    let busy = instance.busy();
    let state = if instance.gate().is_closed() { "stopping" } else { "serving" };
    InstanceData {
        instance_id: instance.id.clone(),
        model_name: instance.model.clone(),
        model_type: instance.kind.name().to_string(),
        device: instance.devices.text(),
        devices: instance.devices.list(),
        port: server.shared.port,
        url: server.shared.url.clone(),
        endpoint: format!("/standalone/call/{}", instance.id),
        came_from: instance.came_from,
        created_at: instance.created.to_string(),
        state: state.to_string(),
        running: busy.running,
        waiting: busy.waiting,
        emulated: instance.is_emulated(),
    }
}

/// Download a model from the hub
///
/// Goes on where an earlier download was cut off. A download that takes long is answered with 202 and goes on; asking again
/// waits for it.
#[utoipa::path(post, path = "/standalone/download", tag = "models", request_body = DownloadRequest, responses(
    (status = 200, body = Envelope<DownloadData>),
    (status = 202, body = Envelope<DownloadData>),
    (status = 400, body = FailedEnvelope), (status = 403, body = FailedEnvelope),
    (status = 404, body = FailedEnvelope), (status = 413, body = FailedEnvelope),
    (status = 415, body = FailedEnvelope), (status = 422, body = FailedEnvelope),
    (status = 429, body = FailedEnvelope), (status = 502, body = FailedEnvelope), (status = 507, body = FailedEnvelope)))]
pub(super) async fn download(
    State(server): State<ModelServer>,
    JsonBody(request): JsonBody<DownloadRequest>,
) -> Result<Response, Fault> {
    let name = request.model_name;
    let source = request.source.unwrap_or_default();
    let data = |path: Option<PathBuf>, already_downloaded, in_progress, emulated| DownloadData {
        model_name: name.clone(),
        model_path: path.map(|path| path.display().to_string()),
        source,
        already_downloaded,
        in_progress,
        emulated,
    };
    let registry = server.registry();
    if registry.emulated().contains_key(&name) {
        let message = format!("{name} is emulated: there is nothing to download");
        return Ok(Json(Envelope::done(message, data(None, true, false, true))).into_response());
    }
    Store::check_name(&name).map_err(engines::fault)?;
    let (store, looked_for) = (registry.store.clone(), name.clone());
    let there = tokio::task::spawn_blocking(move || on_disk(&store, &looked_for)).await;
    let there = there.map_err(|_| Fault::internal("the folder of models could not be read"))??;
    if let Some(folder) = there {
        let path = Some(folder.path().to_path_buf());
        let message = format!("{name} is on disk already");
        return Ok(Json(Envelope::done(message, data(path, true, false, false))).into_response());
    }
    let hub = server.shared.hub.as_ref().ok_or_else(hub::no_hub)?;
    let download = server.shared.downloads.get(hub, &registry.store, &name);
    match tokio::time::timeout(server.shared.patience, download).await {
        Ok(path) => {
            let message = format!("{name} is on disk");
            Ok(Json(Envelope::done(message, data(Some(path?), false, false, false))).into_response())
        }
        Err(_) => {
            let message = format!("{name} is downloading: /standalone/status shows the progress");
            let body = Envelope::done(message, data(None, false, true, false));
            Ok((StatusCode::ACCEPTED, Json(body)).into_response())
        }
    }
}

/// Bring a model from disk into host memory
#[utoipa::path(post, path = "/standalone/load", tag = "models", request_body = LoadRequest, responses(
    (status = 200, body = Envelope<LoadData>),
    (status = 400, body = FailedEnvelope), (status = 404, body = FailedEnvelope),
    (status = 409, body = FailedEnvelope),
    (status = 413, body = FailedEnvelope), (status = 415, body = FailedEnvelope),
    (status = 422, body = FailedEnvelope)))]
pub(super) async fn load(
    State(server): State<ModelServer>,
    JsonBody(request): JsonBody<LoadRequest>,
) -> Answer<LoadData> {
    let wanted = devices::parse(request.device.as_ref())?;
    let name = request.model_name;
    let known = server.registry().known(&name).await?;
    let device = match wanted {
        WantedDevices::Auto => "auto".to_string(),
        these => server.registry().place(&known, these)?.text(),
    };
    let (model_path, emulated) = (known.path(), known.is_emulated());
    let start = server.registry().clock.now();
    let loading = (server.clone(), name.clone());
    let came_from = to_the_end(async move { loading.0.registry().load(&loading.1, &known).await }).await?;
    let fresh = came_from == CameFrom::Disk;
    // The clock goes faster for emulated models alone.
    let faster = if emulated { 1.0 } else { server.shared.speed };
    let load_time = (server.registry().clock.now() - start).seconds() / faster;
    let message =
        if fresh { format!("{name} is in host memory") } else { format!("{name} was in host memory") };
    if fresh {
        tracing::info!("{name}: loaded into host memory in {load_time:.2} s");
    }
    Ok(Json(Envelope::done(
        message,
        LoadData {
            model_name: name,
            target: request.target.unwrap_or_default(),
            model_path: model_path.map(|path| path.display().to_string()),
            device,
            already_loaded: !fresh,
            came_from,
            load_time,
            emulated,
        },
    )))
}

/// Start an instance of a model
///
/// Brings the model into host memory first, where it is not there. A model may have several instances.
#[utoipa::path(post, path = "/standalone/serve", tag = "models", request_body = ServeRequest, responses(
    (status = 200, body = Envelope<InstanceData>),
    (status = 400, body = FailedEnvelope), (status = 404, body = FailedEnvelope),
    (status = 409, body = FailedEnvelope),
    (status = 413, body = FailedEnvelope), (status = 415, body = FailedEnvelope),
    (status = 422, body = FailedEnvelope)))]
pub(super) async fn serve(
    State(server): State<ModelServer>,
    JsonBody(request): JsonBody<ServeRequest>,
) -> Answer<InstanceData> {
    let wanted = devices::parse(request.device.as_ref())?;
    let name = request.model_name;
    let known = server.registry().known(&name).await?;
    let starting = (server.clone(), name.clone());
    let instance =
        to_the_end(async move { starting.0.registry().serve(&starting.1, &known, wanted).await }).await?;
    Ok(Json(Envelope::done(format!("{name} is serving"), describe(&server, &instance))))
}

/// Stop all instances of a model, and take it out of host memory
///
/// Those who are using an instance get their answers first.
#[utoipa::path(post, path = "/standalone/offload", tag = "models", request_body = OffloadRequest, responses(
    (status = 200, body = Envelope<OffloadData>),
    (status = 400, body = FailedEnvelope), (status = 404, body = FailedEnvelope),
    (status = 413, body = FailedEnvelope), (status = 415, body = FailedEnvelope)))]
pub(super) async fn offload(
    State(server): State<ModelServer>,
    JsonBody(request): JsonBody<OffloadRequest>,
) -> Answer<OffloadData> {
    let (name, target) = (request.model_name, request.target.unwrap_or_default());
    let known = server.registry().known(&name).await?;
    let offloading = (server.clone(), name.clone());
    let instance_ids = to_the_end(async move {
        Ok(offloading.0.registry().offload(&offloading.1, target == OffloadTarget::Disk).await)
    })
    .await?;
    tracing::info!("{name}: offloaded, {} instances stopped", instance_ids.len());
    Ok(Json(Envelope::done(
        format!("{name} is offloaded"),
        OffloadData {
            target,
            instances_stopped: instance_ids.len(),
            instance_ids,
            emulated: known.is_emulated(),
            model_name: name,
        },
    )))
}

/// Stop an instance
///
/// Those who are using it get their answers first.
#[utoipa::path(delete, path = "/standalone/instance/{instance_id}", tag = "models",
    params(("instance_id" = String, Path, description = "six letters and digits")), responses(
    (status = 200, body = Envelope<DeletedData>),
    (status = 404, body = FailedEnvelope), (status = 409, body = FailedEnvelope)))]
pub(super) async fn delete(
    State(server): State<ModelServer>,
    InstanceId(id): InstanceId,
) -> Answer<DeletedData> {
    let stopping = server.clone();
    let instance = to_the_end(async move { stopping.registry().stop(&id).await }).await?;
    Ok(Json(Envelope::done(
        format!("the instance {} is gone", instance.id),
        DeletedData {
            instance_id: instance.id.clone(),
            model_name: instance.model.clone(),
            port: server.shared.port,
            emulated: instance.is_emulated(),
        },
    )))
}
