//! A process for each model: it is started on its GPUs, waited for until it answers, and stopped.

use super::adapter::*;
use crate::backend::process::{Guarded, ProcessEnd};
use crate::backend::read::GivenFields;
use gswarm_core::GpuId;
use gswarm_core::input::document::{Faults, Item, Shown};
use gswarm_core::input::{Code, MAX_GPUS};
use gswarm_core::time::MAX_SECONDS;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

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
        /// Added to the environment of the process, which is otherwise a short list of usual variables (`PATH`, `HOME`, `LANG`,
        /// `LD_LIBRARY_PATH`, `HF_HOME`, ...). The same placeholders are filled in, and `{env:NAME}` stands for our own `NAME`. The value `{inherit}` passes our own
        /// variable of that name on, if there is one; for `CUDA_VISIBLE_DEVICES` it lets the process see what we see.
        pub env: BTreeMap<String, String> = BTreeMap::new(), Shape::TextMap;
        /// Folder for the output of the processes, a file each. Defaults to `servers` in the folder of the run.
        pub logs: Option<String> = None, Shape::Text;
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
A process ends when gswarm ends, even if gswarm is killed. gswarm starts each process through a shell (`/bin/sh`). The
shell runs it in its own process group and reads from a pipe that gswarm holds open. When the pipe closes, the shell
sends TERM to the group, and KILL after the grace time. Processes that leave the group (`setsid`) end too: they are
found by the variable `GSWARM_STARTED` in their environment.

Secrets are not inherited. Pass one with `env: {HF_TOKEN: "{env:HF_TOKEN}"}`.

A process that exits with code 2, 126 or 127 before it answers is misconfigured and is not restarted. The same holds for
one that exits in the same way three times in a row. Messages name the file with all of its output."#,
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
            names: link.all_names(),
            limits: link.limits,
            running: Mutex::default(),
            failed: Mutex::default(),
            unnamed: OnceLock::new(),
            outputs: Mutex::default(),
        };
        Ok(link.managed(command))
    }
}

/// The variable that says which GPUs a process sees.
const DEVICES: &str = "CUDA_VISIBLE_DEVICES";
/// The value of a variable that stands for our own, if there is one.
const INHERIT: &str = "{inherit}";

/// How often a process that starts is asked whether it is ready.
const POLL: Duration = Duration::from_millis(50);
/// How often a process that starts is spoken of.
const SPOKEN_OF: Duration = Duration::from_secs(15);
/// A process that ends in the same way so often in a row was started wrongly.
const SAME_ENDS: u32 = 3;
/// Exit codes of a program that was started wrongly: bad usage, not executable, not found.
const BAD_START: [i32; 3] = [2, 126, 127];
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
    /// What the models of the run are called.
    names: Vec<String>,
    limits: HttpLimits,
    running: Mutex<BTreeMap<String, Running>>,
    /// How often each model has failed in the same way in a row, and how.
    failed: Mutex<BTreeMap<String, (u32, String)>>,
    /// Where output goes if nobody says where.
    unnamed: OnceLock<PathBuf>,
    /// Where the process that was started last for each model says what it says.
    outputs: Mutex<BTreeMap<String, PathBuf>>,
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
        let mut env = BTreeMap::new();
        for (key, value) in &spec.env {
            if value == INHERIT {
                env.extend(std::env::var(key).ok().map(|own| (key.clone(), own)));
                continue;
            }
            env.insert(key.clone(), with_own(&filled(value)).map_err(BackendError::Failed)?);
        }
        if !spec.env.contains_key(DEVICES) {
            env.insert(DEVICES.to_owned(), numbers.clone());
        }
        let http = Http::new(&format!("http://127.0.0.1:{port}"), token.as_deref(), *limits)
            .map(|http| http.naming(self.names.clone()));
        let health = Http::new(
            &filled(&spec.health),
            None,
            HttpLimits { answer: PROBE.min(limits.answer), ..*limits },
        );
        let (http, health) = (http.map_err(BackendError::Failed)?, health.map_err(BackendError::Failed)?);
        let output = self.output_of(model, gpus).map_err(BackendError::Failed)?;
        locked(&self.outputs).insert(model.to_owned(), output.clone());
        let process = Guarded::start(&words, &env, &output, Duration::from_secs_f64(spec.grace))
            .map_err(BackendError::Failed)?;
        Ok(Running { process, model: model.to_owned(), http: Arc::new(http), health: Arc::new(health) })
    }

    /// A new file for the output of a process.
    fn output_of(&self, model: &str, gpus: Gpus) -> Result<PathBuf, String> {
        let cannot =
            |error: std::io::Error| format!("there is no folder for the output of `{model}`: {error}");
        let folder = match &self.spec.logs {
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(cannot)?;
                PathBuf::from(folder)
            }
            None => match self.unnamed.get() {
                Some(folder) => folder.clone(),
                None => {
                    let made =
                        tempfile::Builder::new().prefix("gswarm-servers-").tempdir().map_err(cannot)?;
                    self.unnamed.get_or_init(|| made.keep()).clone()
                }
            },
        };
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let model: String = model.chars().map(plain).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Ok(folder.join(format!("{model}-gpu{}-{now}.log", gpus.first.0)))
    }

    /// What the end of a process that has not answered yet means: whether it is worth starting it again.
    fn judged(&self, model: &str, end: ProcessEnd) -> BackendError {
        let ProcessEnd { code, why } = end;
        if crate::backend::speaks_of_memory(&why) {
            return BackendError::Failed(why);
        }
        // Numbers of processes and ports differ from start to start.
        let way: String = why.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let way = way.split(" (all of its output").next().unwrap_or_default().to_owned();
        let times = {
            let mut failed = locked(&self.failed);
            let (times, last) = failed.entry(model.to_owned()).or_default();
            *times = if *last == way { *times + 1 } else { 1 };
            *last = way;
            *times
        };
        let is_bad_start = code.is_some_and(|code| BAD_START.contains(&code));
        if is_bad_start || code.is_some_and(|code| code != 0) && times >= SAME_ENDS {
            return BackendError::Unusable(format!("{why}; check `command` and `env`"));
        }
        BackendError::Failed(why)
    }

    fn servers_of(&self, handle: &str) -> Option<(String, Arc<Http>, Arc<Http>)> {
        let running = locked(&self.running);
        let one = running.get(handle)?;
        Some((one.model.clone(), Arc::clone(&one.http), Arc::clone(&one.health)))
    }
}

/// A text with our own variables in the places that name them.
fn with_own(text: &str) -> Result<String, String> {
    let mut parts = text.split("{env:");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or_else(|| format!("`{{env:{part}` has no end"))?;
        let value = std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))?;
        filled.push_str(&value);
        filled.push_str(rest);
    }
    Ok(filled)
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

    fn output(&self, name: &str) -> Option<PathBuf> {
        locked(&self.outputs).get(name).cloned()
    }

    /// Returns when it answers. Whoever stops waiting stops the process.
    async fn bring(&self, name: &str, gpus: Gpus) -> Result<Brought, BackendError> {
        let mut running = self.start(name, gpus)?;
        let since = Instant::now();
        let mut spoken_of = since;
        while running.health.answers("").await.is_err() {
            if let Some(end) = running.process.ended() {
                return Err(self.judged(name, end));
            }
            if spoken_of.elapsed() >= SPOKEN_OF {
                spoken_of = Instant::now();
                let (after, said) = (since.elapsed().as_secs(), running.process.last_words());
                tracing::info!("`{name}` on GPU {} has been starting for {after} s: {said}", gpus.first.0);
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
        locked(&self.failed).remove(name);
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
            Some(Some(end)) => return Ok(ModelState::Failed(end.why)),
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
            return Err(BackendError::Gone(format!("`{handle}` is not running")));
        };
        call_openai(&http, &model, self.spec.calls, call).await
    }
}
