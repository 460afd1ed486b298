//! Servers that hold one model each and put it to sleep: vLLM and SGLang. Several share GPUs, and one of them is awake.

use super::BackendError;
use super::api::{Api, State, Tier};
use super::http::{Http, field};
use super::managed::locked;
use super::openai::{Servers, call_openai};
use crate::call::Call;
use gswarm_core::Gpus;
use gswarm_core::input::Calls;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

/// vLLM, started with `VLLM_SERVER_DEV_MODE=1` and `--enable-sleep-mode`.
pub struct Vllm {
    /// A server for each model.
    pub servers: Servers,
    /// How text models are called.
    pub calls: Calls,
    /// Whether weights are dropped on sleeping and read from disk on waking (level 2), or wait in host memory (level 1).
    pub drops_weights: bool,
    /// What waking and sleeping may take.
    pub load: Duration,
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

    fn tier(&self) -> Tier {
        if self.drops_weights { Tier::Disk } else { Tier::Host }
    }

    async fn bring(&self, name: &str, _gpus: Gpus) -> Result<String, BackendError> {
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
        Ok(name.to_owned())
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        let http = self.servers.of(handle)?;
        if self.is_asleep(http).await? {
            return Ok(());
        }
        let level = if self.drops_weights { 2 } else { 1 };
        http.order(&format!("/sleep?level={level}"), &Value::Null, self.load).await.map(|_| ())
    }

    async fn look(&self, handle: &str) -> Result<State, BackendError> {
        let asleep = self.is_asleep(self.servers.of(handle)?).await?;
        Ok(if asleep { State::Absent } else { State::There })
    }

    async fn held(&self) -> Result<Vec<String>, BackendError> {
        let mut awake = Vec::new();
        for (name, http) in self.servers.own() {
            if !self.is_asleep(http).await? {
                awake.push(name.clone());
            }
        }
        Ok(awake)
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        call_openai(self.servers.of(handle)?, handle, self.calls, call).await
    }
}

/// SGLang, started with `--enable-memory-saver`. It does not tell whether it has released its memory: what it was told
/// last is remembered, and a server that was not told anything is taken to hold its model, as one that has just started
/// does.
pub struct Sglang {
    /// A server for each model.
    pub servers: Servers,
    /// How text models are called.
    pub calls: Calls,
    /// Whether weights have to be read from disk on resuming (level 2): memory that was released comes back empty unless
    /// the server keeps a copy (`--enable-weights-cpu-backup`, level 1).
    pub drops_weights: bool,
    /// What releasing and resuming may take.
    pub load: Duration,
    released: Mutex<BTreeSet<String>>,
}

const PARTS: [&str; 2] = ["weights", "kv_cache"];

impl Sglang {
    /// Servers of which nothing is known yet.
    pub fn new(servers: Servers, calls: Calls, drops_weights: bool, load: Duration) -> Sglang {
        Sglang { servers, calls, drops_weights, load, released: Mutex::default() }
    }

    /// A server that is gone comes back as a new one does: with its model.
    fn heard<T>(&self, name: &str, result: Result<T, BackendError>) -> Result<T, BackendError> {
        if let Err(BackendError::Gone(_)) = result {
            locked(&self.released).remove(name);
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
            return Err(BackendError::Failed(format!(
                "the weights were not read again: {}",
                super::http::brief(&told)
            )));
        }
        http.order("/resume_memory_occupation", &json!({"tags": ["kv_cache"]}), self.load).await.map(|_| ())
    }
}

#[async_trait::async_trait]
impl Api for Sglang {
    fn passes_on(&self, handle: &str) -> Option<(Http, String)> {
        Some((self.servers.of(handle).ok()?.clone(), handle.to_owned()))
    }

    fn tier(&self) -> Tier {
        if self.drops_weights { Tier::Disk } else { Tier::Host }
    }

    async fn bring(&self, name: &str, _gpus: Gpus) -> Result<String, BackendError> {
        let http = self.servers.of(name)?;
        if locked(&self.released).contains(name) {
            self.heard(name, self.resume(http).await)?;
            locked(&self.released).remove(name);
        }
        Ok(name.to_owned())
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        if locked(&self.released).contains(handle) {
            return Ok(());
        }
        let http = self.servers.of(handle)?;
        let parts = json!({"tags": PARTS});
        self.heard(handle, http.order("/release_memory_occupation", &parts, self.load).await)?;
        locked(&self.released).insert(handle.to_owned());
        Ok(())
    }

    async fn look(&self, handle: &str) -> Result<State, BackendError> {
        self.heard(handle, self.servers.of(handle)?.answers("/health").await)?;
        let released = locked(&self.released).contains(handle);
        Ok(if released { State::Absent } else { State::There })
    }

    async fn held(&self) -> Result<Vec<String>, BackendError> {
        let mut held = Vec::new();
        let mut answers = Ok(());
        for (name, http) in self.servers.own() {
            // All are asked, so that all that are gone are known to be.
            answers = answers.and(self.heard(name, http.answers("/health").await));
            if !locked(&self.released).contains(name) {
                held.push(name.clone());
            }
        }
        answers.map(|()| held)
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        let http = self.servers.of(handle)?;
        self.heard(handle, call_openai(http, handle, self.calls, call).await)
    }
}
