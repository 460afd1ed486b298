//! How fast a live run is where the servers take no time: node executions a second, through the journal, and the time from
//! the end of a node to the start of the next in a chain. With Ray as the peer where there is one.
//!
//! `cargo bench --bench dispatch`. Ray is found in `target/ray`: `python3 -m venv target/ray && target/ray/bin/pip install ray`.

use gswarm_core::input::{ClusterSpec, Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::policy::{BuildContext, PolicyKind};
use gswarm_exec::backend::EmulatedBackend;
use gswarm_exec::clock::Clock;
use gswarm_exec::drive::{Live, LiveProblem, Patience};
use gswarm_exec::fleet::Fleet;
use gswarm_exec::journal::{Durability, Journal};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const NODES: usize = 50_000;
const CHAIN: usize = 1_000;

fn main() {
    // `cargo test --benches` and friends pass flags that mean nothing here.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let many = seconds_of(&independent(NODES), 16, NODES);
    println!("{NODES} independent nodes, 16 GPUs: {:.0} executions/s", NODES as f64 / many);
    let chain = seconds_of(&chained(CHAIN), 1, CHAIN);
    println!("a chain of {CHAIN} nodes: {:.3} ms a hop", chain * 1e3 / CHAIN as f64);
    peer();
}

/// A run in a journal of its own, on servers that take no time.
fn seconds_of(scenario: &Scenario, gpus: u32, nodes: usize) -> f64 {
    let spec = ClusterSpec { gpus: Some(gpus), ..ClusterSpec::default() };
    let cluster = Cluster::from_spec(&spec).expect("a cluster of some GPUs");
    let instance = Instance::build(scenario, cluster, Mode::Offline).expect("it fits");
    let folder = tempfile::tempdir().expect("a folder");
    let journal =
        Journal::create(&folder.path().join("journal"), Durability::Process, &[]).expect("a journal");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let mut policy = PolicyKind::Baseline.build(&instance, &BuildContext::default());
    let clock = Clock::at_speed(1e6);
    let slowdown = instance.models.iter().map(|model| model.slowdown.clone()).collect();
    let fleet = Fleet::of(Arc::new(EmulatedBackend::new(clock.clone(), slowdown)), gpus);
    let problem = LiveProblem { scenario, instance: &instance };
    let begun = Instant::now();
    let live = Live::new(problem, fleet, clock, journal, Patience::default());
    let finished = runtime.block_on(live.run(policy.as_mut(), &mut |_| true)).expect("it runs to its end");
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(finished.outputs.len(), nodes, "everything was done");
    seconds
}

const MODEL: &str = "models:\n  m: {name: M, memory_gb: 1, gpus_required: 1, load_time_seconds: 0.000001, inference_time_mean: 0.000001}\n";

fn independent(count: usize) -> Scenario {
    let config =
        format!("{MODEL}workflows:\n  w:\n    name: w\n    nodes: [{{id: a, model: m}}]\n    edges: []\n");
    let requests = (0..count).map(|at| format!("{{\"request_id\": \"r{at}\", \"workflow_id\": \"w\"}}\n"));
    read(&config, &requests.collect::<String>())
}

fn chained(count: usize) -> Scenario {
    let nodes: String = (0..count).map(|at| format!("      - {{id: n{at}, model: m}}\n")).collect();
    let edges: String = (1..count).map(|at| format!("      - {{from: n{}, to: n{at}}}\n", at - 1)).collect();
    let config = format!("{MODEL}workflows:\n  w:\n    name: w\n    nodes:\n{nodes}    edges:\n{edges}");
    read(&config, "{\"request_id\": \"r\", \"workflow_id\": \"w\"}\n")
}

fn read(config: &str, requests: &str) -> Scenario {
    let source = |name, text: &'static str| Source { name, bytes: text.as_bytes() };
    let (config, requests) = (config.to_owned().leak(), requests.to_owned().leak());
    let reading = read_scenario(source("config", config), source("requests", requests), Mode::Offline);
    reading.scenario.unwrap_or_else(|| panic!("{:?}", reading.diagnostics))
}

/// The same two measurements of Ray, in the same run on the same machine.
fn peer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join("target/ray/bin/python");
    if !python.exists() {
        println!(
            "Ray is not there: make a virtual environment target/ray and install ray into it to compare"
        );
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/ray_peer.py");
    let status = Command::new(python).arg(script).arg(CHAIN.to_string()).status();
    if !status.is_ok_and(|status| status.success()) {
        println!("Ray failed: see above");
    }
}
