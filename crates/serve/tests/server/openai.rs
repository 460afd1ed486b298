//! The OpenAI-compatible endpoints.

use crate::support::Server;
use base64::Engine;
use serde_json::{Value, json};

/// The events of a stream, without the last, which has to be `[DONE]`.
async fn streamed(server: &Server, path: &str, body: Value) -> Vec<Value> {
    let sent = server.client.post(format!("{}{path}", server.url)).json(&body).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    assert_eq!(sent.headers()["content-type"], "text/event-stream");
    let text = sent.text().await.unwrap();
    let mut lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(lines.pop(), Some("[DONE]"));
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_models_that_serve_are_listed() {
    let server = Server::with_models().await;
    assert_eq!(server.get("/v1/models").await.is(200)["data"], json!([]));
    let ask = json!({"model": "tiny-llm", "prompt": "x"});
    let missing = server.post("/v1/completions", ask).await.is(404);
    assert_eq!(
        (&missing["error"]["code"], &missing["error"]["param"]),
        (&json!("model_not_found"), &json!("model"))
    );
    server.serve("tiny-llm", "cpu").await;
    server.serve("tiny-llm", "cpu").await;
    let list = server.get("/v1/models").await.is(200);
    assert_eq!((&list["data"][0]["id"], list["data"].as_array().unwrap().len()), (&json!("tiny-llm"), 1));
    assert_eq!(server.get("/v1/models/tiny-llm").await.is(200), list["data"][0]);
    for nobody in ["/v1/models/other", "/v1/models/a%2Fb", "/v1/models/%ff"] {
        assert_eq!(server.get(nobody).await.is(404)["error"]["code"], "model_not_found", "{nobody}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_whole_and_streamed_are_the_same() {
    let server = Server::with_models().await;
    server.serve("tiny-llm", "cpu").await;
    let ask = json!({"model": "tiny-llm", "prompt": "Once upon a time", "max_tokens": 20, "temperature": 0});
    let whole = server.post("/v1/completions", ask.clone()).await.is(200);
    assert_eq!(whole["object"], "text_completion");
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["usage"]["completion_tokens"], 20);
    assert!(whole.get("emulated").is_none());
    let mut stream = ask;
    stream["stream"] = json!(true);
    stream["stream_options"] = json!({"include_usage": true});
    let events = streamed(&server, "/v1/completions", stream).await;
    let text: String = events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert_eq!(text, whole["choices"][0]["text"].as_str().unwrap());
    assert_eq!(events.last().unwrap()["usage"], whole["usage"]);
    assert_eq!(events.last().unwrap()["choices"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn chats_whole_and_streamed_are_the_same() {
    let server = Server::with_models().await;
    server.serve("tiny-llm", "cpu").await;
    let messages = json!([
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Tell me"}, {"type": "text", "text": " a story"}]}
    ]);
    let ask =
        json!({"model": "tiny-llm", "messages": messages, "max_completion_tokens": 15, "temperature": 0});
    let whole = server.post("/v1/chat/completions", ask.clone()).await.is(200);
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["choices"][0]["message"]["role"], "assistant");
    let mut stream = ask;
    stream["stream"] = json!(true);
    let events = streamed(&server, "/v1/chat/completions", stream).await;
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(
        events.iter().all(|event| event["object"] == "chat.completion.chunk" && event.get("usage").is_none())
    );
    let text: String =
        events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, whole["choices"][0]["message"]["content"].as_str().unwrap());
    assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_prompts_and_several_answers() {
    let server = Server::with_models().await;
    server.serve("tiny-llm", "cpu").await;
    let ask = json!({"model": "tiny-llm", "prompt": ["One", "Two"], "n": 2, "max_tokens": 5, "seed": 1, "temperature": 2});
    let whole = server.post("/v1/completions", ask.clone()).await.is(200);
    let texts: Vec<&str> =
        whole["choices"].as_array().unwrap().iter().map(|choice| choice["text"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 4);
    assert_ne!(texts[0], texts[1], "answers to one prompt are drawn apart");
    let again = server.post("/v1/completions", ask.clone()).await.is(200);
    assert_eq!(whole["choices"], again["choices"], "the same seed gives the same answers");
    let mut stream = ask;
    stream["stream"] = json!(true);
    let events = streamed(&server, "/v1/completions", stream).await;
    for (index, text) in texts.iter().enumerate() {
        let own = events.iter().map(|event| &event["choices"][0]).filter(|choice| choice["index"] == index);
        let joined: String = own.filter_map(|choice| choice["text"].as_str()).collect();
        assert_eq!(joined, *text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_stops_and_echo() {
    let server = Server::with_models().await;
    server.serve("tiny-llm", "cpu").await;
    let ask = |more: Value| {
        let mut body = json!({"model": "tiny-llm", "prompt": "Once", "max_tokens": 30, "temperature": 0});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/v1/completions", body)
    };
    let plain = ask(json!({})).await.is(200)["choices"][0]["text"].as_str().unwrap().to_string();
    let echoed = ask(json!({"echo": true})).await.is(200);
    assert_eq!(echoed["choices"][0]["text"].as_str().unwrap(), format!("Once{plain}"));
    let word = plain.split_whitespace().nth(2).unwrap();
    let stopped = ask(json!({"stop": word})).await.is(200)["choices"][0].clone();
    assert_eq!(stopped["finish_reason"], "stop");
    assert!(!stopped["text"].as_str().unwrap().contains(word));
    ask(json!({"prompt": [5, 6, 7]})).await.is(200);
    ask(json!({"prompt": [[5, 6, 7], [8]]})).await.is(200);
    ask(json!({"prompt": [4_000_000_000_u32]})).await.is(400);
    assert_eq!(ask(json!({"some_field": {"x": 1}})).await.is(400)["error"]["param"], "some_field");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named() {
    let server = Server::with_models().await;
    server.serve("tiny-llm", "cpu").await;
    let cases = [
        ("/v1/completions", json!({"prompt": "x", "max_tokens": 0}), "max_tokens"),
        ("/v1/completions", json!({"prompt": "x", "max_tokens": "many"}), "max_tokens"),
        ("/v1/completions", json!({"prompt": "x", "temperature": 2.5}), "temperature"),
        ("/v1/completions", json!({"prompt": "x", "top_p": -0.1}), "top_p"),
        ("/v1/completions", json!({"prompt": "x", "n": 99}), "n"),
        ("/v1/completions", json!({"prompt": "x", "stop": [""]}), "stop"),
        ("/v1/completions", json!({"prompt": "x", "stop": 5}), "stop"),
        ("/v1/completions", json!({"prompt": "x", "logprobs": 99}), "logprobs"),
        ("/v1/completions", json!({"prompt": []}), "prompt"),
        ("/v1/completions", json!({"prompt": {"a": 1}}), "prompt"),
        (
            "/v1/completions",
            json!({"prompt": "x", "stream_options": {"include_usage": true}}),
            "stream_options",
        ),
        ("/v1/chat/completions", json!({"messages": []}), "messages"),
        ("/v1/chat/completions", json!({"messages": [{"role": "king", "content": "x"}]}), "messages[0].role"),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": 5}]}),
            "messages[0].content",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            "messages[0].content[0]",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "xml"}}),
            "response_format",
        ),
    ];
    for (path, mut body, param) in cases {
        body["model"] = json!("tiny-llm");
        let said = server.post(path, body).await.is(400);
        assert_eq!(said["error"]["type"], "invalid_request_error");
        assert_eq!(said["error"]["param"], param, "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_as_numbers_and_as_bytes() {
    let server = Server::with_models().await;
    server.serve("tiny-embedding", "cpu").await;
    let ask = |more: Value| {
        let mut body = json!({"model": "tiny-embedding", "input": ["hello world", "good bye"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/v1/embeddings", body)
    };
    let numbers = ask(json!({})).await.is(200);
    assert_eq!(numbers["data"].as_array().unwrap().len(), 2);
    let encoded = ask(json!({"encoding_format": "base64"})).await.is(200);
    let bytes = encoded["data"][1]["embedding"].as_str().unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(bytes).unwrap();
    let decoded: Vec<f32> =
        bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    let plain: Vec<f32> = numbers["data"][1]["embedding"]
        .as_array()
        .unwrap()
        .iter()
        .map(|x| x.as_f64().unwrap() as f32)
        .collect();
    assert_eq!(decoded, plain);
    assert_eq!(ask(json!({"dimensions": 3})).await.is(400)["error"]["param"], "dimensions");
    ask(json!({"dimensions": plain.len()})).await.is(200);
    ask(json!({"input": [1, 2]})).await.is(200);
    let wrong = json!({"model": "tiny-embedding", "prompt": "x"});
    assert_eq!(server.post("/v1/completions", wrong).await.is(400)["error"]["param"], "model");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_goes_away_frees_the_place() {
    let server = Server::with_models().await;
    let id = server.serve("tiny-llm", "cpu").await;
    let ask =
        json!({"model": "tiny-llm", "prompt": "x", "max_tokens": 400, "ignore_eos": true, "stream": true});
    let mut sent =
        server.client.post(format!("{}/v1/completions", server.url)).json(&ask).send().await.unwrap();
    sent.chunk().await.unwrap().unwrap();
    drop(sent);
    crate::support::until("the instance is idle", || async {
        let status = server.get("/standalone/status").await.is(200);
        status["serving_instances"][0]["running"] == 0
    })
    .await;
    server.delete(&format!("/standalone/instance/{id}")).await.is(200);
}
