//! A server of your own: a live run whose models are Rust code of this program.
//!
//! `cargo run -p gswarm --example custom_backend`

use gswarm::core::input::Scenario;
use gswarm::exec::backend::{Backend, BackendError, LoadRecorder, Replica};
use gswarm::exec::call::Call;
use gswarm::exec::fleet::Fleet;
use gswarm::prelude::*;
use gswarm::run::live::{self, EmbeddedModels};
use gswarm::run::{LiveSpec, OutputSpec};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Answers every call with its prompt in capitals.
struct Shouting;

#[async_trait::async_trait]
impl Backend for Shouting {
    async fn load(&self, _replica: Replica, _expected: Span) -> Result<(), BackendError> {
        Ok(())
    }

    async fn unload(&self, _replica: Replica) -> Result<(), BackendError> {
        Ok(())
    }

    async fn call(&self, _replica: Replica, call: &Call) -> Result<Value, BackendError> {
        Ok(json!({"text": call.prompt().to_uppercase()}))
    }

    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Serves all models of a run with it.
struct OwnModels;

impl EmbeddedModels for OwnModels {
    fn check(&self, _folder: &Path, _scenario: &Scenario) -> Result<(), Failure> {
        Ok(())
    }

    fn serve(&self, _: &Path, _: &Scenario, instance: &Instance, _: &LoadRecorder) -> Result<Fleet, Failure> {
        Ok(Fleet::of(Arc::new(Shouting), instance.cluster.gpus))
    }
}

/// Runs two requests and prints what came of each.
pub fn main() -> Result<(), Failure> {
    let scenario = Scenario::builder()
        .gpus(1)
        .model("shouter", 1, 1.0, 0.1)
        .run_time(0.1)
        .workflow("shout")
        .node("answer", "shouter")
        .request("hello", "shout")
        .input("prompt", "hello")
        .request("goodbye", "shout")
        .input("prompt", "goodbye")
        .build()
        .map_err(Failure::faults)?;
    let folder = std::env::temp_dir().join(format!("gswarm-custom-backend-{}", std::process::id()));
    let spec = RunSpec {
        policy: Some(PolicySpec::default_of(PolicyKind::Baseline)),
        live: Some(LiveSpec::default()),
        output: OutputSpec { folder: folder.clone(), ..OutputSpec::default() },
        ..RunSpec::default()
    };
    let materials = Materials::of(Problem::Scenario(Arc::new(scenario)));
    let ended = live::run(spec, materials, &OwnModels, &mut Silent)?;
    let results = std::fs::read_to_string(&ended.results).unwrap_or_default();
    println!("{results}");
    let _ = std::fs::remove_dir_all(folder);
    ended.verdict()
}
