//! A process for each model: it is started on its GPUs, waited for until it answers, and stopped.

use super::adapter::*;
use crate::backend::process::Guarded;
use crate::backend::read::GivenFields;
use gswarm_core::GpuId;
use gswarm_core::input::document::{Faults, Item, Shown};
use gswarm_core::input::{Code, MAX_GPUS};
use gswarm_core::time::MAX_SECONDS;
use std::net::TcpListener;

described! {
    /// Settings of `command` servers.
    pub struct CommandSpec {
        /// `chat`, or `completions` for models that have no chat template.
        pub calls: Calls = Calls::Chat, Calls::SHAPE;
        /// The number that this machine gives to the first of `gpus`. Defaults to the same number.
        pub first_device: Option<u32> = None, Shape::Whole(not_negative(MAX_GPUS as f64, ""));
        /// The program and its arguments, as a list. `{model}`, `{port}`, `{gpus}` (`0,1`) and `{gpu_count}` are filled in.
        /// `CUDA_VISIBLE_DEVICES` is set. A program that cannot be started is reported before anything runs.
        pub command: Vec<String> = Vec::new(), Shape::Texts, required:
            "the program and its arguments, as a list: [llama-server, --model, \"{model}\", --port, \"{port}\"]";
        /// The address that answers with success once the model can be called.
        pub health: String = "http://127.0.0.1:{port}/health".to_owned(), Shape::Address;
        /// Added to the environment; the same placeholders are filled in.
        pub env: BTreeMap<String, String> = BTreeMap::new(), Shape::TextMap;
        /// Seconds between TERM and KILL.
        pub grace: f64 = 10.0, Shape::Number(not_negative(MAX_SECONDS, " s"));
    }
}

impl ServerKind for CommandSpec {
    const ABOUT: KindInfo = KindInfo {
        name: "command",
        reach: Reach::Started,
        fields: CommandSpec::FIELDS,
        defaults: CommandSpec::defaults,
        protocol: [
            "a process is started on its GPUs",
            "TERM, and KILL after the grace time",
            "its health address, and whether it has ended",
            "OpenAI's interface",
        ],
        example: r#"A process for each model:
```yaml
backends:
  - kind: command
    gpus: 0-3
    command: [vllm, serve, "{model}", --port, "{port}", --tensor-parallel-size, "{gpu_count}"]
    env: {HF_HUB_OFFLINE: 1}
    grace: 20
    models: {llm7b: "org/llama-7b", llm70b: "org/llama-70b"}
```
A process ends with gswarm, however gswarm ends. A shell (`/bin/sh`) stands between the two. It runs the process in
its own process group and reads from a pipe that gswarm holds. When the pipe closes, it sends TERM to the group, and
KILL after the grace time."#,
    };

    fn check(&self, given: &GivenFields<'_>, faults: &mut Faults) {
        // What is filled in is known once a model is started.
        let program = self.command.first().filter(|program| !program.contains('{'));
        let why = program.and_then(|program| Some((program, given.cannot_start(program)?)));
        if let (Some((program, why)), Some(slot)) = (why, given.slot("command")) {
            let at = slot.item.map_or(slot.path.at, Item::at);
            let hint = "install it on this machine, or give its full path".to_owned();
            let message = format_args!("`{}` cannot be started: {why}", Shown(program));
            faults.add_hinted(Code::BadServer, at, &slot.path, message, Some(hint));
        }
    }

    fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String> {
        let first = link.place.gpus.first.0;
        let command = Command {
            spec: self.clone(),
            // The processes run on this machine, where GPUs have the numbers that they have.
            first: (first, self.first_device.unwrap_or(first)),
            visible: link.place.visible.clone(),
            token: link.token.clone(),
            limits: link.limits,
            running: Mutex::default(),
        };
        Ok(link.managed(command))
    }
}

/// How often a process that starts is asked whether it is ready.
const POLL: Duration = Duration::from_millis(50);
/// How long such a question may take: a process that starts may accept it and not answer.
const PROBE: Duration = Duration::from_secs(5);

/// The programs that run.
struct Command {
    spec: CommandSpec,
    /// The cluster's number of the first GPU, and the system's number of it.
    first: (u32, u32),
    /// What the system calls its GPUs, by that number; empty where it calls them by it.
    visible: Vec<String>,
    /// What is sent with every call.
    token: Option<String>,
    limits: HttpLimits,
    running: Mutex<BTreeMap<String, Running>>,
}

struct Running {
    process: Guarded,
    model: String,
    http: Arc<Http>,
    health: Arc<Http>,
}

impl Command {
    fn start(&self, model: &str, gpus: Gpus) -> Result<Running, BackendError> {
        let Command { spec, first, visible, limits, token, .. } = self;
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
        let words: Vec<String> = spec.command.iter().map(filled).collect();
        let mut env: BTreeMap<String, String> =
            spec.env.iter().map(|(key, value)| (key.clone(), filled(value))).collect();
        env.entry("CUDA_VISIBLE_DEVICES".to_owned()).or_insert_with(|| numbers.clone());
        let http = Http::new(&format!("http://127.0.0.1:{port}"), token.as_deref(), *limits);
        let health = Http::new(
            &filled(&spec.health),
            None,
            HttpLimits { answer: PROBE.min(limits.answer), ..*limits },
        );
        let (http, health) = (http.map_err(BackendError::Failed)?, health.map_err(BackendError::Failed)?);
        let process = Guarded::start(&words, &env, Duration::from_secs_f64(spec.grace))
            .map_err(BackendError::Failed)?;
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
            if since.elapsed() >= self.limits.load {
                let said = running.process.last_words();
                let _ = running.process.stop().await;
                let after = self.limits.load.as_secs_f64();
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

    async fn look(&self, handle: &str) -> Result<ModelState, BackendError> {
        let ended = locked(&self.running).get_mut(handle).map(|running| running.process.ended());
        match ended {
            None => return Ok(ModelState::Absent),
            Some(Some(why)) => return Ok(ModelState::Failed(why)),
            Some(None) => {}
        }
        let Some((_, _, health)) = self.servers_of(handle) else { return Ok(ModelState::Absent) };
        match health.answers("").await {
            // A process that is busy with a call may say so: it is there.
            Ok(()) | Err(BackendError::Refused(_) | BackendError::Failed(_) | BackendError::Unwell(_)) => {
                Ok(ModelState::There)
            }
            // A process that has just died is still seen for a moment: it is not there in any way that helps.
            Err(error) => Ok(ModelState::Broken(error.to_string())),
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
        call_openai(&http, &model, self.spec.calls, call).await
    }
}
