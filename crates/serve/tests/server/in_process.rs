//! Models that are called in this process answer as they do over HTTP.

use crate::support::Server;
use gswarm_core::input::{ClusterSpec, Scenario, Source, read_config};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::{Gpus, ModelId, Span};
use gswarm_exec::backend::{
    Backend, BackendError, BackendSpec, GswarmSpec, InstanceDevice, LoadRecorder, LoadTime, ModelAt, Replica,
    WeightTier, connect,
};
use gswarm_exec::call::Call;
use gswarm_exec::clock::Clock;
use gswarm_exec::forward::{Forward, Piece};
use gswarm_exec::work::{Direct, ReplicaCall};
use gswarm_serve::model_server::{FolderError, InProcessModels};
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};

const EXPECTED: Span = Span(1_000_000);

fn scenario() -> Scenario {
    let model = "memory_gb: 1, gpus_required: 1, load_time_seconds: 1, inference_time_mean: 1";
    let config = format!(
        "models:\n  writer: {{base_model: tiny-llm, {model}}}\n  tiny-embedding: {{{model}}}\n\
         workflows: {{w: {{nodes: [{{id: n, model: writer}}], edges: []}}}}\n"
    );
    let reading = read_config(Source { name: "config", bytes: config.as_bytes() });
    reading.scenario.unwrap_or_else(|| panic!("{:?}", reading.diagnostics))
}

fn instance(scenario: &Scenario) -> Instance {
    let cluster = ClusterSpec { gpus: Some(2), ..ClusterSpec::default() };
    Instance::build(scenario, Cluster::from_spec(&cluster).unwrap(), Mode::Online).unwrap()
}

fn call(kind: &str, config: Value) -> Call {
    Call {
        name: "r/n".to_owned(),
        inputs: Map::from_iter([("prompt".to_owned(), json!("Once upon a time"))]),
        config: config.as_object().unwrap().clone(),
        kind: Some(kind.to_owned()),
        estimate: EXPECTED,
    }
}

fn replica(model: u32) -> Replica {
    Replica { model: ModelId(model), gpus: Gpus::new(0, 1) }
}

fn recorded() -> (LoadRecorder, Arc<Mutex<Vec<LoadTime>>>) {
    let told: Arc<Mutex<Vec<LoadTime>>> = Arc::default();
    let tell = Arc::clone(&told);
    (Arc::new(move |timed: &LoadTime| tell.lock().unwrap().push(timed.clone())), told)
}

/// The same models, called in this process and over HTTP.
fn both(server: &Server, record: &LoadRecorder) -> [Arc<dyn Backend>; 2] {
    let scenario = scenario();
    let instance = instance(&scenario);
    let fleet = InProcessModels::find(server.path(), &scenario).unwrap().fleet(&instance, record).unwrap();
    let mut spec = BackendSpec::with(GswarmSpec { device: InstanceDevice::Cpu, ..GswarmSpec::default() });
    spec.endpoint.url = Some(server.url.clone());
    let at = ModelAt { name: Some("tiny-llm".to_owned()), url: None };
    spec.models.insert("writer".to_owned(), at);
    let over_http = connect(&spec, Gpus::new(0, 2), &instance, &Clock::real(), record).unwrap();
    [Arc::clone(&fleet.members()[0].backend), over_http]
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_give_what_they_give_over_http() {
    let server = Server::with_models().await;
    let (record, told) = recorded();
    let backends = both(&server, &record);
    let mut answers = Vec::new();
    for backend in &backends {
        let (writer, index) = (replica(0), replica(1));
        backend.reset().await.unwrap();
        for one in [writer, index] {
            backend.load(one, EXPECTED).await.unwrap();
        }
        let text = call("llm", json!({"max_tokens": 12, "temperature": 1.5, "seed": 3}));
        let mut given = vec![
            backend.call(writer, &text).await.unwrap(),
            backend.call(index, &call("embedding", json!({}))).await.unwrap(),
        ];
        for one in &mut given {
            assert!(one.as_object_mut().unwrap().remove("execution_time").unwrap().as_f64().unwrap() > 0.0);
        }
        answers.push(given);
        let refused = backend.call(writer, &call("llm", json!({"max_tokens": 5, "seed": "x"}))).await;
        let Err(BackendError::Refused(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("data.seed"), "{why}");
        for one in [writer, index] {
            backend.unload(one).await.unwrap();
        }
        assert!(backend.call(writer, &text).await.is_err(), "it is gone");
        backend.load(writer, EXPECTED).await.unwrap();
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0][0]["text"].is_string() && answers[0][1]["embedding"].is_array(), "{answers:?}");
    // From disk at first, and then from host memory, where an instance leaves its weights.
    let tiers: Vec<(bool, WeightTier)> =
        told.lock().unwrap().iter().map(|one| (one.load, one.tier)).collect();
    let each = [
        (true, WeightTier::Disk),
        (true, WeightTier::Disk),
        (false, WeightTier::Host),
        (false, WeightTier::Host),
        (true, WeightTier::Host),
    ];
    assert_eq!(tiers, [each, each].concat());
}

/// What an answer says: the texts of its choices, or its error.
fn said(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| line.trim_start_matches("data: ")).filter(|line| !line.is_empty());
    let said = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(answer) => json!([answer["choices"], answer["usage"], answer["error"]]),
        Err(_) => json!(line),
    };
    lines.map(said).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_passed_on_as_over_http() {
    let server = Server::with_models().await;
    let (record, _) = recorded();
    let mut answers = Vec::new();
    for backend in both(&server, &record) {
        backend.reset().await.unwrap();
        backend.load(replica(0), EXPECTED).await.unwrap();
        let mut given = Vec::new();
        for (name, value) in [("echo", json!(false)), ("stream", json!(true)), ("best_of", json!(2))] {
            let body = json!({"prompt": "Once", "max_tokens": 6, "temperature": 0, name: value});
            let (body, kind) = (body.as_object().unwrap().clone(), Some("llm".to_owned()));
            let forward = Forward { path: "/v1/completions", body, kind, estimate: EXPECTED, raw: None };
            let (direct, mut answering) = Direct::new(forward);
            let read = async move {
                let head = answering.head.await.unwrap().unwrap();
                let mut text = String::new();
                while let Some(Piece::Data(piece)) = answering.pieces.recv().await {
                    text.push_str(std::str::from_utf8(&piece).unwrap());
                }
                (head.status, head.content_type, said(&text))
            };
            let work = ReplicaCall::Direct(direct);
            let (done, read) = tokio::join!(work.carry_out(backend.as_ref(), replica(0)), read);
            done.unwrap();
            given.push(read);
        }
        assert_eq!(given.iter().map(|one| one.0).collect::<Vec<_>>(), [200, 200, 400]);
        assert!(given[1].2.len() > 2, "it comes in pieces: {:?}", given[1]);
        answers.push(given);
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn models_that_are_not_there_are_all_named() {
    let server = Server::with(|_| {}).await;
    let error = InProcessModels::find(server.path(), &scenario()).unwrap_err();
    assert!(matches!(&error, FolderError::Missing(names) if names.len() == 2), "{error}");
    assert_eq!(error.to_string(), "there is no model `writer`, `tiny-embedding`");
}
