//! gswarm's own model server: instances of models on devices that it is told.

use super::BackendError;
use super::api::{Api, State};
use super::http::{Http, escaped, field};
use super::openai::{MOST_TOKENS, Wants, settings, vector};
use crate::call::Call;
use gswarm_core::Gpus;
use gswarm_core::input::Device;
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A model server.
pub struct Gswarm {
    /// Where it is.
    pub http: Http,
    /// What instances are put on.
    pub device: Device,
    /// The cluster's number of its first GPU, and its own number of it.
    pub first: (u32, u32),
    /// What a load may take.
    pub load: Duration,
}

impl Gswarm {
    fn device(&self, gpus: Gpus) -> String {
        match self.device {
            Device::Cpu => "cpu".to_owned(),
            Device::Auto => "auto".to_owned(),
            Device::Cuda => {
                let numbers = gpus.iter().map(|gpu| (gpu.0 - self.first.0 + self.first.1).to_string());
                format!("cuda:{}", numbers.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// The instances that it has. They come as a list, or by their ids.
    async fn instances(&self) -> Result<Vec<String>, BackendError> {
        let answer = self.http.get("/standalone/status").await?;
        let listed = answer.get("serving_instances").or_else(|| answer.pointer("/data/serving_instances"));
        match listed {
            Some(Value::Object(by_id)) => Ok(by_id.keys().cloned().collect()),
            Some(Value::Array(list)) => {
                let ids = list
                    .iter()
                    .map(|one| one.as_str().or_else(|| one.get("instance_id")?.as_str()).map(str::to_owned));
                let ids: Option<Vec<String>> = ids.collect();
                ids.ok_or_else(|| BackendError::Failed("an instance has no id".to_owned()))
            }
            _ => Err(BackendError::Failed("the status lists no `serving_instances`".to_owned())),
        }
    }
}

/// The data of an answer that says that all went well.
fn data(answer: &Value) -> Result<&Value, BackendError> {
    if answer.get("success") == Some(&Value::Bool(true)) {
        return field(answer, "/data", Some);
    }
    let said = answer.get("message").and_then(Value::as_str).unwrap_or("it says no more");
    Err(BackendError::Failed(format!("the server did not succeed: {}", super::http::brief(said))))
}

#[async_trait::async_trait]
impl Api for Gswarm {
    fn passes_on(&self, handle: &str) -> Option<(Http, String)> {
        Some((self.http.clone(), handle.to_owned()))
    }

    fn places(&self) -> bool {
        true
    }

    async fn bring(&self, name: &str, gpus: Gpus) -> Result<String, BackendError> {
        let body = json!({"model_name": name, "device": self.device(gpus)});
        let told = self.http.order("/standalone/serve", &body, self.load).await?;
        let answer: Value = serde_json::from_str(&told).map_err(|_| {
            BackendError::Failed(format!("the answer is not JSON: {}", super::http::brief(&told)))
        })?;
        Ok(field(data(&answer)?, "/instance_id", Value::as_str)?.to_owned())
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        let path = format!("/standalone/instance/{}", escaped(handle));
        match self.http.ask(Method::DELETE, &path, None).await {
            // One that is not there is gone, which is what was asked for; the status will tell.
            Err(BackendError::Refused(_)) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn look(&self, handle: &str) -> Result<State, BackendError> {
        let there = self.instances().await?.iter().any(|id| id == handle);
        Ok(if there { State::There } else { State::Absent })
    }

    async fn held(&self) -> Result<Vec<String>, BackendError> {
        self.instances().await
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        let wants = Wants::of(call);
        let mut input = Map::from_iter([("prompt".to_owned(), Value::from(call.prompt()))]);
        if wants == Wants::Image {
            let steps = call.number(&["steps", "num_inference_steps"]);
            input.extend(steps.map(|steps| ("steps".to_owned(), steps.into())));
            input.extend(settings(call, &["guidance_scale", "width", "height", "seed", "negative_prompt"]));
        } else {
            input.extend(call.number(&MOST_TOKENS).map(|most| ("max_length".to_owned(), most.into())));
            input.extend(settings(call, &["temperature", "top_p", "top_k", "seed", "stop"]));
        }
        let body = json!({"instance_id": handle, "data": input});
        let answer = self.http.call(&format!("/standalone/call/{}", escaped(handle)), &body).await?;
        let data = data(&answer)?;
        let mut fields = Map::new();
        match wants {
            Wants::Embedding => {
                let place = if data.get("embedding").is_some() { "/embedding" } else { "/response" };
                fields.insert("embedding".to_owned(), json!(field(data, place, vector)?));
            }
            Wants::Image => {
                fields.insert("image".to_owned(), field(data, "/image_path", Value::as_str)?.into());
            }
            Wants::Text => {
                fields.insert("text".to_owned(), field(data, "/response", Value::as_str)?.into());
            }
        }
        for key in ["usage", "model_type", "emulated", "finish_reason"] {
            fields.extend(data.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        Ok(Value::Object(fields))
    }
}
