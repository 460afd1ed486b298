//! The model server: models on disk, in memory and serving, over HTTP.
//!
//! Calls are computed in threads of their own, never in those that answer requests. An instance is taken away only after
//! those who use it have got their answers.

pub mod devices;
pub mod engines;
mod gate;
pub mod hub;
mod in_process;
mod instance;
mod place;
mod registry;
mod routes;

use crate::guard::BoundServer;
use gswarm_core::input::Scenario;
use gswarm_exec::clock::Clock;
use gswarm_infer::{EngineOptions, Store};
use hub::{Downloads, Hub};
use registry::Registry;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use in_process::{FolderError, InProcessModels};
pub use routes::{openapi, router};

/// What a model server is told when it is started.
#[derive(Clone, Debug)]
pub struct ModelServerOptions {
    /// The folder of models.
    pub models: PathBuf,
    /// Models that only take their time, and the cluster that they stand on.
    pub emulated: Option<Scenario>,
    /// The clock of emulated models: the wall's at any speed, or a virtual one.
    pub clock: Clock,
    /// Where models are downloaded from.
    pub hub: Option<hub::HubOptions>,
    /// Bounds of each instance.
    pub engine: EngineOptions,
    /// Most instances.
    pub max_instances: usize,
    /// How long a download is waited for before its caller is told to come back.
    pub patience: Duration,
}

impl ModelServerOptions {
    /// For the models of a folder.
    #[must_use]
    pub fn new(models: impl Into<PathBuf>) -> ModelServerOptions {
        ModelServerOptions {
            models: models.into(),
            emulated: None,
            clock: Clock::real(),
            hub: None,
            engine: EngineOptions::default(),
            max_instances: 64,
            patience: Duration::from_secs(300),
        }
    }
}

/// A model server, without the address that it is served at.
#[derive(Clone)]
pub struct ModelServer {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Registry,
    downloads: Downloads,
    hub: Option<Hub>,
    patience: Duration,
    speed: f64,
    url: String,
    port: u16,
}

impl ModelServer {
    /// Opens the folder of models, for a server at this address.
    pub fn open(
        options: ModelServerOptions,
        bound: &BoundServer,
    ) -> Result<ModelServer, gswarm_infer::Error> {
        ModelServer::at(options, bound.url(), bound.address().port())
    }

    /// The same for a server that is called in this process and has no address.
    fn in_process(options: ModelServerOptions) -> Result<ModelServer, gswarm_infer::Error> {
        ModelServer::at(options, String::new(), 0)
    }

    fn at(options: ModelServerOptions, url: String, port: u16) -> Result<ModelServer, gswarm_infer::Error> {
        let store = Store::open(&options.models)?;
        let shared = Shared {
            hub: options.hub.clone().map(Hub::new),
            downloads: Downloads::default(),
            patience: options.patience,
            speed: options.clock.speed(),
            url,
            port,
            registry: Registry::new(options, store),
        };
        Ok(ModelServer { shared: Arc::new(shared) })
    }

    fn registry(&self) -> &Registry {
        &self.shared.registry
    }
}
