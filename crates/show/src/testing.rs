//! A small problem to test with, and its runs.

use gswarm_core::Instance;
use gswarm_core::input::{Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::log::ExecutionLog;
use gswarm_core::policy::{BuildContext, PolicyKind};
use gswarm_core::sim::{SimOptions, simulate};

const CONFIG: &str = "\
models:
  writer: {memory_gb: 14, gpus_required: 1, load_time_seconds: 5, inference_time_mean: 4}
  painter: {memory_gb: 20, gpus_required: 1, load_time_seconds: 8, inference_time_mean: 6}
  judge: {memory_gb: 60, gpus_required: 2, load_time_seconds: 12, inference_time_mean: 3}
workflows:
  story:
    nodes: [{id: write, model: writer}, {id: paint, model: painter}, {id: judge, model: judge}]
    edges: [{from: write, to: paint}, {from: paint, to: judge}]
  note:
    nodes: [{id: write, model: writer}]
    edges: []
cluster: {gpus: 4, gpus_per_server: 2}
";

/// Requests of both workflows in turn, all there at the start, on four GPUs.
pub fn instance(requests: u32) -> Instance {
    let mut text = String::from("requests:\n");
    for number in 0..requests {
        let workflow = if number % 3 == 2 { "note" } else { "story" };
        text += &format!(
            "  - {{request_id: req_{number:04}, timestamp: \"2026-01-01T00:00:{:02}Z\", workflow_id: {workflow}}}\n",
            number % 60
        );
    }
    let source = |name, text: &'static str| Source { name, bytes: text.as_bytes() };
    let requests = Source { name: "requests", bytes: text.as_bytes() };
    let reading = read_scenario(source("config", CONFIG), requests, Mode::Offline);
    let scenario = reading.scenario.unwrap_or_else(|| panic!("{:?}", reading.diagnostics));
    let cluster = Cluster::from_spec(&scenario.cluster).unwrap();
    Instance::build(&scenario, cluster, Mode::Offline).unwrap()
}

/// The same, run under a policy.
pub fn run(policy: &str, requests: u32) -> (Instance, ExecutionLog) {
    let instance = instance(requests);
    let kind = PolicyKind::ALL.iter().find(|kind| kind.name() == policy).unwrap();
    let mut policy = kind.build(&instance, &BuildContext::default());
    let log = simulate(&instance, policy.as_mut(), &SimOptions::default(), &mut |_| {}).unwrap();
    drop(policy);
    assert!(gswarm_core::check::check_log(&instance, &log, None).is_empty());
    (instance, log)
}
