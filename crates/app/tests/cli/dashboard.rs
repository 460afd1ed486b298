//! The dashboard's server as a process: what it tells of a service and of a run equals what the ledger, the journal and the
//! log say.

use crate::http::http_server;
use crate::model_server::{Running, client, post};
use crate::support::{Place, inputs};
use gswarm_exec::wire::PolicyList;
use gswarm_testing::LIMIT;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CONFIG: &str = "
models:
  writer: {name: W, memory_gb: 14, gpus_required: 1, load_time_seconds: 20, inference_time_mean: 2}
  painter: {name: P, memory_gb: 7, gpus_required: 1, load_time_seconds: 10, inference_time_mean: 3}
workflows:
  picture:
    name: picture
    nodes: [{id: write, model: writer, inputs: [wish], outputs: [prompt]}, {id: paint, model: painter, inputs: [prompt], outputs: [image]}]
    edges: [{from: write, to: paint}]
cluster: {gpus: 2}
";

async fn get(url: &str, path: &str) -> (u16, Value) {
    let answer = client().get(format!("{url}{path}")).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// Asks until it is so.
async fn until(url: &str, path: &str, so: impl Fn(&Value) -> bool) -> Value {
    let asked = async {
        loop {
            let (_, said) = get(url, path).await;
            if so(&said) {
                break said;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, asked).await.unwrap_or_else(|_| panic!("{path} never says so"))
}

/// All that happened, a few things at a time.
async fn history(url: &str) -> (Vec<Value>, Vec<Value>) {
    let (mut after, mut bars, mut happenings) = (0, Vec::new(), Vec::new());
    loop {
        let (status, part) = get(url, &format!("/v1/history?after={after}&limit=7")).await;
        assert_eq!(status, 200, "{part}");
        let list = |name: &str| part[name].as_array().unwrap().clone();
        let numbers =
            list("bars").into_iter().chain(list("happenings")).map(|one| one["seq"].as_u64().unwrap());
        after = numbers.max().unwrap_or(after);
        bars.extend(list("bars"));
        happenings.extend(list("happenings"));
        if part["more"] == false {
            return (bars, happenings);
        }
    }
}

/// The executions of a log: request, node, GPUs, start and end, in microseconds.
type Runs = BTreeSet<(String, String, String, i64, i64)>;

fn micros(seconds: &Value) -> i64 {
    (seconds.as_f64().unwrap() * 1e6).round() as i64
}

fn runs(list: &[Value], request: &str, node: &str, start: &str, end: &str, gpus: &str) -> Runs {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let of = |one: &Value| {
        (text(one, request), text(one, node), one[gpus].to_string(), micros(&one[start]), micros(&one[end]))
    };
    list.iter().map(of).collect()
}

fn of_kind(list: &[Value], kind: &str) -> Vec<Value> {
    list.iter().filter(|one| one["kind"] == kind).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_shows_what_its_ledger_says() {
    let place = Place::new();
    place.write("config.yaml", CONFIG);
    place.write("servers.yaml", "backends: [{kind: emulated, speed: 50}]");
    let server =
        Running::of(&place, "serve --config config.yaml --backends servers.yaml --port 0 --state state");
    let url = server.url.clone();
    for number in 0..5 {
        let request = json!({"request_id": format!("r{number}"), "input_data": {"wish": "a cat"}});
        assert_eq!(post(&url, "/v1/workflows/picture/requests", request).await.0, 202);
    }
    let (status, ahead) = post(&url, "/v1/what-if", json!({"gpus": 4, "policy": "baseline"})).await;
    assert_eq!(status, 200, "{ahead}");
    // Those that came in the last minutes, of the service's fast clock, are supposed to come again.
    let is_told = |ahead: &Value| {
        let (coming, assumed) =
            (ahead["what_if"]["coming"].as_u64().unwrap(), ahead["assumed"][0].as_str().unwrap());
        assert_eq!(ahead["what_if"]["coming"], ahead["as_it_is"]["coming"], "{ahead}");
        assert!(coming <= 5 && ahead["what_if"]["requests"].as_u64() >= Some(coming), "{ahead}");
        let expected = if coming == 0 {
            "none is added".to_owned()
        } else {
            format!("its {coming} requests arrive again")
        };
        assert!(assumed.contains(&expected), "{ahead}");
    };
    is_told(&ahead);
    assert_eq!((&ahead["as_it_is"]["policy"], &ahead["what_if"]["gpus"]), (&json!("adaptive"), &json!(4)));
    assert_eq!(ahead["as_it_is"]["requests"], ahead["what_if"]["requests"]);
    // As a run specification writes them, with parameters of the policy.
    let sections = json!({"cluster": {"gpus": 3}, "policy": {"name": "adaptive", "objective": "p99"}});
    let (status, ahead) = post(&url, "/v1/what-if", sections).await;
    assert_eq!(
        (status, &ahead["what_if"]["gpus"], &ahead["what_if"]["policy"]),
        (200, &json!(3), &json!("adaptive"))
    );
    let (_, listed) = get(&url, "/v1/policies").await;
    let listed: PolicyList = serde_json::from_value(listed).unwrap();
    let planned = listed.policies.iter().find(|one| one.name == "planned").unwrap();
    assert!(
        planned.parameters.iter().any(|one| one.name == "rounds" && one.value.kind == "integer"),
        "{planned:?}"
    );
    for (body, expected) in [
        (json!({"policy": "best"}), 422),
        (json!({"gpus": 0}), 422),
        (json!({"gpus": "many"}), 400),
        (json!({"speed": 2}), 400),
        (json!({"cluster": {"gpus": 4, "gpu_memory_gb": 80}}), 422),
        (json!({"policy": {"name": "adaptive", "colour": 1}}), 422),
        (json!({"policy": {"colour": 1}}), 422),
    ] {
        let (status, said) = post(&url, "/v1/what-if", body).await;
        assert!(status == expected && said["error"]["message"].is_string(), "{status} {said}");
    }
    let over = |said: &Value| said["counts"]["completed"] == 5;
    let shown = until(&url, "/v1/overview", over).await;
    assert_eq!((&shown["counts"]["executions"], &shown["counts"]["open"]), (&json!(10), &json!(0)));
    assert_eq!((&shown["source"], &shown["state"]), (&json!("serve"), &json!("running")));
    let workflow = &shown["workflows"][0];
    assert_eq!((&workflow["inputs"], &workflow["nodes"][1]["after"]), (&json!(["wish"]), &json!(["write"])));
    assert_eq!(shown["workflows"].as_array().unwrap().len(), 1, "direct calls are no workflow of anybody");
    let in_all = |field: &str| -> u64 {
        shown["minutes"][field].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum()
    };
    assert_eq!((in_all("completed"), in_all("executions")), (5, 10));
    let (bars, happenings) = history(&url).await;
    let seen: BTreeSet<(String, String)> = of_kind(&bars, "run")
        .iter()
        .map(|bar| (bar["request"].as_str().unwrap().to_owned(), bar["node"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(seen.len(), 10);
    assert_eq!(of_kind(&bars, "load").len() as u64, shown["counts"]["loads"].as_u64().unwrap());
    assert_eq!(of_kind(&happenings, "evicted").len() as u64, shown["counts"]["evictions"].as_u64().unwrap());
    // What the ledger says of each request is what happened to it, to the millisecond of two clocks.
    let (_, ledger) = get(&url, "/v1/requests").await;
    for request in ledger["requests"].as_array().unwrap() {
        let name = &request["request_id"];
        let mine = |one: &&Value| one["request"] == *name;
        let kinds: Vec<&str> =
            happenings.iter().filter(mine).map(|one| one["kind"].as_str().unwrap()).collect();
        assert_eq!((kinds, &request["status"]), (vec!["accepted", "completed"], &json!("completed")));
    }
    // Nothing is open, and what came is supposed to come again.
    let (_, again) = post(&url, "/v1/what-if", json!({})).await;
    assert_eq!(again["what_if"]["requests"], again["what_if"]["coming"], "{again}");
    is_told(&again);
    // All times are by the clock of the service, which goes fifty times as fast as the wall's.
    assert_eq!(shown["speed"], json!(50.0));
    let (by, slow) = (&shown["workflow_latency"], shown["slowest"].as_array().unwrap());
    assert_eq!((&by[0]["workflow"], &by[0]["completed"], slow.len()), (&json!("picture"), &json!(5), 5));
    assert!(slow[0]["latency"].as_f64() >= by[0]["p99"].as_f64(), "{shown}");
    for one in slow {
        let part = |field: &str| one[field].as_f64().unwrap();
        assert!(!one["why"].as_str().unwrap().contains("no longer"), "{one}");
        assert!(
            (part("waiting") + part("loading") + part("executing") - part("latency")).abs() < 0.5,
            "{one}"
        );
    }
    let (_, document) = get(&url, "/openapi.json").await;
    for path in ["/v1/overview", "/v1/history", "/v1/what-if"] {
        assert!(!document["paths"][path].is_null(), "{path}");
    }
}

/// One rule for percentiles and one clock: the page of a run that is over says what `run` has said.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_over_has_the_figures_of_its_report() {
    let place = Place::with_work("complex", 40);
    let metrics = place.run("run --policy lru --gpus 16 --mode online --json @work --out out").json(0);
    let viewer = Running::of(
        &place,
        "view out/lru_execution_log.json --port 0 --config work/config.yaml --requests work/requests.yaml",
    );
    let (_, shown) = get(&viewer.url, "/v1/overview").await;
    let latency = &metrics["request_latency"];
    assert_eq!((&shown["latency"]["p50"], &shown["latency"]["p99"]), (&latency["median"], &latency["p99"]));
    assert_eq!(shown["latency"]["window_seconds"], Value::Null);
    for one in metrics["workflows"].as_array().unwrap() {
        let told = shown["workflow_latency"].as_array().unwrap();
        let same = told.iter().find(|other| other["workflow"] == one["workflow"]).unwrap();
        assert_eq!((&same["p99"], &same["mean"]), (&one["latency"]["p99"], &one["latency"]["mean"]), "{one}");
    }
    let field = |list: &Value, name: &str| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|one| one[name].clone()).collect()
    };
    assert_eq!(field(&shown["slowest"], "request"), field(&metrics["slowest"], "request"));
    assert_eq!(field(&shown["slowest"], "latency"), field(&metrics["slowest"], "latency_seconds"));
    // All its requests are listed, a page at a time, with when they came and ended.
    let (_, first) = get(&viewer.url, "/v1/requests?limit=15").await;
    let (_, rest) = get(&viewer.url, "/v1/requests?from=15&limit=100").await;
    assert_eq!((&first["total"], rest["requests"].as_array().unwrap().len()), (&json!(40), 25));
    for one in first["requests"].as_array().unwrap().iter().chain(rest["requests"].as_array().unwrap()) {
        assert!(one["ended"].as_f64() > one["arrived"].as_f64(), "{one}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_no_token_and_all_else_does() {
    let (place, token) = (Place::new(), "0123456789abcdef-secret");
    place.write("config.yaml", CONFIG);
    place.write("token", token);
    place.write("servers.yaml", "backends: [{kind: emulated, speed: 200}]");
    let line = "serve --config config.yaml --backends servers.yaml --port 0 --state state --token-file token";
    let server = Running::of(&place, line);
    let url = &server.url;
    for (path, kind) in
        [("/", "text/html"), ("/dashboard/app.js", "text/javascript"), ("/dashboard/app.css", "text/css")]
    {
        let page = client().get(format!("{url}{path}")).send().await.unwrap();
        let header = |name: &str| page.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(page.status(), 200, "{path}");
        assert!(header("content-type").starts_with(kind), "{path}");
        let policy = header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(
            (header("cache-control"), header("x-content-type-options")),
            ("no-cache".into(), "nosniff".into())
        );
        let again = client().get(format!("{url}{path}")).header("if-none-match", header("etag")).send();
        assert_eq!(again.await.unwrap().status(), 304, "{path}");
        assert_eq!(client().post(format!("{url}{path}")).send().await.unwrap().status(), 405, "{path}");
    }
    for path in ["/v1/overview", "/v1/history"] {
        assert_eq!(client().get(format!("{url}{path}")).send().await.unwrap().status(), 401, "{path}");
        let told = client().get(format!("{url}{path}")).bearer_auth(token).send().await.unwrap();
        assert_eq!(told.status(), 200, "{path}");
    }
    let asked = client().post(format!("{url}/v1/what-if")).json(&json!({})).send().await.unwrap();
    assert_eq!(asked.status(), 401);
    let told = client().delete(format!("{url}/v1/overview")).bearer_auth(token).send().await.unwrap();
    assert_eq!(told.status(), 405);
    let told = client().get(format!("{url}/v1/history?after=x")).bearer_auth(token).send().await.unwrap();
    assert_eq!(told.status(), 400);
}

fn live(out: &str) -> String {
    let work = inputs("work");
    format!("run --live --backends servers.yaml --policy adaptive --mode online --gpus 4 --out {out} {work}")
}

/// A server that answers five calls, and all others only once it may go on: a run cannot end before.
fn answers_five(goes_on: Arc<AtomicBool>) -> String {
    let mut answered = 0;
    http_server(move |head, _| {
        if head.starts_with("GET") {
            let names = ["writer", "thinker", "painter"];
            return Some((200, json!({"data": names.map(|name| json!({"id": name}))})));
        }
        answered += 1;
        let said = json!({"choices": [{"message": {"content": "said"}}], "data": [{"embedding": [1.0], "b64_json": "eA=="}]});
        (answered <= 5 || goes_on.load(Ordering::SeqCst)).then_some((200, said))
    })
}

/// Every file of a folder, with what is in it.
fn files(place: &Place, folder: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(place.path(folder)).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// A run that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_seen_while_it_goes_on_after_it_was_killed_and_once_it_is_over() {
    let place = Place::with_work("simple", 12);
    let goes_on = Arc::new(AtomicBool::new(false));
    let url = answers_five(Arc::clone(&goes_on));
    place.write("servers.yaml", &format!("backends: [{{kind: openai, url: '{url}'}}]"));
    let line = live("out").replace("--mode online", "--mode offline");
    let child = place.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut child = Killed(child);
    // The journal is there a moment before there is anything in it.
    gswarm_testing::until("the run begins", || place.path("out/journal.db-wal").exists());
    let viewer = Running::of(&place, "view out --port 0");
    let url = viewer.url.clone();
    let some = |said: &Value| said["counts"]["executions"].as_u64() >= Some(3);
    let seen = until(&url, "/v1/overview", some).await;
    assert_eq!(
        (&seen["state"], &seen["source"], &seen["policy"]),
        (&json!("running"), &json!("run"), &json!("adaptive"))
    );
    assert_eq!(seen["can"], json!({"submit": false, "cancel": false, "what_if": true}));
    let (_, queue) = get(&url, "/v1/queue").await;
    assert!(queue["requests"].as_array().is_some_and(|open| !open.is_empty()), "{queue}");
    let (status, ahead) = post(&url, "/v1/what-if", json!({"gpus": 6})).await;
    assert!(status == 200 && ahead["what_if"]["gpus"] == 6, "{status} {ahead}");
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    let seen = until(&url, "/v1/overview", |said| said["state"] == "interrupted").await;
    let left = files(&place, "out");
    // Somebody who comes only now sees the same, and leaves the folder as it was.
    let late = Running::of(&place, "view out --port 0");
    let (_, other) = get(&late.url, "/v1/overview").await;
    assert_eq!((&other["state"], &other["counts"]), (&json!("interrupted"), &seen["counts"]));
    assert_eq!(history(&late.url).await, history(&url).await);
    assert_eq!(files(&place, "out"), left, "nothing is written into the folder");
    drop(late);
    goes_on.store(true, Ordering::SeqCst);
    place.run("resume out --quiet").code(0);
    let over = until(&url, "/v1/overview", |said| said["state"] == "finished").await;
    assert_eq!((&over["counts"]["completed"], &over["counts"]["open"]), (&json!(12), &json!(0)));
    let log = place.json("out/adaptive_execution_log.json");
    let (bars, _) = history(&url).await;
    let shown = runs(&of_kind(&bars, "run"), "request", "node", "start", "end", "gpus");
    let written = log["executions"].as_array().unwrap();
    assert_eq!(shown, runs(written, "request_id", "node_id", "start_time", "end_time", "gpu_ids"));
    let (status, result) =
        get(&url, &format!("/v1/requests/{}/result", written[0]["request_id"].as_str().unwrap())).await;
    assert!(status == 200 && result["status"] == "completed", "{result}");
    let outputs = result["outputs"].as_object().unwrap();
    assert!(!outputs.is_empty(), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulated_run_is_shown_from_its_log() {
    let place = Place::with_work("simple", 20);
    place.run("run --policy adaptive --mode online --gpus 4 --out work/out @work").code(0);
    let before = files(&place, "work/out");
    let viewer = Running::of(&place, "view work/out --port 0");
    let url = viewer.url.clone();
    let (_, seen) = get(&url, "/v1/overview").await;
    assert_eq!(
        (&seen["source"], &seen["state"], &seen["policy"]),
        (&json!("log"), &json!("finished"), &json!("adaptive"))
    );
    assert_eq!((&seen["counts"]["completed"], &seen["counts"]["failed"]), (&json!(20), &json!(0)));
    let log = place.json("work/out/adaptive_execution_log.json");
    let (bars, _) = history(&url).await;
    let shown = runs(&of_kind(&bars, "run"), "request", "node", "start", "end", "gpus");
    let written = log["executions"].as_array().unwrap();
    assert_eq!(shown, runs(written, "request_id", "node_id", "start_time", "end_time", "gpu_ids"));
    let summary = &log["summary"];
    let loads = |field: &str| summary[field].as_u64().unwrap_or(0);
    assert_eq!(
        of_kind(&bars, "load").len() as u64,
        loads("model_switches") + loads("cold_loads"),
        "{summary}"
    );
    let name = written[0]["request_id"].as_str().unwrap();
    assert_eq!(get(&url, &format!("/v1/requests/{name}")).await.1["status"], "completed");
    let gone = client().delete(format!("{url}/v1/requests/{name}")).send().await.unwrap();
    let (status, said) = (gone.status().as_u16(), gone.json::<Value>().await.unwrap());
    assert_eq!((status, &said["error"]["code"]), (405, &json!("read_only")));
    let (status, said) = post(&url, "/v1/workflows/w/requests", json!({})).await;
    assert_eq!((status, &said["error"]["code"]), (405, &json!("read_only")));
    assert_eq!(get(&url, "/v1/requests/nobody").await.0, 404);
    viewer.signal("-TERM");
    assert_eq!(viewer.end().0, 0);
    assert_eq!(files(&place, "work/out"), before);
}

#[test]
fn what_cannot_be_shown_is_said() {
    let place = Place::with_work("simple", 3);
    std::fs::create_dir(place.path("empty")).unwrap();
    place.run("view nowhere --port 0").code(2).says("V001");
    place.run("view empty --port 0").code(2).says("R002");
    for policy in ["baseline", "adaptive"] {
        place.run(&format!("run --policy {policy} --gpus 4 --out work/out @work")).code(0);
    }
    place.run("view work/out --port 0").code(2).says("V002");
    std::fs::create_dir(place.path("broken")).unwrap();
    place.write("broken/journal.db", "");
    place.run("view broken --port 0").code(2).says("the journal holds no run");
    place.write(
        "broken/journal.db",
        "this is no journal at all, and it is longer than the header of one would be",
    );
    place.run("view broken --port 0").code(2).says("journal");
    place.run("view work/out --port 0 --host 0.0.0.0").code(2).says("V002");
}
