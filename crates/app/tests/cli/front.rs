//! The front door as a process: calls, workflows, the queue, and what is left of them after a kill.

use crate::model_server::{Running, client, post};
use crate::support::Place;
use serde_json::{Value, json};

const CONFIG: &str = "
models:
  writer: {name: W, memory_gb: 14, gpus_required: 1, load_time_seconds: 20, tokens_per_second: 50, token_mean: 100, type: llm}
  painter: {name: P, memory_gb: 7, gpus_required: 1, load_time_seconds: 10, inference_time_mean: 3}
  giant: {name: G, memory_gb: 800, gpus_required: 16, load_time_seconds: 10, inference_time_mean: 3}
workflows:
  picture:
    name: picture
    nodes: [{id: write, model: writer, inputs: [wish], outputs: [prompt]}, {id: paint, model: painter, inputs: [prompt], outputs: [image]}]
    edges: [{from: write, to: paint}]
cluster: {gpus: 2}
";

fn place(speed: u32) -> Place {
    let place = Place::new();
    place.write("config.yaml", CONFIG);
    place.write(
        "servers.yaml",
        &format!(
            "backends: [{{kind: emulated, speed: {speed}, models: {{writer: writer, painter: painter}}}}]"
        ),
    );
    place
}

fn serve(place: &Place) -> Running {
    Running::of(place, "serve --config config.yaml --backends servers.yaml --port 0 --state state")
}

async fn get(url: &str, path: &str) -> (u16, Value) {
    let answer = client().get(format!("{url}{path}")).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_workflows_are_answered_and_faults_are_named() {
    let place = place(500);
    let server = serve(&place);
    let url = server.url.clone();
    let chat =
        json!({"model": "writer", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 10});
    let (status, said) = post(&url, "/v1/chat/completions", chat).await;
    assert_eq!((status, &said["emulated"]), (200, &json!(true)), "{said}");
    let (status, said) = post(&url, "/v1/chat/completions", json!({"model": "nobody"})).await;
    assert_eq!((status, &said["error"]["code"]), (404, &json!("model_not_found")));
    let (status, said) = post(&url, "/v1/completions", json!({"model": "giant", "prompt": "x"})).await;
    assert_eq!((status, &said["error"]["code"]), (400, &json!("model_does_not_fit")));
    assert!(said["error"]["message"].as_str().unwrap().contains("16 consecutive GPUs"), "{said}");
    let (status, _) = post(&url, "/v1/completions", json!({"model": "writer", "stream": "yes"})).await;
    assert_eq!(status, 400);

    let path = "/v1/workflows/picture/requests";
    let request = json!({"request_id": "one", "input_data": {"wish": "a cat"}, "priority": 3});
    assert_eq!(post(&url, path, request.clone()).await.0, 202);
    assert_eq!(post(&url, path, request).await.0, 200, "the same again is the same");
    assert_eq!(post(&url, path, json!({"request_id": "one"})).await.0, 409);
    let (status, said) = post(&url, path, json!({"node_configs": {"sing": {}}, "priority": "high"})).await;
    assert_eq!(status, 400);
    let message = said["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("no node `sing`") && message.contains("`high`"),
        "all faults at once: {message}"
    );
    let (status, result) = get(&url, "/v1/requests/one/result?wait=60").await;
    assert_eq!((status, &result["status"]), (200, &json!("completed")), "{result}");
    assert_eq!(result["outputs"]["paint"]["image"]["call"], "one/paint");
    assert_eq!(get(&url, "/v1/requests/two").await.0, 404);

    for (path, field) in [("/v1/queue", "open"), ("/v1/cluster", "gpus"), ("/v1/workflows", "workflows")] {
        let (status, said) = get(&url, path).await;
        assert!(status == 200 && !said[field].is_null(), "{path}: {said}");
    }
    assert_eq!(get(&url, "/ready").await.0, 200);
    let metrics = client().get(format!("{url}/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("gswarm_loads_total{model=\"writer\"}"), "{metrics}");
    let (_, document) = get(&url, "/openapi.json").await;
    for path in
        ["/v1/chat/completions", "/v1/workflows/{workflow}/requests", "/v1/requests/{request}", "/v1/queue"]
    {
        assert!(!document["paths"][path].is_null(), "{path}");
    }
    server.signal("-TERM");
    let (code, told) = server.end();
    assert_eq!(code, 0, "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_is_done_however_often_the_process_is_killed() {
    let place = place(100);
    let path = "/v1/workflows/picture/requests";
    let mut accepted = Vec::new();
    for round in 0..4 {
        let server = serve(&place);
        for at in 0..6 {
            let name = format!("r{round}-{at}");
            assert_eq!(post(&server.url, path, json!({"request_id": name})).await.0, 202);
            accepted.push(name);
        }
        // Some have ended by then, some run, some wait.
        get(&server.url, &format!("/v1/requests/{}/result?wait=60", accepted[round * 2])).await;
        server.signal("-KILL");
        server.end();
    }
    let server = serve(&place);
    for name in &accepted {
        let (_, result) = get(&server.url, &format!("/v1/requests/{name}/result?wait=60")).await;
        assert_eq!(result["status"], "completed", "{result}");
        assert_eq!(result["outputs"].as_object().unwrap().len(), 2);
    }
    let (_, all) = get(&server.url, "/v1/requests?limit=1000").await;
    assert_eq!(all["requests"].as_array().unwrap().len(), accepted.len(), "each exactly once");
    // One process at a time: another says so and leaves the first alone.
    place
        .run("serve --config config.yaml --backends servers.yaml --port 0 --state state")
        .code(2)
        .says("--state");
    server.signal("-TERM");
    assert_eq!(server.end().0, 0);
}
