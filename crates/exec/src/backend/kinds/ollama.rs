//! Ollama: an empty prompt loads a model, which stays until it is unloaded explicitly.

use super::adapter::*;

described! {
    /// Settings of `ollama` servers: they have none of their own.
    pub struct OllamaSpec {}
}

impl ServerKind for OllamaSpec {
    const ABOUT: KindInfo = KindInfo {
        name: "ollama",
        reach: Reach::One,
        fields: OllamaSpec::FIELDS,
        defaults: OllamaSpec::defaults,
        protocol: [
            "`POST /api/generate` without a prompt, `keep_alive: -1`",
            "the same with `keep_alive: 0`",
            "`GET /api/ps`: there, and all of it on GPUs",
            "`POST /api/chat`, `/api/embed`",
        ],
        example: r#"Ollama, one server for each of two GPUs:
```yaml
backends:
  - {kind: ollama, gpus: 0, url: "http://localhost:11434", models: &names {llm7b: "llama3:8b", embed: nomic-embed-text}}
  - {kind: ollama, gpus: 1, url: "http://localhost:11435", models: *names}
```"#,
    };

    fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String> {
        let (http, load) = (link.http()?, link.limits.load);
        Ok(link.managed(Ollama { http, load }))
    }
}

struct Ollama {
    http: Http,
    /// What a load may take.
    load: Duration,
}

impl Ollama {
    /// What it holds: names, and what each takes in all and on GPUs.
    async fn running(&self) -> Result<Vec<(String, u64, u64)>, BackendError> {
        let answer = self.http.get("/api/ps").await?;
        let models = field(&answer, "/models", Value::as_array)?;
        let size = |model: &Value, key: &str| model.get(key).and_then(Value::as_u64).unwrap_or(0);
        let known = models.iter().filter_map(|model| {
            let name = ["model", "name"].iter().find_map(|&key| model.get(key)?.as_str())?;
            Some((name.to_owned(), size(model, "size"), size(model, "size_vram")))
        });
        Ok(known.collect())
    }
}

/// Ollama adds `:latest` to names that have no tag.
fn same(one: &str, other: &str) -> bool {
    let full = |name: &str| if name.contains(':') { name.to_owned() } else { format!("{name}:latest") };
    full(one) == full(other)
}

#[async_trait::async_trait]
impl Api for Ollama {
    fn passes_on(&self, handle: &str) -> Option<(Http, String)> {
        Some((self.http.clone(), handle.to_owned()))
    }

    async fn bring(&self, name: &str, _gpus: Gpus) -> Result<Brought, BackendError> {
        // Without a prompt it only loads; for ever, as nobody but the run decides what leaves.
        let body = json!({"model": name, "keep_alive": -1, "stream": false});
        self.http.order("/api/generate", &body, self.load).await?;
        Ok(name.into())
    }

    async fn preflight(&self, wanted: &[ServedModel]) -> Preflight {
        let mut found = Preflight::default();
        let answer = self.http.get("/api/tags").await;
        let Some(answer) = found.heard(answer) else { return found };
        let models = field(&answer, "/models", Value::as_array);
        let Some(models) = found.heard(models) else { return found };
        let name = |model: &Value| {
            ["model", "name"].iter().find_map(|&key| model.get(key)?.as_str().map(str::to_owned))
        };
        let known: Vec<String> = models.iter().filter_map(name).collect();
        found.lists(wanted, &known, same);
        for model in wanted {
            let its = models.iter().find(|one| name(one).is_some_and(|name| same(&name, &model.name)));
            if let Some(size) = its.and_then(|one| one.get("size")?.as_u64()) {
                found.takes(model, size);
            }
        }
        found
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        let body = json!({"model": handle, "keep_alive": 0, "stream": false});
        self.http.order("/api/generate", &body, self.load).await.map(|_| ())
    }

    async fn look(&self, handle: &str) -> Result<ModelState, BackendError> {
        let running = self.running().await?;
        Ok(match running.iter().find(|(name, ..)| same(name, handle)) {
            None => ModelState::Absent,
            // Nothing at all on GPUs is a machine without any.
            Some(&(_, size, on_gpu)) if on_gpu > 0 && on_gpu < size => ModelState::Broken(format!(
                "not enough GPU memory: {:.2} of its {:.2} GB are on GPUs, the rest is on the CPU",
                on_gpu as f64 / 1e9,
                size as f64 / 1e9
            )),
            Some(_) => ModelState::There,
        })
    }

    async fn held(&self) -> Result<Held, BackendError> {
        Ok(self.running().await?.into_iter().map(|(name, ..)| name).collect())
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        match Wants::of(call) {
            Wants::Embedding => {
                let body = json!({"model": handle, "input": call.prompt(), "keep_alive": -1});
                let answer = self.http.call("/api/embed", &body).await?;
                let vector = field(&answer, "/embeddings/0", vector)?;
                Ok(json!({"embedding": vector, "usage": usage(&answer)}))
            }
            Wants::Text | Wants::Image => {
                let messages = match call.inputs.get("messages") {
                    Some(messages @ Value::Array(_)) => messages.clone(),
                    _ => json!([{"role": "user", "content": call.prompt()}]),
                };
                let names = ["temperature", "top_p", "top_k", "min_p", "seed", "stop", "num_ctx"];
                let mut options = Map::from_iter(settings(call, &names));
                options.extend(call.number(&MOST_TOKENS).map(|most| ("num_predict".to_owned(), most.into())));
                let body = json!({"model": handle, "messages": messages, "stream": false, "keep_alive": -1, "options": options});
                let answer = self.http.call("/api/chat", &body).await?;
                let text = field(&answer, "/message/content", Value::as_str)?;
                if answer.get("done") != Some(&Value::Bool(true)) {
                    return Err(BackendError::Failed("the answer is cut off".to_owned()));
                }
                Ok(json!({"text": text, "finish_reason": answer["done_reason"], "usage": usage(&answer)}))
            }
        }
    }
}

/// Tokens, and the seconds of a load that the call had to wait for although none was expected.
fn usage(answer: &Value) -> Value {
    let number = |key: &str| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
    let (prompt, written) = (number("prompt_eval_count"), number("eval_count"));
    let load = number("load_duration") as f64 / 1e9;
    json!({"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written, "load_seconds": load})
}
