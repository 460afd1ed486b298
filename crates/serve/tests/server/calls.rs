//! Calls and estimates of real models; each fault of the published server that concerns them.

use crate::support::{Server, until};
use gswarm_exec::backend::MOST_TOKENS;
use serde_json::{Value, json};

async fn call(server: &Server, id: &str, data: Value) -> Value {
    let body = server.post(&format!("/standalone/call/{id}"), json!({"instance_id": id, "data": data})).await;
    body.is(200)["data"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_answers_with_text() {
    let server = Server::with_models().await;
    let id = server.serve("tiny-llm", "cpu").await;
    let said = call(&server, &id, json!({"prompt": "Once upon a time", "max_length": 12})).await;
    assert_eq!((&said["model_type"], &said["new_tokens"]), (&json!("llm"), &json!(12)));
    assert!(!said["response"].as_str().unwrap().is_empty());
    assert_eq!((&said["image_path"], &said["port"]), (&Value::Null, &json!(server.port)));
    assert!(said["execution_time"].as_f64().unwrap() > 0.0);
    let again = call(&server, &id, json!({"prompt": "Once upon a time", "max_length": 12})).await;
    assert_eq!(said["response"], again["response"], "the likeliest tokens are always the same");
    let path = format!("/standalone/call/{id}");
    for name in MOST_TOKENS {
        let named = call(&server, &id, json!({"prompt": "Once upon a time", name: 12})).await;
        assert_eq!(said["response"], named["response"], "as other servers call it");
        server.post(&path, json!({"data": {"prompt": "x", name: 0}})).await.is(400);
    }
    // The one that other backends would go by.
    let [first, second, third] = MOST_TOKENS;
    let all = call(&server, &id, json!({"prompt": "Once", third: 9, second: 12, first: 3})).await;
    assert_eq!(all["new_tokens"], 3);
    let two = call(&server, &id, json!({"prompt": "Once", third: 9, second: 12})).await;
    assert_eq!(two["new_tokens"], 12);
    let drawn = |seed: u32| {
        call(&server, &id, json!({"prompt": "Once", "max_length": 12, "temperature": 1.5, "seed": seed}))
    };
    assert_eq!(drawn(3).await["response"], drawn(3).await["response"]);
    assert_ne!(drawn(3).await["response"], drawn(4).await["response"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_embedding_model_answers_with_a_vector() {
    let server = Server::with_models().await;
    let id = server.serve("tiny-embedding", "cpu").await;
    let said = call(&server, &id, json!({"prompt": "hello world"})).await;
    let length: f64 = said["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap().powi(2)).sum();
    assert!((length - 1.0).abs() < 1e-3, "{length}");
    assert_eq!(said["model_type"], "embedding");
}

/// In the published server replicas share one weights object that each of them changes.
#[tokio::test(flavor = "multi_thread")]
async fn instances_of_a_model_do_not_disturb_one_another() {
    let server = Server::with_models().await;
    let (first, second) = (server.serve("tiny-llm", "cpu").await, server.serve("tiny-llm", "cpu").await);
    let data = json!({"prompt": "The quick brown fox", "max_length": 40});
    let alone = call(&server, &first, data.clone()).await["response"].clone();
    let all = (0..8).map(|nth| call(&server, if nth % 2 == 0 { &first } else { &second }, data.clone()));
    for said in futures_util::future::join_all(all).await {
        assert_eq!(said["response"], alone);
    }
    server.delete(&format!("/standalone/instance/{first}")).await.is(200);
    assert_eq!(call(&server, &second, data).await["response"], alone);
}

/// In the published server a call blocks everything.
#[tokio::test]
async fn a_call_does_not_hold_up_the_server() {
    // One thread answers all requests here: if a computation ran on it, nothing else would.
    let server = Server::with_models().await;
    let id = server.serve("tiny-llm", "cpu").await;
    let path = format!("/standalone/call/{id}");
    let one_after_the_other = || async {
        loop {
            server.post(&path, json!({"data": {"prompt": "Once", "max_length": 400}})).await.is(200);
        }
    };
    let calls =
        futures_util::future::join3(one_after_the_other(), one_after_the_other(), one_after_the_other());
    let meanwhile = async {
        for _ in 0..5 {
            until("somebody is answered while a call runs", || async {
                let status = server.get("/standalone/status").await.is(200);
                status["serving_instances"][0]["running"].as_u64().unwrap() > 0
            })
            .await;
            server.get("/health").await.is(200);
        }
    };
    tokio::select! {
        _ = calls => unreachable!("there is always another call"),
        () = meanwhile => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_bounded() {
    let server = Server::with(|options| {
        options.engine.max_batch = 1;
        options.engine.max_waiting = 1;
        crate::support::write_model(&options.models, "tiny-llm", gswarm_infer::ModelKind::Language);
    })
    .await;
    let id = server.serve("tiny-llm", "cpu").await;
    let path = format!("/standalone/call/{id}");
    // One runs and one waits at most. How many of twelve meet is a matter of luck: they come until it was too many.
    let mut full = None;
    while full.is_none() {
        let ask = json!({"data": {"prompt": "Once", "max_length": 300}});
        let calls = (0..12).map(|_| server.post(&path, ask.clone()));
        let answers = futures_util::future::join_all(calls).await;
        let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
        assert_eq!(count(200) + count(429), 12, "{answers:?}");
        assert!(count(200) >= 1, "nobody was answered");
        full = answers.into_iter().find(|answer| answer.status == 429);
    }
    assert_eq!(full.unwrap().body["error"]["code"], "rate_limit_exceeded");
}

/// The published server's "seconds" are tokens, and do not depend on `max_length`.
#[tokio::test(flavor = "multi_thread")]
async fn estimates_are_seconds_and_follow_the_length() {
    let server = Server::with_models().await;
    let id = server.serve("tiny-llm", "cpu").await;
    let estimate = |length: u32| {
        let body = json!({"data": {"prompt": "Once upon a time", "max_length": length}});
        let path = format!("/standalone/estimate/{id}");
        let server = &server;
        async move { server.post(&path, body).await.is(200)["data"].clone() }
    };
    let (short, longer, long) = (estimate(10).await, estimate(11).await, estimate(300).await);
    assert_eq!((&short["unit"], &short["model_type"]), (&json!("seconds"), &json!("llm")));
    let seconds = |data: &Value| data["estimated_execution_time"].as_f64().unwrap();
    // Each token takes what was measured for a step, whatever that was here. `infer::rates` tests that these are seconds.
    let step = seconds(&longer) - seconds(&short);
    let tokens = (seconds(&long) - seconds(&short)) / step;
    assert!(step > 0.0 && (tokens - 290.0).abs() < 0.1, "{short} {longer} {long}");
    assert_eq!(long["data_features"]["new_tokens"], 300);
    let by_model =
        json!({"model_name": "tiny-llm", "device": "cpu", "data": {"prompt": "Once", "max_length": 10}});
    let found = server.post("/standalone/estimate", by_model).await.is(200);
    assert_eq!(found["data"]["instance_id"], id.as_str());
    let mismatch = json!({"model_name": "tiny-embedding", "data": {"prompt": "x"}});
    server.post(&format!("/standalone/estimate/{id}"), mismatch).await.is(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_is_too_long_is_refused() {
    let server = Server::with_models().await;
    let id = server.serve("tiny-llm", "cpu").await;
    for length in [5_000, 1_000_000] {
        let body = json!({"data": {"prompt": "word ".repeat(length)}});
        let said = server.post(&format!("/standalone/call/{id}"), body).await.is(400);
        assert!(said["message"].as_str().unwrap().contains("512"), "{said}");
    }
}
