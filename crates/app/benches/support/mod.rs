//! Inputs of any size, made in memory.

use gswarm_core::Instance;
use gswarm_core::generate::{Format, Preset, RequestOptions, requests, write_config};
use gswarm_core::input::{RequestSpec, Scenario, Source, read_config};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::{Span, WorkflowId};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The configuration of the `complex` preset, as text and as it is read.
pub fn complex() -> (Vec<u8>, Scenario) {
    let mut text = Vec::new();
    write_config(&Preset::Complex.config(), Format::Json, &mut text).expect("memory can be written to");
    let reading = read_config(Source { name: "complex", bytes: &text });
    (text, reading.scenario.expect("presets are valid"))
}

/// Requests of the `complex` preset with `nodes` nodes or a few more, all there at the start, on `gpus` GPUs.
pub fn complex_instance(nodes: usize, gpus: u32) -> Instance {
    let (_, bare) = complex();
    let mut made = 0;
    let options = RequestOptions { count: nodes as u32, seed: 1, ..RequestOptions::default() };
    let drawn = requests(&bare, &options).expect("presets have times");
    let drawn = drawn.take_while(|request| {
        let before = made;
        made += request.node_execution_times.len();
        before < nodes
    });
    let number_of =
        |id: &str| bare.workflows.iter().position(|workflow| workflow.id == id).expect("it is there");
    let specs = drawn.map(|request| RequestSpec {
        workflow: WorkflowId::from(number_of(request.workflow_id)),
        times: request.node_execution_times.iter().map(|&(_, time)| Some(Span::from_seconds(time))).collect(),
        ..blank_request(request.request_id)
    });
    let requests: Vec<RequestSpec> = specs.collect();
    instance(Scenario { requests, ..bare }, gpus)
}

/// Everything but the name left out.
pub fn blank_request(id: String) -> RequestSpec {
    RequestSpec::new(id, WorkflowId(0))
}

/// The scenario as a batch on `gpus` GPUs; the scenario itself does not stay in memory.
pub fn instance(mut scenario: Scenario, gpus: u32) -> Instance {
    scenario.cluster.gpus = Some(gpus);
    let cluster = Cluster::from_spec(&scenario.cluster).expect("the number of GPUs is given");
    Instance::build(&scenario, cluster, Mode::Offline).expect("feasible")
}

/// Time that this thread has been on a processor, where the system tells it: unlike the clock, it does not depend on what
/// else the machine does. Elsewhere the time since the program began to ask.
pub fn cpu_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    nanos.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// Time that all threads of this process have been on a processor, in steps of hundredths of a second, where the system tells
/// it. Elsewhere the time since the program began to ask.
pub fn process_cpu_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in brackets, may hold blanks; user and system time are the 12th and 13th fields behind it.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: Option<Vec<u64>> = fields.map(|field| field.parse().ok()).collect();
    match ticks.as_deref() {
        Some([user, system]) => Duration::from_millis((user + system) * 10),
        _ => START.elapsed(),
    }
}

/// The most memory that this process has had.
pub fn peak_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}
