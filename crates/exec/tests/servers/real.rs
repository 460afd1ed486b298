//! The adapters against servers that other people wrote. `cargo xtask test` installs MLServer and Triton. llama.cpp's server
//! takes long to build and is not part of CI: `cargo xtask servers --llamacpp` builds it.

use crate::support::{instance, passes_the_check, patience, run, scenario};
use gswarm_core::input::{Source, render};
use gswarm_exec::backend::{BackendSpec, BackendsFile, read_backends};
use gswarm_exec::drive::FinishedRun;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where the servers are, if they are there.
fn installed(what: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("servers").join(what);
    if !folder.exists() {
        let how = if what.starts_with("llamacpp") { " --llamacpp" } else { "" };
        let why = format!("{what} is not installed; `cargo xtask servers{how}` installs it");
        let skip = if how.is_empty() { gswarm_testing::skip } else { gswarm_testing::skip_on_ci_too };
        skip(&why);
        return None;
    }
    Some(folder)
}

fn ports<const N: usize>() -> [u16; N] {
    let all = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    all.map(|listener| listener.local_addr().unwrap().port())
}

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts it, and waits until its port is open.
    fn start(command: &mut Command, port: u16, log: &Path) -> Server {
        let out = std::fs::File::create(log).unwrap();
        let child =
            command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap();
        let mut server = Server(child);
        let since = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let said = || std::fs::read_to_string(log).unwrap_or_default();
            assert!(server.0.try_wait().unwrap().is_none(), "it has ended: {}", said());
            assert!(since.elapsed() < Duration::from_secs(120), "it does not listen: {}", said());
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }
}

/// The servers of a file with `PORT` in it.
fn spec(text: &str, port: u16) -> BackendSpec {
    let text = text.replace("PORT", &port.to_string());
    let reading = read_backends(Source { name: "servers", bytes: text.as_bytes() });
    reading.file.unwrap_or_else(|| panic!("{}", render(&reading.diagnostics))).backends.remove(0)
}

/// Three requests whose second node reads what the first wrote, with a model that leaves before the next comes.
async fn batch(spec: BackendSpec) -> (gswarm_core::Instance, FinishedRun) {
    let scenario = scenario(&[("pair", "wish0"), ("pair", "wish1"), ("pair", "wish2")]);
    let instance = instance(&scenario, 1);
    let file = BackendsFile { backends: vec![spec] };
    let patience = gswarm_exec::drive::Patience { call_grace: gswarm_core::Span(60_000_000), ..patience() };
    let finished = run(&scenario, &instance, &file, patience).await.unwrap();
    passes_the_check(&instance, &finished);
    assert_eq!(finished.outputs.len(), 6, "{:#?}", finished.failures);
    assert!(finished.failures.is_empty(), "{:#?}", finished.failures);
    (instance, finished)
}

/// The texts of both nodes, by request.
fn texts((instance, finished): &(gswarm_core::Instance, FinishedRun)) -> BTreeMap<u32, (String, String)> {
    let requests = instance.requests.iter_enumerated().map(|(request, _)| {
        let tasks: Vec<_> = instance.tasks_of(request).collect();
        let text = |task: usize, name: &str| {
            finished.outputs[&tasks[task]][name]["text"].as_str().unwrap_or_default().to_owned()
        };
        (request.0, (text(0, "story"), text(1, "verdict")))
    });
    requests.collect()
}

fn echoes(done: &(gswarm_core::Instance, FinishedRun)) {
    for (request, (story, verdict)) in texts(done) {
        assert_eq!(story, format!("writer-there<wish{request}>"));
        assert_eq!(verdict, format!("critic-there<{story}>"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mlserver() {
    let Some(venv) = installed("mlserver") else { return };
    let folder = tempfile::tempdir().unwrap();
    let [port, grpc, metrics] = ports();
    let settings = format!(
        r#"{{"host": "127.0.0.1", "http_port": {port}, "grpc_port": {grpc}, "metrics_port": {metrics},
            "load_models_at_startup": false, "parallel_workers": 0}}"#
    );
    std::fs::write(folder.path().join("settings.json"), settings).unwrap();
    std::fs::write(folder.path().join("echo_model.py"), include_str!("real/mlserver_echo.py")).unwrap();
    for name in ["writer-there", "critic-there"] {
        let place = folder.path().join(name);
        std::fs::create_dir(&place).unwrap();
        let text = format!(r#"{{"name": "{name}", "implementation": "echo_model.Echo"}}"#);
        std::fs::write(place.join("model-settings.json"), text).unwrap();
    }
    let mut command = Command::new(venv.join("bin/mlserver"));
    command.arg("start").arg(folder.path()).current_dir(folder.path()).env("PYTHONPATH", folder.path());
    let _server = Server::start(&mut command, port, &folder.path().join("log"));
    let text = "backends: [{kind: kserve, url: 'http://127.0.0.1:PORT', input: prompt, models: {writer: writer-there, critic: critic-there}}]";
    echoes(&batch(spec(text, port)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn triton() {
    let Some(venv) = installed("triton") else { return };
    let folder = tempfile::tempdir().unwrap();
    let asked = Command::new(venv.join("bin/python"))
        .args(["-c", "import sys, sysconfig; print(sysconfig.get_path('purelib')); print(sysconfig.get_config_var('LIBDIR')); print('%d.%d' % sys.version_info[:2])"])
        .output()
        .unwrap();
    let told = String::from_utf8(asked.stdout).unwrap();
    let [packages, libraries, version] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    let triton = Path::new(packages).join("pytriton/tritonserver");
    // The backend wants the stub of this Python beside it, as the package itself puts it when it starts a server.
    let backends = folder.path().join("backends/python");
    std::fs::create_dir_all(&backends).unwrap();
    for file in std::fs::read_dir(triton.join("backends/python")).unwrap().map(|entry| entry.unwrap().path())
    {
        if file.is_file() {
            std::os::unix::fs::symlink(&file, backends.join(file.file_name().unwrap())).unwrap();
        }
    }
    let stub = format!("python_backend_stubs/{version}/triton_python_backend_stub");
    let _ = std::fs::remove_file(backends.join("triton_python_backend_stub"));
    std::os::unix::fs::symlink(triton.join(stub), backends.join("triton_python_backend_stub")).unwrap();
    let models = folder.path().join("models");
    for name in ["writer-there", "critic-there"] {
        let place = models.join(name).join("1");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(models.join(name).join("config.pbtxt"), include_str!("real/triton_echo.pbtxt"))
            .unwrap();
        let code =
            format!("import sys\nsys.path.insert(0, {packages:?})\n{}", include_str!("real/triton_echo.py"));
        std::fs::write(place.join("model.py"), code).unwrap();
    }
    let [port] = ports();
    let mut command = Command::new(triton.join("bin/tritonserver"));
    command.arg(format!("--model-repository={}", models.display()));
    command.arg(format!("--backend-directory={}", folder.path().join("backends").display()));
    command.args(["--model-control-mode=explicit", "--allow-grpc=false", "--allow-metrics=false"]);
    command
        .args(["--http-address=127.0.0.1", &format!("--http-port={port}")])
        .env("LD_LIBRARY_PATH", libraries);
    let _server = Server::start(&mut command, port, &folder.path().join("log"));
    let text = "backends: [{kind: kserve, url: 'http://127.0.0.1:PORT', models: {writer: writer-there, critic: critic-there}}]";
    echoes(&batch(spec(text, port)).await);
}

/// Random weights write nonsense, but always the same nonsense for the same seed and text.
#[tokio::test(flavor = "multi_thread")]
async fn llamacpp_router() {
    let (Some(server), Some(models)) = (installed("llamacpp/llama-server"), installed("llamacpp/models"))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let [port] = ports();
    let mut command = Command::new(server);
    command.args([
        "--host",
        "127.0.0.1",
        "--port",
        &port.to_string(),
        "--no-models-autoload",
        "--models-dir",
    ]);
    command.arg(models).env("LLAMA_CACHE", folder.path());
    let _server = Server::start(&mut command, port, &folder.path().join("log"));
    let text = "backends: [{kind: llamacpp, url: 'http://127.0.0.1:PORT', calls: completions, models: {writer: writer, critic: critic}}]";
    let done = batch(spec(text, port)).await;
    for output in done.1.outputs.values() {
        let answer = output.values().next().unwrap();
        let tokens = answer["usage"]["completion_tokens"].as_u64().unwrap_or(0);
        assert!((1..=20).contains(&tokens), "{answer}");
    }
}
