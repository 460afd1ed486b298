//! Chat templates in a process of their own. A template is a program that came with a model, and `s ~ s` a few dozen times
//! takes all memory: the system bounds what the process may take, which nothing can do within this one.
//!
//! The process is sent lines of JSON: the template first, then the values of each chat. It answers each with a line.

use super::chat::{environment, render};
use crate::error::{Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Memory that a template may take, in bytes.
const MEMORY: u64 = 512 << 20;
/// Seconds of computing for one chat; real templates take some milliseconds.
const SECONDS: u64 = 10;

static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();

/// Has chat templates rendered by a process of this program and these arguments, which calls [`render_chats`]. Without it they
/// are rendered in this process, where their steps are bounded and their memory is not.
pub fn render_chats_with(program: Vec<OsString>) {
    // The first to say so is as good.
    let _ = PROGRAM.set(program);
}

/// Whether there is a program for it.
pub(super) fn is_apart() -> bool {
    PROGRAM.get().is_some_and(|program| !program.is_empty())
}

/// The process of one template. It starts with the first chat, and anew where a chat was its end.
#[derive(Default)]
pub(super) struct Renderer(Mutex<Option<Running>>);

struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Renderer {
    /// The prompt of a chat with these values.
    pub fn render(&self, source: &str, values: &Value) -> Result<String> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut process = match running.take() {
            Some(process) => process,
            None => start(source).map_err(|error| {
                Error::Compute(format!("the process for chat templates cannot be started: {error}"))
            })?,
        };
        let Ok(line) = ask(&mut process, values) else {
            // Dropped, and with it what it took.
            return Err(Error::Request(format!(
                "the model's chat template takes more than {} MB of memory or {SECONDS} s for these messages",
                MEMORY >> 20
            )));
        };
        *running = Some(process);
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        match (&answer["text"], &answer["refused"]) {
            (Value::String(text), _) => Ok(text.clone()),
            (_, Value::String(reason)) => Err(Error::Request(reason.clone())),
            _ => {
                Err(Error::Compute("the process for chat templates answered with something else".to_owned()))
            }
        }
    }
}

fn start(source: &str) -> std::io::Result<Running> {
    let program = PROGRAM.get().map(Vec::as_slice).unwrap_or_default();
    let (first, rest) = program.split_first().ok_or(std::io::ErrorKind::NotFound)?;
    let mut command = Command::new(first);
    // Nothing of this process's environment is a template's business.
    command.args(rest).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    for name in ["PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"] {
        std::env::var_os(name).map(|value| command.env(name, value));
    }
    let mut child = command.spawn()?;
    let input = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
    let output = BufReader::new(child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?);
    let mut running = Running { child, input, output };
    writeln!(running.input, "{}", json!(source))?;
    Ok(running)
}

fn ask(process: &mut Running, values: &Value) -> std::io::Result<String> {
    writeln!(process.input, "{values}")?;
    let mut line = String::new();
    match process.output.read_line(&mut line)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line),
    }
}

/// Renders the chats that come on standard input until there are no more: the other end of [`render_chats_with`].
///
/// # Errors
/// Where the system does not bound memory and time, or the input is something else.
pub fn render_chats() -> std::io::Result<()> {
    // What is mapped by now is the program itself.
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = pages.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    bound(Resource::As, pages * rustix::param::page_size() as u64 + MEMORY)?;
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = String::new();
    input.read_line(&mut line)?;
    let source: String = serde_json::from_str(&line)?;
    let environment = environment(source, Path::new("the chat template"));
    for line in input.lines() {
        let values: Value = serde_json::from_str(&line?)?;
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).tv_sec;
        bound(Resource::Cpu, u64::try_from(used).unwrap_or(0) + SECONDS)?;
        let rendered = environment.as_ref().map_err(ToString::to_string);
        let answer = match rendered.and_then(|it| render(it, &values).map_err(|error| error.to_string())) {
            Ok(text) => json!({"text": text}),
            Err(reason) => json!({"refused": reason}),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

/// Lowers a limit of this process. The higher one stays, so that a later chat can have its own.
fn bound(resource: Resource, most: u64) -> std::io::Result<()> {
    let maximum = getrlimit(resource).maximum;
    let current = maximum.map_or(most, |maximum| maximum.min(most));
    Ok(setrlimit(resource, Rlimit { current: Some(current), maximum })?)
}
