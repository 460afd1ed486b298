//! A million executions: `cargo test --release -p gswarm-core --test check scale -- --ignored --nocapture`.

use crate::support::*;
use gswarm_core::check;
use gswarm_core::input::Scenario;
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::log::ExecutionLog;
use gswarm_core::log_file::{LogFile, write_json, write_jsonl};
use gswarm_core::report;
use std::time::Instant;

/// Chains of two nodes, each on the GPU of its model pair, back to back.
fn chains(requests: usize, gpus: u32) -> (Instance, ExecutionLog) {
    let scenario = (0..requests)
        .fold(
            Scenario::builder()
                .model("a", 1, 14.0, 30.0)
                .model("b", 1, 10.0, 20.0)
                .workflow("chain")
                .node("x", "a")
                .node("y", "b")
                .edge("x", "y"),
            |builder, id| builder.request(&format!("req_{id:06}"), "chain").times(&[1.5, 2.25]),
        )
        .build()
        .unwrap();
    let instance = Instance::build(&scenario, cluster(gpus, Some(8)), Mode::Offline).unwrap();
    let mut free = vec![0.0f64; gpus as usize];
    let mut executions = Vec::with_capacity(2 * requests);
    for id in 0..requests as u32 {
        let gpu = id % gpus;
        let now = &mut free[gpu as usize];
        let first = if *now == 0.0 { 30.0 } else { 3.5 };
        let end = *now + first + 1.5;
        executions.push(ran(2 * id, (gpu, 1), 0.0, first, end - 1.5, end));
        executions.push(ran(2 * id + 1, (gpu, 1), end, 3.5, end + 3.5, end + 5.75));
        *now = end + 5.75;
    }
    (instance, ExecutionLog { executions, ..ExecutionLog::default() })
}

#[test]
fn a_thousand_requests_are_valid() {
    let (instance, log) = chains(1000, 16);
    assert_valid(&instance, &log);
}

#[test]
#[ignore = "a measurement"]
fn a_million_executions() {
    let (instance, log) = chains(500_000, 64);
    let time = |what: &str, start: Instant| println!("{what}: {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    let metrics = report::metrics(&instance, &log);
    time("metrics", start);
    let summary = report::summary(&instance, &metrics, report::RunInfo::default());
    let start = Instant::now();
    assert_eq!(check::check_log(&instance, &log, Some(&summary)).len(), 0);
    time("check in memory", start);
    let mut json = Vec::new();
    let start = Instant::now();
    write_json(&instance, &log, &summary, &mut json).unwrap();
    time("write json", start);
    let mut lines = Vec::with_capacity(json.len());
    let start = Instant::now();
    write_jsonl(&instance, &log, &summary, &mut lines).unwrap();
    time("write jsonl", start);
    for bytes in [json, lines] {
        println!("{} MB", bytes.len() / 1_000_000);
        let start = Instant::now();
        let file = LogFile::read_bytes(&bytes);
        time("read", start);
        let start = Instant::now();
        assert_eq!(check::check(&instance, &file).len(), 0);
        time("check file", start);
    }
    let start = Instant::now();
    report::write_events(&instance, &log, &mut std::io::sink()).unwrap();
    time("events", start);
}
