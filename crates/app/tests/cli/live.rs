//! Live runs on emulated servers: what they leave, and how they go on after they were killed.

use crate::http::http_server;
use crate::support::{Place, json};
use gswarm_exec::journal::{Durability, Journal};
use gswarm_testing::{ended, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

fn with_servers(speed: u32) -> Place {
    let place = Place::with_work("simple", 12);
    place.write("servers.yaml", &format!("backends: [{{kind: emulated, speed: {speed}}}]"));
    place
}

fn live(policy: &str, out: &str) -> String {
    format!("run --live --backends servers.yaml --policy {policy} --gpus 4 --out {out} @work")
}

fn results(place: &Place, file: &str) -> BTreeMap<String, Value> {
    let lines = place.read(file);
    let all = lines.lines().map(json).map(|line| (line["request_id"].as_str().unwrap().to_owned(), line));
    all.collect()
}

#[test]
fn a_live_run_leaves_a_log_that_passes_the_check_and_a_result_for_each_request() {
    let place = with_servers(2000);
    place.run(&live("baseline", "out")).code(0);
    let log = place.json("out/baseline_execution_log.json");
    assert_eq!((&log["summary"]["simulate"], &log["summary"]["timing"]), (&true.into(), &"measured".into()));
    place.run("check out/baseline_execution_log.json @work").code(0);
    let results = results(&place, "out/baseline_results.jsonl");
    assert_eq!(results.len(), 12);
    assert!(results.values().all(|line| line["status"] == "completed"));
    // The folder has a journal now: nothing begins anew over it, and nothing is left to resume.
    place.run(&live("baseline", "out")).code(2).says("gswarm resume out");
    place.run("resume out --quiet").code(0);
    assert_eq!(place.json("out/baseline_execution_log.json"), log, "a run that is over stays as it was");
}

/// Killed before the first entry was written: the folder is as good as new.
#[test]
fn a_journal_that_was_never_begun_is_no_hindrance() {
    let place = with_servers(2000);
    std::fs::create_dir(place.path("out")).unwrap();
    place.write("out/journal.db", "");
    place.run("resume out").code(2).says("out/journal.db").says("holds no run");
    let left: Vec<_> = std::fs::read_dir(place.path("out")).unwrap().map(|file| file.unwrap()).collect();
    assert!(left.len() == 1 && place.read("out/journal.db").is_empty(), "it was changed: {left:?}");
    place.run(&live("baseline", "out")).code(0);
}

#[test]
fn a_journal_of_another_version_is_refused_with_its_code_and_what_to_do() {
    let place = Place::new();
    let older: &[(&str, &[u8])] = &[("config", b"{}"), ("requests", b"{}"), ("settings", b"{}")];
    let newer: &[(&str, &[u8])] = &[("spec", br#"{"colour": "red"}"#)];
    for (folder, parts, why) in
        [("older", older, "has no run specification"), ("newer", newer, "unknown field `colour`")]
    {
        let path = place.path(folder);
        std::fs::create_dir(&path).unwrap();
        drop(Journal::create(&path.join("journal.db"), Durability::Process, parts).unwrap());
        for command in ["resume", "view"] {
            let refused = place.run(&format!("{command} {folder}")).code(2);
            refused.says("E521").says(why).says("with the version that started it");
        }
    }
}

#[test]
fn a_run_that_is_killed_goes_on_and_keeps_what_it_had() {
    let place = with_servers(300);
    for (round, policy) in ["baseline", "planned", "adaptive"].into_iter().enumerate() {
        let folder = format!("killed{round}");
        let mut child = place.command(&live(policy, &folder)).spawn().unwrap();
        // Until some of it is there, wherever that is.
        let journal = place.path(&format!("{folder}/journal.db-wal"));
        until("something is written", || {
            let written = std::fs::metadata(&journal).is_ok_and(|found| found.len() > 60_000);
            written || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        place.run(&format!("resume {folder} --quiet")).code(0);
        place.run(&format!("check {folder}/{policy}_execution_log.json @work")).code(0);
        let results = results(&place, &format!("{folder}/{policy}_results.jsonl"));
        assert_eq!(results.len(), 12);
        assert!(results.values().all(|line| line["status"] == "completed"), "{policy}");
    }
}

/// A limit on the length of files is what a full disk is to those who write.
#[test]
fn a_full_disk_ends_the_run_and_nothing_is_lost() {
    let place = with_servers(2000);
    let mut limited = std::process::Command::new("sh");
    let program = place.command(&live("baseline", "out"));
    limited.args(["-c", "trap '' XFSZ; ulimit -f 256; exec \"$@\"", "sh"]).arg(program.get_program());
    limited.args(program.get_args()).current_dir(place.path("."));
    let ended = limited.output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("disk full") && said.contains("gswarm resume out"), "{said}");
    assert!(!place.path("out/baseline_execution_log.json").exists(), "nothing is half-written");
    place.run("resume out --quiet").code(0);
    place.run("check out/baseline_execution_log.json @work").code(0);
    assert_eq!(results(&place, "out/baseline_results.jsonl").len(), 12);
}

#[test]
fn faults_that_are_made_up_are_for_estimates() {
    let place = with_servers(2000);
    for flag in ["--fail-rate 0.1", "--lose-gpu 1@5"] {
        place.run(&format!("{} {flag}", live("baseline", "out"))).code(2).says("but the run is live");
        assert!(!place.path("out").exists(), "{flag}");
    }
}

#[test]
fn servers_that_do_not_fit_are_named_and_nothing_is_left() {
    let place = with_servers(1);
    for (text, says) in [
        ("backends: [{kind: emulated, gpus: 0-9}]", "the cluster has 4"),
        ("backends: [{kind: emulated, gpus: 0-1}]", "no server serves"),
        ("backends: [{kind: emulated, models: {nobody: x}}]", "there is no model `nobody`"),
        ("backends: [{kind: emulated, speed: 0}]", "0 is not above zero"),
        ("backends: [{kind: abacus}]", "abacus"),
        ("backends: [{kind: emulated, colour: red}]", "colour"),
        ("nothing", "servers.yaml"),
    ] {
        place.write("servers.yaml", text);
        place.run(&live("baseline", "out")).code(2).says(says);
        assert!(!place.path("out").exists(), "{text}");
    }
    place.run("resume work").code(2).says("has no journal");
    place.run(&live("baseline", "out").replace("--live ", "")).code(2).says("--live");
}

/// A server with OpenAI's interface, as small as one can be: it repeats what it is asked, and every seventh time fails, but
/// never twice over the same.
fn echo_server() -> String {
    let mut failed = std::collections::BTreeSet::new();
    let mut calls = 0..;
    http_server(move |head, body| {
        let number = calls.next().unwrap_or(0);
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        Some(if head.starts_with("GET /v1/models") {
            let names = ["writer", "thinker", "painter"];
            (200, serde_json::json!({"data": names.map(|name| serde_json::json!({"id": name}))}))
        } else if number % 7 == 3 && failed.insert(body.to_string()) {
            (500, serde_json::json!({"error": "not today"}))
        } else {
            let text = format!("{} was asked", body["model"].as_str().unwrap());
            let choice = serde_json::json!({"message": {"content": text}});
            (
                200,
                serde_json::json!({"choices": [choice], "data": [{"embedding": [1.0], "b64_json": "eA=="}]}),
            )
        })
    })
}

#[test]
fn a_live_run_on_a_server_over_http_ends_with_results_and_measured_loads() {
    let place = Place::with_work("simple", 12);
    let url = echo_server();
    place.write("servers.yaml", &format!("backends: [{{kind: openai, url: '{url}'}}]"));
    place.run(&live("baseline", "out")).code(0);
    place.run("check out/baseline_execution_log.json @work").code(0);
    let results = results(&place, "out/baseline_results.jsonl");
    assert_eq!(results.len(), 12);
    assert!(results.values().all(|line| line["status"] == "completed"));
    assert!(results.values().any(|line| line.to_string().contains("was asked")));
    // An answer of 500 is the server's fault: the call is made again, and costs no attempt.
    assert!(
        results.values().all(|line| line["failures"].as_array().is_none_or(Vec::is_empty)),
        "{results:?}"
    );
    assert!(place.read("out/baseline_execution_log.json").contains("\"deferred\""));
    let loads = place.read("out/loads.jsonl");
    let loads: Vec<Value> = loads.lines().map(json).collect();
    assert!(
        loads.iter().all(|line| line["action"] == "load" && line["seconds"].as_f64().is_some()),
        "{loads:?}"
    );
    assert!(!loads.is_empty());
}

#[test]
fn all_faults_of_the_servers_are_told_at_once_and_a_token_that_is_missing_is_one() {
    let place = Place::with_work("simple", 3);
    place.write("servers.yaml", "backends:\n- {kind: ollama, level: 1}\n- {kind: openai, url: nowhere}\n");
    let told = place.run(&live("baseline", "out")).code(2);
    told.says("servers.yaml:2").says("servers.yaml:3").says("`url` is missing").says("docs/backends.md");
    place.write(
        "servers.yaml",
        "backends: [{kind: openai, url: 'http://localhost:1', token_env: GSWARM_NO_SUCH_TOKEN}]",
    );
    place.run(&live("baseline", "out")).code(2).says("GSWARM_NO_SUCH_TOKEN");
}

/// Nobody answers, and still the run hears that it is to stop, and says what is wrong.
#[test]
fn a_run_that_waits_for_servers_stops_when_it_is_told_to() {
    let place = Place::with_work("simple", 3);
    // A port that nobody listens on.
    place.write("servers.yaml", "backends: [{kind: openai, url: 'http://127.0.0.1:1'}]");
    let mut child =
        place.command(&live("baseline", "out")).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    while !said.contains("waiting for servers") {
        assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let status = ended(&mut child);
    lines.read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("Connection refused") && !place.path("out").exists(), "{said}");
}
