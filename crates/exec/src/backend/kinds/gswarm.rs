//! gswarm's own model server: instances of models on given devices.

use super::adapter::*;
use gswarm_core::input::MAX_GPUS;
use reqwest::Method;
use serde::{Deserialize, Serialize};

described! {
    /// Settings of `gswarm` model servers.
    pub struct GswarmSpec {
        /// `cuda`: on the GPUs that the scheduler chose. `cpu`: on the processor. `auto`: wherever the server chooses.
        pub device: InstanceDevice = InstanceDevice::Cuda, Shape::Choice(&["cuda", "cpu", "auto"]);
        /// The number that the server's machine gives to the first of `gpus`.
        pub first_device: u32 = 0, Shape::Whole(not_negative(MAX_GPUS as f64, ""));
    }
}

/// Where gswarm's own model server puts instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstanceDevice {
    /// On the GPUs that the scheduler chose.
    #[default]
    Cuda,
    /// On the processor.
    Cpu,
    /// Wherever the server likes.
    Auto,
}

impl ServerKind for GswarmSpec {
    const ABOUT: KindInfo = KindInfo {
        name: "gswarm",
        reach: Reach::One,
        fields: GswarmSpec::FIELDS,
        defaults: GswarmSpec::defaults,
        protocol: [
            "`POST /standalone/serve` with the devices of the GPUs",
            "`DELETE /standalone/instance/{id}`",
            "`GET /standalone/status`",
            "`POST /standalone/call/{id}`",
        ],
        example: r#"gswarm's own model server, on a machine whose eight GPUs are number 8 to 15 of the cluster:
```yaml
backends:
  - {kind: gswarm, gpus: 8-15, url: "http://10.0.0.7:8000", token_env: GSWARM_TOKEN}
```"#,
    };

    fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String> {
        let first = (link.place.gpus.first.0, self.first_device);
        let (http, load) = (link.http()?, link.limits.load);
        Ok(link.managed(Gswarm { http, device: self.device, first, load }))
    }
}

struct Gswarm {
    http: Http,
    /// What instances are put on.
    device: InstanceDevice,
    /// The cluster's number of its first GPU, and its own number of it.
    first: (u32, u32),
    /// What a load may take.
    load: Duration,
}

impl Gswarm {
    fn device(&self, gpus: Gpus) -> String {
        match self.device {
            InstanceDevice::Cpu => "cpu".to_owned(),
            InstanceDevice::Auto => "auto".to_owned(),
            InstanceDevice::Cuda => {
                let numbers = gpus.iter().map(|gpu| (gpu.0 - self.first.0 + self.first.1).to_string());
                format!("cuda:{}", numbers.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// The instances that it has, and where they stand. They come as a list, or by their ids.
    async fn instances(&self) -> Result<Vec<(String, ModelState)>, BackendError> {
        let answer = self.http.get("/standalone/status").await?;
        let listed = answer.get("serving_instances").or_else(|| answer.pointer("/data/serving_instances"));
        let state = |one: &Value| match one.get("state").and_then(Value::as_str) {
            // Those who use it still get their answers.
            Some("stopping") => ModelState::Moving,
            _ => ModelState::There,
        };
        match listed {
            Some(Value::Object(by_id)) => {
                Ok(by_id.iter().map(|(id, one)| (id.clone(), state(one))).collect())
            }
            Some(Value::Array(list)) => {
                let known = list.iter().map(|one| {
                    let id = one.as_str().or_else(|| one.get("instance_id")?.as_str())?;
                    Some((id.to_owned(), state(one)))
                });
                let known: Option<Vec<_>> = known.collect();
                known.ok_or_else(|| BackendError::Failed("an instance has no id".to_owned()))
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
    let said = answer.get("message").and_then(Value::as_str).unwrap_or("it gives no reason");
    Err(BackendError::Failed(format!("the server reports failure: {}", brief(said))))
}

/// Where the weights of a new instance were. A server that does not tell may have read them from disk.
fn came_from(data: &Value) -> WeightTier {
    match data.get("came_from").and_then(Value::as_str) {
        Some("dram") => WeightTier::Host,
        Some("gpu") => WeightTier::Device,
        _ => WeightTier::Disk,
    }
}

#[async_trait::async_trait]
impl Api for Gswarm {
    fn abilities(&self, _name: &str) -> CallAbilities {
        CallAbilities::of(Dialect::Own)
    }

    fn passes_on(&self, handle: &str) -> Option<(Http, String)> {
        Some((self.http.clone(), handle.to_owned()))
    }

    fn places(&self) -> bool {
        true
    }

    /// An instance that goes leaves its weights in host memory.
    fn tier(&self) -> WeightTier {
        WeightTier::Host
    }

    async fn bring(&self, name: &str, gpus: Gpus) -> Result<Brought, BackendError> {
        let body = json!({"model_name": name, "device": self.device(gpus)});
        let told = self.http.order("/standalone/serve", &body, self.load).await?;
        let answer: Value = serde_json::from_str(&told)
            .map_err(|_| BackendError::Failed(format!("the answer is not JSON: {}", brief(&told))))?;
        let data = data(&answer)?;
        let handle = field(data, "/instance_id", Value::as_str)?.to_owned();
        Ok(Brought { handle, tier: Some(came_from(data)) })
    }

    async fn preflight(&self, wanted: &[ServedModel]) -> Preflight {
        let mut found = Preflight::default();
        if found.heard(self.instances().await).is_none() {
            return found;
        }
        let Some(answer) = found.heard(self.http.get("/standalone/status").await) else { return found };
        let models = answer.get("models_on_disk").or_else(|| answer.pointer("/data/models_on_disk"));
        // Servers of other versions may not list what they have.
        let Some(models) = models.and_then(Value::as_array) else { return found };
        let name = |model: &Value| model.get("model_name").and_then(Value::as_str).map(str::to_owned);
        let known: Vec<String> = models.iter().filter_map(name).collect();
        found.lists(wanted, &known, |one, other| one == other);
        for model in wanted {
            let its = models.iter().find(|one| name(one).as_deref() == Some(&model.name));
            if let Some(bytes) = its.and_then(|one| one.get("bytes")?.as_u64()) {
                found.takes(model, bytes);
            }
        }
        found
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        let path = format!("/standalone/instance/{}", escaped(handle));
        match self.http.ask(Method::DELETE, &path, None).await {
            // One that is not there is gone, which is what was asked for; the status will tell.
            Err(BackendError::Refused(_)) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn look(&self, handle: &str) -> Result<ModelState, BackendError> {
        let found = self.instances().await?.into_iter().find(|(id, _)| id == handle);
        Ok(found.map_or(ModelState::Absent, |(_, state)| state))
    }

    async fn held(&self) -> Result<Held, BackendError> {
        Ok(self.instances().await?.into_iter().map(|(id, _)| id).collect())
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        let path = format!("/standalone/call/{}", escaped(handle));
        let answer = self.http.call(&path, &call_body(handle, call)).await?;
        answer_of(data(&answer)?, Wants::of(call))
    }
}

/// A call of an instance, as model servers take it.
#[must_use]
pub fn call_body(instance: &str, call: &Call) -> Value {
    let mut input = Map::from_iter([("prompt".to_owned(), Value::from(call.prompt()))]);
    if Wants::of(call) == Wants::Image {
        let steps = call.number(&["steps", "num_inference_steps"]);
        input.extend(steps.map(|steps| ("steps".to_owned(), steps.into())));
        input.extend(settings(call, &["guidance_scale", "width", "height", "seed", "negative_prompt"]));
    } else {
        input.extend(call.number(&MOST_TOKENS).map(|most| ("max_length".to_owned(), most.into())));
        input.extend(settings(call, &["temperature", "top_p", "top_k", "seed", "stop", "ignore_eos"]));
    }
    json!({"instance_id": instance, "data": input})
}

/// What a call gave, from the data of a model server's answer. An emulated model paints and embeds nothing: what it says
/// instead is passed on.
pub fn answer_of(data: &Value, wants: Wants) -> Result<Value, BackendError> {
    let emulated = data.get("emulated") == Some(&Value::Bool(true));
    let said = || field(data, "/response", Value::as_str).map(Value::from);
    let (name, value) = match wants {
        Wants::Embedding if data.get("embedding").is_some() => {
            ("embedding", json!(field(data, "/embedding", vector)?))
        }
        Wants::Image if data.get("image_path").is_some_and(Value::is_string) => {
            ("image", data["image_path"].clone())
        }
        Wants::Embedding | Wants::Image if emulated => ("text", said()?),
        Wants::Embedding => ("embedding", json!(field(data, "/response", vector)?)),
        Wants::Image => ("image", field(data, "/image_path", Value::as_str)?.into()),
        Wants::Text => ("text", said()?),
    };
    let mut fields = Map::from_iter([(name.to_owned(), value)]);
    for key in ["usage", "model_type", "finish_reason", "execution_time"] {
        let given = data.get(key).filter(|value| !value.is_null());
        fields.extend(given.map(|value| (key.to_owned(), value.clone())));
    }
    fields.get("finish_reason").and_then(Value::as_str).map_or(Ok(()), is_whole)?;
    if let Some(prompt) = data.get("prompt_tokens").and_then(Value::as_u64) {
        let written = data.get("new_tokens").and_then(Value::as_u64).unwrap_or(0);
        let usage =
            json!({"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written});
        fields.insert("usage".to_owned(), usage);
    }
    if emulated {
        fields.insert("emulated".to_owned(), true.into());
    }
    Ok(Value::Object(fields))
}
