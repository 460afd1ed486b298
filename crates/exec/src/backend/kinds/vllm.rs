//! vLLM, whose servers hold one model each and put it to sleep. Several share GPUs, and one of them is awake.

use super::adapter::*;

described! {
    /// Settings of `vllm` servers, started with `VLLM_SERVER_DEV_MODE=1` and `--enable-sleep-mode`.
    pub struct VllmSpec {
        /// `chat`, or `completions` for models that have no chat template.
        pub calls: Calls = Calls::Chat, Calls::SHAPE;
        /// 1: weights wait in host memory. 2: they are dropped, and read from disk again.
        pub level: u32 = 1, Shape::Whole(positive(2.0, ""));
    }
}

impl ServerKind for VllmSpec {
    const ABOUT: KindInfo = KindInfo {
        name: "vllm",
        reach: Reach::Each,
        fields: VllmSpec::FIELDS,
        defaults: VllmSpec::defaults,
        protocol: [
            "`POST /wake_up`; at level 2 the weights, `reload_weights`, then the cache",
            "`POST /sleep?level=1` or `2`",
            "`GET /is_sleeping`",
            "OpenAI's interface",
        ],
        example: r#"vLLM, two servers that share GPUs 0 and 1, started with `VLLM_SERVER_DEV_MODE=1` and `--enable-sleep-mode`. One is awake at a time:
```yaml
backends:
  - kind: vllm
    gpus: 0-1
    level: 1
    models:
      llm7b: {as: "org/llama-7b", url: "http://localhost:8001"}
      llm13b: {as: "org/llama-13b", url: "http://localhost:8002"}
```"#,
    };

    fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String> {
        let (servers, load) = (link.servers()?, link.limits.load);
        Ok(link.managed(Vllm { servers, calls: self.calls, drops_weights: self.level == 2, load }))
    }
}

struct Vllm {
    servers: Servers,
    calls: Calls,
    /// Whether weights are dropped on sleeping and read from disk on waking (level 2), or wait in host memory (level 1).
    drops_weights: bool,
    /// What waking and sleeping may take.
    load: Duration,
}

impl Vllm {
    async fn is_asleep(&self, http: &Http) -> Result<bool, BackendError> {
        let answer = http.get("/is_sleeping").await.map_err(|error| match error {
            BackendError::Refused(why) => BackendError::Refused(format!(
                "{why}; start vLLM with VLLM_SERVER_DEV_MODE=1 and --enable-sleep-mode"
            )),
            other => other,
        })?;
        field(&answer, "/is_sleeping", Value::as_bool)
    }
}

#[async_trait::async_trait]
impl Api for Vllm {
    fn passes_on(&self, handle: &str) -> Option<(Http, String)> {
        Some((self.servers.of(handle).ok()?.clone(), handle.to_owned()))
    }

    fn tier(&self) -> WeightTier {
        if self.drops_weights { WeightTier::Disk } else { WeightTier::Host }
    }

    async fn bring(&self, name: &str, _gpus: Gpus) -> Result<Brought, BackendError> {
        let http = self.servers.of(name)?;
        if self.is_asleep(http).await? {
            if self.drops_weights {
                http.order("/wake_up?tags=weights", &Value::Null, self.load).await?;
                let reload = json!({"method": "reload_weights"});
                http.order("/collective_rpc", &reload, self.load).await?;
                http.order("/wake_up?tags=kv_cache", &Value::Null, self.load).await?;
            } else {
                http.order("/wake_up", &Value::Null, self.load).await?;
            }
        }
        Ok(name.into())
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        let http = self.servers.of(handle)?;
        if self.is_asleep(http).await? {
            return Ok(());
        }
        let level = if self.drops_weights { 2 } else { 1 };
        http.order(&format!("/sleep?level={level}"), &Value::Null, self.load).await.map(|_| ())
    }

    async fn look(&self, handle: &str) -> Result<ModelState, BackendError> {
        let asleep = self.is_asleep(self.servers.of(handle)?).await?;
        Ok(if asleep { ModelState::Absent } else { ModelState::There })
    }

    async fn preflight(&self, wanted: &[ServedModel]) -> Preflight {
        let mut found = Preflight::default();
        let shares = self.servers.own().count() > 1;
        for model in wanted {
            let Ok(http) = self.servers.of(&model.name) else { continue };
            if !lists_openai(&mut found, http, std::slice::from_ref(model)).await {
                continue;
            }
            match http.get("/is_sleeping").await {
                Err(BackendError::Refused(why)) => {
                    let fix = "start vLLM with `VLLM_SERVER_DEV_MODE=1` and `--enable-sleep-mode`";
                    found.add(Code::NoSleep, why, fix);
                    continue;
                }
                other => drop(found.heard(other)),
            }
            let place = "/vllm_config/model_config/enable_sleep_mode";
            let ask = ("/server_info?config_format=json", place);
            sleeps(&mut found, http, ask, shares, "--enable-sleep-mode").await;
        }
        found
    }

    fn is_one_of_many(&self, _handle: &str) -> bool {
        self.servers.own().count() > 1
    }

    async fn held(&self) -> Result<Held, BackendError> {
        let ask = |(name, http): (&String, _)| {
            let name = name.clone();
            async move {
                let awake = |is_asleep| if is_asleep { Vec::new() } else { vec![name.clone()] };
                let said = self.is_asleep(http).await.map(awake);
                (name, said)
            }
        };
        Held::of(join_all(self.servers.own().map(ask)).await)
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        call_openai(self.servers.of(handle)?, handle, self.calls, call).await.and_then(with_promised_usage)
    }
}
