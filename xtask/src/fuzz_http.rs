//! `cargo xtask fuzz-http`: generated requests against the model server and the front door, by schemathesis from
//! their own documents.

use crate::tools::{program, root, succeed};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What the requests are generated with; installed into `target`.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// Requests, where nobody says how many.
const CASES: u32 = 10_000;

/// A server that ends with the task.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds and starts each server in turn, sends it so many requests, and sees it end as it should.
pub fn fuzz(args: &[String]) -> Result<(), String> {
    let cases = match args {
        [] => CASES,
        [cases] => cases.parse().map_err(|_| format!("`{cases}` is no number of requests"))?,
        _ => return Err("give the number of requests, and nothing else".to_string()),
    };
    let folder = root().join("target/fuzz-http");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let python = python(&folder)?;
    let program = program()?;
    succeed(Command::new(&program).args(["models", "init", "--force", "--dir"]).arg(folder.join("models")))?;
    for server in [model_server(&program, &folder), front_door(&program, &folder)?] {
        let (mut server, url) = start(server)?;
        let script = root().join("xtask/fuzz/run.py");
        let sent = succeed(Command::new(&python).arg(script).args([&url, &cases.to_string()]).arg(&folder));
        succeed(Command::new("kill").args(["-TERM", &server.0.id().to_string()]))?;
        let ended = server.0.wait().map_err(|error| error.to_string())?;
        sent?;
        if !ended.success() {
            return Err(format!("the server ended with {ended}"));
        }
    }
    Ok(())
}

/// A Python of its own, with what is needed in it.
fn python(folder: &Path) -> Result<PathBuf, String> {
    let venv = folder.join("venv");
    let python = venv.join("bin/python");
    let has_it = || {
        Command::new(venv.join("bin/st")).arg("--version").output().is_ok_and(|done| done.status.success())
    };
    if !has_it() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet", SCHEMATHESIS]))?;
    }
    Ok(python)
}

/// Short answers and fast emulation: what matters here is the requests.
fn model_server(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["model-server", "--port", "0", "--quiet", "--max-context", "48", "--max-instances", "24"]);
    command.args(["--speed", "1000000", "--emulate"]).arg(root().join("examples/text_to_image/config.yaml"));
    command.arg("--models").arg(folder.join("models")).env_remove("HF_ENDPOINT");
    command
}

fn front_door(program: &Path, folder: &Path) -> Result<Command, String> {
    let (backends, state) = (folder.join("servers.yaml"), folder.join("state"));
    fs::write(&backends, "backends: [{kind: emulated, speed: 1000000}]\n")
        .map_err(|error| error.to_string())?;
    if state.exists() {
        fs::remove_dir_all(&state).map_err(|error| error.to_string())?;
    }
    let mut command = Command::new(program);
    command.args(["serve", "--port", "0", "--gpus", "4", "--config"]);
    command.arg(root().join("examples/text_to_image/config.yaml")).arg("--backends").arg(backends);
    command.arg("--state").arg(state);
    Ok(command)
}

/// The server, and its address.
fn start(mut command: Command) -> Result<(Server, String), String> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut server = Server(child.map_err(|error| format!("cannot start the server: {error}"))?);
    let out = server.0.stdout.take().ok_or("the server has no output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).map_err(|error| error.to_string())?;
    let url =
        line.trim().strip_prefix("Listening on ").ok_or(format!("the server says `{}`", line.trim()))?;
    Ok((server, url.to_string()))
}
