//! One small file a fault: which code, at which line and column, with which path.

use gswarm_core::input::{Code, Diagnostic, Source, read_scenario};
use gswarm_core::instance::Mode;

const CONFIG: &str = "\
models:
  llm7b:
    memory_gb: 14
    gpus_required: 1
    load_time_seconds: 30
    inference_time_mean: 8.5
  bare: {memory_gb: 4, gpus_required: 1, load_time_seconds: 3}
workflows:
  chat:
    nodes:
      - {id: write, model: llm7b, outputs: [draft, shared]}
      - {id: check, model: bare, outputs: [verdict, shared]}
    edges:
      - {from: write, to: check}
";
const REQUEST: &str = "requests:\n- {request_id: r, workflow_id: chat, node_execution_times: {check: 2}}\n";

fn read(config: &str, requests: &str, mode: Mode) -> Vec<Diagnostic> {
    let config = Source { name: "config.yaml", bytes: config.as_bytes() };
    let requests = Source { name: "requests.yaml", bytes: requests.as_bytes() };
    let reading = read_scenario(config, requests, mode);
    let has_error = reading.diagnostics.iter().any(|d| d.code.code().starts_with('E'));
    assert_eq!(reading.scenario.is_none(), has_error, "{:#?}", reading.diagnostics);
    reading.diagnostics
}

/// The rows of a table, column by column.
fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [String; N]> + '_ {
    table.trim_matches('\n').lines().map(|line| {
        let columns: Vec<String> = line.split(" => ").map(|column| column.replace("\\n", "\n")).collect();
        columns.try_into().unwrap_or_else(|_| panic!("{line}"))
    })
}

/// What was found has to be `expected`: `Code line:column path; ...`, or `nothing`.
#[track_caller]
fn expect(what: &str, found: &[Diagnostic], expected: &str) {
    let place = |d: &Diagnostic| (d.line.unwrap_or(0), d.column.unwrap_or(0));
    let row = |d: &Diagnostic| format!("{:?} {}:{} {}", d.code, place(d).0, place(d).1, d.path);
    let rows: Vec<String> = found.iter().map(|d| row(d).trim_end().to_owned()).collect();
    let told = if rows.is_empty() { "nothing".to_owned() } else { rows.join("; ") };
    assert_eq!(told, expected, "{what}\n{found:#?}");
}

/// What is replaced in the configuration, by what, and what is found. `\n` is a line break.
const CONFIG_FAULTS: &str = r"
memory_gb: 14 => memory_gb: -14 => NotPositive 3:16 models.llm7b.memory_gb
memory_gb: 14 => memory_gb: .nan => NotFinite 3:16 models.llm7b.memory_gb
memory_gb: 14 => memory_gb: 1e308 => TooLarge 3:16 models.llm7b.memory_gb
memory_gb: 14 => memory_gb: 1e400 => TooLarge 3:16 models.llm7b.memory_gb
memory_gb: 14 => memory_gb: '14' => WrongType 3:16 models.llm7b.memory_gb
memory_gb: 14 => memory_gb: => Missing 3:5 models.llm7b.memory_gb
    memory_gb: 14\n =>  => Missing 2:3 models.llm7b.memory_gb
memory_gb: 14 => memory_gb: [14] => WrongType 3:16 models.llm7b.memory_gb
    gpus_required: 1\n =>     gpus_required: 0\n => NotPositive 4:20 models.llm7b.gpus_required
    gpus_required: 1\n =>     gpus_required: 1.5\n => NotWhole 4:20 models.llm7b.gpus_required
    gpus_required: 1\n =>     gpus_required: 1.0\n => nothing
    gpus_required: 1\n =>     gpus_required: 4294967296\n => TooLarge 4:20 models.llm7b.gpus_required
load_time_seconds: 30 => load_time_seconds: 0 => NotPositive 5:24 models.llm7b.load_time_seconds
load_time_seconds: 30 => load_time_seconds: 3.3e9 => TooLarge 5:24 models.llm7b.load_time_seconds
inference_time_mean: 8.5 => token_std: 0 => NoTime 11:28 workflows.chat.nodes[0].model
inference_time_mean: 8.5 => inference_time_mean: yes => WrongType 6:26 models.llm7b.inference_time_mean
inference_time_mean: 8.5 => {token_mean: 1e12 => Syntax 11:7
inference_time_mean: 8.5 => tokens_per_second: 1.0e-3\n    token_mean: 1e12 => TooLarge 6:5 models.llm7b.tokens_per_second
inference_time_mean: 8.5 => inference_time_mean: 8.5\n    inference_time_mean: 9 => Duplicate 7:5 models.llm7b.inference_time_mean
  bare: =>   llm7b: => Duplicate 7:3 models.llm7b; UnknownModel 12:28 workflows.chat.nodes[1].model
load_time_seconds: 3} => load_time_seconds: 3, memory: 3} => UnknownField 7:64 models.bare.memory
load_time_seconds: 3} => load_time_seconds: 3, batching: 3} => WrongType 7:74 models.bare.batching
load_time_seconds: 3} => load_time_seconds: 3, batching: {max_batch: 0, slowdown: [[1, 1.1], [1, 1.2], [2, 1.1], [3], [4, 9e9]]}} => NotPositive 7:86 models.bare.batching.max_batch; Batching 7:100 models.bare.batching.slowdown[0]; Batching 7:110 models.bare.batching.slowdown[1]; Batching 7:120 models.bare.batching.slowdown[2]; WrongType 7:130 models.bare.batching.slowdown[3]; Batching 7:135 models.bare.batching.slowdown[4]
load_time_seconds: 3} => load_time_seconds: 3, batching: {max_batch: 4}} => Missing 7:64 models.bare.batching.slowdown
id: check => id: write => Duplicate 12:14 workflows.chat.nodes[1].id; UnknownNode 14:27 workflows.chat.edges[0].to
model: bare => model: bear => UnknownModel 12:28 workflows.chat.nodes[1].model
model: bare,  =>  => Missing 12:9 workflows.chat.nodes[1].model
id: check => id: '' => BadId 12:14 workflows.chat.nodes[1].id; UnknownNode 14:27 workflows.chat.edges[0].to
from: write => from: draft => EdgeByOutput 14:16 workflows.chat.edges[0].from
from: write => from: shared => UnknownNode 14:16 workflows.chat.edges[0].from
from: write => from: verdict => SelfEdge 14:9 workflows.chat.edges[0]; EdgeByOutput 14:16 workflows.chat.edges[0].from
to: check} => to: check}\n      - {from: check, to: write} => Cycle 15:9 workflows.chat.edges[1]
to: check} => to: check}\n      - {from: write, to: check} => DoubleEdge 15:9 workflows.chat.edges[1]
{from: write, to: check} => [write, check] => WrongType 14:9 workflows.chat.edges[0]
";

/// Fields of a cluster, and what is found.
const CLUSTER_FAULTS: &str = r"
gpus: 8, switch_overhead_seconds: 0, residency: memory => nothing
gpus: 0 => NotPositive 15:17 cluster.gpus
gpus: 4000000000 => TooLarge 15:17 cluster.gpus
gpu: 8 => UnknownField 15:11 cluster.gpu
gpus_per_server: x => WrongType 15:28 cluster.gpus_per_server
switch_overhead_seconds: -1 => Negative 15:36 cluster.switch_overhead_seconds
pcie_gb_per_s: 1.0e-300 => TooLarge 15:11 cluster.pcie_gb_per_s
switch_cost: measured => NoProfile 15:11 cluster.switch_cost
switch_cost: transfers => UnknownChoice 15:24 cluster.switch_cost
residency: both => UnknownChoice 15:22 cluster.residency
";

/// Fields of a request, and what is found.
const REQUEST_FAULTS: &str = r"
request_id: a, node_execution_times: {check: 1} => Missing 3:3 requests[1].workflow_id
request_id: r => Duplicate 3:16 requests[1].request_id
request_id: 007 => nothing
request_id: true => WrongType 3:16 requests[1].request_id
request_id: a, workflow_id: x, node_execution_times: {} => UnknownWorkflow 3:32 requests[1].workflow_id
request_id: a, timestamp: 2024-01-01T10:00:00 => nothing
request_id: a, timestamp: '2024-01-01T10:00:00.25+02:00' => nothing
request_id: a, timestamp: 2024-01-01 => nothing
request_id: a, timestamp: noon => BadTimestamp 3:30 requests[1].timestamp
request_id: a, timestamp: '12' => BadTimestamp 3:30 requests[1].timestamp
request_id: a, timestamp: [1] => BadTimestamp 3:30 requests[1].timestamp
request_id: a, timestamp: -1 => Negative 3:30 requests[1].timestamp
request_id: a, timestamp: 1e12 => TooLarge 3:30 requests[1].timestamp
request_id: a, timestamp: .inf => NotFinite 3:30 requests[1].timestamp
request_id: a, priority: -3, deadline_seconds: 1 => nothing
request_id: a, priority: 1e10 => TooLarge 3:29 requests[1].priority
request_id: a, deadline_seconds: 0 => NotPositive 3:37 requests[1].deadline_seconds
request_id: a, input_data: 3 => WrongType 3:31 requests[1].input_data
request_id: a, input_data: {x: 1, x: 2} => Duplicate 3:38 requests[1].input_data.x
request_id: a, node_configs: null, metadata: {x: y} => nothing
request_id: a, node_configs: {paint: {}} => UnknownNode 3:34 requests[1].node_configs.paint
request_id: a, node_configs: {write: 3} => WrongType 3:41 requests[1].node_configs.write
request_id: a, Priority: 3 => UnknownField 3:19 requests[1].Priority
";

#[test]
fn the_base_files_are_valid() {
    expect("base", &read(CONFIG, REQUEST, Mode::Offline), "nothing");
}

#[test]
fn faults_of_configurations() {
    for [old, new, expected] in rows(CONFIG_FAULTS) {
        assert!(CONFIG.contains(&old), "{old}");
        let found = read(&CONFIG.replacen(&old, &new, 1), REQUEST, Mode::Offline);
        let without_cascade: Vec<Diagnostic> =
            found.into_iter().filter(|d| d.file == "config.yaml").collect();
        expect(&new, &without_cascade, &expected);
    }
}

#[test]
fn faults_of_clusters() {
    for [cluster, expected] in rows(CLUSTER_FAULTS) {
        let config = format!("{CONFIG}cluster: {{{cluster}}}\n");
        expect(&cluster, &read(&config, REQUEST, Mode::Offline), &expected);
    }
    let found = read(&format!("{CONFIG}cluster: {{switch_cost: transfers}}"), REQUEST, Mode::Offline);
    assert_eq!(found[0].hint.as_deref(), Some("did you mean `transfer`?"));
    assert!(found[0].message.contains("`transfer`, `load_time`, `measured`"));
}

#[test]
fn faults_of_requests() {
    let times = "requests[1].node_execution_times";
    for [fields, expected] in rows(REQUEST_FAULTS) {
        let rest = if fields.contains("node_execution_times") {
            ""
        } else {
            ", workflow_id: chat, node_execution_times: {check: 1}"
        };
        let requests = format!("{REQUEST}- {{{fields}{rest}}}\n");
        expect(&fields, &read(CONFIG, &requests, Mode::Offline), &expected);
    }
    for (time, code) in [("0", Code::NotPositive), ("-2", Code::NotPositive), ("1e10", Code::TooLarge)] {
        let requests = format!(
            "{REQUEST}- request_id: a\n  workflow_id: chat\n  node_execution_times: {{check: {time}}}\n"
        );
        let path = format!("{times}.check");
        let found = read(CONFIG, &requests, Mode::Offline);
        assert_eq!((found[0].code, found[0].line, found[0].column), (code, Some(5), Some(33)));
        assert_eq!((found.len(), &found[0].path), (1, &path));
    }
}

#[test]
fn swapped_files_are_noticed() {
    let found = read(REQUEST, CONFIG, Mode::Offline);
    let hinted: Vec<&str> =
        found.iter().filter(|d| d.code == Code::Missing).filter_map(|d| d.hint.as_deref()).collect();
    assert_eq!(hinted.len(), 3, "{found:#?}");
    assert!(hinted.iter().all(|hint| hint.contains("swapped")), "{hinted:?}");
}

#[test]
fn large_numbers_are_shown_short_and_called_large() {
    let batching = "memory_gb: 14\n    batching: {max_batch: 2, slowdown: [[1, 1.0], [2, 1e300]]}";
    let found = read(&CONFIG.replacen("memory_gb: 14", batching, 1), REQUEST, Mode::Offline);
    assert_eq!((found.len(), found[0].code), (1, Code::Batching));
    assert!(found[0].message.contains("1e300") && found[0].message.len() < 80, "{}", found[0].message);
    let found = read(&CONFIG.replacen("memory_gb: 14", "memory_gb: 1e999", 1), REQUEST, Mode::Offline);
    assert_eq!((found.len(), found[0].code), (1, Code::TooLarge));
    assert!(found[0].message.contains("too large"), "{}", found[0].message);
}

#[test]
fn offsets_that_no_place_has_are_refused() {
    let request = "requests:\n- {request_id: r, workflow_id: chat, timestamp: '2024-01-01T10:00:00+25:00', \
                   node_execution_times: {check: 2}}\n";
    let found = read(CONFIG, request, Mode::Offline);
    assert_eq!((found.len(), found[0].code), (1, Code::BadTimestamp), "{found:#?}");
}

#[test]
fn errors_that_are_not_kept_are_counted() {
    let lines = "- {request_id: '', workflow_id: chat, node_execution_times: {check: 2}}\n".repeat(10_003);
    let requests = format!("requests:\n{lines}");
    let config = Source { name: "config.yaml", bytes: CONFIG.as_bytes() };
    let reading = read_scenario(config, Source { name: "r.yaml", bytes: requests.as_bytes() }, Mode::Offline);
    assert_eq!(reading.errors, 10_003);
    let last = reading.diagnostics.last().unwrap();
    assert_eq!((last.code, last.message.as_str()), (Code::LeftOut, "3 more errors in this file not shown"));
}
