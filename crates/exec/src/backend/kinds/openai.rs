//! Any server with the OpenAI API.

use super::adapter::*;

described! {
    /// Settings of `openai` servers, whose models are always there.
    pub struct OpenAiSpec {
        /// `chat`, or `completions` for models that have no chat template.
        pub calls: Calls = Calls::Chat, Calls::SHAPE;
    }
}

impl ServerKind for OpenAiSpec {
    const ABOUT: KindInfo = KindInfo {
        name: "openai",
        reach: Reach::OneOrEach,
        fields: OpenAiSpec::FIELDS,
        defaults: OpenAiSpec::defaults,
        protocol: ["nothing; the model must be listed", "nothing", "`GET /v1/models`", "OpenAI's interface"],
        example: r#"Any server with the OpenAI API, whose models are always loaded:
```yaml
backends:
  - kind: openai
    url: "https://models.example.org"
    token_env: MODELS_TOKEN
    models: {llm7b: "org/llama-7b", embed: {as: "org/embedder", url: "https://embeddings.example.org"}}
```"#,
    };

    fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String> {
        let api = OpenAi { servers: link.servers()?, calls: self.calls };
        Ok(link.managed(api))
    }
}

/// It cannot be told what to load: its models are there, or they are not.
struct OpenAi {
    servers: Servers,
    calls: Calls,
}

#[async_trait::async_trait]
impl Api for OpenAi {
    fn passes_on(&self, handle: &str) -> Option<(Http, String)> {
        Some((self.servers.of(handle).ok()?.clone(), handle.to_owned()))
    }

    fn keeps_all(&self) -> bool {
        true
    }

    fn is_one_of_many(&self, _handle: &str) -> bool {
        self.servers.all().count() > 1
    }

    async fn bring(&self, name: &str, _gpus: Gpus) -> Result<Brought, BackendError> {
        let known = listed(self.servers.of(name)?).await?;
        if known.iter().any(|other| other == name) {
            return Ok(name.into());
        }
        let shown = known.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
        Err(BackendError::Refused(format!("it has no model `{name}`; it lists {shown}")))
    }

    async fn preflight(&self, wanted: &[ServedModel]) -> Preflight {
        let mut found = Preflight::default();
        for model in wanted {
            if let Ok(http) = self.servers.of(&model.name) {
                lists_openai(&mut found, http, std::slice::from_ref(model)).await;
            }
        }
        found
    }

    async fn release(&self, _handle: &str) -> Result<(), BackendError> {
        Ok(())
    }

    async fn look(&self, handle: &str) -> Result<ModelState, BackendError> {
        let known = listed(self.servers.of(handle)?).await?;
        Ok(if known.iter().any(|other| other == handle) { ModelState::There } else { ModelState::Absent })
    }

    /// Nothing that could be taken off; whether it answers is seen all the same.
    async fn held(&self) -> Result<Held, BackendError> {
        let ask = |(name, http): (String, _)| async move { (name, listed(http).await.map(|_| Vec::new())) };
        Held::of(join_all(self.servers.all().map(ask)).await)
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        call_openai(self.servers.of(handle)?, handle, self.calls, call).await
    }
}
