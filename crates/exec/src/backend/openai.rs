//! The OpenAI API: turns a node's call into a request, and reads the answer. Most servers have it.

use super::BackendError;
use super::http::{Http, field};
use super::spec::Calls;
use crate::call::Call;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Settings of a node that are passed on under their own names.
const TEXT_SETTINGS: [&str; 12] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "response_format",
    "ignore_eos",
    "min_tokens",
];
/// How many tokens a node may write, by any of these names.
pub const MOST_TOKENS: [&str; 3] = ["max_tokens", "max_length", "max_new_tokens"];

/// What sort of answer a call wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Text.
    Text,
    /// A vector.
    Embedding,
    /// A picture.
    Image,
}

impl Wants {
    /// By the kind of the model.
    pub fn of(call: &Call) -> Wants {
        match call.kind.as_deref() {
            Some("embedding") => Wants::Embedding,
            Some("image_generation") => Wants::Image,
            _ => Wants::Text,
        }
    }
}

/// Calls a model by OpenAI's interface.
pub async fn call_openai(http: &Http, model: &str, calls: Calls, call: &Call) -> Result<Value, BackendError> {
    match (Wants::of(call), calls) {
        (Wants::Embedding, _) => {
            let body = json!({"model": model, "input": call.prompt()});
            let answer = http.complete("/v1/embeddings", &body, model).await?;
            let vector = field(&answer, "/data/0/embedding", vector)?;
            Ok(with_usage(json!({"embedding": vector}), &answer))
        }
        (Wants::Image, _) => {
            let answer = http.complete("/v1/images/generations", &image_body(model, call), model).await?;
            let picture = |value: &Value| {
                let place = ["b64_json", "url"].iter().find_map(|&key| value.get(key)?.as_str());
                place.filter(|text| !text.is_empty()).map(str::to_owned)
            };
            Ok(with_usage(json!({"image": field(&answer, "/data/0", picture)?}), &answer))
        }
        (Wants::Text, Calls::Chat) => {
            let messages = match call.inputs.get("messages") {
                Some(messages @ Value::Array(_)) => messages.clone(),
                _ => json!([{"role": "user", "content": call.prompt()}]),
            };
            let body = text_body(model, call, "messages", messages);
            let answer = http.complete("/v1/chat/completions", &body, model).await?;
            text_of(&answer, "/choices/0/message/content")
        }
        (Wants::Text, Calls::Completions) => {
            let body = text_body(model, call, "prompt", call.prompt().into());
            text_of(&http.complete("/v1/completions", &body, model).await?, "/choices/0/text")
        }
    }
}

fn text_body(model: &str, call: &Call, key: &str, input: Value) -> Value {
    let mut body = Map::from_iter([("model".to_owned(), model.into()), (key.to_owned(), input)]);
    body.extend(call.number(&MOST_TOKENS).map(|most| ("max_tokens".to_owned(), most.into())));
    body.extend(settings(call, &TEXT_SETTINGS));
    Value::Object(body)
}

fn image_body(model: &str, call: &Call) -> Value {
    let mut body = Map::from_iter([
        ("model".to_owned(), model.into()),
        ("prompt".to_owned(), call.prompt().into()),
        ("n".to_owned(), 1.into()),
        ("response_format".to_owned(), "b64_json".into()),
    ]);
    if let (Some(width), Some(height)) = (call.number(&["width"]), call.number(&["height"])) {
        body.insert("size".to_owned(), format!("{width}x{height}").into());
    }
    let steps = call.number(&["steps", "num_inference_steps"]);
    body.extend(steps.map(|steps| ("num_inference_steps".to_owned(), steps.into())));
    body.extend(settings(call, &["guidance_scale", "negative_prompt", "seed", "size"]));
    Value::Object(body)
}

/// The settings of a node that are among these names.
pub fn settings(call: &Call, names: &[&str]) -> Vec<(String, Value)> {
    let given = names.iter().filter_map(|&name| Some((name.to_owned(), call.config.get(name)?.clone())));
    given.collect()
}

fn text_of(answer: &Value, place: &str) -> Result<Value, BackendError> {
    let text = field(answer, place, Value::as_str)?;
    let mut fields = json!({"text": text});
    if let Some(reason) = answer.pointer("/choices/0/finish_reason").filter(|reason| reason.is_string()) {
        fields["finish_reason"] = reason.clone();
    }
    Ok(with_usage(fields, answer))
}

fn with_usage(mut fields: Value, answer: &Value) -> Value {
    if let Some(usage @ Value::Object(_)) = answer.get("usage") {
        fields["usage"] = usage.clone();
    }
    fields
}

/// An answer of a server that always says how many tokens there were: one that does not has not done what was asked.
pub fn with_promised_usage(answer: Value) -> Result<Value, BackendError> {
    field(&answer, "/usage", Value::as_object)?;
    Ok(answer)
}

/// A list of numbers, of which there is at least one.
pub fn vector(value: &Value) -> Option<Vec<f64>> {
    let numbers: Option<Vec<f64>> = value.as_array()?.iter().map(Value::as_f64).collect();
    numbers.filter(|numbers| !numbers.is_empty())
}

/// The names of the models that a server lists.
pub async fn listed(http: &Http) -> Result<Vec<String>, BackendError> {
    let answer = http.get("/v1/models").await?;
    let models = field(&answer, "/data", Value::as_array)?;
    let names = models.iter().filter_map(|model| model.get("id")?.as_str()).map(str::to_owned);
    Ok(names.collect())
}

/// The servers of models that each have one, or one for all.
pub struct Servers {
    by_name: BTreeMap<String, Http>,
    one: Option<Http>,
}

impl Servers {
    /// Those of some models, by their names there, and one for all others.
    pub fn new(by_name: BTreeMap<String, Http>, one: Option<Http>) -> Servers {
        Servers { by_name, one }
    }

    /// The server of a model.
    pub fn of(&self, name: &str) -> Result<&Http, BackendError> {
        let found = self.by_name.get(name).or(self.one.as_ref());
        found.ok_or_else(|| BackendError::Failed(format!("`{name}` has no server")))
    }

    /// The models that have a server of their own, with it.
    pub fn own(&self) -> impl Iterator<Item = (&String, &Http)> {
        self.by_name.iter()
    }

    /// All of them; the one for all others has no name.
    pub fn all(&self) -> impl Iterator<Item = (String, &Http)> {
        let own = self.by_name.iter().map(|(name, http)| (name.clone(), http));
        own.chain(self.one.iter().map(|http| (String::new(), http)))
    }
}
