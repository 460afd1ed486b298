//! A process for each model: it is started on its GPUs, waited for until it answers, and stopped.

use super::BackendError;
use super::api::{Api, Brought, Held, State};
use super::http::{Http, Limits};
use super::managed::locked;
use super::openai::call_openai;
use super::process::Guarded;
use crate::call::Call;
use gswarm_core::input::Calls;
use gswarm_core::{GpuId, Gpus};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often a process that starts is asked whether it is ready.
const POLL: Duration = Duration::from_millis(50);
/// How long such a question may take: a process that starts may accept it and not answer.
const PROBE: Duration = Duration::from_secs(5);

/// Programs that serve one model each.
pub struct Programs {
    /// The program and its arguments, with `{model}`, `{port}`, `{gpus}` and `{gpu_count}` in them.
    pub words: Vec<String>,
    /// What answers once the model can be called, with `{port}` in it.
    pub health: String,
    /// What is added to the environment.
    pub env: BTreeMap<String, String>,
    /// Between the request to end and the end by force.
    pub grace: Duration,
    /// How text models are called.
    pub calls: Calls,
    /// The cluster's number of the first GPU, and the system's number of it.
    pub first: (u32, u32),
    /// What the system calls its GPUs, by that number; empty where it calls them by it.
    pub visible: Vec<String>,
    /// What is sent with every call.
    pub token: Option<String>,
    /// Limits of time.
    pub limits: Limits,
}

/// The programs that run.
pub struct Command {
    programs: Programs,
    running: Mutex<BTreeMap<String, Running>>,
}

struct Running {
    process: Guarded,
    model: String,
    http: Arc<Http>,
    health: Arc<Http>,
}

impl Command {
    /// None runs yet.
    pub fn new(programs: Programs) -> Command {
        Command { programs, running: Mutex::default() }
    }

    fn start(&self, model: &str, gpus: Gpus) -> Result<Running, BackendError> {
        let Programs { words, env, first, visible, limits, token, .. } = &self.programs;
        let port =
            free_port().map_err(|error| BackendError::Failed(format!("there is no free port: {error}")))?;
        let number = |gpu: GpuId| {
            let number = gpu.0 - first.0 + first.1;
            visible.get(number as usize).cloned().unwrap_or_else(|| number.to_string())
        };
        let numbers: Vec<String> = gpus.iter().map(number).collect();
        let numbers = numbers.join(",");
        let filled = |text: &String| {
            let text = text.replace("{model}", model).replace("{port}", &port.to_string());
            text.replace("{gpus}", &numbers).replace("{gpu_count}", &gpus.count.to_string())
        };
        let words: Vec<String> = words.iter().map(filled).collect();
        let mut env: BTreeMap<String, String> =
            env.iter().map(|(key, value)| (key.clone(), filled(value))).collect();
        env.entry("CUDA_VISIBLE_DEVICES".to_owned()).or_insert_with(|| numbers.clone());
        let http = Http::new(&format!("http://127.0.0.1:{port}"), token.as_deref(), *limits);
        let health = Http::new(
            &filled(&self.programs.health),
            None,
            Limits { answer: PROBE.min(limits.answer), ..*limits },
        );
        let (http, health) = (http.map_err(BackendError::Failed)?, health.map_err(BackendError::Failed)?);
        let process = Guarded::start(&words, &env, self.programs.grace).map_err(BackendError::Failed)?;
        Ok(Running { process, model: model.to_owned(), http: Arc::new(http), health: Arc::new(health) })
    }

    fn servers_of(&self, handle: &str) -> Option<(String, Arc<Http>, Arc<Http>)> {
        let running = locked(&self.running);
        let one = running.get(handle)?;
        Some((one.model.clone(), Arc::clone(&one.http), Arc::clone(&one.health)))
    }
}

/// A port that nobody listens on at the moment.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

#[async_trait::async_trait]
impl Api for Command {
    fn passes_on(&self, handle: &str) -> Option<(Http, String)> {
        let (model, http, _) = self.servers_of(handle)?;
        Some((http.as_ref().clone(), model))
    }

    fn places(&self) -> bool {
        true
    }

    /// Returns when it answers. Whoever stops waiting stops the process.
    async fn bring(&self, name: &str, gpus: Gpus) -> Result<Brought, BackendError> {
        let mut running = self.start(name, gpus)?;
        let since = Instant::now();
        while running.health.answers("").await.is_err() {
            if let Some(why) = running.process.ended() {
                return Err(BackendError::Failed(why));
            }
            if since.elapsed() >= self.programs.limits.load {
                let said = running.process.last_words();
                let _ = running.process.stop().await;
                let after = self.programs.limits.load.as_secs_f64();
                return Err(BackendError::Failed(format!(
                    "`{name}` does not answer after {after:.1} s: {said}"
                )));
            }
            tokio::time::sleep(POLL).await;
        }
        let handle = format!("{name} on GPU {}", gpus.first.0);
        locked(&self.running).insert(handle.clone(), running);
        Ok(handle.into())
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        let taken = locked(&self.running).remove(handle);
        match taken {
            Some(running) => running.process.stop().await.map_err(BackendError::Failed),
            None => Ok(()),
        }
    }

    async fn look(&self, handle: &str) -> Result<State, BackendError> {
        let ended = locked(&self.running).get_mut(handle).map(|running| running.process.ended());
        match ended {
            None => return Ok(State::Absent),
            Some(Some(why)) => return Ok(State::Failed(why)),
            Some(None) => {}
        }
        let Some((_, _, health)) = self.servers_of(handle) else { return Ok(State::Absent) };
        match health.answers("").await {
            // A process that is busy with a call may say so: it is there.
            Ok(()) | Err(BackendError::Refused(_) | BackendError::Failed(_)) => Ok(State::There),
            // A process that has just died is still seen for a moment: it is not there in any way that helps.
            Err(error) => Ok(State::Broken(error.to_string())),
        }
    }

    fn is_one_of_many(&self, _handle: &str) -> bool {
        true
    }

    async fn held(&self) -> Result<Held, BackendError> {
        Ok(locked(&self.running).keys().cloned().collect())
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        let Some((model, http, _)) = self.servers_of(handle) else {
            return Err(BackendError::Gone(format!("`{handle}` is not there")));
        };
        call_openai(&http, &model, self.programs.calls, call).await
    }
}
