//! The document that describes the routes: complete, and true.

use crate::support::{Answer, Server};
use serde_json::{Value, json};

/// Whether `value` is what `schema` says, as far as types, fields and choices go; where not, why.
fn matches(document: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let target = document.pointer(name.trim_start_matches('#'));
        return matches(document, target.ok_or(format!("{place}: no {name}"))?, value, place);
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[key].as_array() {
            let fits = choices.iter().any(|choice| matches(document, choice, value, place).is_ok());
            return if fits { Ok(()) } else { Err(format!("{place}: {value} is none of the choices")) };
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(()),
    };
    let own = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = types.contains(&own) || (own == "integer" && types.contains(&"number"));
    if !fits {
        return Err(format!("{place}: {value} is no {types:?}"));
    }
    if let Some(choices) = schema["enum"].as_array()
        && !choices.contains(value)
    {
        return Err(format!("{place}: {value} is not in {choices:?}"));
    }
    for item in value.as_array().into_iter().flatten() {
        matches(document, &schema["items"], item, &format!("{place}[]"))?;
    }
    if let Value::Object(fields) = value {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                return Err(format!("{place}: {name} is missing"));
            }
        }
        for (name, field) in fields {
            let own = &schema["properties"][name];
            let described = if own.is_null() { &schema["additionalProperties"] } else { own };
            if !described.is_object() {
                return Err(format!("{place}: {name} is not described"));
            }
            matches(document, described, field, &format!("{place}.{name}"))?;
        }
    }
    Ok(())
}

fn check(document: &Value, path: &str, method: &str, answer: &Answer) {
    let responses = &document["paths"][path][method]["responses"];
    let described = &responses[answer.status.to_string()]["content"]["application/json"]["schema"];
    assert!(!described.is_null(), "{method} {path} does not describe {}: {}", answer.status, answer.body);
    if let Err(reason) = matches(document, described, &answer.body, path) {
        panic!("{method} {path}: {reason}\n{:#}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_described() {
    let server = Server::with(|_| {}).await;
    let document = server.get("/openapi.json").await.is(200);
    let paths = document["paths"].as_object().unwrap();
    let mut found: Vec<String> = Vec::new();
    for (path, methods) in paths {
        found.extend(methods.as_object().unwrap().keys().map(|method| format!("{method} {path}")));
    }
    found.sort();
    let mut expected = [
        "get /",
        "get /health",
        "get /standalone/status",
        "post /standalone/download",
        "post /standalone/load",
        "post /standalone/serve",
        "post /standalone/offload",
        "post /standalone/call/{instance_id}",
        "post /standalone/estimate",
        "post /standalone/estimate/{instance_id}",
        "delete /standalone/instance/{instance_id}",
        "get /v1/models",
        "get /v1/models/{model}",
        "post /v1/completions",
        "post /v1/chat/completions",
        "post /v1/embeddings",
        "post /v1/rerank",
        "post /tokenize",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
    // What is described is there: no route of the document is unknown to the server.
    for described in &found {
        let (method, path) = described.split_once(' ').unwrap();
        let path = path.replace("{instance_id}", "zzzzzz");
        let answer = server.send(method.to_uppercase().parse().unwrap(), &path, Some(json!({}))).await;
        assert_ne!(answer.body["error"]["code"], "no_such_route", "{described}");
        assert_ne!(answer.status, 405, "{described}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_what_the_document_says() {
    let server = Server::with_models().await;
    let document = server.get("/openapi.json").await.is(200);
    let id = server.serve("tiny-llm", "cpu").await;
    server.serve("tiny-embedding", "cpu").await;
    for path in ["/", "/health", "/standalone/status", "/v1/models"] {
        check(&document, path, "get", &server.get(path).await);
    }
    for model in ["tiny-llm", "nobody"] {
        check(&document, "/v1/models/{model}", "get", &server.get(&format!("/v1/models/{model}")).await);
    }
    let prompt = json!({"data": {"prompt": "x", "max_length": 3}});
    let posts: Vec<(&str, Value)> = vec![
        ("/standalone/download", json!({"model_name": "tiny-llm"})),
        ("/standalone/download", json!({"model_name": "other"})),
        ("/standalone/load", json!({"model_name": "tiny-llm"})),
        ("/standalone/load", json!({"model_name": "nobody"})),
        ("/standalone/serve", json!({"model_name": "tiny-llm"})),
        ("/standalone/serve", json!({"model_name": "tiny-llm", "device": "cuda:0"})),
        ("/standalone/serve", json!({"model_name": []})),
        ("/standalone/call/{instance_id}", prompt.clone()),
        ("/standalone/call/{instance_id}", json!({"data": 5})),
        ("/standalone/estimate/{instance_id}", prompt.clone()),
        ("/standalone/estimate", json!({"model_name": "tiny-llm", "data": {"prompt": "x"}})),
        ("/standalone/estimate", json!({"model_name": "nobody"})),
        ("/v1/completions", json!({"model": "tiny-llm", "prompt": "x", "max_tokens": 3})),
        ("/v1/completions", json!({"model": "nobody", "prompt": "x"})),
        ("/v1/completions", json!({"model": "tiny-llm", "prompt": "x", "n": 0})),
        (
            "/v1/chat/completions",
            json!({"model": "tiny-llm", "messages": [{"role": "user", "content": "x"}], "max_tokens": 3}),
        ),
        (
            "/v1/chat/completions",
            json!({"model": "tiny-llm", "messages": [{"role": "user", "content": "x"}], "max_tokens": 3,
                   "logprobs": true, "top_logprobs": 1}),
        ),
        ("/v1/completions", json!({"model": "tiny-llm", "prompt": "x", "max_tokens": 3, "logprobs": 1})),
        ("/v1/rerank", json!({"model": "tiny-embedding", "query": "x", "documents": ["x", "y"]})),
        ("/tokenize", json!({"model": "tiny-llm", "prompt": "x"})),
        ("/v1/embeddings", json!({"model": "tiny-embedding", "input": "x"})),
        ("/v1/embeddings", json!({"model": "tiny-embedding", "input": "x", "encoding_format": "base64"})),
        ("/standalone/offload", json!({"model_name": "tiny-embedding", "target": "dram"})),
    ];
    for (path, body) in posts {
        let answer = server.post(&path.replace("{instance_id}", &id), body).await;
        check(&document, path, "post", &answer);
    }
    let path = "/standalone/instance/{instance_id}";
    for _ in 0..2 {
        check(&document, path, "delete", &server.delete(&path.replace("{instance_id}", &id)).await);
    }
}
