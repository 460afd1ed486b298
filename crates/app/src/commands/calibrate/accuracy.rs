//! Calibration of the model server with emulated models, both under one virtual clock: it finds what the server takes.

use super::design::{self, Design};
use super::measure::{self, Limits};
use super::tests::{near, scenario};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use gswarm_core::input::Scenario;
use gswarm_core::{Gpus, ModelId, Span};
use gswarm_exec::backend::{Backend, BackendError, Replica};
use gswarm_exec::call::Call;
use gswarm_exec::clock::Clock;
use gswarm_exec::probe::Probe;
use gswarm_learn::calibration::ModelCalibration;
use gswarm_serve::guard::{GuardSettings, bind};
use gswarm_serve::model_server::{ModelServer, ModelServerOptions, router};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::ServiceExt;

const EMULATED: &str = "
cluster: {gpus: 1, pcie_gb_per_s: 20}
models:
  writer: {memory_gb: 8, gpus_required: 1, load_time_seconds: 1.0, type: llm, tokens_per_second: 100, token_mean: 60,
           batching: {max_batch: 4, slowdown: [[1, 1.0], [2, 1.2], [4, 1.6]]}}
  painter: {memory_gb: 6, gpus_required: 1, load_time_seconds: 0.6, type: image_generation, inference_time_mean: 0.6,
            config: {steps: [20, 40]}}
  embedder: {memory_gb: 4, gpus_required: 1, load_time_seconds: 0.5, type: embedding, inference_time_mean: 0.3}
workflows:
  w:
    nodes: [{id: write, model: writer}, {id: paint, model: painter}, {id: embed, model: embedder}]
    edges: [{from: write, to: paint}, {from: write, to: embed}]
";
const REQUESTS: &str = "
requests:
  - {request_id: a, workflow_id: w, input_data: {prompt: 'a short one'},
     node_configs: {write: {max_length: 25}, paint: {steps: 20}}}
  - {request_id: b, workflow_id: w, input_data: {prompt: 'one that is somewhat longer than the other one'},
     node_configs: {write: {max_length: 50}, paint: {steps: 40}}}
";

/// The model server without sockets: the virtual clock would take data in flight for idleness.
struct Served {
    routes: Router,
    model: String,
    instance: Mutex<String>,
}

impl Served {
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, BackendError> {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        let answer = self.routes.clone().oneshot(request).await.unwrap();
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        if answer["success"] == true {
            Ok(answer["data"].clone())
        } else {
            Err(BackendError::Failed(answer.to_string()))
        }
    }

    fn instance(&self) -> String {
        self.instance.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl Backend for Served {
    async fn load(&self, _: Replica, _: Span) -> Result<(), BackendError> {
        let body = json!({"model_name": self.model, "device": "cuda:0"});
        let served = self.ask("POST", "/standalone/serve", &body).await?;
        *self.instance.lock().unwrap() = served["instance_id"].as_str().unwrap().to_owned();
        Ok(())
    }

    async fn unload(&self, _: Replica) -> Result<(), BackendError> {
        let path = format!("/standalone/instance/{}", self.instance());
        self.ask("DELETE", &path, &json!({})).await.map(drop)
    }

    async fn call(&self, _: Replica, call: &Call) -> Result<Value, BackendError> {
        let mut data = call.config.clone();
        data.insert("prompt".to_owned(), call.prompt().into());
        let path = format!("/standalone/call/{}", self.instance());
        let said = self.ask("POST", &path, &json!({"data": data})).await?;
        let usage = json!({"prompt_tokens": said["prompt_tokens"], "completion_tokens": said["new_tokens"]});
        Ok(json!({"text": said["response"], "usage": usage}))
    }

    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// The server, with a model for each way to compute, under a virtual clock.
struct Scene {
    clock: Clock,
    scenario: Scenario,
    routes: Router,
    _models: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Scene {
        let (clock, scenario) = (Clock::virtual_clock(), scenario(EMULATED, REQUESTS));
        let folder = tempfile::tempdir().unwrap();
        let emulated = Some(scenario.clone());
        let options =
            ModelServerOptions { emulated, clock: clock.clone(), ..ModelServerOptions::new(folder.path()) };
        let bound = bind(GuardSettings::local(0)).await.unwrap();
        let routes = router(ModelServer::open(options, &bound).unwrap());
        Scene { clock, scenario, routes, _models: folder }
    }

    /// Measures a model as `gswarm calibrate --repeats 3` does.
    async fn calibrated(&self, name: &str, budget: Duration) -> ModelCalibration {
        let number = self.scenario.models.iter().position(|spec| spec.id == name).unwrap();
        let (model, spec) = (ModelId(number as u32), &self.scenario.models[number]);
        let (routes, instance) = (self.routes.clone(), Mutex::default());
        let probe = Probe {
            backend: Arc::new(Served { routes, model: name.to_owned(), instance }),
            replica: Replica { model, gpus: Gpus::new(0, 1) },
            clock: self.clock.clone(),
            kind: spec.kind.clone(),
            expected_load: Span::from_seconds(spec.load_time_seconds),
        };
        let most = spec.batching.as_ref().map_or(design::USUAL_BATCH, |batching| batching.max_batch);
        let design = Design::new(&self.scenario, model, design::batches(most));
        let (limits, tiers) = (Limits { budget, repeats: 3, interrupted: &|| false }, Mutex::default());
        let measured = measure::model(&probe, "here", &design, &limits, &tiers, &|_| {});
        self.clock.run(measured).await.unwrap_or_else(|_| panic!("{name} could not be measured"))
    }
}

#[tokio::test(start_paused = true)]
async fn what_emulated_servers_take_is_found_within_two_percent() {
    let (scene, hour) = (Scene::new().await, Duration::from_secs(3600));
    let writer = scene.calibrated("writer", hour).await;
    let painter = scene.calibrated("painter", hour).await;
    let embedder = scene.calibrated("embedder", hour).await;
    let mut all = vec![
        ("first load of writer".to_owned(), writer.load.first.median, 1.0),
        ("first load of painter".to_owned(), painter.load.first.median, 0.6),
        // Weights come from host memory then.
        ("load of writer again".to_owned(), writer.load.again.median, 0.4),
        ("load of painter again".to_owned(), painter.load.again.median, 0.3),
        ("picture of 30 steps".to_owned(), painter.execution[0].seconds(0.0, 30.0), 0.6),
        ("vector".to_owned(), embedder.execution[0].seconds(5.0, 0.0), 0.3),
    ];
    assert_eq!(writer.execution.iter().map(|cost| cost.batch).collect::<Vec<_>>(), [1, 2, 4]);
    for (cost, slow) in writer.execution.iter().zip([1.0, 1.2, 1.6]) {
        all.push((format!("40 tokens at batch {}", cost.batch), cost.seconds(5.0, 40.0), 0.4 * slow));
    }
    all.retain(|&(_, found, truth)| !near(found, truth, 2.0));
    assert!(all.is_empty(), "found and true: {all:?}");
}

/// Loads and calls alone are measured whatever the budget; batches are not.
#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_ends_the_curve() {
    let writer = Scene::new().await.calibrated("writer", Duration::from_secs(2)).await;
    assert_eq!(writer.notes, ["the budget was used up before batch 2"]);
    assert_eq!((writer.execution.len(), writer.execution[0].batch), (1, 1));
    assert!(near(writer.execution[0].seconds(5.0, 40.0), 0.4, 2.0) && writer.seconds > 2.0, "{writer:?}");
}
