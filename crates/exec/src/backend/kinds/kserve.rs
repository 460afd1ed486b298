//! Servers with the KServe V2 interface and a model repository: Triton (`--model-control-mode=explicit`), MLServer.

use super::adapter::*;

described! {
    /// Settings of `kserve` servers.
    pub struct KServeSpec {
        /// The input that takes the text, for models that do not describe their inputs. Defaults to `text_input`.
        pub input: Option<String> = None, Shape::Text;
    }
}

impl ServerKind for KServeSpec {
    const ABOUT: KindInfo = KindInfo {
        name: "kserve",
        reach: Reach::One,
        fields: KServeSpec::FIELDS,
        defaults: KServeSpec::defaults,
        protocol: [
            "`POST /v2/repository/models/M/load`",
            "`POST /v2/repository/models/M/unload`",
            "`POST /v2/repository/index`",
            "`POST /v2/models/M/infer` with text tensors",
        ],
        example: r##"Triton (`--model-control-mode=explicit`) or MLServer (`"load_models_at_startup": false`). The text goes to the first input that takes text.
Other inputs are filled from the node's settings or inputs of the same name. All outputs come back under their names:
```yaml
backends:
  - {kind: kserve, gpus: 0, url: "http://localhost:8000", models: {llm7b: ensemble}, timeouts: {load: 900}}
```"##,
    };

    fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String> {
        let (http, names, load) = (link.http()?, link.names(), link.limits.load);
        Ok(link.managed(KServe { http, names, input: self.input.clone(), load }))
    }
}

struct KServe {
    http: Http,
    /// The models of the run, by their names there. Others are left alone: they may be parts of these.
    names: Vec<String>,
    /// The input that takes the text, where a model does not say.
    input: Option<String>,
    /// What an order may take.
    load: Duration,
}

/// What an input is called where nobody says.
const TEXT_INPUT: &str = "text_input";

impl KServe {
    /// All versions of all models that are in the repository, and where they stand.
    async fn index(&self) -> Result<Vec<(String, ModelState)>, BackendError> {
        let answer = self.http.post("/v2/repository/index", &json!({})).await?;
        let models = field(&answer, "", Value::as_array)?;
        let known = models.iter().filter_map(|model| {
            let text = |key: &str| model.get(key).and_then(Value::as_str).unwrap_or_default();
            let state = match text("state") {
                "READY" => ModelState::There,
                "LOADING" | "UNLOADING" => ModelState::Moving,
                _ => match text("reason") {
                    "" | "unloaded" => ModelState::Absent,
                    why => ModelState::Failed(brief(why)),
                },
            };
            Some((model.get("name")?.as_str()?.to_owned(), state))
        });
        Ok(known.collect())
    }

    fn path(name: &str, what: &str) -> String {
        format!("/v2/repository/models/{}/{what}", escaped(name))
    }
}

/// The state of a model from those of its versions: one that is there is enough.
fn together(states: impl Iterator<Item = ModelState>) -> ModelState {
    let rank = |state: &ModelState| match state {
        ModelState::There => 4,
        ModelState::Broken(_) => 3,
        ModelState::Moving => 2,
        ModelState::Failed(_) => 1,
        ModelState::Absent => 0,
    };
    states.max_by_key(rank).unwrap_or(ModelState::Absent)
}

#[async_trait::async_trait]
impl Api for KServe {
    fn abilities(&self, _name: &str) -> CallAbilities {
        CallAbilities::of(Dialect::Calls)
    }

    async fn bring(&self, name: &str, _gpus: Gpus) -> Result<Brought, BackendError> {
        self.http.order(&Self::path(name, "load"), &json!({}), self.load).await?;
        Ok(name.into())
    }

    async fn preflight(&self, wanted: &[ServedModel]) -> Preflight {
        let mut found = Preflight::default();
        if let Some(index) = found.heard(self.index().await) {
            let known: Vec<String> = index.into_iter().map(|(name, _)| name).collect();
            found.lists(wanted, &known, |one, other| one == other);
        }
        found
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        self.http.order(&Self::path(handle, "unload"), &json!({}), self.load).await.map(|_| ())
    }

    async fn look(&self, handle: &str) -> Result<ModelState, BackendError> {
        let index = self.index().await?.into_iter();
        Ok(together(index.filter(|(name, _)| name == handle).map(|(_, state)| state)))
    }

    async fn held(&self) -> Result<Held, BackendError> {
        let index = self.index().await?;
        let holds = |wanted: &&String| {
            let states = index.iter().filter(|(name, _)| name == *wanted).map(|(_, state)| state.clone());
            matches!(together(states), ModelState::There | ModelState::Moving | ModelState::Broken(_))
        };
        Ok(self.names.iter().filter(holds).cloned().collect())
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        let path = format!("/v2/models/{}", escaped(handle));
        let about = self.http.get(&path).await?;
        let body = body(&about, self.input.as_deref(), call)?;
        let answer = self.http.call(&format!("{path}/infer"), &body).await?;
        result(&answer, Wants::of(call))
    }
}

/// The text goes to the first input that takes text; others get what the node's settings or inputs say under their names.
fn body(about: &Value, input: Option<&str>, call: &Call) -> Result<Value, BackendError> {
    // Something else than the model's description says nothing about its inputs: to guess them would have the server
    // refuse a request that is sound.
    field(about, "/name", Value::as_str)?;
    let none = Vec::new();
    let asked = about.get("inputs").and_then(Value::as_array).unwrap_or(&none);
    let text = |key: &str, of: &Value| of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_text = |one: &&Value| text("datatype", one) == "BYTES";
    let reads_text = match input {
        Some(name) => name.to_owned(),
        None => asked.iter().find(is_text).map_or(TEXT_INPUT.to_owned(), |one| text("name", one)),
    };
    let mut inputs = Vec::new();
    if !asked.iter().any(|one| text("name", one) == reads_text) {
        inputs.push(tensor(&reads_text, "BYTES", json!([1]), &call.prompt().into()));
    }
    for one in asked {
        let (name, datatype) = (text("name", one), text("datatype", one));
        let value = if name == reads_text { Some(call.prompt().into()) } else { setting(call, &name) };
        let Some(value) = value else {
            // Triton marks what may be left out; MLServer leaves everything out that is not given.
            if one.get("optional") == Some(&Value::Bool(true)) || asked.len() == 1 {
                continue;
            }
            return Err(BackendError::Refused(format!(
                "the model needs `{name}` ({datatype}), but neither the node's settings nor its inputs have it"
            )));
        };
        // Every dimension that is open holds one.
        let shape = one.get("shape").and_then(Value::as_array).unwrap_or(&none);
        let fixed = shape.iter().map(|side| side.as_i64().filter(|&side| side > 0).unwrap_or(1));
        let shape: Vec<i64> = if shape.is_empty() { vec![1] } else { fixed.collect() };
        inputs.push(tensor(&name, &datatype, json!(shape), &value));
    }
    Ok(json!({"inputs": inputs}))
}

fn setting(call: &Call, name: &str) -> Option<Value> {
    let tokens = || call.number(&MOST_TOKENS).map(Value::from).filter(|_| MOST_TOKENS.contains(&name));
    call.config.get(name).or_else(|| call.inputs.get(name)).cloned().or_else(tokens)
}

fn tensor(name: &str, datatype: &str, shape: Value, value: &Value) -> Value {
    let data = if value.is_array() { value.clone() } else { json!([value]) };
    let mut tensor = json!({"name": name, "shape": shape, "datatype": datatype, "data": data});
    if datatype == "BYTES" {
        // MLServer decodes text only where it is told that it is some.
        tensor["parameters"] = json!({"content_type": "str"});
    }
    tensor
}

/// All outputs under their names, and the first that is text, or numbers where an embedding is wanted.
fn result(answer: &Value, wants: Wants) -> Result<Value, BackendError> {
    let outputs = field(answer, "/outputs", Value::as_array)?;
    let mut fields = Map::new();
    for output in outputs {
        let name = field(output, "/name", Value::as_str)?;
        fields.insert(
            name.to_owned(),
            field(output, "/data", |data| data.as_array().cloned().map(Value::Array))?,
        );
    }
    if wants == Wants::Embedding {
        let found = outputs.iter().find_map(|output| vector(output.get("data")?));
        let vector = found.ok_or_else(|| BackendError::Failed("no output holds numbers".to_owned()))?;
        fields.insert("embedding".to_owned(), json!(vector));
    } else {
        let text = |output: &Value| output.pointer("/data/0")?.as_str().map(str::to_owned);
        let found = outputs.iter().find_map(text);
        let found = found.ok_or_else(|| BackendError::Failed("no output holds text".to_owned()))?;
        fields.insert(if wants == Wants::Image { "image" } else { "text" }.to_owned(), found.into());
    }
    Ok(Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer of 200 that describes no model once had the input guessed; the server refused it, and the request was
    /// given up for good.
    #[test]
    fn what_is_no_description_is_asked_for_again() {
        let call = Call {
            name: "r/n".to_owned(),
            inputs: Map::new(),
            config: Map::new(),
            kind: None,
            estimate: gswarm_core::Span(1),
        };
        let told = body(&json!({"unexpected": []}), None, &call);
        assert!(matches!(&told, Err(error @ BackendError::Failed(_)) if !error.is_final()), "{told:?}");
        let told = body(&json!({"name": "m"}), None, &call).unwrap();
        assert_eq!(
            told["inputs"][0]["name"], TEXT_INPUT,
            "models that say nothing of their inputs have the usual one"
        );
    }
}
