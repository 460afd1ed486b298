//! From what a file says of a server to the server itself.

use super::api::{Api, Record, Served};
use super::command::{Command, Programs};
use super::gswarm::Gswarm;
use super::http::{Http, Limits};
use super::kserve::KServe;
use super::llamacpp::LlamaCpp;
use super::managed::Managed;
use super::ollama::Ollama;
use super::openai::{OpenAi, Servers};
use super::sleepers::{Sglang, Vllm};
use super::{Backend, Emulated};
use crate::clock::Clock;
use gswarm_core::input::{BackendKind, BackendSpec};
use gswarm_core::{Gpus, Instance};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Of a process, where nothing else is said.
const HEALTH: &str = "http://127.0.0.1:{port}/health";

/// A model, as far as servers have to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Its key in the configuration.
    pub name: String,
    /// What its weights take, in GB.
    pub memory_gb: f64,
    /// Slowdown per batch size in millionths; see [`gswarm_core::instance::Model::slowdown`].
    pub slowdown: Vec<u32>,
}

impl Known {
    /// All models of a problem, by number.
    #[must_use]
    pub fn all(instance: &Instance) -> Vec<Known> {
        let known = |model: &gswarm_core::instance::Model| Known {
            name: model.name.clone(),
            memory_gb: model.memory_gb,
            slowdown: model.slowdown.clone(),
        };
        instance.models.iter().map(known).collect()
    }
}

/// The GPUs of a server.
#[derive(Clone, Debug)]
pub struct Place {
    /// As the cluster numbers them.
    pub gpus: Gpus,
    /// What the system calls them, in their order, where whoever starts programs there was given some of its GPUs; empty
    /// where their numbers are the system's.
    pub visible: Vec<String>,
}

/// A server, ready to be called; nothing is sent to it yet. `gpus` are its own.
pub fn connect(
    spec: &BackendSpec,
    gpus: Gpus,
    instance: &Instance,
    clock: &Clock,
    record: &Record,
) -> Result<Arc<dyn Backend>, String> {
    let place = Place { gpus, visible: Vec::new() };
    connect_at(spec, &place, &Known::all(instance), clock, record)
}

/// The same for whoever has no problem at hand, only its models.
pub fn connect_at(
    spec: &BackendSpec,
    place: &Place,
    models: &[Known],
    clock: &Clock,
    record: &Record,
) -> Result<Arc<dyn Backend>, String> {
    let gpus = place.gpus;
    let limits = limits(spec);
    let token = spec.token_env.as_deref().map(token).transpose()?;
    let url = spec.url.as_deref();
    let http = || -> Result<Http, String> {
        let url = url.ok_or_else(|| "it has no `url`".to_owned())?;
        Http::new(url, token.as_deref(), limits)
    };
    let name = |model: &str| {
        let at = spec.models.get(model).and_then(|at| at.name.clone());
        at.unwrap_or_else(|| model.to_owned())
    };
    let servers = || -> Result<Servers, String> {
        let mut by_name = BTreeMap::new();
        for (model, at) in &spec.models {
            if let Some(url) = at.url.as_deref().or(url.filter(|_| spec.kind.holds_one_model())) {
                by_name.insert(name(model), Http::new(url, token.as_deref(), limits)?);
            }
        }
        Ok(Servers::new(by_name, url.map(|_| http()).transpose()?))
    };
    let served: Vec<Served> =
        models.iter().map(|model| Served { name: name(&model.name), memory_gb: model.memory_gb }).collect();
    let names: Vec<String> = if spec.models.is_empty() {
        served.iter().map(|model| model.name.clone()).collect()
    } else {
        spec.models.keys().map(|model| name(model)).collect()
    };
    let (calls, load) = (spec.calls, limits.load);
    let managed = Rules { served, limits, record: Arc::clone(record) };
    Ok(match spec.kind {
        BackendKind::Emulated => {
            let slowdown = models.iter().map(|model| model.slowdown.clone()).collect();
            Arc::new(Emulated::new(clock.clone(), slowdown))
        }
        BackendKind::Gswarm => {
            let first = (gpus.first.0, spec.first_device.unwrap_or(0));
            managed.over(Gswarm { http: http()?, device: spec.device, first, load })
        }
        BackendKind::OpenAi => managed.over(OpenAi { servers: servers()?, calls }),
        BackendKind::Vllm => {
            let drops_weights = spec.level == Some(2);
            managed.over(Vllm { servers: servers()?, calls, drops_weights, load })
        }
        BackendKind::Sglang => managed.over(Sglang::new(servers()?, calls, spec.level != Some(1), load)),
        BackendKind::Ollama => managed.over(Ollama { http: http()?, load }),
        BackendKind::LlamaCpp => managed.over(LlamaCpp { http: http()?, calls, load }),
        BackendKind::KServe => managed.over(KServe { http: http()?, names, input: spec.input.clone(), load }),
        BackendKind::Command => managed.over(Command::new(Programs {
            words: spec.command.clone(),
            health: spec.health.clone().unwrap_or_else(|| HEALTH.to_owned()),
            env: spec.env.clone(),
            grace: Duration::from_secs_f64(spec.grace.unwrap_or(10.0)),
            calls,
            // The processes run on this machine, where GPUs have the numbers that they have.
            first: (gpus.first.0, spec.first_device.unwrap_or(gpus.first.0)),
            visible: place.visible.clone(),
            token,
            limits,
        })),
    })
}

/// What all that are really there share.
struct Rules {
    served: Vec<Served>,
    limits: Limits,
    record: Record,
}

impl Rules {
    fn over<A: Api + 'static>(self, api: A) -> Arc<dyn Backend> {
        Arc::new(Managed::new(api, self.served, self.limits, self.record))
    }
}

fn limits(spec: &BackendSpec) -> Limits {
    let seconds = |given: Option<f64>, otherwise: f64| Duration::from_secs_f64(given.unwrap_or(otherwise));
    let given = spec.timeouts;
    Limits {
        connect: seconds(given.connect, 5.0),
        answer: seconds(given.answer, 30.0),
        load: seconds(given.load, 600.0),
        unload: seconds(given.unload, 60.0),
    }
}

fn token(variable: &str) -> Result<String, String> {
    match std::env::var(variable) {
        Ok(token) if !token.trim().is_empty() => Ok(token.trim().to_owned()),
        _ => Err(format!(
            "the environment variable {variable}, which is to hold the token, is empty or not set"
        )),
    }
}
