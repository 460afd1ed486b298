//! A problem, servers for it, and a run on them.

use crate::mock::{Manners, Mock, World};
use gswarm_core::check::check_log;
use gswarm_core::input::{ClusterSpec, Scenario, Source, read_scenario, render};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::log_file::Timing;
use gswarm_core::policy::{BuildContext, PolicyKind};
use gswarm_core::report::{RunInfo, metrics, summary};
use gswarm_core::{Gpus, ModelId, Span};
use gswarm_exec::backend::{
    Backend, BackendKind, BackendSpec, BackendsFile, LoadRecorder, LoadTime, ModelAt, Replica, Timeouts,
    connect, read_backends,
};
use gswarm_exec::call::Call;
use gswarm_exec::clock::Clock;
use gswarm_exec::config;
use gswarm_exec::drive::{FinishedRun, Live, LiveError, LiveProblem, Patience};
use gswarm_exec::journal::{Durability, Journal};
use std::sync::{Arc, Mutex};

const CONFIG: &str = "
models:
  writer: {memory_gb: 14, gpus_required: 1, load_time_seconds: 0.1, inference_time_mean: 0.01, type: llm}
  critic: {memory_gb: 20, gpus_required: 1, load_time_seconds: 0.1, inference_time_mean: 0.01, type: llm}
  index: {memory_gb: 2, gpus_required: 1, load_time_seconds: 0.1, inference_time_mean: 0.01, type: embedding}
  large: {memory_gb: 60, gpus_required: 1, load_time_seconds: 0.1, inference_time_mean: 0.01, type: llm}
workflows:
  review:
    nodes:
      - {id: write, model: writer, inputs: [wish], outputs: [story]}
      - {id: judge, model: critic, inputs: [story], outputs: [verdict]}
      - {id: file, model: index, inputs: [story], outputs: [place]}
    edges: [{from: write, to: judge}, {from: write, to: file}]
  pair:
    nodes:
      - {id: write, model: writer, inputs: [wish], outputs: [story]}
      - {id: judge, model: critic, inputs: [story], outputs: [verdict]}
    edges: [{from: write, to: judge}]
  huge:
    nodes: [{id: think, model: large, inputs: [wish], outputs: [thought]}]
    edges: []
";

pub const MODELS: [(&str, &str); 4] = [
    ("writer", "writer-there"),
    ("critic", "critic-there"),
    ("index", "index-there"),
    ("large", "large-there"),
];

/// Requests of one workflow.
pub fn scenario(requests: &[(&str, &str)]) -> Scenario {
    let mut lines = String::from("requests:\n");
    for (number, (workflow, wish)) in requests.iter().enumerate() {
        let settings = "{max_length: 20, temperature: 0.5, seed: 7}";
        let configs = match *workflow {
            "huge" => format!("think: {settings}"),
            _ => format!("write: {settings}, judge: {settings}"),
        };
        lines.push_str(&format!(
            "  - {{request_id: r{number}, timestamp: 0, workflow_id: {workflow}, input_data: {{wish: {wish}}}, \
             node_configs: {{{configs}}}}}\n"
        ));
    }
    let config = Source { name: "config", bytes: CONFIG.as_bytes() };
    let reading = read_scenario(config, Source { name: "requests", bytes: lines.as_bytes() }, Mode::Offline);
    reading.scenario.unwrap_or_else(|| panic!("{}", render(&reading.diagnostics)))
}

pub fn instance(scenario: &Scenario, gpus: u32) -> Instance {
    let cluster = Cluster::from_spec(&ClusterSpec { gpus: Some(gpus), ..ClusterSpec::default() }).unwrap();
    Instance::build(scenario, cluster, Mode::Offline).unwrap()
}

/// What a server of this kind is told in a file, as far as the addresses are not in it.
fn spec(kind: BackendKind, gpu: u32) -> BackendSpec {
    let mut spec = BackendSpec { gpus: Some(gpu.to_string()), ..BackendSpec::of(kind) };
    for (name, there) in MODELS {
        spec.models.insert(name.to_owned(), ModelAt { name: Some(there.to_owned()), url: None });
    }
    // Generous: only tests of servers that hang or die wait for them, and say how long.
    spec.endpoint.timeouts = Timeouts { connect: 30.0, answer: 20.0, load: 60.0, unload: 60.0 };
    spec
}

/// The servers of one GPU, and what a file would say of them.
pub fn servers(kind: BackendKind, gpu: u32, manners: &Manners) -> (Vec<Mock>, BackendSpec) {
    let mut spec = spec(kind, gpu);
    let world = Arc::new(World::new(kind, manners.clone()));
    if !kind.holds_one_model() {
        let mock = Mock::start(world, "");
        spec.endpoint.url = Some(mock.url());
        return (vec![mock], spec);
    }
    let mut mocks = Vec::new();
    for (_, there) in MODELS {
        let mock = Mock::start(Arc::clone(&world), there);
        let at = spec.models.values_mut().find(|at| at.name.as_deref() == Some(there)).unwrap();
        at.url = Some(mock.url());
        mocks.push(mock);
    }
    (mocks, spec)
}

/// What the file of a kind would say has to be what files can say: it is written and read again.
pub fn as_read(spec: &BackendSpec) -> BackendSpec {
    let mut text = format!(
        "backends:\n- kind: {}\n  gpus: {}\n",
        spec.server.kind().name(),
        spec.gpus.as_ref().unwrap()
    );
    spec.endpoint.url.iter().for_each(|url| text.push_str(&format!("  url: {url}\n")));
    text.push_str("  models:\n");
    for (name, at) in &spec.models {
        let url = at.url.as_ref().map_or(String::new(), |url| format!(", url: '{url}'"));
        text.push_str(&format!("    {name}: {{as: {}{url}}}\n", at.name.as_ref().unwrap()));
    }
    text.push_str("  timeouts: {connect: 30, answer: 20, load: 60, unload: 60}\n");
    let reading = read_backends(Source { name: "servers", bytes: text.as_bytes() });
    let file = reading.file.unwrap_or_else(|| panic!("{text}\n{}", render(&reading.diagnostics)));
    let read = file.backends.into_iter().next().unwrap();
    assert_eq!(read, *spec, "{text}");
    read
}

/// One server, to be asked directly; and what it says of loads.
pub fn connected(spec: &BackendSpec) -> (Arc<dyn Backend>, Arc<Mutex<Vec<LoadTime>>>) {
    let scenario = scenario(&[("review", "x"), ("huge", "x")]);
    let instance = instance(&scenario, 1);
    let told: Arc<Mutex<Vec<LoadTime>>> = Arc::default();
    let tell = Arc::clone(&told);
    let record: LoadRecorder = Arc::new(move |timed: &LoadTime| tell.lock().unwrap().push(timed.clone()));
    let backend = connect(spec, Gpus::new(0, 1), &instance, &Clock::real(), &record).unwrap();
    (backend, told)
}

pub fn replica(model: u32) -> Replica {
    Replica { model: ModelId(model), gpus: Gpus::new(0, 1) }
}

pub fn call(kind: &str, prompt: &str) -> Call {
    Call {
        name: "r/n".to_owned(),
        inputs: serde_json::Map::from_iter([("wish".to_owned(), prompt.into())]),
        config: serde_json::Map::from_iter([("max_length".to_owned(), 20.into())]),
        kind: Some(kind.to_owned()),
        estimate: Span(10_000),
    }
}

/// So much of it that only what hangs is given up.
pub fn patience() -> Patience {
    let seconds = |seconds: f64| Span((seconds * 1e6) as u64);
    Patience {
        max_attempts: 12,
        call_factor: 10.0,
        call_grace: seconds(60.0),
        call_limit: None,
        load_grace: seconds(60.0),
        backoff: seconds(0.01),
        for_servers: seconds(120.0),
    }
}

/// Calls that hang are soon given up, and tried again: so are those that only take long.
pub fn hasty() -> Patience {
    Patience { call_grace: Span(3_000_000), ..patience() }
}

/// Runs a batch on servers to its end.
pub async fn run(
    scenario: &Scenario,
    instance: &Instance,
    file: &BackendsFile,
    patience: Patience,
) -> Result<FinishedRun, LiveError> {
    let clock = config::clock(file).unwrap();
    let record: LoadRecorder = Arc::new(|_| {});
    let fleet = config::fleet(file, instance, &clock, &record).unwrap_or_else(|faults| panic!("{faults:?}"));
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::create(&folder.path().join("journal"), Durability::Process, &[]).unwrap();
    let live = Live::new(LiveProblem { scenario, instance }, fleet, clock, journal, patience);
    let mut policy = PolicyKind::Baseline.build(instance, &BuildContext::default());
    live.run(policy.as_mut(), &mut |_| true).await
}

/// The log is judged as one that was measured.
pub fn passes_the_check(instance: &Instance, finished: &FinishedRun) {
    let info = RunInfo { simulate: true, timing: Timing::Measured, ..RunInfo::default() };
    let summary = summary(instance, &metrics(instance, &finished.log), info);
    assert_eq!(check_log(instance, &finished.log, Some(&summary)), []);
}
