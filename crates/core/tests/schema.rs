//! The schemas are true: they accept what the readers accept, and refuse what the readers refuse for its shape.

use boon::{Compiler, SchemaIndex, Schemas};
use gswarm_core::generate::{
    Arrivals, Format, Preset, RequestOptions, requests, write_config, write_requests,
};
use gswarm_core::input::document::{Document, Faults, Path, keep};
use gswarm_core::input::{
    Code, Diagnostic, Scenario, Severity, Source, read_config, read_requests, read_scenario,
};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::log_file::{LogFile, write_json};
use gswarm_core::plan::{self, SearchLimits};
use gswarm_core::policy::{BuildContext, PolicyKind};
use gswarm_core::report::{RunInfo, metrics, summary};
use gswarm_core::schema::SchemaKind;
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::{Instance, Span};
use gswarm_testing::damaged;
use serde_json::{Value, json};
use std::path::{Path as FilePath, PathBuf};

struct Validator {
    schemas: Schemas,
    index: SchemaIndex,
}

fn validator(kind: SchemaKind) -> Validator {
    let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
    let name = kind.file_name();
    compiler.add_resource(&name, serde_json::from_str(kind.text()).unwrap()).unwrap();
    let index = compiler.compile(&name, &mut schemas).unwrap_or_else(|error| panic!("{error:#}"));
    Validator { schemas, index }
}

impl Validator {
    fn is_valid(&self, value: &Value) -> bool {
        self.schemas.validate(value, self.index).is_ok()
    }
}

/// The text of a file as JSON, whichever format it is in.
fn value(bytes: &[u8]) -> Value {
    let mut faults = Faults::default();
    let document = Document::parse(bytes, &mut faults).unwrap();
    keep(document.root(), &Path::root(), &mut faults)
}

fn assert_valid(validator: &Validator, value: &Value, what: &str) {
    if let Err(error) = validator.schemas.validate(value, validator.index) {
        panic!("{what}: {error}");
    }
}

fn source(bytes: &[u8]) -> Source<'_> {
    Source { name: "a file", bytes }
}

/// Faults in the shape of a value; others depend on what stands elsewhere, such as the names of models.
const SHAPE: [Code; 11] = [
    Code::WrongType,
    Code::Missing,
    Code::Nothing,
    Code::UnknownChoice,
    Code::BadId,
    Code::NotOfKind,
    Code::NotPositive,
    Code::Negative,
    Code::TooLarge,
    Code::NotWhole,
    Code::NotFinite,
];

#[derive(Debug, PartialEq)]
enum Verdict {
    Accepted,
    BadShape,
    /// At fault, and no schema could know.
    Elsewhere,
}

fn verdict(diagnostics: &[Diagnostic]) -> Verdict {
    if diagnostics.iter().any(|one| SHAPE.contains(&one.code)) {
        Verdict::BadShape
    } else if diagnostics.iter().any(|one| one.code.severity() == Severity::Error) {
        Verdict::Elsewhere
    } else {
        Verdict::Accepted
    }
}

fn agree(kind: SchemaKind, good: &Value, read: impl Fn(&[u8]) -> Vec<Diagnostic>) {
    let validator = validator(kind);
    assert_valid(&validator, good, kind.name());
    let mut refused = 0;
    for (what, value) in damaged(good) {
        let diagnostics = read(value.to_string().as_bytes());
        match verdict(&diagnostics) {
            Verdict::Accepted => assert_valid(&validator, &value, &what),
            Verdict::BadShape => {
                refused += 1;
                assert!(!validator.is_valid(&value), "{}: {what}: {diagnostics:?}", kind.name());
            }
            Verdict::Elsewhere => {}
        }
    }
    assert!(refused > 20, "{refused} damaged files of kind {} were tried", kind.name());
}

/// Every field that a configuration may have.
fn whole_config() -> Value {
    json!({
        "$schema": "config.schema.json",
        "models": {
            "a": {"name": "A", "memory_gb": 14.0, "gpus_required": 1, "load_time_seconds": 30.0, "unload_time_seconds": 1.0,
                  "tokens_per_second": 50.0, "token_mean": 512.0, "token_std": 128.0, "inference_time_mean": 8.5,
                  "inference_time_std": 1.2, "type": "llm", "base_model": "b", "config": {"width": [512, 768]},
                  "batching": {"max_batch": 32, "slowdown": [[1, 1.0], [8, 1.11]]}, "memory_gb_per_slot": 0.5,
                  "description": "text"},
            "b": {"memory_gb": 1, "gpus_required": 2, "load_time_seconds": 1, "inference_time_mean": 1}
        },
        "workflows": {
            "w": {"name": "W", "description": "text",
                  "nodes": [{"id": "one", "model": "a", "inputs": ["x"], "outputs": ["y"], "config_options": ["max_length"],
                             "description": "text"},
                            {"id": "two", "model": "b", "inputs": ["y"], "outputs": ["z"]}],
                  "edges": [{"from": "one", "to": "two"}]}
        },
        "cluster": {"gpus": 8, "gpus_per_server": 4, "gpu_memory_gb": 80, "pcie_gb_per_s": 16.0,
                    "switch_overhead_seconds": 2.0, "switch_cost": "transfer", "residency": "single"},
        "metadata": {"author": 1},
        "description": "text"
    })
}

fn whole_requests() -> Value {
    json!({
        "$schema": "requests.schema.json",
        "requests": [
            {"request_id": "r", "timestamp": "2024-01-01T10:00:00", "workflow_id": "w", "input_data": {"x": "text"},
             "node_configs": {"one": {"max_length": 5}}, "node_execution_times": {"one": 8.5}, "metadata": {"user": 1},
             "priority": 1, "deadline_seconds": 60.0},
            {"request_id": 2, "workflow_id": "w"}
        ],
        "metadata": [1]
    })
}

fn scenario() -> Scenario {
    read_config(source(whole_config().to_string().as_bytes())).scenario.unwrap()
}

#[test]
fn configurations_are_accepted_and_refused_as_by_the_reader() {
    agree(SchemaKind::Config, &whole_config(), |bytes| read_config(source(bytes)).diagnostics);
}

#[test]
fn requests_are_accepted_and_refused_as_by_the_reader() {
    let known = scenario();
    let read = |bytes: &[u8]| read_requests(&known, source(bytes), Mode::Offline).diagnostics;
    let whole = whole_requests();
    agree(SchemaKind::Requests, &whole, read);
    // A list alone, and one request alone.
    agree(SchemaKind::Requests, &whole["requests"], read);
    agree(SchemaKind::Requests, &whole["requests"][0], read);
}

#[test]
fn what_is_generated_is_valid() {
    let (config_schema, requests_schema) = (validator(SchemaKind::Config), validator(SchemaKind::Requests));
    for preset in Preset::ALL {
        for format in [Format::Json, Format::Yaml] {
            let (mut config, mut drawn) = (Vec::new(), Vec::new());
            write_config(&preset.config(), format, &mut config).unwrap();
            let known = read_config(source(&config)).scenario.unwrap();
            let options = RequestOptions {
                count: 20,
                duration: Span(60_000_000),
                arrivals: Arrivals::Poisson,
                mix: Vec::new(),
                seed: 1,
            };
            write_requests(requests(&known, &options).unwrap(), format, &mut drawn).unwrap();
            assert_valid(&config_schema, &value(&config), preset.name());
            assert_valid(&requests_schema, &value(&drawn), preset.name());
        }
    }
}

#[test]
fn examples_are_valid() {
    let mut tried = 0;
    for path in files(&FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")) {
        let parent = path.parent().and_then(FilePath::file_name).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kind = match name.as_ref() {
            "config.yaml" => SchemaKind::Config,
            "requests.yaml" => SchemaKind::Requests,
            _ => continue,
        };
        let value = value(&std::fs::read(&path).unwrap());
        if parent == "broken" {
            continue;
        }
        tried += 1;
        assert_valid(&validator(kind), &value, &path.display().to_string());
    }
    assert!(tried >= 8, "{tried} examples were found");
}

fn files(folder: &FilePath) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn instance(batching: bool) -> Instance {
    let (mut config, requests) = (whole_config(), whole_requests().to_string());
    if !batching {
        config["models"]["a"]["batching"] = Value::Null;
    }
    let config = config.to_string();
    let reading = read_scenario(source(config.as_bytes()), source(requests.as_bytes()), Mode::Offline);
    let scenario = reading.scenario.unwrap();
    let cluster = Cluster::from_spec(&scenario.cluster).unwrap();
    Instance::build(&scenario, cluster, Mode::Offline).unwrap()
}

#[test]
fn plans_are_accepted_and_refused_as_by_the_reader() {
    let validator = validator(SchemaKind::Plan);
    for batching in [false, true] {
        let instance = instance(batching);
        let limits = SearchLimits { rounds: 2, seed: 1, ..SearchLimits::default() };
        let mut bytes = Vec::new();
        plan::file::write(&instance, &plan::improve(&instance, &limits, &mut |_| {}), &mut bytes).unwrap();
        let good = value(&bytes);
        assert_valid(&validator, &good, "a plan");
        let mut refused = 0;
        for (what, value) in damaged(&good) {
            match plan::file::read(&instance, value.to_string().as_bytes()) {
                Ok(_) => assert_valid(&validator, &value, &what),
                Err(faults) if faults.iter().any(|fault| fault.starts_with("not a plan")) => {
                    refused += 1;
                    assert!(!validator.is_valid(&value), "{what}: {faults:?}");
                }
                Err(_) => {}
            }
        }
        assert!(refused > 20, "{refused} damaged plans were tried");
    }
}

#[test]
fn logs_are_valid_and_what_cannot_be_read_is_not() {
    let (instance, validator) = (instance(true), validator(SchemaKind::Log));
    let mut policy = PolicyKind::Baseline.build(&instance, &BuildContext::default());
    let log = simulate(&instance, &mut *policy, &SimOptions::default(), &mut |_| {}).unwrap();
    let info = RunInfo { policy: "baseline".to_owned(), ..RunInfo::default() };
    let mut bytes = Vec::new();
    write_json(&instance, &log, &summary(&instance, &metrics(&instance, &log), info), &mut bytes).unwrap();
    let good = value(&bytes);
    assert_valid(&validator, &good, "a log");
    let mut refused = 0;
    for (what, value) in damaged(&good) {
        let read = LogFile::read(&value.to_string());
        if !read.faults.is_empty() {
            refused += 1;
            assert!(!validator.is_valid(&value), "{what}: {:?}", read.faults);
        }
    }
    assert!(refused > 20, "{refused} damaged logs were tried");
}
