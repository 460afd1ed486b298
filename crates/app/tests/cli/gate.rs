//! Live runs are judged as simulated ones are; and what they say while they run.

use crate::http::http_server;
use crate::support::Place;
use gswarm_testing::until;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// `static` once wrote no deployment into the logs of its live runs, so that every one of them failed its check.
#[test]
fn live_runs_of_every_policy_pass_their_check() {
    let place = Place::with_work("simple", 10);
    place.write("servers.yaml", "backends: [{kind: emulated, speed: 3000}]");
    for policy in ["static", "adaptive", "planned", "baseline", "lru"] {
        let line = format!(
            "run --live --backends servers.yaml --policy {policy} --gpus 4 --out {policy} --json @work"
        );
        let report = place.run(&line).json(0);
        assert_eq!(report["violations"], json!([]), "{policy}");
        place.run(&format!("check {policy}/{policy}_execution_log.json @work")).code(0);
        let names = report["files"].to_string();
        assert!(!names.contains("rejected"), "{names}");
    }
    let log = place.json("static/static_execution_log.json");
    assert!(log["summary"]["gpu_assignments"].is_object(), "{}", log["summary"]);
}

#[test]
fn a_verbose_live_run_prints_while_it_runs() {
    let place = Place::with_work("simple", 10);
    place.write("servers.yaml", "backends: [{kind: emulated, speed: 20}]");
    let line = "run --live --backends servers.yaml --policy baseline --gpus 4 --out out --verbose @work";
    let mut child = place.command(line).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    for words in ["arrived (workflow", "Loading model ", "Started node "] {
        assert!(lines.any(|line| line.contains(words)), "{words}");
    }
    // It once printed all of them at its end, when its files were there.
    let runs = child.try_wait().unwrap().is_none() && !place.path("out/baseline_results.jsonl").exists();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(runs, "the lines came before the run had ended");
}

fn stories(place: &Place) {
    let config = "
models: {writer: {memory_gb: 14, gpus_required: 1, load_time_seconds: 0.1, inference_time_mean: 0.01, type: llm}}
workflows: {story: {nodes: [{id: write, model: writer, inputs: [wish], outputs: [text]}], edges: []}}
";
    std::fs::create_dir(place.path("work")).unwrap();
    place.write("work/config.yaml", config);
    let requests = (0..4).map(|number| {
        json!({"request_id": format!("r{number}"), "timestamp": 0, "workflow_id": "story",
               "input_data": {"wish": if number == 2 { "broken" } else { "good" }}})
    });
    place.write("work/requests.yaml", &json!({"requests": requests.collect::<Vec<_>>()}).to_string());
}

/// vLLM answers 200 with half a text when it is put to sleep. That is a failed call; another time it may do.
#[test]
fn an_answer_that_was_broken_off_is_a_failure_and_may_be_tried_again() {
    let place = Place::new();
    stories(&place);
    let sleeps = Arc::new(AtomicBool::new(true));
    let is_asleep = Arc::clone(&sleeps);
    let url = http_server(move |head, body| {
        let reason =
            if body.contains("broken") && is_asleep.load(Ordering::SeqCst) { "abort" } else { "stop" };
        Some(if head.starts_with("GET") {
            (200, json!({"data": [{"id": "writer"}]}))
        } else {
            (200, json!({"choices": [{"message": {"content": "fine"}, "finish_reason": reason}]}))
        })
    });
    place.write("servers.yaml", &format!("backends: [{{kind: openai, url: '{url}'}}]"));
    let line = "run --live --backends servers.yaml --policy baseline --gpus 2 --out out @work";
    let told = place.run(line).code(4).says("1 of 4 requests failed").says("`abort`");
    let told = told.says("gswarm resume out --retry-failed");
    let warning =
        told.err.lines().find(|line| line.contains("WARN")).unwrap_or_else(|| panic!("{}", told.err));
    let time: String =
        warning.chars().take(19).map(|one| if one.is_ascii_digit() { '0' } else { one }).collect();
    assert_eq!(time, "0000-00-00T00:00:00", "{warning}");
    place.run("resume out --quiet").code(4);
    sleeps.store(false, Ordering::SeqCst);
    place.run("resume out --retry-failed --quiet").code(0);
    place.run("check out/baseline_execution_log.json @work").code(0);
    let results = place.read("out/baseline_results.jsonl");
    assert_eq!(
        results.lines().filter(|line| line.contains("\"status\":\"completed\"")).count(),
        4,
        "{results}"
    );
}

/// The journal's file alone was once empty until four megabytes had been written beside it, and its run was said to be lost
/// to nobody.
#[test]
fn a_journal_that_was_copied_without_its_log_goes_on() {
    let place = Place::with_work("simple", 10);
    place.write("slow.yaml", "backends: [{kind: emulated, speed: 20}]");
    place.write("fast.yaml", "backends: [{kind: emulated, speed: 3000}]");
    let line = "run --live --backends slow.yaml --policy baseline --gpus 4 --quiet --out out @work";
    let mut child = place.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let has_run = || std::fs::metadata(place.path("out/journal.db")).is_ok_and(|file| file.len() > 4096);
    until("the run has begun, in the file alone", has_run);
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::create_dir(place.path("copy")).unwrap();
    std::fs::copy(place.path("out/journal.db"), place.path("copy/journal.db")).unwrap();
    place.run("resume copy --backends fast.yaml").code(0).says("journal.db-wal is missing");
    place.run("check copy/baseline_execution_log.json @work").code(0);
    // A file with nothing in it is told without comfort.
    std::fs::create_dir(place.path("empty")).unwrap();
    place.write("empty/journal.db", "");
    let told = place.run("resume empty").code(2).says("-wal");
    assert!(!told.err.contains("nothing is lost") && !told.err.contains("nothing was done"), "{}", told.err);
}
