//! The router of llama.cpp: a server that starts a process for each loaded model.

use super::adapter::*;

described! {
    /// Settings of `llamacpp` routers, started without a model and with `--no-models-autoload`.
    pub struct LlamaCppSpec {
        /// `chat`, or `completions` for models that have no chat template.
        pub calls: Calls = Calls::Chat, Calls::SHAPE;
    }
}

impl ServerKind for LlamaCppSpec {
    const ABOUT: KindInfo = KindInfo {
        name: "llamacpp",
        reach: Reach::One,
        fields: LlamaCppSpec::FIELDS,
        defaults: LlamaCppSpec::defaults,
        protocol: ["`POST /models/load`", "`POST /models/unload`", "`GET /models`", "OpenAI's interface"],
        example: r#"The router of llama.cpp, `llama-server --models-dir DIR --no-models-autoload` without a model. Names are those that `GET /models` lists:
```yaml
backends:
  - {kind: llamacpp, gpus: 0, url: "http://localhost:8080", calls: completions, models: {llm7b: llama-7b-q4}}
```"#,
    };

    fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String> {
        let (http, load) = (link.http()?, link.limits.load);
        Ok(link.managed(LlamaCpp { http, calls: self.calls, load }))
    }
}

struct LlamaCpp {
    http: Http,
    calls: Calls,
    /// What an order may take.
    load: Duration,
}

impl LlamaCpp {
    /// All models that it knows, and where they stand.
    async fn models(&self) -> Result<Vec<(String, ModelState)>, BackendError> {
        let answer = self.http.get("/models").await?;
        let models = field(&answer, "/data", Value::as_array)?;
        let known = models.iter().filter_map(|model| {
            let status = model.get("status")?;
            Some((model.get("id")?.as_str()?.to_owned(), state(status)))
        });
        let known: Vec<_> = known.collect();
        if known.is_empty() && !models.is_empty() {
            let why =
                "the models have no status, so this is not a router: start llama-server without a model";
            return Err(BackendError::Refused(why.to_owned()));
        }
        Ok(known)
    }
}

fn state(status: &Value) -> ModelState {
    let failed = status.get("failed").and_then(Value::as_bool) == Some(true);
    match status.get("value").and_then(Value::as_str).unwrap_or_default() {
        "loaded" => ModelState::There,
        "loading" => ModelState::Moving,
        // It gives its memory back by itself, and comes back when it is called.
        "sleeping" => ModelState::There,
        "unloaded" if !failed => ModelState::Absent,
        other => {
            let code = status.get("exit_code").map_or(String::new(), |code| format!(", exit code {code}"));
            ModelState::Failed(format!("the process of the model is {other} after it failed{code}"))
        }
    }
}

#[async_trait::async_trait]
impl Api for LlamaCpp {
    fn passes_on(&self, handle: &str) -> Option<(Http, String)> {
        Some((self.http.clone(), handle.to_owned()))
    }

    async fn bring(&self, name: &str, _gpus: Gpus) -> Result<Brought, BackendError> {
        if self.look(name).await? != ModelState::There {
            self.http.order("/models/load", &json!({"model": name}), self.load).await?;
        }
        Ok(name.into())
    }

    async fn preflight(&self, wanted: &[ServedModel]) -> Preflight {
        let mut found = Preflight::default();
        if let Some(models) = found.heard(self.models().await) {
            let known: Vec<String> = models.into_iter().map(|(name, _)| name).collect();
            found.lists(wanted, &known, |one, other| one == other);
        }
        found
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        if matches!(self.look(handle).await?, ModelState::There | ModelState::Moving) {
            self.http.order("/models/unload", &json!({"model": handle}), self.load).await?;
        }
        Ok(())
    }

    async fn look(&self, handle: &str) -> Result<ModelState, BackendError> {
        let models = self.models().await?;
        let found = models.into_iter().find(|(name, _)| name == handle);
        found.map(|(_, state)| state).ok_or_else(|| {
            BackendError::Refused(format!("it has no model `{handle}`; `GET /models` lists its models"))
        })
    }

    async fn held(&self) -> Result<Held, BackendError> {
        let models = self.models().await?.into_iter();
        Ok(models
            .filter(|(_, state)| matches!(state, ModelState::There | ModelState::Moving))
            .map(|(name, _)| name)
            .collect())
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        call_openai(&self.http, handle, self.calls, call).await
    }
}
