//! Who this is, whether it lives, and what it has.

use super::lifecycle::describe;
use super::types::InstanceData;
use crate::fault::{FailedEnvelope, Fault};
use crate::model_server::ModelServer;
use crate::model_server::engines::in_thread;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::atomic::Ordering;
use utoipa::ToSchema;

/// Who this is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Root {
    name: String,
    version: String,
    /// Where its document is.
    openapi: String,
}

/// That the server lives.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `healthy`.
    status: String,
    version: String,
    models_in_dram: usize,
    serving_instances: usize,
    downloads: usize,
    /// Models that only take their time.
    emulated_models: usize,
}

/// What there is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Status {
    models_on_disk: Vec<OnDisk>,
    models_in_dram: Vec<InDram>,
    serving_instances: Vec<InstanceData>,
    downloads: Vec<Download>,
    /// The folder of models.
    cache_directory: String,
    /// The one port of this server.
    used_ports: Vec<u16>,
    /// How many seconds of emulated models go by in a second.
    speed: f64,
}

/// A model on disk, or in the configuration.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OnDisk {
    model_name: String,
    /// Null where it cannot be used.
    #[schema(required)]
    model_type: Option<String>,
    #[schema(required)]
    model_path: Option<String>,
    bytes: u64,
    /// Why it cannot be used, where it cannot.
    #[schema(required)]
    error: Option<String>,
    emulated: bool,
}

/// A model in host memory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct InDram {
    model_name: String,
    bytes: u64,
    loaded_at: String,
    emulated: bool,
}

/// A download that is under way.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Download {
    model_name: String,
    files: u64,
    total_files: u64,
    bytes: u64,
    total_bytes: u64,
}

/// Who this is
#[utoipa::path(get, path = "/", tag = "server", responses((status = 200, body = Root)))]
pub(super) async fn root() -> Json<Root> {
    Json(Root {
        name: "gswarm model server".to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        openapi: "/openapi.json".to_string(),
    })
}

/// Whether the server lives; needs no token
#[utoipa::path(get, path = "/health", tag = "server", responses((status = 200, body = Health)))]
pub(super) async fn health(State(server): State<ModelServer>) -> Json<Health> {
    let (models_in_dram, serving_instances) = server.registry().counts();
    Json(Health {
        status: "healthy".to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        models_in_dram,
        serving_instances,
        downloads: server.shared.downloads.progress().len(),
        emulated_models: server.registry().emulated().len(),
    })
}

/// Models on disk and in host memory, instances and downloads
#[utoipa::path(get, path = "/standalone/status", tag = "server",
    responses((status = 200, body = Status), (status = 422, body = FailedEnvelope)))]
pub(super) async fn status(State(server): State<ModelServer>) -> Result<Json<Status>, Fault> {
    let registry = server.registry();
    let store = registry.store.clone();
    let entries = in_thread(move || store.list()).await?;
    let folders = entries.into_iter().filter(|entry| !registry.emulated().contains_key(&entry.name));
    let on_disk = folders.map(|entry| OnDisk {
        model_type: entry.config.as_ref().ok().map(|config| config.kind().name().to_string()),
        error: entry.config.as_ref().err().map(ToString::to_string),
        model_path: Some(entry.path.display().to_string()),
        model_name: entry.name,
        bytes: entry.bytes,
        emulated: false,
    });
    let in_configuration = registry.emulated().iter().map(|(name, model)| OnDisk {
        model_name: name.clone(),
        model_type: Some(model.kind().name().to_string()),
        model_path: None,
        bytes: (model.spec().memory_gb * 1e9) as u64,
        error: None,
        emulated: true,
    });
    let in_dram = registry.in_memory().into_iter().map(|(model_name, loaded)| InDram {
        model_name,
        bytes: loaded.bytes,
        loaded_at: loaded.since.to_string(),
        emulated: loaded.weights.is_none(),
    });
    let downloads = server.shared.downloads.progress().into_iter().map(|(model_name, progress)| Download {
        model_name,
        files: progress.files.load(Ordering::Relaxed),
        total_files: progress.total_files.load(Ordering::Relaxed),
        bytes: progress.bytes.load(Ordering::Relaxed),
        total_bytes: progress.total_bytes.load(Ordering::Relaxed),
    });
    Ok(Json(Status {
        models_on_disk: on_disk.chain(in_configuration).collect(),
        models_in_dram: in_dram.collect(),
        serving_instances: registry.instances().iter().map(|instance| describe(&server, instance)).collect(),
        downloads: downloads.collect(),
        cache_directory: registry.store.root().display().to_string(),
        used_ports: vec![server.shared.port],
        speed: server.shared.speed,
    }))
}
