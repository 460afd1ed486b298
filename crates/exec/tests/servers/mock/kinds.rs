//! The interface of each kind, as its documentation has it.

use super::world::{Phase, World};
use super::{Answer, Asked};
use gswarm_exec::backend::BackendKind;
use serde_json::{Value, json};

pub async fn answer(world: &World, asked: &Asked) -> Answer {
    let Asked { own, method, path, query, body } = asked;
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
    match (world.kind, method.as_str(), path.as_str()) {
        (BackendKind::Ollama, "GET", "/api/ps") => {
            let held = world.held();
            let models = held.keys().map(|name| json!({"name": name, "model": name, "size": 5_000_000_000u64, "size_vram": 5_000_000_000u64}));
            (200, json!({"models": models.collect::<Vec<_>>()}))
        }
        (BackendKind::Ollama, "POST", "/api/generate") => ollama_order(world, model, body).await,
        (BackendKind::Ollama, "POST", "/api/chat") => {
            let prompt = body.pointer("/messages/0/content").and_then(Value::as_str).unwrap_or_default();
            let done = |text| json!({"message": {"role": "assistant", "content": text}, "done": true, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2, "load_duration": 1000});
            spoken(world, model, model, prompt, done).await
        }
        (BackendKind::Ollama, "POST", "/api/embed") => {
            let prompt = body["input"].as_str().unwrap_or_default();
            spoken(
                world,
                model,
                model,
                prompt,
                |_| json!({"embeddings": [[0.5, 0.25]], "prompt_eval_count": 3}),
            )
            .await
        }
        (BackendKind::LlamaCpp, "GET", "/models") => {
            let held = world.held();
            let status = |name: &str| match held.get(name).map(|one| one.phase) {
                None => "unloaded",
                Some(Phase::Loading(_)) => "loading",
                // It goes on answering for a while after it was told to end.
                Some(Phase::There | Phase::Leaving(_)) => "loaded",
            };
            let all = ["writer-there", "critic-there", "index-there", "large-there"];
            let list =
                all.map(|name| json!({"id": name, "object": "model", "status": {"value": status(name)}}));
            (200, json!({"object": "list", "data": list}))
        }
        (BackendKind::LlamaCpp, "POST", "/models/load") => match world.load(model, model) {
            Ok(()) => (200, json!({"success": true})),
            Err(why) => (500, json!({"error": {"code": 500, "message": why}})),
        },
        (BackendKind::LlamaCpp, "POST", "/models/unload") => {
            world.unload(model);
            (200, json!({"success": true}))
        }
        (BackendKind::Vllm, "GET", "/is_sleeping") => {
            // It answers no other question while it wakes.
            world.settled(own).await;
            (200, json!({"is_sleeping": !world.held().contains_key(*own)}))
        }
        (BackendKind::Vllm, "POST", "/wake_up") if query.contains("kv_cache") => (200, Value::Null),
        (BackendKind::Vllm, "POST", "/wake_up") => moved(world, own).await,
        (BackendKind::Vllm, "POST", "/collective_rpc") => {
            if body["method"] == "reload_weights" {
                (200, Value::Null)
            } else {
                (400, json!({"detail": "no such method"}))
            }
        }
        (BackendKind::Vllm, "POST", "/sleep") => {
            world.unload(own);
            (200, Value::Null)
        }
        (BackendKind::Sglang, "GET", "/health") => (200, Value::Null),
        (BackendKind::Sglang, "GET", "/get_model_info") => (200, json!({"model_path": "/models/it"})),
        (BackendKind::Sglang, "POST", "/update_weights_from_disk") => {
            (200, json!({"success": body["model_path"] == "/models/it"}))
        }
        (BackendKind::Sglang, "POST", "/release_memory_occupation") => {
            world.unload(own);
            (200, Value::Null)
        }
        (BackendKind::Sglang, "POST", "/resume_memory_occupation") => {
            if body["tags"] == json!(["kv_cache"]) {
                (200, Value::Null)
            } else {
                moved(world, own).await
            }
        }
        (BackendKind::KServe, _, _) => kserve(world, path, body).await,
        (BackendKind::Gswarm, _, _) => gswarm(world, method, path, body).await,
        (_, "GET", "/v1/models") => {
            let names = ["writer-there", "critic-there", "index-there"];
            (200, json!({"object": "list", "data": names.map(|id| json!({"id": id, "object": "model"}))}))
        }
        (kind, "POST", "/v1/chat/completions") => {
            let prompt = body.pointer("/messages/0/content").and_then(Value::as_str).unwrap_or_default();
            let done = |text| json!({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}], "usage": {"total_tokens": 5}});
            spoken(world, key(kind, own, model), model, prompt, done).await
        }
        (kind, "POST", "/v1/completions") => {
            let prompt = body["prompt"].as_str().unwrap_or_default();
            spoken(
                world,
                key(kind, own, model),
                model,
                prompt,
                |text| json!({"choices": [{"text": text}], "usage": {"total_tokens": 5}}),
            )
            .await
        }
        (kind, "POST", "/v1/embeddings") => {
            let prompt = body["input"].as_str().unwrap_or_default();
            spoken(
                world,
                key(kind, own, model),
                model,
                prompt,
                |_| json!({"data": [{"embedding": [0.5, 0.25]}], "usage": {"total_tokens": 5}}),
            )
            .await
        }
        (kind, "POST", "/v1/images/generations") => {
            let prompt = body["prompt"].as_str().unwrap_or_default();
            spoken(
                world,
                key(kind, own, model),
                model,
                prompt,
                |_| json!({"data": [{"b64_json": "cGljdHVyZQ=="}]}),
            )
            .await
        }
        _ => (404, json!({"error": format!("there is no {method} {path}")})),
    }
}

/// What a server of one model calls it.
fn key<'n>(kind: BackendKind, own: &'n str, model: &'n str) -> &'n str {
    match kind {
        BackendKind::Vllm | BackendKind::Sglang => own,
        _ => model,
    }
}

async fn moved(world: &World, own: &str) -> Answer {
    match world.load(own, own) {
        Ok(()) => {
            world.settled(own).await;
            (200, Value::Null)
        }
        Err(why) => (500, json!({"error": why})),
    }
}

/// A call: the answer holds the model and what it was asked, so that a test sees who was asked what.
async fn spoken(
    world: &World,
    key: &str,
    model: &str,
    prompt: &str,
    done: impl Fn(String) -> Value,
) -> Answer {
    if world.manners.poison.is_some_and(|poison| prompt.contains(poison)) {
        return (400, json!({"error": {"message": "this prompt cannot be processed"}}));
    }
    world.begins_a_call().await;
    let done = |text: String| {
        let mut answer = done(text);
        if let Some(fields) = answer.as_object_mut().filter(|_| !world.manners.counts_tokens) {
            fields.remove("usage");
        }
        answer
    };
    // A server that cannot be told what to load has everything.
    if world.kind == BackendKind::OpenAi {
        tokio::time::sleep(world.manners.call).await;
        return (200, done(format!("{model}<{prompt}>")));
    }
    match world.call(key).await {
        Some(()) => (200, done(format!("{model}<{prompt}>"))),
        None => (400, json!({"error": {"message": "the model is not loaded"}})),
    }
}

async fn ollama_order(world: &World, model: &str, body: &Value) -> Answer {
    if body["keep_alive"] == 0 {
        world.unload(model);
        return (200, json!({"model": model, "response": "", "done": true, "done_reason": "unload"}));
    }
    match world.load(model, model) {
        // This one answers when the model is there.
        Ok(()) => {
            tokio::time::sleep(world.manners.load).await;
            (200, json!({"model": model, "response": "", "done": true, "done_reason": "load"}))
        }
        Err(why) => (500, json!({"error": format!("model requires more system memory: {why}")})),
    }
}

async fn kserve(world: &World, path: &str, body: &Value) -> Answer {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts[..] {
        ["v2", "repository", "index"] => {
            let held = world.held();
            let state = |name: &str| match held.get(name).map(|one| one.phase) {
                None => ("UNAVAILABLE", "unloaded"),
                Some(Phase::Loading(_)) => ("LOADING", ""),
                Some(Phase::There) => ("READY", ""),
                Some(Phase::Leaving(_)) => ("UNLOADING", ""),
            };
            let all = ["writer-there", "critic-there", "index-there", "large-there"];
            let list = all.map(
                |name| json!({"name": name, "version": "1", "state": state(name).0, "reason": state(name).1}),
            );
            (200, json!(list))
        }
        ["v2", "repository", "models", model, "load"] => match world.load(model, model) {
            Ok(()) => (200, json!({})),
            Err(why) => (400, json!({"error": format!("failed to load '{model}': {why}")})),
        },
        ["v2", "repository", "models", model, "unload"] => {
            world.unload(model);
            (200, json!({}))
        }
        ["v2", "models", model] => {
            if !world.is_there(model) {
                return (400, json!({"error": format!("Request for unknown model: '{model}' is not found")}));
            }
            let inputs = json!([{"name": "PROMPT", "datatype": "BYTES", "shape": [-1, 1]}]);
            (
                200,
                json!({"name": model, "inputs": inputs, "outputs": [{"name": "TEXT", "datatype": "BYTES", "shape": [-1, 1]}]}),
            )
        }
        ["v2", "models", model, "infer"] => {
            let input = &body["inputs"][0];
            if input["name"] != "PROMPT" || input["shape"] != json!([1, 1]) || input["datatype"] != "BYTES" {
                return (400, json!({"error": format!("unexpected input {input}")}));
            }
            let prompt = input["data"][0].as_str().unwrap_or_default();
            let done = |text| {
                let output = if model.starts_with("index") {
                    json!({"name": "VECTOR", "datatype": "FP32", "shape": [2], "data": [0.5, 0.25]})
                } else {
                    json!({"name": "TEXT", "datatype": "BYTES", "shape": [1, 1], "data": [text]})
                };
                json!({"model_name": model, "outputs": [output]})
            };
            spoken(world, model, model, prompt, done).await
        }
        _ => (404, json!({"error": "not found"})),
    }
}

/// Instances are held under `id model device`.
async fn gswarm(world: &World, method: &str, path: &str, body: &Value) -> Answer {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let full = |id: &str| world.held().keys().find(|key| key.starts_with(id)).cloned();
    let done = |data: Value| (200, json!({"success": true, "message": "", "data": data}));
    let fails = |status: u16, why: &str| (status, json!({"success": false, "message": why, "data": null}));
    match (method, &parts[..]) {
        ("GET", ["standalone", "status"]) => {
            let held = world.held();
            // What loads is nobody's instance yet.
            let served = held.iter().filter(|(_, one)| !matches!(one.phase, Phase::Loading(_)));
            let list = served.map(|(key, one)| {
                let state = if one.phase == Phase::There { "serving" } else { "stopping" };
                json!({"instance_id": key.split(' ').next(), "state": state})
            });
            (200, json!({"serving_instances": list.collect::<Vec<_>>()}))
        }
        ("POST", ["standalone", "serve"]) => {
            let (model, device) = (
                body["model_name"].as_str().unwrap_or_default(),
                body["device"].as_str().unwrap_or_default(),
            );
            let id = format!("{:06}", world.number());
            match world.load(&format!("{id} {model} {device}"), model) {
                Ok(()) => {
                    tokio::time::sleep(world.manners.load).await;
                    done(json!({"instance_id": id, "model_name": model, "device": device}))
                }
                Err(why) => fails(507, &why),
            }
        }
        ("DELETE", ["standalone", "instance", id]) => match full(id) {
            Some(key) => {
                world.unload(&key);
                done(json!({"instance_id": id}))
            }
            None => fails(404, "there is no such instance"),
        },
        ("POST", ["standalone", "call", id]) => {
            let Some(key) = full(id) else { return fails(404, "there is no such instance") };
            let mut words = key.split(' ').skip(1);
            let (model, device) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let prompt = body.pointer("/data/prompt").and_then(Value::as_str).unwrap_or_default();
            let said = |text| {
                let mut data = json!({"model_type": "llm", "device": device, "usage": {"total_tokens": 5}});
                if model.starts_with("index") {
                    data["embedding"] = json!([0.5, 0.25])
                } else {
                    data["response"] = json!(text)
                }
                json!({"success": true, "message": "", "data": data})
            };
            spoken(world, &key, model, prompt, said).await
        }
        _ => fails(404, "not found"),
    }
}
