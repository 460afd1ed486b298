//! From the description of a server in a file to its adapter.

use super::Backend;
use super::api::{Api, LoadRecorder, ServedModel};
use super::http::{Http, HttpLimits};
use super::managed::Managed;
use super::openai::Servers;
use super::spec::{BackendSpec, Timeouts};
use crate::clock::Clock;
use gswarm_core::{Gpus, Instance};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A model, as far as servers have to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownModel {
    /// Its key in the configuration.
    pub name: String,
    /// What its weights take, in GB.
    pub memory_gb: f64,
    /// Slowdown per batch size in millionths; see [`gswarm_core::instance::Model::slowdown`].
    pub slowdown: Vec<u32>,
}

impl KnownModel {
    /// All models of a problem, by number.
    #[must_use]
    pub fn all(instance: &Instance) -> Vec<KnownModel> {
        let known = |model: &gswarm_core::instance::Model| KnownModel {
            name: model.name.clone(),
            memory_gb: model.memory_gb,
            slowdown: model.slowdown.clone(),
        };
        instance.models.iter().map(known).collect()
    }
}

/// The GPUs of a server.
#[derive(Clone, Debug)]
pub struct GpuPlace {
    /// As the cluster numbers them.
    pub gpus: Gpus,
    /// What the system calls them, in their order, where whoever starts programs there was given some of its GPUs; empty
    /// where their numbers are the system's.
    pub visible: Vec<String>,
}

/// What an adapter is given to connect to its server.
pub struct ServerLink<'l> {
    /// The GPUs of the server.
    pub place: &'l GpuPlace,
    /// The models of the run, by number.
    pub models: &'l [KnownModel],
    /// The clock of the run.
    pub clock: &'l Clock,
    /// Time limits.
    pub limits: HttpLimits,
    /// What is sent with every request, where the server wants it.
    pub token: Option<String>,
    spec: &'l BackendSpec,
    record: &'l LoadRecorder,
}

impl ServerLink<'_> {
    /// What a model is called there.
    #[must_use]
    pub fn name(&self, model: &str) -> String {
        let at = self.spec.models.get(model).and_then(|at| at.name.clone());
        at.unwrap_or_else(|| model.to_owned())
    }

    /// What the models that it serves are called there.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        if self.spec.models.is_empty() {
            return self.models.iter().map(|model| self.name(&model.name)).collect();
        }
        self.spec.models.keys().map(|model| self.name(model)).collect()
    }

    /// The server at its address.
    pub fn http(&self) -> Result<Http, String> {
        let url = self.spec.endpoint.url.as_deref().ok_or_else(|| "it has no `url`".to_owned())?;
        self.http_at(url)
    }

    fn http_at(&self, url: &str) -> Result<Http, String> {
        Ok(Http::new(url, self.token.as_deref(), self.limits)?.naming(self.all_names()))
    }

    /// What the server calls the models of the run, or would call them.
    #[must_use]
    pub fn all_names(&self) -> Vec<String> {
        self.models.iter().map(|model| self.name(&model.name)).collect()
    }

    /// The servers of models that have one each, or one for all.
    pub fn servers(&self) -> Result<Servers, String> {
        let url = self.spec.endpoint.url.as_deref();
        let own = url.filter(|_| self.spec.server.kind().holds_one_model());
        let mut by_name = BTreeMap::new();
        for (model, at) in &self.spec.models {
            if let Some(url) = at.url.as_deref().or(own) {
                by_name.insert(self.name(model), self.http_at(url)?);
            }
        }
        Ok(Servers::new(by_name, url.map(|url| self.http_at(url)).transpose()?))
    }

    /// A server under the rules of [`Managed`].
    pub fn managed(self, api: impl Api + 'static) -> Arc<dyn Backend> {
        let served =
            |model: &KnownModel| ServedModel { name: self.name(&model.name), memory_gb: model.memory_gb };
        let served = self.models.iter().map(served).collect();
        Arc::new(Managed::new(api, served, self.limits, Arc::clone(self.record)))
    }
}

/// A server, ready to be called; nothing is sent to it yet. `gpus` are its own.
pub fn connect(
    spec: &BackendSpec,
    gpus: Gpus,
    instance: &Instance,
    clock: &Clock,
    record: &LoadRecorder,
) -> Result<Arc<dyn Backend>, String> {
    let place = GpuPlace { gpus, visible: Vec::new() };
    connect_at(spec, &place, &KnownModel::all(instance), clock, record)
}

/// The same for whoever has no problem at hand, only its models.
pub fn connect_at(
    spec: &BackendSpec,
    place: &GpuPlace,
    models: &[KnownModel],
    clock: &Clock,
    record: &LoadRecorder,
) -> Result<Arc<dyn Backend>, String> {
    let token = spec.endpoint.token_env.as_deref().map(token).transpose()?;
    let limits = HttpLimits::from(&spec.endpoint.timeouts);
    spec.server.connect(ServerLink { place, models, clock, limits, token, spec, record })
}

impl From<&Timeouts> for HttpLimits {
    fn from(timeouts: &Timeouts) -> HttpLimits {
        let seconds = Duration::from_secs_f64;
        HttpLimits {
            connect: seconds(timeouts.connect),
            answer: seconds(timeouts.answer),
            load: seconds(timeouts.load),
            unload: seconds(timeouts.unload),
        }
    }
}

fn token(variable: &str) -> Result<String, String> {
    match std::env::var(variable) {
        Ok(token) if !token.trim().is_empty() => Ok(token.trim().to_owned()),
        _ => Err(format!("the environment variable {variable} for the token is empty or not set")),
    }
}
