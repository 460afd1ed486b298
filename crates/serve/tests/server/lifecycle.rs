//! From disk to host memory to serving and back; each fault of the published server that concerns it.

use crate::support::{Server, until};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_model_goes_from_disk_to_memory_to_serving_and_back() {
    let server = Server::with_models().await;
    let status = server.get("/standalone/status").await.is(200);
    let names: Vec<&str> = status["models_on_disk"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["model_name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["tiny-embedding", "tiny-llm"]);
    assert_eq!(status["models_in_dram"], json!([]));

    let loaded =
        server.post("/standalone/load", json!({"model_name": "tiny-llm", "target": "dram"})).await.is(200);
    assert_eq!((&loaded["success"], &loaded["data"]["already_loaded"]), (&json!(true), &json!(false)));
    assert_eq!((&loaded["data"]["target"], &loaded["data"]["came_from"]), (&json!("dram"), &json!("disk")));
    assert!(loaded["data"]["model_path"].as_str().unwrap().ends_with("tiny-llm"));
    let again = server.post("/standalone/load", json!({"model_name": "tiny-llm"})).await.is(200);
    assert_eq!(
        (&again["data"]["already_loaded"], &again["data"]["came_from"]),
        (&json!(true), &json!("dram"))
    );

    let served = server
        .post("/standalone/serve", json!({"model_name": "tiny-llm", "device": "cpu"}))
        .await
        .is(200)["data"]
        .clone();
    let id = served["instance_id"].as_str().unwrap();
    assert!(id.len() == 6 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!((&served["device"], &served["devices"]), (&json!("cpu"), &json!(["cpu"])));
    assert_eq!(served["emulated"], false);

    let health = server.get("/health").await.is(200);
    assert_eq!((&health["models_in_dram"], &health["serving_instances"]), (&json!(1), &json!(1)));
    let gone = server.delete(&format!("/standalone/instance/{id}")).await.is(200);
    assert_eq!(gone["data"]["model_name"], "tiny-llm");
    server.delete(&format!("/standalone/instance/{id}")).await.is(404);

    let offloaded =
        server.post("/standalone/offload", json!({"model_name": "tiny-llm", "target": "disk"})).await.is(200);
    assert_eq!(offloaded["data"]["instances_stopped"], 0);
    assert_eq!(server.get("/health").await.is(200)["models_in_dram"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn offloading_stops_every_instance_and_keeps_what_it_is_told_to() {
    let server = Server::with_models().await;
    let ids = [server.serve("tiny-llm", "cpu").await, server.serve("tiny-llm", "auto").await];
    assert_ne!(ids[0], ids[1]);
    let other = server.serve("tiny-embedding", "auto").await;
    let offloaded =
        server.post("/standalone/offload", json!({"model_name": "tiny-llm", "target": "dram"})).await.is(200);
    assert_eq!(offloaded["data"]["instances_stopped"], 2);
    for id in &ids {
        server.post(&format!("/standalone/call/{id}"), json!({"data": {"prompt": "x"}})).await.is(404);
    }
    let status = server.get("/standalone/status").await.is(200);
    assert_eq!(status["models_in_dram"].as_array().unwrap().len(), 2, "still in host memory");
    assert_eq!(status["serving_instances"][0]["instance_id"], other.as_str());
    assert_eq!(status["serving_instances"][0]["came_from"], "disk");
    server.post("/standalone/offload", json!({"model_name": "tiny-llm"})).await.is(200);
    let status = server.get("/standalone/status").await.is(200);
    assert_eq!(status["models_in_dram"].as_array().unwrap().len(), 1);
    // What is served next comes from where the last one went.
    for (target, from) in [("dram", "disk"), ("disk", "dram"), ("disk", "disk")] {
        let served = server.post("/standalone/serve", json!({"model_name": "tiny-llm"})).await.is(200);
        assert_eq!(served["data"]["came_from"], from);
        let offload = json!({"model_name": "tiny-llm", "target": target});
        server.post("/standalone/offload", offload).await.is(200);
    }
}

/// The published server advertises ports that nobody listens on, and loses some with every offload.
#[tokio::test(flavor = "multi_thread")]
async fn the_port_that_is_advertised_is_the_one_that_answers() {
    let server = Server::with_models().await;
    for _ in 0..5 {
        let served = server.post("/standalone/serve", json!({"model_name": "tiny-embedding"})).await.is(200)
            ["data"]
            .clone();
        assert_eq!(served["port"], server.port);
        let url = format!("{}{}", served["url"].as_str().unwrap(), served["endpoint"].as_str().unwrap());
        let sent = server.client.post(url).json(&json!({"data": {"prompt": "hello"}})).send().await.unwrap();
        assert_eq!(sent.status(), 200);
        server.post("/standalone/offload", json!({"model_name": "tiny-embedding"})).await.is(200);
        assert_eq!(server.get("/standalone/status").await.is(200)["used_ports"], json!([server.port]));
    }
}

/// The published server answers all of these with 500.
#[tokio::test(flavor = "multi_thread")]
async fn mistakes_have_their_own_status() {
    let server = Server::with_models().await;
    let id = server.serve("tiny-llm", "cpu").await;
    let cases: Vec<(&str, Value, u16, &str)> = vec![
        ("/standalone/load", json!({"model_name": "nobody"}), 404, "model_not_found"),
        ("/standalone/serve", json!({"model_name": "owner/nobody"}), 404, "model_not_found"),
        ("/standalone/offload", json!({"model_name": "nobody"}), 404, "model_not_found"),
        (
            "/standalone/estimate",
            json!({"model_name": "nobody", "data": {"prompt": "x"}}),
            404,
            "model_not_found",
        ),
        ("/standalone/load", json!({"model_name": "../tiny-llm"}), 400, "invalid_request"),
        ("/standalone/load", json!({"model_name": "/etc"}), 400, "invalid_request"),
        ("/standalone/load", json!({"model_name": "a/../../b"}), 400, "invalid_request"),
        ("/standalone/download", json!({"model_name": "..\\x"}), 400, "invalid_request"),
        ("/standalone/load", json!({}), 400, "invalid_request"),
        ("/standalone/load", json!({"model_name": 5}), 400, "invalid_request"),
        ("/standalone/load", json!({"model_name": "tiny-llm", "target": "moon"}), 400, "invalid_request"),
        ("/standalone/serve", json!({"model_name": "tiny-llm", "device": "gpu"}), 400, "invalid_request"),
        ("/standalone/serve", json!({"model_name": "tiny-llm", "device": []}), 400, "invalid_request"),
        ("/standalone/serve", json!({"model_name": "tiny-llm", "device": "cuda:0"}), 422, "not_supported"),
        (
            "/standalone/serve",
            json!({"model_name": "tiny-llm", "device": ["cuda:1", "cuda:2"]}),
            422,
            "not_supported",
        ),
        ("/standalone/call/zzzzzz", json!({"data": {"prompt": "x"}}), 404, "instance_not_found"),
        ("/standalone/call/..%2f..%2fetc", json!({"data": {"prompt": "x"}}), 404, "instance_not_found"),
        ("/standalone/call/ID", json!({"data": {}}), 400, "invalid_request"),
        ("/standalone/call/ID", json!({"data": {"prompt": "x", "max_length": 0}}), 400, "invalid_request"),
        ("/standalone/call/ID", json!({"data": {"prompt": "x", "max_length": -5}}), 400, "invalid_request"),
        ("/standalone/call/ID", json!({"data": {"prompt": "x", "temperature": 9}}), 400, "invalid_request"),
        (
            "/standalone/call/ID",
            json!({"instance_id": "aaaaaa", "data": {"prompt": "x"}}),
            400,
            "invalid_request",
        ),
        ("/standalone/estimate/zzzzzz", json!({"data": {"prompt": "x"}}), 404, "instance_not_found"),
        ("/standalone/estimate", json!({"data": {"prompt": "x"}}), 400, "invalid_request"),
        (
            "/standalone/estimate",
            json!({"model_name": "tiny-embedding", "data": {"prompt": "x"}}),
            409,
            "not_measured",
        ),
        ("/standalone/download", json!({"model_name": "owner/other"}), 400, "invalid_request"),
    ];
    for (path, body, status, code) in cases {
        let answer = server.post(&path.replace("ID", &id), body.clone()).await;
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.body);
        let said = answer.body;
        assert_eq!(
            (&said["success"], &said["data"], &said["error"]["code"]),
            (&json!(false), &Value::Null, &json!(code))
        );
        assert!(!said["message"].as_str().unwrap().is_empty());
    }
    let raw = |kind: &str, body: &'static str| {
        server
            .client
            .post(format!("{}/standalone/load", server.url))
            .header("content-type", kind)
            .body(body)
            .send()
    };
    assert_eq!(raw("text/plain", "{}").await.unwrap().status(), 415);
    assert_eq!(raw("application/json", "{\"model_name\":").await.unwrap().status(), 400);
    assert_eq!(raw("application/json", "").await.unwrap().status(), 400);
    server.delete("/standalone/instance/zzzzzz").await.is(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_hub_the_answer_says_how_to_set_one() {
    let server = Server::with(|_| {}).await;
    let said = server.post("/standalone/download", json!({"model_name": "owner/model"})).await.is(400);
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("--hub") && message.contains("HF_ENDPOINT"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_model_is_refused_with_the_reason() {
    let server = Server::with_models().await;
    std::fs::write(server.path().join("tiny-llm/model.safetensors"), b"not weights").unwrap();
    let said = server.post("/standalone/load", json!({"model_name": "tiny-llm"})).await.is(422);
    assert!(said["message"].as_str().unwrap().contains("model.safetensors"), "{said}");
    assert_eq!(server.get("/health").await.is(200)["models_in_dram"], 0);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn links_that_lead_out_of_the_folder_are_refused() {
    let server = Server::with_models().await;
    let outside = tempfile::tempdir().unwrap();
    crate::support::write_model(outside.path(), "secret", gswarm_infer::ModelKind::Language);
    std::os::unix::fs::symlink(outside.path().join("secret"), server.path().join("inside")).unwrap();
    server.post("/standalone/load", json!({"model_name": "inside"})).await.is(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_instances_is_bounded() {
    let server = Server::with(|options| {
        options.max_instances = 1;
        crate::support::write_model(&options.models, "tiny-embedding", gswarm_infer::ModelKind::Embedding);
    })
    .await;
    let id = server.serve("tiny-embedding", "auto").await;
    let refused = server.post("/standalone/serve", json!({"model_name": "tiny-embedding"})).await.is(409);
    assert_eq!(refused["error"]["code"], "too_many_instances");
    server.delete(&format!("/standalone/instance/{id}")).await.is(200);
    server.serve("tiny-embedding", "auto").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_not_taken_away_under_a_running_call() {
    let server = Server::with_models().await;
    let id = server.serve("tiny-llm", "cpu").await;
    let path = format!("/standalone/call/{id}");
    let ask = json!({"data": {"prompt": "Once", "max_length": 400}});
    let call = server.post(&path, ask.clone());
    let delete = async {
        until("the call runs", || async {
            server.get("/standalone/status").await.is(200)["serving_instances"][0]["running"] == 1
        })
        .await;
        server.delete(&format!("/standalone/instance/{id}")).await
    };
    let (called, deleted) = tokio::join!(call, delete);
    assert_eq!(called.is(200)["data"]["new_tokens"], 400);
    deleted.is(200);
    server.post(&path, ask).await.is(404);
}
