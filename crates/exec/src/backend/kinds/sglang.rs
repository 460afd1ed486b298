//! SGLang, whose servers hold one model each and release its memory. Several share GPUs, and one of them has its memory.

use super::adapter::*;

described! {
    /// Settings of `sglang` servers, started with `--enable-memory-saver`.
    pub struct SglangSpec {
        /// `chat`, or `completions` for models that have no chat template.
        pub calls: Calls = Calls::Chat, Calls::SHAPE;
        /// 1: weights wait in host memory, for servers started with `--enable-weights-cpu-backup`. 2: they are read from disk
        /// again, because released memory comes back empty.
        pub level: u32 = 2, Shape::Whole(positive(2.0, ""));
    }
}

impl ServerKind for SglangSpec {
    const ABOUT: KindInfo = KindInfo {
        name: "sglang",
        reach: Reach::Each,
        fields: SglangSpec::FIELDS,
        defaults: SglangSpec::defaults,
        protocol: [
            "`POST /resume_memory_occupation`; at level 2 with `POST /update_weights_from_disk` between weights and cache",
            "`POST /release_memory_occupation`",
            "`GET /health` and the last command sent: the server does not report it",
            "OpenAI's interface",
        ],
        example: r#"SGLang, started with `--enable-memory-saver`. A server does not report whether it has released its memory. gswarm
assumes that it holds its model when a run begins and after an outage: start runs on servers that have not released
their models.
```yaml
backends:
  - kind: sglang
    gpus: 0
    models:
      llm7b: {as: "org/llama-7b", url: "http://localhost:30000"}
      llm13b: {as: "org/llama-13b", url: "http://localhost:30001"}
```"#,
    };

    fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String> {
        let (servers, load) = (link.servers()?, link.limits.load);
        Ok(link.managed(Sglang::new(servers, self.calls, self.level == 2, load)))
    }
}

/// It does not tell whether it has released its memory: what it was told
/// last is remembered, and a server that was not told anything is taken to hold its model, as one that has just started
/// does.
struct Sglang {
    servers: Servers,
    calls: Calls,
    /// Whether weights have to be read from disk on resuming (level 2): memory that was released comes back empty unless
    /// the server keeps a copy (`--enable-weights-cpu-backup`, level 1).
    drops_weights: bool,
    /// What releasing and resuming may take.
    load: Duration,
    released: Mutex<BTreeSet<String>>,
    /// Servers that did not answer when they were asked last. One that has died comes back with its model; one that only
    /// stumbled is as it was.
    unsure: Mutex<BTreeSet<String>>,
    /// When servers were resumed: what was asked before says nothing of them.
    resumed: Mutex<BTreeMap<String, Instant>>,
}

const PARTS: [&str; 2] = ["weights", "kv_cache"];

impl Sglang {
    /// Servers of which nothing is known yet.
    fn new(servers: Servers, calls: Calls, drops_weights: bool, load: Duration) -> Sglang {
        Sglang {
            servers,
            calls,
            drops_weights,
            load,
            released: Mutex::default(),
            unsure: Mutex::default(),
            resumed: Mutex::default(),
        }
    }

    /// Where a server is gone, nothing is known of it any more.
    fn heard<T>(&self, name: &str, result: Result<T, BackendError>) -> Result<T, BackendError> {
        if let Err(BackendError::Gone(_)) = result {
            locked(&self.released).remove(name);
            locked(&self.unsure).insert(name.to_owned());
        }
        result
    }

    async fn resume(&self, http: &Http) -> Result<(), BackendError> {
        if !self.drops_weights {
            let all = json!({"tags": PARTS});
            return http.order("/resume_memory_occupation", &all, self.load).await.map(|_| ());
        }
        http.order("/resume_memory_occupation", &json!({"tags": ["weights"]}), self.load).await?;
        let info = http.get("/get_model_info").await?;
        let path = json!({"model_path": field(&info, "/model_path", Value::as_str)?});
        let told = http.order("/update_weights_from_disk", &path, self.load).await?;
        let answer: Value = serde_json::from_str(&told).unwrap_or_default();
        if answer.get("success").and_then(Value::as_bool) != Some(true) {
            return Err(BackendError::Failed(format!("the weights were not reloaded: {}", brief(&told))));
        }
        http.order("/resume_memory_occupation", &json!({"tags": ["kv_cache"]}), self.load).await.map(|_| ())
    }
}

#[async_trait::async_trait]
impl Api for Sglang {
    fn passes_on(&self, handle: &str) -> Option<(Http, String)> {
        Some((self.servers.of(handle).ok()?.clone(), handle.to_owned()))
    }

    fn tier(&self) -> WeightTier {
        if self.drops_weights { WeightTier::Disk } else { WeightTier::Host }
    }

    async fn bring(&self, name: &str, _gpus: Gpus) -> Result<Brought, BackendError> {
        let http = self.servers.of(name)?;
        if locked(&self.unsure).contains(name) {
            // Whatever it says: afterwards it holds nothing, and it is known what to tell it.
            let released = http.order("/release_memory_occupation", &json!({"tags": PARTS}), self.load).await;
            if let Err(BackendError::Gone(_)) = released {
                return released.map(|_| name.into());
            }
            locked(&self.unsure).remove(name);
            locked(&self.released).insert(name.to_owned());
        }
        if locked(&self.released).contains(name) {
            self.heard(name, self.resume(http).await)?;
            locked(&self.released).remove(name);
            locked(&self.resumed).insert(name.to_owned(), Instant::now());
        }
        Ok(name.into())
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        if locked(&self.released).contains(handle) {
            return Ok(());
        }
        let http = self.servers.of(handle)?;
        let parts = json!({"tags": PARTS});
        self.heard(handle, http.order("/release_memory_occupation", &parts, self.load).await)?;
        locked(&self.unsure).remove(handle);
        locked(&self.released).insert(handle.to_owned());
        Ok(())
    }

    async fn look(&self, handle: &str) -> Result<ModelState, BackendError> {
        self.heard(handle, self.servers.of(handle)?.answers("/health").await)?;
        if locked(&self.unsure).contains(handle) {
            return Ok(ModelState::Broken(
                "it did not answer, so whether it holds its model is unknown".to_owned(),
            ));
        }
        let released = locked(&self.released).contains(handle);
        Ok(if released { ModelState::Absent } else { ModelState::There })
    }

    async fn preflight(&self, wanted: &[ServedModel]) -> Preflight {
        let mut found = Preflight::default();
        let shares = self.servers.own().count() > 1;
        for model in wanted {
            let Ok(http) = self.servers.of(&model.name) else { continue };
            if lists_openai(&mut found, http, std::slice::from_ref(model)).await {
                let ask = ("/get_server_info", "/enable_memory_saver");
                sleeps(&mut found, http, ask, shares, "--enable-memory-saver").await;
            }
        }
        found
    }

    fn is_one_of_many(&self, _handle: &str) -> bool {
        self.servers.own().count() > 1
    }

    /// It may have agreed to an order and not have followed it.
    fn denied(&self, handle: &str, asked: Instant) {
        if locked(&self.resumed).get(handle).is_none_or(|resumed| *resumed < asked) {
            locked(&self.unsure).insert(handle.to_owned());
        }
    }

    async fn held(&self) -> Result<Held, BackendError> {
        let ask = |(name, http): (&String, Http)| {
            let name = name.clone();
            async move {
                let answers = self.heard(&name, http.answers("/health").await);
                let is_released = locked(&self.released).contains(&name);
                let said = answers.map(|()| if is_released { Vec::new() } else { vec![name.clone()] });
                (name, said)
            }
        };
        Held::of(join_all(self.servers.own().map(|(name, http)| ask((name, http.clone())))).await)
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        let http = self.servers.of(handle)?;
        let answer = self.heard(handle, call_openai(http, handle, self.calls, call).await)?;
        let answer = with_promised_usage(answer)?;
        locked(&self.unsure).remove(handle);
        Ok(answer)
    }
}
