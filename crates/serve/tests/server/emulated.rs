//! Models that only take their time.

use crate::support::Server;
use gswarm_core::input::{Source, read_config};
use serde_json::{Value, json};
use std::time::Instant;

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

async fn server(speed: f64) -> Server {
    let reading = read_config(Source { name: "config", bytes: CONFIG.as_bytes() });
    let scenario = reading.scenario.unwrap_or_else(|| panic!("{:?}", reading.diagnostics));
    Server::with(|options| {
        options.emulated = Some(scenario);
        options.speed = speed;
    })
    .await
}

#[tokio::test]
async fn every_answer_says_that_it_is_emulated() {
    let server = server(1000.0).await;
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
            server.delete(&format!("/standalone/instance/{id}")).await.is(200)["data"].clone(),
            server.post("/standalone/offload", json!({"model_name": "writer"})).await.is(200)["data"].clone(),
        ];
    for answer in answers {
        assert_eq!(answer["emulated"], true, "{answer}");
    }
}

#[tokio::test]
async fn loads_and_calls_take_their_time() {
    let server = server(100.0).await;
    let start = Instant::now();
    let id = server.serve("writer", "cuda:0").await;
    let loading = start.elapsed().as_secs_f64() * 100.0;
    assert!(loading >= 30.0, "{loading}");
    let said = server
        .post(&format!("/standalone/call/{id}"), json!({"data": {"prompt": "a b", "max_length": 100}}))
        .await;
    let said = said.is(200)["data"].clone();
    assert_eq!((&said["new_tokens"], &said["prompt_tokens"]), (&json!(100), &json!(2)));
    assert!(said["execution_time"].as_f64().unwrap() >= 2.0, "{said}");
    assert_eq!(said["finish_reason"], "length");
    let whole = server
        .post(&format!("/standalone/call/{id}"), json!({"data": {"prompt": "a", "max_length": 9999}}))
        .await;
    let whole = whole.is(200)["data"].clone();
    assert_eq!((&whole["new_tokens"], &whole["finish_reason"]), (&json!(500), &json!("stop")));
}

#[tokio::test]
async fn calls_that_share_an_instance_slow_one_another_down() {
    let server = server(20.0).await;
    let id = server.serve("writer", "cuda:0").await;
    let path = format!("/standalone/call/{id}");
    // 10 s alone; 20 s among four; a fifth has to wait for a place.
    let calls = (0..5).map(|_| server.post(&path, json!({"data": {"prompt": "x", "max_length": 500}})));
    let mut times: Vec<(f64, f64)> = Vec::new();
    for answer in futures_util::future::join_all(calls).await {
        let data = answer.is(200)["data"].clone();
        times.push((data["execution_time"].as_f64().unwrap(), data["waiting_time"].as_f64().unwrap()));
    }
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    // They do not come at quite the same moment, so that some have a little less company.
    assert!(times.iter().all(|&(time, _)| time >= 12.0), "{times:?}");
    assert!(times[4].1 >= 5.0 && times[4].0 >= 15.0, "{times:?}");
}

/// The published server's estimates of images always fail.
#[tokio::test]
async fn image_models_are_called_and_estimated() {
    let server = server(100.0).await;
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
    let said = server
        .post(&format!("/standalone/call/{id}"), json!({"data": {"prompt": "a cat", "steps": 30}}))
        .await;
    let said = said.is(200)["data"].clone();
    assert_eq!((&said["image_path"], &said["emulated"]), (&Value::Null, &json!(true)));
    assert!(said["execution_time"].as_f64().unwrap() >= 3.0, "{said}");
    assert_eq!(server.post("/v1/completions", json!({"model": "painter", "prompt": "x"})).await.status, 400);
}

#[tokio::test]
async fn devices_are_what_was_asked_for_and_have_room() {
    let server = server(10_000.0).await;
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

#[tokio::test]
async fn emulated_streams_and_embeddings() {
    let server = server(1000.0).await;
    server.serve("writer", "cuda:0").await;
    server.serve("finder", "cuda:0").await;
    let ask = json!({"model": "writer", "messages": [{"role": "user", "content": "hi"}], "stream": true, "max_tokens": 7});
    let sent =
        server.client.post(format!("{}/v1/chat/completions", server.url)).json(&ask).send().await.unwrap();
    let text = sent.text().await.unwrap();
    let events: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    assert!(events.len() >= 7 && events.iter().all(|event| event["emulated"] == true), "{text}");
    let embed =
        server.post("/v1/embeddings", json!({"model": "finder", "input": ["a", "b", "a"]})).await.is(200);
    assert_eq!(embed["data"][0]["embedding"], embed["data"][2]["embedding"]);
    assert_ne!(embed["data"][0]["embedding"], embed["data"][1]["embedding"]);
}

#[tokio::test]
async fn what_nobody_waits_for_ends() {
    let server = server(1.0).await;
    let id = server.serve("finder", "cpu").await;
    let path = format!("/standalone/call/{id}");
    let call = server.post(&path, json!({"data": {"prompt": "x"}}));
    let _ = tokio::time::timeout(std::time::Duration::from_millis(50), call).await;
    // A call of half a second that its caller gave up does not hold up the end of the instance for as long as it lasts.
    server.delete(&format!("/standalone/instance/{id}")).await.is(200);
}
