//! Processes that are started and stopped: this test program itself, which serves when it is told to.

use crate::support::{call, connected, instance, passes_the_check, patience, replica, run, scenario};
use axum::Json;
use axum::routing::{get, post};
use gswarm_core::Span;
use gswarm_exec::backend::{BackendError, BackendSpec, BackendsFile, CommandSpec};
use gswarm_testing::until;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EXPECTED: Span = Span(100_000);

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// No test: the program that the tests start. It leaves its process id in a folder.
#[test]
#[ignore = "serves where ECHO_PORT says so"]
fn echo() {
    let (Some(port), Some(folder)) = (variable("ECHO_PORT"), variable("ECHO_FOLDER")) else { return };
    let (model, gpus) =
        (variable("ECHO_MODEL").unwrap_or_default(), variable("CUDA_VISIBLE_DEVICES").unwrap_or_default());
    if model == "large" {
        eprintln!("RuntimeError: CUDA out of memory");
        std::process::exit(3);
    }
    std::fs::write(Path::new(&folder).join(std::process::id().to_string()), &model).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let spoken = move |Json(body): Json<Value>| {
            let prompt =
                body.pointer("/messages/0/content").and_then(Value::as_str).unwrap_or_default().to_owned();
            let text = format!("{}@{gpus}<{prompt}>", body["model"].as_str().unwrap_or_default());
            async move { Json(json!({"choices": [{"message": {"content": text}}]})) }
        };
        let embedded = || async { Json(json!({"data": [{"embedding": [1.0]}]})) };
        let app = axum::Router::new()
            .route("/health", get(|| async { "ok" }))
            .route("/v1/chat/completions", post(spoken))
            .route("/v1/embeddings", post(embedded));
        let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
        axum::serve(listener, app).await.unwrap();
    });
}

fn spec(folder: &Path) -> CommandSpec {
    let program = std::env::current_exe().unwrap().display().to_string();
    let words = [&program, "command::echo", "--exact", "--ignored", "--nocapture"].map(str::to_owned);
    let env =
        [("ECHO_PORT", "{port}"), ("ECHO_MODEL", "{model}"), ("ECHO_FOLDER", &folder.display().to_string())];
    let env = env.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    CommandSpec { command: words.to_vec(), grace: 2.0, env, ..CommandSpec::default() }
}

fn backend(spec: CommandSpec) -> BackendSpec {
    let mut spec = BackendSpec::with(spec);
    (spec.endpoint.timeouts.load, spec.endpoint.timeouts.answer) = (120.0, 20.0);
    spec
}

/// The processes that have left their ids, and are still there.
fn alive(folder: &Path) -> Vec<PathBuf> {
    let ids = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let state = |id: &std::ffi::OsString| std::fs::read_to_string(Path::new("/proc").join(id).join("stat"));
    let runs = |id: &std::ffi::OsString| state(id).is_ok_and(|stat| !stat.contains(") Z"));
    ids.filter(runs).map(PathBuf::from).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_runs_on_processes_that_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let wishes: Vec<String> = (0..4).map(|number| format!("wish{number}")).collect();
    let requests: Vec<(&str, &str)> = wishes.iter().map(|wish| ("review", wish.as_str())).collect();
    let (scenario, file) =
        (scenario(&requests), BackendsFile { backends: vec![backend(spec(folder.path()))] });
    let instance = instance(&scenario, 2);
    let finished = run(&scenario, &instance, &file, patience()).await.unwrap();
    passes_the_check(&instance, &finished);
    assert_eq!(finished.outputs.len(), instance.tasks(), "{:?}", finished.failures);
    for execution in &finished.log.executions {
        let text =
            finished.outputs[&execution.task].values().next().unwrap()["text"].as_str().map(str::to_owned);
        let on = format!("@{}<", execution.gpus.first.0);
        assert!(text.is_none_or(|text| text.contains(&on)), "the process sees the GPUs that it was put on");
    }
    until("no process outlives the run", || alive(folder.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_fails_says_why_and_one_that_dies_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (backend, told) = connected(&backend(spec(folder.path())));
    let error = backend.load(replica(3), EXPECTED).await.unwrap_err();
    let BackendError::DoesNotFit(why) = &error else { panic!("{error:?}") };
    assert!(why.contains("60 GB") && why.contains("CUDA out of memory"), "{why}");
    backend.load(replica(0), EXPECTED).await.unwrap();
    assert_eq!(backend.call(replica(0), &call("llm", "x")).await.unwrap()["text"], "writer@0<x>");
    let id = alive(folder.path()).pop().unwrap();
    Command::new("kill").arg("-9").arg(id).status().unwrap();
    let lost = backend.call(replica(0), &call("llm", "x")).await;
    assert!(matches!(lost, Err(BackendError::Crashed(_))), "only this call is lost: {lost:?}");
    assert_eq!(backend.call(replica(0), &call("llm", "y")).await.unwrap()["text"], "writer@0<y>");
    backend.unload(replica(0)).await.unwrap();
    assert!(alive(folder.path()).is_empty());
    assert_eq!(told.lock().unwrap().len(), 3, "two loads and an unload");
}

/// One that will not end when it is asked to, and has started another, is ended by force, with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_want_to_end_is_made_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut stubborn = spec(folder.path());
    let inner = stubborn.command.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let script = format!("trap '' TERM; echo x > $ECHO_FOLDER/$$; {inner} & wait");
    stubborn.command = ["/bin/sh", "-c", &script].map(str::to_owned).to_vec();
    stubborn.grace = 0.5;
    let (backend, _) = connected(&backend(stubborn));
    backend.load(replica(0), EXPECTED).await.unwrap();
    assert_eq!(alive(folder.path()).len(), 2);
    backend.unload(replica(0)).await.unwrap();
    assert!(alive(folder.path()).is_empty(), "{:?}", alive(folder.path()));
}

/// No test: a process that loads a model and then is killed.
#[test]
#[ignore = "holds a model where HOLDER_FOLDER says so"]
fn holder() {
    let Some(folder) = variable("HOLDER_FOLDER") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut spec = spec(Path::new(&folder));
        if variable("HOLDER_LEAVES").is_some() {
            leave_a_session(&mut spec);
        }
        let (backend, _) = connected(&backend(spec));
        backend.load(replica(0), EXPECTED).await.unwrap();
        std::future::pending::<()>().await;
    });
}

/// Puts a process before the program that leaves its process group, and whose parent ends at once.
fn leave_a_session(spec: &mut CommandSpec) {
    let inner = spec.command.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let script = format!(
        "(setsid sh -c 'echo x > $ECHO_FOLDER/$$; exec sleep 1000' &); while [ -z \"$(ls $ECHO_FOLDER)\" ]; do sleep 0.1; done; exec {inner}"
    );
    spec.command = ["/bin/sh", "-c", &script].map(str::to_owned).to_vec();
}

fn killed_holder(processes: usize, variables: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["command::holder", "--exact", "--ignored", "--nocapture"])
        .env("HOLDER_FOLDER", folder.path())
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the processes were started", || alive(folder.path()).len() >= processes);
    holder.kill().unwrap();
    holder.wait().unwrap();
    until("no orphan is left", || alive(folder.path()).is_empty());
}

#[test]
fn nothing_is_left_when_the_process_that_started_it_is_killed() {
    killed_holder(1, &[]);
}

#[test]
fn what_has_left_its_process_group_ends_too() {
    killed_holder(2, &[("HOLDER_LEAVES", "yes")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_left_its_process_group_ends_with_an_unload() {
    let folder = tempfile::tempdir().unwrap();
    let mut leaves = spec(folder.path());
    leave_a_session(&mut leaves);
    let (backend, _) = connected(&backend(leaves));
    backend.load(replica(0), EXPECTED).await.unwrap();
    assert_eq!(alive(folder.path()).len(), 2);
    backend.unload(replica(0)).await.unwrap();
    until("no orphan is left", || alive(folder.path()).is_empty());
}

/// A program that only says something and ends.
fn says(script: &str, folder: &Path) -> BackendSpec {
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let logs = Some(folder.join("logs").display().to_string());
    let env = [("ECHO_FOLDER".to_owned(), folder.display().to_string())].into();
    backend(CommandSpec { command, logs, env, ..CommandSpec::default() })
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// The reason is in a message, and all that the program said in a file that the message names.
#[tokio::test(flavor = "multi_thread")]
async fn all_that_a_process_says_is_kept_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let spec = says("seq 1 5000; echo 'ValueError: no such model' >&2; echo goodbye; exit 1", folder.path());
    let (backend, _) = connected(&spec);
    let error = backend.load(replica(0), EXPECTED).await.unwrap_err().to_string();
    let [file] = &files(&folder.path().join("logs"))[..] else { panic!("{error}") };
    assert!(error.contains("ValueError: no such model") && error.contains(file.to_str().unwrap()), "{error}");
    assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 5002);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A bad argument is no better the second time.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_started_wrongly_is_not_started_again() {
    for (script, starts) in [("echo 'error: unknown argument'; exit 2", 1), ("echo $$ broken; exit 1", 3)] {
        let folder = tempfile::tempdir().unwrap();
        let (backend, _) =
            connected(&says(&format!("date >> $ECHO_FOLDER/started; {script}"), folder.path()));
        let mut errors = Vec::new();
        for _ in 0..5 {
            errors.push(backend.load(replica(0), EXPECTED).await.unwrap_err());
        }
        let started = std::fs::read_to_string(folder.path().join("started")).unwrap().lines().count();
        assert_eq!(started, starts, "{errors:?}");
        let (passing, final_ones) = errors.split_at(starts - 1);
        assert!(passing.iter().all(|error| matches!(error, BackendError::Unwell(_))), "{errors:?}");
        assert!(final_ones.iter().all(|error| matches!(error, BackendError::Unusable(_))), "{errors:?}");
    }
}

/// A run on a server that is started wrongly ends at once, with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_server_that_is_started_wrongly_ends_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let spec =
        says("date >> $ECHO_FOLDER/started; echo 'error: unknown argument --prot'; exit 2", folder.path());
    let scenario = scenario(&[("huge", "x"), ("huge", "y")]);
    let instance = instance(&scenario, 1);
    let finished =
        run(&scenario, &instance, &BackendsFile { backends: vec![spec] }, patience()).await.unwrap();
    assert!(finished.outputs.is_empty());
    assert!(
        finished.failures.iter().all(|one| one.why.contains("unknown argument --prot")),
        "{:?}",
        finished.failures
    );
    assert_eq!(std::fs::read_to_string(folder.path().join("started")).unwrap().lines().count(), 1);
}

/// What is secret here is not told there, unless `env` names it.
#[tokio::test(flavor = "multi_thread")]
async fn processes_have_a_clean_environment() {
    let folder = tempfile::tempdir().unwrap();
    let own: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    let secret = own.iter().find(|name| name.starts_with("CARGO") || name.starts_with("NEXTEST"));
    let secret = secret.expect("tests are run by cargo").clone();
    let mut spec = says("env > $ECHO_FOLDER/environment; exit 2", folder.path());
    let gswarm_exec::backend::ServerSpec::Command(command) = &mut spec.server else { panic!() };
    command.env.insert("GIVEN".to_owned(), format!("<{{env:{secret}}}>"));
    let (backend, _) = connected(&spec);
    backend.load(replica(0), EXPECTED).await.unwrap_err();
    let told = std::fs::read_to_string(folder.path().join("environment")).unwrap();
    let value = std::env::var(&secret).unwrap();
    assert!(told.contains(&format!("GIVEN=<{}", value.lines().next().unwrap_or_default())), "{told}");
    assert!(told.lines().any(|line| line.starts_with("PATH=")), "{told}");
    assert!(told.lines().any(|line| line == "CUDA_VISIBLE_DEVICES=0"), "{told}");
    assert!(!told.lines().any(|line| line.starts_with(&format!("{secret}="))), "{told}");
}
