//! The model server inside this process: real models on the processor, for live runs that name no servers.

use gswarm_core::input::{BackendKind, BackendSpec, BackendsFile, Device, ModelAt, Scenario};
use gswarm_core::Instance;
use gswarm_exec::backend::Record;
use gswarm_exec::clock::Clock;
use gswarm_exec::config;
use gswarm_exec::fleet::Fleet;
use gswarm_infer::Store;
use gswarm_run::Failure;
use gswarm_run::live::{EmbeddedModels, faulty};
use crate::guard::{self, Settings};
use crate::model_server::{ModelServer, Options, router};
use futures_util::future::BoxFuture;
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::path::Path;

/// The server as a backend, without its address. Every model of the configuration has to be in the folder, under its key or
/// under its `base_model`; those that are not are all named.
fn backends(folder: &Path, scenario: &Scenario) -> Result<BackendsFile, Failure> {
    let make = format!("`gswarm models init --dir {} --name NAME` makes a small one", folder.display());
    let store = Store::open(folder).map_err(|error| {
        Failure::input(format!("a live run without --backends serves models from a folder: {error}"))
            .hint(make.clone())
    })?;
    let has = |name: &str| store.model(name).is_ok();
    let mut models = BTreeMap::new();
    let (mut missing, mut damaged) = (Vec::new(), Vec::new());
    for model in &scenario.models {
        let names = [Some(&model.id), model.base_model.as_ref()];
        match names.into_iter().flatten().find(|name| has(name)) {
            Some(name) => {
                if let Err(error) = store.model(name).and_then(|model| model.config()) {
                    damaged.push(error.to_string());
                }
                let at = ModelAt { name: Some(name.clone()), ..ModelAt::default() };
                models.insert(model.id.clone(), at);
            }
            None => missing.push(format!("`{}`", model.id)),
        }
    }
    if !missing.is_empty() {
        let place = folder.display();
        return Err(Failure::input(format!("there is no model {} in {place}", missing.join(", ")))
            .hint(format!("{make}; --models names another folder, and --backends other servers")));
    }
    if !damaged.is_empty() {
        let found = format!("models that cannot be used: {}", damaged.join("; "));
        return Err(Failure::input(found).hint("`gswarm models list` shows what is wrong with each"));
    }
    let spec = BackendSpec {
        name: Some("embedded".to_owned()),
        url: Some("http://127.0.0.1:0".to_owned()),
        device: Device::Cpu,
        models,
        ..BackendSpec::of(BackendKind::Gswarm)
    };
    Ok(BackendsFile { backends: vec![spec] })
}

/// Starts the server on a port of this machine; it ends with the runtime. Says where it is.
async fn start(folder: &Path, gpus: u32) -> Result<String, Failure> {
    let refused = |error: String| Failure::input(format!("the model server does not start: {error}"));
    let bound = guard::bind(Settings::local(0)).await.map_err(|error| refused(error.to_string()))?;
    let options = Options { max_instances: (gpus as usize).max(64), ..Options::new(folder) };
    let server = ModelServer::open(options, &bound).map_err(|error| refused(error.to_string()))?;
    let url = bound.url();
    tokio::spawn(bound.serve(router(server), std::future::pending()));
    Ok(url)
}

/// The models of a folder, served by this process.
pub struct Embedded;

impl EmbeddedModels for Embedded {
    fn check(&self, folder: &Path, scenario: &Scenario) -> Result<(), Failure> {
        backends(folder, scenario).map(drop)
    }

    fn serve<'a>(
        &'a self,
        folder: &'a Path,
        scenario: &'a Scenario,
        instance: &'a Instance,
        record: &'a Record,
    ) -> BoxFuture<'a, Result<Fleet, Failure>> {
        async move {
            let mut backends = backends(folder, scenario)?;
            let url = start(folder, instance.cluster.gpus).await?;
            backends.backends.iter_mut().for_each(|backend| backend.url = Some(url.clone()));
            config::fleet(&backends, instance, &Clock::at_speed(1.0), record).map_err(|faults| faulty(&faults))
        }
        .boxed()
    }
}
