//! What goes wrong in live runs: what is told, and what is left alone.

use crate::http::http_server;
use crate::support::Place;
use gswarm_testing::ended;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const CONFIG: &str = "
models:
  writer: {memory_gb: 14, gpus_required: 1, load_time_seconds: 0.1, inference_time_mean: 0.01, type: llm}
workflows:
  story:
    nodes:
      - {id: write, model: writer, inputs: [wish], outputs: [text]}
      - {id: judge, model: writer, inputs: [text, taste], outputs: [verdict]}
    edges: [{from: write, to: judge}]
";

/// Requests whose wishes are `bad`, which the server refuses, `broken`, over which it fails, or good.
fn with_wishes(wishes: &[&str]) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("work")).unwrap();
    place.write("work/config.yaml", CONFIG);
    let requests = wishes.iter().enumerate().map(|(at, wish)| {
        json!({"request_id": format!("r{at}"), "timestamp": 0, "workflow_id": "story",
               "input_data": {"wish": wish, "taste": "plain"}})
    });
    let requests = json!({"requests": requests.collect::<Vec<_>>()});
    place.write("work/requests.yaml", &requests.to_string());
    place
}

fn live(out: &str) -> String {
    format!("run --live --backends servers.yaml --policy baseline --gpus 2 --out {out} @work")
}

/// A server with OpenAI's interface that refuses what is bad and fails over what is broken.
fn particular_server() -> String {
    http_server(|head, body| {
        Some(if head.starts_with("GET") {
            (200, json!({"data": [{"id": "writer"}]}))
        } else if body.contains("bad") {
            (422, json!({"error": {"message": "this is\nno wish"}}))
        } else if body.contains("broken") {
            (500, json!({"error": "it fell over"}))
        } else {
            (200, json!({"choices": [{"message": {"content": "fine"}}]}))
        })
    })
}

#[test]
fn what_failed_is_listed_with_its_reasons() {
    let mut wishes = vec!["good", "broken"];
    wishes.extend(["bad"; 21]);
    let place = with_wishes(&wishes);
    place.write("servers.yaml", &format!("backends: [{{kind: openai, url: '{}'}}]", particular_server()));
    // A server that answers 500 is unwell: its calls wait for it, cost no attempt, and end with the patience.
    let line = |out: &str| format!("{} --server-patience 2", live(out));
    let told = place.run(&line("out")).code(4);
    assert!(told.err.contains("22 of 23 requests failed"), "{}", told.err);
    let listed = |start: &str| told.err.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    let broken = listed("  - r1: write: 1 attempt: no server could serve it for 2 s");
    assert!(broken.contains("500: it fell over"), "{}", told.err);
    assert!(listed("  - r2: write: 1 attempt: ").contains("422: this is no wish"), "{}", told.err);
    assert_eq!(told.err.lines().filter(|line| line.starts_with("  - ")).count(), 20, "{}", told.err);
    assert!(told.err.contains("and 2 more: see out/baseline_results.jsonl"), "{}", told.err);
    // The same for programs, all of it.
    let told = place.run(&format!("{} --json", line("json"))).code(4);
    let metrics: Value = serde_json::from_str(&told.out).unwrap();
    let failed = metrics["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 22);
    assert_eq!((&failed[0]["request_id"], &failed[0]["attempts"]), (&"r1".into(), &1.into()));
    assert!(failed[1]["why"].as_str().unwrap().contains("422"), "{}", failed[1]);
    // A run that was taken up again knows it too, and changes nothing of what is there.
    let files = ["baseline_execution_log.json", "baseline_scheduler.log", "baseline_results.jsonl"];
    let bytes = || files.map(|file| place.read(&format!("out/{file}")));
    let before = bytes();
    place.run("resume out --quiet").code(4).says("r1: write: 1 attempt");
    assert_eq!(bytes(), before);
}

/// A plan loads models at moments at which nothing else happens.
#[test]
fn a_run_that_is_over_is_resumed_without_a_change() {
    let place = Place::with_work("simple", 12);
    place.write("servers.yaml", "backends: [{kind: emulated, speed: 1000}]");
    for (policy, format) in [("planned", "json"), ("adaptive", "jsonl"), ("lru", "auto")] {
        let line = live("OUT").replace("baseline", policy).replace("--gpus 2", "--gpus 4");
        let line = line.replace("OUT", policy);
        place.run(&format!("{line} --format {format}")).code(0);
        let names = || -> Vec<(String, Vec<u8>)> {
            let entries = std::fs::read_dir(place.path(policy)).unwrap().map(|entry| entry.unwrap());
            let names = entries.map(|entry| entry.file_name().into_string().unwrap());
            let mut names: Vec<String> = names.filter(|name| !name.starts_with("journal")).collect();
            names.sort();
            let read = |name: String| {
                let bytes = std::fs::read(place.path(policy).join(&name)).unwrap();
                (name, bytes)
            };
            names.into_iter().map(read).collect()
        };
        let before = names();
        assert!(before.len() >= 3);
        place.run(&format!("resume {policy} --quiet")).code(0);
        for (one, other) in names().into_iter().zip(before) {
            assert!(one == other, "{policy}: {} and {} differ", one.0, other.0);
        }
    }
}

#[test]
fn programs_that_are_not_there_are_told_before_a_run() {
    let place = with_wishes(&["good"]);
    place.write("text", "no program");
    let servers = "backends:\n- kind: command\n  gpus: 0\n  command: [gswarm-no-such-program, --port, '{port}']\n\
                   - kind: command\n  gpus: 1\n  command: [./text]\n";
    place.write("servers.yaml", servers);
    let told = place.run(&live("out")).code(2);
    let told = told.says("E116").says("servers.yaml:4").says("`gswarm-no-such-program` cannot be started");
    told.says("servers.yaml:7").says("./text may not be executed").says("hint: install it");
    assert!(!place.path("out").exists());
    place
        .run("serve --config work/config.yaml --backends servers.yaml --gpus 2 --port 0")
        .code(2)
        .says("cannot be started");
}

#[test]
fn inputs_that_nobody_gives_are_warned_of_once() {
    let place = with_wishes(&["good"; 12]);
    let text = place.read("work/requests.yaml").replace("taste", "smell");
    place.write("work/requests.yaml", &text);
    place.write("servers.yaml", "backends: [{kind: emulated, speed: 1000}]");
    let told = place.run(&live("out")).code(0);
    assert_eq!(told.err.matches("warning: 12 requests lack inputs").count(), 1, "{}", told.err);
    assert!(told.err.contains("`judge` reads `taste` (12 requests, first r0)\n"), "{}", told.err);
    let told = place.run(&format!("{} --quiet", live("quiet"))).code(0);
    assert_eq!(told.err, "");
}

#[test]
fn an_estimate_keeps_out_of_the_folder_of_a_run_that_is_under_way() {
    let place = with_wishes(&["good"; 3]);
    // So slow that it is still there.
    place.write("servers.yaml", "backends: [{kind: emulated, speed: 0.001}]");
    let mut child = place.command(&live("out")).stderr(Stdio::null()).spawn().unwrap();
    gswarm_testing::until("something is written", || {
        std::fs::metadata(place.path("out/journal.db-wal")).is_ok_and(|found| found.len() > 0)
    });
    let estimate = "run --policy baseline --gpus 2 --out out @work".to_owned();
    let told = place.run(&estimate);
    child.kill().unwrap();
    child.wait().unwrap();
    told.code(2).says("a live run is in progress in out").says("another folder");
    assert!(!place.path("out/baseline_execution_log.json").exists());
    // Once nobody writes there, the folder is like any other.
    place.run(&estimate).code(0);
}

/// A server that answers one call, and then 503 to everything that it is asked until it recovers.
fn server_that_falls_ill(is_well: &Arc<AtomicBool>) -> String {
    let is_well = Arc::clone(is_well);
    let mut called = false;
    http_server(move |head, _| {
        Some(if called && !is_well.load(Ordering::SeqCst) {
            (503, json!({"error": "no capacity"}))
        } else if head.starts_with("GET") {
            (200, json!({"data": [{"id": "writer"}]}))
        } else {
            called = true;
            (200, json!({"choices": [{"message": {"content": "fine"}}]}))
        })
    })
}

/// What a run waits for is told, however few calls it has that fail, and it hears that it is to stop.
#[test]
fn a_run_whose_server_falls_ill_says_so_and_stops_when_it_is_told_to() {
    // With few requests the server stays in rotation, and its calls are made again; with many it leaves it.
    for (requests, told) in [(2, "failed calls are retried"), (12, " left rotation: ")] {
        let (place, is_well) = (with_wishes(&vec!["good"; requests]), Arc::default());
        let url = server_that_falls_ill(&is_well);
        place.write("servers.yaml", &format!("backends: [{{kind: openai, url: '{url}'}}]"));
        let mut child = place.command(&live("out")).stderr(Stdio::piped()).spawn().unwrap();
        let (mut said, mut lines) = (String::new(), BufReader::new(child.stderr.take().unwrap()));
        while !said.contains(told) {
            assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
        }
        assert!(said.contains("no capacity"), "{said}");
        let sent =
            std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let status = ended(&mut child);
        lines.read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(130), "{said}");
        assert!(said.contains("nodes are not done") && said.contains("`gswarm resume out`"), "{said}");
        // What was done is kept, and the rest is done once the server is well.
        is_well.store(true, Ordering::SeqCst);
        place.run("resume out").code(0);
        let results = place.read("out/baseline_results.jsonl");
        assert_eq!(results.matches("\"status\":\"completed\"").count(), requests, "{results}");
    }
}
