//! Problems to run.

// What most of the tests use.
pub use gswarm_core::input::Scenario;
pub use gswarm_core::instance::{Mode, Residency};
pub use gswarm_core::log::Status;
pub use gswarm_core::policy::{BuildContext, PolicyKind};
pub use gswarm_core::{Gpus, Span, TaskId, check};
pub use gswarm_exec::backend::{Backend, BackendError, EmulatedBackend, Replica};
pub use gswarm_exec::call::Call;
pub use gswarm_exec::clock::Clock;
pub use gswarm_exec::drive::{FinishedRun, Live, LiveError, LiveProblem, Patience};
pub use gswarm_exec::fleet::Fleet;
pub use gswarm_exec::journal::{Durability, Journal};
pub use gswarm_exec::service::ServiceLimits;
pub use serde_json::Value;
pub use std::collections::HashMap;
pub use std::path::Path;
pub use std::sync::{Arc, Mutex};

use gswarm_core::input::{ClusterSpec, Source, read_scenario};
use gswarm_core::instance::{Cluster, Instance};
use gswarm_core::log::ExecutionLog;

const CONFIG: &str = r#"
models:
  writer: {name: Writer, memory_gb: 14, gpus_required: 1, load_time_seconds: 30, tokens_per_second: 50, token_mean: 400, BATCHING}
  painter: {name: Painter, memory_gb: 7, gpus_required: 1, load_time_seconds: 12, inference_time_mean: 3.3}
  judge: {name: Judge, memory_gb: 130, gpus_required: 2, load_time_seconds: 60, tokens_per_second: 20, token_mean: 100}
workflows:
  picture:
    name: picture
    nodes:
      - {id: write, model: writer, inputs: [wish], outputs: [prompt]}
      - {id: paint, model: painter, inputs: [prompt], outputs: [image]}
      - {id: paint2, model: painter, inputs: [prompt], outputs: [second]}
      - {id: judge, model: judge, inputs: [image, second], outputs: [verdict]}
    edges: [{from: write, to: paint}, {from: write, to: paint2}, {from: paint, to: judge}, {from: paint2, to: judge}]
  text:
    name: text
    nodes: [{id: write, model: writer, inputs: [wish], outputs: [story]}]
    edges: []
"#;

/// Pictures and texts, with times that never meet by chance.
pub fn scenario(requests: u32, batching: bool) -> Scenario {
    let batching =
        if batching { "batching: {max_batch: 4, slowdown: [[1, 1.0], [4, 1.37]]}" } else { "type: llm" };
    let config = CONFIG.replace("BATCHING", batching);
    let mut lines = String::from("requests:\n");
    for number in 0..requests {
        let workflow = if number % 3 == 2 { "text" } else { "picture" };
        let time = 4.0 + f64::from(number * 7919 % 1000) / 321.0;
        lines.push_str(&format!(
            "  - {{request_id: r{number}, timestamp: {}, workflow_id: {workflow}, input_data: {{wish: w{number}}}, \
             node_execution_times: {{write: {time:.6}}}}}\n",
            f64::from(number) * 2.217
        ));
    }
    let source = |name, text: &'static str| Source { name, bytes: text.as_bytes() };
    let config: &'static str = config.leak();
    let lines: &'static str = lines.leak();
    let reading = read_scenario(source("config", config), source("requests", lines), Mode::Online);
    reading.scenario.unwrap_or_else(|| panic!("{:?}", reading.diagnostics))
}

pub fn instance(scenario: &Scenario, gpus: u32, mode: Mode, kind: PolicyKind) -> Instance {
    instance_with(scenario, gpus, mode, kind, Residency::Single)
}

/// With this residency, where the policy leaves the choice.
pub fn instance_with(
    scenario: &Scenario,
    gpus: u32,
    mode: Mode,
    kind: PolicyKind,
    residency: Residency,
) -> Instance {
    let mut cluster =
        Cluster::from_spec(&ClusterSpec { gpus: Some(gpus), ..ClusterSpec::default() }).unwrap();
    cluster.residency = kind.residency(residency);
    Instance::build(scenario, cluster, mode).unwrap()
}

/// A new journal, in a folder that goes with it.
pub fn journal() -> (tempfile::TempDir, Journal) {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::create(&folder.path().join("journal"), Durability::Process, &[]).unwrap();
    (folder, journal)
}

/// Generated cases: as many as `PROPTEST_CASES` says, or as usual.
pub fn generated(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
}

/// Every policy in every mode that it has, with and without batching.
pub fn cases() -> impl Iterator<Item = (PolicyKind, Mode, bool)> {
    let modes = |&kind: &PolicyKind| [Mode::Offline, Mode::Online].map(|mode| (kind, mode));
    let able = PolicyKind::ALL.iter().flat_map(modes).filter(|(kind, mode)| kind.supports(*mode));
    able.flat_map(|(kind, mode)| [false, true].map(|batching| (kind, mode, batching)))
}

/// Fails where two logs differ. The order of records that end at the same microsecond carries no meaning.
pub fn assert_same(mut one: ExecutionLog, mut other: ExecutionLog, kind: PolicyKind) {
    one.executions.sort_by_key(|one| (one.end, one.task));
    other.executions.sort_by_key(|one| (one.end, one.task));
    for (one, other) in one.executions.iter().zip(&other.executions) {
        assert_eq!(one, other, "{}", kind.name());
    }
    assert_eq!(one, other, "{}", kind.name());
}

/// The emulated server of a problem.
pub fn emulated_backend(instance: &Instance, clock: &Clock) -> EmulatedBackend {
    let slowdown = instance.models.iter().map(|model| model.slowdown.clone()).collect();
    EmulatedBackend::new(clock.clone(), slowdown)
}

pub fn emulated(instance: &Instance, clock: &Clock) -> Fleet {
    Fleet::of(Arc::new(emulated_backend(instance, clock)), instance.cluster.gpus)
}
