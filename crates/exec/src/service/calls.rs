//! A direct call as a request of its model's one-node workflow, for predictors.

use crate::forward::Forward;
use gswarm_core::WorkflowId;
use gswarm_core::input::RequestSpec;
use serde_json::{Map, Value, json};

/// The node of a workflow that stands for a direct call.
pub(super) const NODE: &str = "call";

/// What a call asks for: its texts are the request's input, its options those of the node. `max_completion_tokens` is the
/// newer name of `max_tokens`, and goes by the older one, which requests of workflows use.
pub(super) fn as_request(name: &str, workflow: WorkflowId, forward: &Forward) -> RequestSpec {
    let mut options = Map::new();
    for (key, value) in &forward.body {
        if value.is_number() || value.is_boolean() {
            options.insert(key.clone(), value.clone());
        }
    }
    if let Some(tokens) = options.remove("max_completion_tokens") {
        options.insert("max_tokens".to_owned(), tokens);
    }
    let mut texts = Vec::new();
    ["prompt", "input"].iter().filter_map(|&key| forward.body.get(key)).for_each(|of| gather(of, &mut texts));
    let messages = forward.body.get("messages").and_then(Value::as_array).into_iter().flatten();
    messages.filter_map(|message| message.get("content")).for_each(|content| gather(content, &mut texts));
    RequestSpec {
        times: vec![None],
        input_data: Map::from_iter([("prompt".to_owned(), json!(texts))]),
        node_configs: Map::from_iter([(NODE.to_owned(), Value::Object(options))]),
        ..RequestSpec::new(name, workflow)
    }
}

/// The texts of a prompt or of a message: one, several, or parts of which some are texts and some, say, pictures.
fn gather<'b>(content: &'b Value, texts: &mut Vec<&'b str>) {
    match content {
        Value::String(text) => texts.push(text),
        Value::Array(parts) => parts.iter().for_each(|part| gather(part, texts)),
        Value::Object(part) => texts.extend(part.get("text").and_then(Value::as_str)),
        _ => {}
    }
}
