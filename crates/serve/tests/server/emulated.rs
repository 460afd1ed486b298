//! Models that only take their time.

use crate::support::Answer;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use gswarm_core::Time;
use gswarm_core::input::{Source, read_config};
use gswarm_exec::clock::Clock;
use gswarm_serve::guard::{GuardSettings, bind};
use gswarm_serve::model_server::{ModelServer, ModelServerOptions, router};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

const CONFIG: &str = "
models:
  writer:
    {memory_gb: 16.0, gpus_required: 1, load_time_seconds: 30.0, tokens_per_second: 50.0, token_mean: 500.0, type: llm,
     batching: {max_batch: 4, slowdown: [[1, 1.0], [4, 2.0]]}}
  painter:
    {memory_gb: 8.0, gpus_required: 1, load_time_seconds: 5.0, inference_time_mean: 3.0, type: image_generation,
     config: {steps: [20, 40]}}
  judge: {memory_gb: 120.0, gpus_required: 2, load_time_seconds: 60.0, inference_time_mean: 10.0, type: llm}
  finder: {memory_gb: 1.0, gpus_required: 1, load_time_seconds: 1.0, inference_time_mean: 0.5, type: embedding}
workflows:
  one: {nodes: [{id: a, model: writer}]}
cluster: {gpus: 4, gpu_memory_gb: 80}
";

/// The server under a virtual clock, without sockets: data in flight between them would look like rest to the clock.
struct Emulated {
    clock: Clock,
    routes: Router,
    _models: TempDir,
}

impl Emulated {
    async fn new() -> Emulated {
        let reading = read_config(Source { name: "config", bytes: CONFIG.as_bytes() });
        let scenario = reading.scenario.unwrap_or_else(|| panic!("{:?}", reading.diagnostics));
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::virtual_clock());
        let emulated = Some(scenario);
        let options =
            ModelServerOptions { emulated, clock: clock.clone(), ..ModelServerOptions::new(folder.path()) };
        let bound = bind(GuardSettings::local(0)).await.unwrap();
        let routes = router(ModelServer::open(options, &bound).unwrap());
        Emulated { clock, routes, _models: folder }
    }

    /// Asks while the clock stands still.
    async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).unwrap();
        let answer = self.routes.clone().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Asks while the clock goes on; the answer is JSON.
    async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        let (status, text) = self.clock.run(self.send(method, path, &body)).await;
        Answer { status, body: serde_json::from_str(&text).unwrap() }
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask("POST", path, body).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, Value::Null).await
    }

    /// Starts an instance; its id.
    async fn serve(&self, model: &str, device: &str) -> String {
        let body = json!({"model_name": model, "device": device});
        let body = self.post("/standalone/serve", body).await.is(200);
        body["data"]["instance_id"].as_str().unwrap().to_string()
    }

    /// Calls an instance; the data of its answer.
    async fn call(&self, id: &str, data: Value) -> Value {
        self.post(&format!("/standalone/call/{id}"), json!({"data": data})).await.is(200)["data"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn every_answer_says_that_it_is_emulated() {
    let server = Emulated::new().await;
    let load = server.post("/standalone/load", json!({"model_name": "writer"})).await.is(200);
    assert_eq!(load["data"]["emulated"], true);
    let id = server.serve("writer", "cuda:3").await;
    let answers =
        [
            server.post("/standalone/download", json!({"model_name": "writer"})).await.is(200)["data"]
                .clone(),
            server
                .post(&format!("/standalone/call/{id}"), json!({"data": {"prompt": "x", "max_length": 5}}))
                .await
                .is(200)["data"]
                .clone(),
            server
                .post(&format!("/standalone/estimate/{id}"), json!({"data": {"prompt": "x"}}))
                .await
                .is(200)["data"]
                .clone(),
            server.post("/v1/completions", json!({"model": "writer", "prompt": "x"})).await.is(200),
            server.get("/v1/models").await.is(200)["data"][0].clone(),
            server.get("/standalone/status").await.is(200)["serving_instances"][0].clone(),
            server.ask("DELETE", &format!("/standalone/instance/{id}"), Value::Null).await.is(200)["data"]
                .clone(),
            server.post("/standalone/offload", json!({"model_name": "writer"})).await.is(200)["data"].clone(),
        ];
    for answer in answers {
        assert_eq!(answer["emulated"], true, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn loads_and_calls_take_their_time() {
    let server = Emulated::new().await;
    let id = server.serve("writer", "cuda:0").await;
    assert_eq!(server.clock.now(), Time(30_000_000), "a load");
    let said = server.call(&id, json!({"prompt": "a b", "max_length": 100})).await;
    assert_eq!(server.clock.now(), Time(32_000_000), "100 tokens at 50 a second");
    assert_eq!((&said["new_tokens"], &said["prompt_tokens"]), (&json!(100), &json!(2)));
    assert_eq!(said["execution_time"], 2.0);
    assert_eq!(said["finish_reason"], "length");
    let whole = server.call(&id, json!({"prompt": "a", "max_length": 9999})).await;
    assert_eq!(server.clock.now(), Time(42_000_000), "500 tokens, as many as it usually writes");
    assert_eq!((&whole["new_tokens"], &whole["finish_reason"]), (&json!(500), &json!("stop")));
    // The weights stay in host memory: from there it takes 16 GB at 16 GB a second.
    server.ask("DELETE", &format!("/standalone/instance/{id}"), Value::Null).await.is(200);
    server.serve("writer", "cuda:0").await;
    assert_eq!(server.clock.now(), Time(43_000_000), "a load from host memory");
}

#[tokio::test(start_paused = true)]
async fn calls_that_share_an_instance_slow_one_another_down() {
    let server = Emulated::new().await;
    let id = server.serve("writer", "cuda:0").await;
    // 10 s alone; 20 s among four; a fifth has to wait for a place, which counts.
    let body = json!({"data": {"prompt": "x", "max_length": 500}});
    let path = format!("/standalone/call/{id}");
    let calls = futures_util::future::join_all((0..5).map(|_| server.send("POST", &path, &body)));
    let times = server.clock.run(calls).await.into_iter().map(|(status, text)| {
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(status, 200, "{answer}");
        ["execution_time", "waiting_time"].map(|name| answer["data"][name].as_f64().unwrap())
    });
    let mut times: Vec<[f64; 2]> = times.collect();
    times.sort_by(|one, other| one[1].total_cmp(&other[1]));
    assert_eq!(times, [[20.0, 0.0], [20.0, 0.0], [20.0, 0.0], [20.0, 0.0], [30.0, 20.0]]);
    assert_eq!(server.clock.now(), Time(60_000_000), "a load, four calls at once, and one alone");
}

/// The published server's estimates of images always fail.
#[tokio::test(start_paused = true)]
async fn image_models_are_called_and_estimated() {
    let server = Emulated::new().await;
    let estimate = |steps: Value| {
        let body = json!({"model_name": "painter", "device": "cuda:0", "data": {"prompt": "a cat", "steps": steps, "guidance_scale": 7.5}});
        server.post("/standalone/estimate", body)
    };
    let usual = estimate(json!(30)).await.is(200)["data"].clone();
    assert_eq!(usual["estimated_execution_time"], 3.0);
    assert_eq!((&usual["model_type"], &usual["unit"]), (&json!("image_generation"), &json!("seconds")));
    assert_eq!(usual["data_features"]["guidance_scale"], 7.5);
    assert_eq!(estimate(json!(60)).await.is(200)["data"]["estimated_execution_time"], 6.0);
    let id = server.serve("painter", "auto").await;
    let said = server.call(&id, json!({"prompt": "a cat", "steps": 30})).await;
    assert_eq!((&said["image_path"], &said["emulated"]), (&Value::Null, &json!(true)));
    assert_eq!(said["execution_time"], 3.0);
    assert_eq!(server.post("/v1/completions", json!({"model": "painter", "prompt": "x"})).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn devices_are_what_was_asked_for_and_have_room() {
    let server = Emulated::new().await;
    let serve = |model: &str, device: Value| {
        server.post("/standalone/serve", json!({"model_name": model, "device": device}))
    };
    let judge = serve("judge", json!("cuda:1,2")).await.is(200)["data"].clone();
    assert_eq!((&judge["device"], &judge["devices"]), (&json!("cuda:1,2"), &json!(["cuda:1", "cuda:2"])));
    assert_eq!(serve("judge", json!("cuda:0")).await.is(400)["error"]["param"], "device");
    assert_eq!(serve("writer", json!("cuda:4")).await.is(400)["error"]["param"], "device");
    let full = serve("judge", json!(["cuda:2", "cuda:3"])).await.is(409);
    assert_eq!(full["error"]["code"], "out_of_gpu_memory");
    assert!(full["message"].as_str().unwrap().contains("60.0"), "{full}");
    // 60 of 80 GB are taken on two GPUs: what is left to the server goes where there is least.
    let devices: Vec<Value> = vec![
        serve("writer", json!("auto")).await.is(200)["data"]["device"].clone(),
        serve("writer", json!("auto")).await.is(200)["data"]["device"].clone(),
    ];
    assert_eq!(devices, [json!("cuda:0"), json!("cuda:3")]);
    assert_eq!(serve("judge", json!("auto")).await.is(409)["error"]["code"], "out_of_gpu_memory");
    assert_eq!(serve("writer", json!("cpu")).await.is(200)["data"]["device"], "cpu");
}

#[tokio::test(start_paused = true)]
async fn emulated_streams_and_embeddings() {
    let server = Emulated::new().await;
    server.serve("writer", "cuda:0").await;
    server.serve("finder", "cuda:0").await;
    let ask = json!({"model": "writer", "messages": [{"role": "user", "content": "hi"}], "stream": true, "max_tokens": 7});
    let (_, text) = server.clock.run(server.send("POST", "/v1/chat/completions", &ask)).await;
    let events: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    assert!(events.len() >= 7 && events.iter().all(|event| event["emulated"] == true), "{text}");
    let embed =
        server.post("/v1/embeddings", json!({"model": "finder", "input": ["a", "b", "a"]})).await.is(200);
    assert_eq!(embed["data"][0]["embedding"], embed["data"][2]["embedding"]);
    assert_ne!(embed["data"][0]["embedding"], embed["data"][1]["embedding"]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_ends() {
    let server = Emulated::new().await;
    let id = server.serve("finder", "cpu").await;
    let path = format!("/standalone/call/{id}");
    let body = json!({"data": {"prompt": "x"}});
    let call = server.send("POST", &path, &body);
    tokio::select! {
        _ = call => panic!("the clock stands still"),
        () = server.clock.settle() => {}
    }
    // A call that its caller gave up does not hold up the end of the instance, though the clock stands still.
    let begun = server.clock.now();
    let path = format!("/standalone/instance/{id}");
    assert_eq!(server.send("DELETE", &path, &Value::Null).await.0, 200);
    assert_eq!(server.clock.now(), begun);
}
