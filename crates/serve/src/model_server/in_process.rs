//! The models of a folder, run and called in this process: the model server without its HTTP.

use super::devices::{Devices, WantedDevices};
use super::registry::CameFrom;
use super::routes::{CallRequest, answer, to_the_end};
use super::{ModelServer, ModelServerOptions, router};
use crate::fault::Fault;
use crate::openai::{Check, parse};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::DefaultBodyLimit;
use axum::http::{Request, StatusCode, header};
use futures_util::StreamExt;
use gswarm_core::input::Scenario;
use gswarm_core::{Gpus, Instance};
use gswarm_exec::backend::{
    Api, BackendError, Brought, CallAbilities, Dialect, ForwardResult, Held, HttpLimits, LoadRecorder,
    Managed, ModelState, ServedModel, Timeouts, Wants, WeightTier, gswarm,
};
use gswarm_exec::call::Call;
use gswarm_exec::fleet::{Fleet, Member};
use gswarm_exec::forward::{Forward, Relay};
use gswarm_infer::{Error, ModelKind, Store};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a folder cannot serve the models of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be opened.
    #[error(transparent)]
    Unusable(#[from] Error),
    /// Models that are not in it.
    #[error("there is no model `{}`", .0.join("`, `"))]
    Missing(Vec<String>),
    /// Models that cannot be used, and why.
    #[error("models that cannot be used: {}", .0.join("; "))]
    Damaged(Vec<String>),
}

/// Models of a folder that this process runs.
#[derive(Clone, Debug)]
pub struct InProcessModels {
    folder: PathBuf,
    /// Their names in the folder, by those in the configuration.
    names: BTreeMap<String, String>,
}

impl InProcessModels {
    /// Finds every model of a configuration in a folder, under its key or under its `base_model`.
    pub fn find(folder: &Path, scenario: &Scenario) -> Result<InProcessModels, FolderError> {
        let store = Store::open(folder)?;
        let mut names = BTreeMap::new();
        let (mut missing, mut damaged) = (Vec::new(), Vec::new());
        for model in &scenario.models {
            let known = [Some(&model.id), model.base_model.as_ref()];
            let found = known.into_iter().flatten().find_map(|name| Some((name, store.model(name).ok()?)));
            let Some((name, there)) = found else {
                missing.push(model.id.clone());
                continue;
            };
            damaged.extend(there.config().err().map(|error| error.to_string()));
            names.insert(model.id.clone(), name.clone());
        }
        match (missing.is_empty(), damaged.is_empty()) {
            (false, _) => Err(FolderError::Missing(missing)),
            (true, false) => Err(FolderError::Damaged(damaged)),
            (true, true) => Ok(InProcessModels { folder: folder.to_owned(), names }),
        }
    }

    /// What each model can do, by its name in the folder: known from its files.
    fn abilities(&self, most: usize) -> Result<BTreeMap<String, CallAbilities>, Error> {
        let store = Store::open(&self.folder)?;
        let of = |name: &String| {
            let model = store.model(name)?;
            let config = model.config()?;
            let lacks_tools = config.kind() == ModelKind::Language && !model.chat_template()?.knows_tools();
            let abilities = CallAbilities {
                dialect: Dialect::Own,
                kind: Some(config.kind().name().to_owned()),
                context: u32::try_from(config.max_positions().min(most)).ok(),
                lacks_tools,
            };
            Ok((name.clone(), abilities))
        };
        self.names.values().map(of).collect()
    }

    /// One backend for all GPUs of a problem. `record` is told what loads take.
    pub fn fleet(&self, instance: &Instance, record: &LoadRecorder) -> Result<Fleet, Error> {
        let gpus = instance.cluster.gpus;
        let options = ModelServerOptions {
            max_instances: (gpus as usize).max(64),
            ..ModelServerOptions::new(&self.folder)
        };
        let served = instance.models.iter().map(|model| ServedModel {
            name: self.names.get(&model.name).unwrap_or(&model.name).clone(),
            memory_gb: model.memory_gb,
        });
        let limits = HttpLimits::from(&Timeouts::default());
        let context = options.engine.max_context;
        let api = InProcess::new(ModelServer::in_process(options)?, self.abilities(context)?);
        let backend = Managed::new(api, served.collect(), limits, Arc::clone(record));
        let (name, gpus) = ("embedded".to_owned(), Gpus::new(0, gpus));
        let backend = Arc::new(backend);
        Ok(Fleet::new(vec![Member { name, backend, gpus, reach: gpus.count, models: None }]))
    }
}

/// A model server that is asked without HTTP.
struct InProcess {
    server: ModelServer,
    /// Requests in the form of the OpenAI API are answered by the routes themselves.
    routes: Router,
    abilities: BTreeMap<String, CallAbilities>,
}

impl InProcess {
    fn new(server: ModelServer, abilities: BTreeMap<String, CallAbilities>) -> InProcess {
        // Whoever accepted a request has limited its size.
        let routes = router(server.clone()).layer(DefaultBodyLimit::disable());
        InProcess { server, routes, abilities }
    }
}

fn error(fault: Fault) -> BackendError {
    of_status(fault.status.as_u16(), fault.message)
}

/// In this process there is no server that could be unwell: what fails is the call.
fn of_status(status: u16, message: String) -> BackendError {
    match BackendError::of_status(status, message) {
        BackendError::Unwell(why) => BackendError::Failed(why),
        other => other,
    }
}

#[async_trait::async_trait]
impl Api for InProcess {
    fn places(&self) -> bool {
        true
    }

    /// An instance that goes leaves its weights in host memory.
    fn tier(&self) -> WeightTier {
        WeightTier::Host
    }

    async fn bring(&self, name: &str, _gpus: Gpus) -> Result<Brought, BackendError> {
        let registry = self.server.registry();
        let known = registry.known(name).await.map_err(error)?;
        let instance =
            registry.serve(name, &known, WantedDevices::These(Devices::Cpu)).await.map_err(error)?;
        let tier = match instance.came_from {
            CameFrom::Disk => WeightTier::Disk,
            CameFrom::Dram => WeightTier::Host,
        };
        Ok(Brought { handle: instance.id.clone(), tier: Some(tier) })
    }

    fn abilities(&self, name: &str) -> CallAbilities {
        self.abilities.get(name).cloned().unwrap_or_else(|| CallAbilities::of(Dialect::Own))
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        let (server, id) = (self.server.clone(), handle.to_owned());
        match to_the_end(async move { server.registry().stop(&id).await }).await {
            // One that is not there is gone, which is what was asked for.
            Err(fault) if fault.status != StatusCode::NOT_FOUND => Err(error(fault)),
            _ => Ok(()),
        }
    }

    async fn look(&self, handle: &str) -> Result<ModelState, BackendError> {
        Ok(match self.server.registry().instance(handle) {
            // Those who use it still get their answers.
            Ok(instance) if instance.gate().is_closed() => ModelState::Moving,
            Ok(_) => ModelState::There,
            Err(_) => ModelState::Absent,
        })
    }

    async fn held(&self) -> Result<Held, BackendError> {
        Ok(self.server.registry().instances().iter().map(|instance| instance.id.clone()).collect())
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        let instance = self.server.registry().instance(handle).map_err(error)?;
        let body = gswarm::call_body(handle, call).to_string();
        let request: CallRequest = parse(body.as_bytes()).map_err(error)?;
        request.check().map_err(error)?;
        let answer = answer(&self.server, &instance, &request.data).await.map_err(error)?;
        // Through text, so that 32-bit floats have the digits that servers send.
        let unreadable = |error: serde_json::Error| BackendError::Failed(error.to_string());
        let text = serde_json::to_string(&answer).map_err(unreadable)?;
        gswarm::answer_of(&serde_json::from_str(&text).map_err(unreadable)?, Wants::of(call))
    }

    async fn forward(
        &self,
        handle: &str,
        forward: &Forward,
        relay: &mut Relay,
    ) -> Result<ForwardResult, BackendError> {
        let failed = |error: &dyn std::fmt::Display| BackendError::Failed(error.to_string());
        let mut body = forward.body.clone();
        body.insert("model".to_owned(), handle.into());
        let request = Request::post(forward.path).header(header::CONTENT_TYPE, "application/json");
        let request =
            request.body(Body::from(Value::Object(body).to_string())).map_err(|error| failed(&error))?;
        let Ok(response) = TowerToHyperService::new(self.routes.clone()).call(request).await;
        let status = response.status();
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("application/json").to_owned();
        if !status.is_success() {
            let text = to_bytes(response.into_body(), usize::MAX).await.map_err(|error| failed(&error))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let error = of_status(status.as_u16(), gswarm_exec::backend::reason(&text));
            return match error {
                BackendError::Refused(_) => {
                    let (status, why) = (status.as_u16(), error.to_string());
                    Ok(ForwardResult::Refused { status, kind, text, why })
                }
                other => Err(other),
            };
        }
        relay.head(status.as_u16(), &kind);
        let mut pieces = response.into_body().into_data_stream();
        while let Some(piece) = pieces.next().await {
            relay.piece(piece.map_err(|error| failed(&error))?).await;
        }
        Ok(ForwardResult::Answered)
    }
}
