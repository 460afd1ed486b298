//! The file of servers: what the documentation shows can be read, and every fault is told at once, with its line.

use gswarm_core::input::{Code, Source};
use gswarm_exec::backend::{BackendKind, BackendsReading, json_schema, read_backends};
use gswarm_testing::damaged;
use serde_json::{Value, json};

fn read(text: &str) -> BackendsReading {
    read_backends(Source { name: "servers.yaml", bytes: text.as_bytes() })
}

/// The blocks of a page that are YAML.
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("\n```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next())
}

#[test]
fn every_example_of_the_documentation_can_be_read_and_every_kind_has_one() {
    let pages = [include_str!("../../../../docs/backends.md"), include_str!("../../../../docs/live.md")];
    for block in pages.iter().flat_map(|page| blocks(page)) {
        assert_eq!(read(block).diagnostics, [], "{block}");
    }
    for kind in BackendKind::ALL {
        let example = format!("\n{}", kind.about().example);
        let mut servers = blocks(&example).flat_map(|block| read(block).file.unwrap().backends);
        assert!(servers.any(|spec| spec.server.kind() == *kind), "there is no example of {}", kind.name());
    }
}

#[test]
fn what_is_read_is_kept_in_journals_as_it_is() {
    for kind in BackendKind::ALL {
        let example = format!("\n{}", kind.about().example);
        for file in blocks(&example).map(|block| read(block).file.unwrap()) {
            let kept = serde_json::to_string(&file).unwrap();
            assert_eq!(serde_json::from_str::<gswarm_exec::backend::BackendsFile>(&kept).unwrap(), file);
            assert!(kept.contains(&format!("\"kind\":\"{}\"", kind.name())), "{kept}");
        }
    }
}

/// The examples of docs/errors.md for files of servers give their codes.
#[test]
fn the_examples_of_error_codes_give_them() {
    let page = include_str!("../../../../docs/errors.md");
    let mut examples = 0;
    for section in page.split("\n## ").skip(1) {
        for block in section.split("\n```yaml backends\n").skip(1) {
            let reading = read(block.split("\n```").next().unwrap());
            let found: Vec<Code> = reading.diagnostics.iter().map(|found| found.code).collect();
            let code = Code::ALL.iter().find(|code| section.starts_with(code.code())).unwrap();
            assert!(reading.file.is_none() && found == [*code], "{code}: {found:?}");
            examples += 1;
        }
    }
    assert_eq!(examples, 2);
}

/// What is wrong, its code, and what is said of it.
const FAULTS: &[(&str, &str, &str)] = &[
    // As docs/errors.md has them.
    ("backends:\n- {kind: ollama, url: 'http://localhost:11434', level: 2}", "E115", "has no `level`"),
    ("backends:\n- {kind: openai, url: 'localhost:8000'}", "E116", "neither http:// nor https://"),
    ("backends: [{kind: abacus}]", "E108", "known are `emulated`, `gswarm`"),
    ("backends: []", "E107", "no server"),
    ("servers: []", "E115", "unknown field `servers`"),
    ("backends: [{gpus: 0}]", "E102", "`kind` is missing"),
    ("backends: [{kind: emulated, colour: red}]", "E115", "unknown field `colour`"),
    ("backends: [{kind: emulated, speed: 0}]", "E201", "0 is not above zero"),
    ("backends: [{kind: emulated, gpus: 7-0}]", "E116", "`7-0` names no GPUs"),
    ("backends: [{kind: ollama}]", "E102", "`url` is missing"),
    ("backends: [{kind: ollama, url: 'ftp://host'}]", "E116", "neither http:// nor https://"),
    (
        "backends: [{kind: ollama, url: 'http://me:secret@host'}]",
        "E116",
        "cannot contain a user or a password",
    ),
    ("backends: [{kind: vllm, url: 'http://h'}]", "E102", "`models` is missing"),
    ("backends: [{kind: vllm, url: 'http://h', models: {a: x}, level: 3}]", "E204", "above the limit of 2"),
    ("backends: [{kind: command}]", "E102", "`command` is missing"),
    ("backends: [{kind: command, command: vllm serve}]", "E101", "expected a list"),
    ("backends: [{kind: gswarm, url: 'http://h', timeouts: {lod: 5}}]", "E115", "unknown field `lod`"),
    ("backends: [{kind: gswarm, url: 'http://h', first_device: -1}]", "E202", "-1 is below zero"),
];

#[test]
fn a_fault_is_named_with_its_line() {
    for (text, code, says) in FAULTS {
        let reading = read(text);
        assert!(reading.file.is_none(), "{text}");
        let found: Vec<String> = reading.diagnostics.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|one| one.contains(code) && one.contains(says)), "{text}: {found:#?}");
        assert!(found.iter().all(|one| !one.contains("secret")), "{found:#?}");
        let last = text.lines().count() as u32;
        assert!(reading.diagnostics.iter().all(|one| one.line == Some(last)), "{text}: {found:#?}");
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let reading = read(
        "backends:\n- {kind: ollama, level: 1}\n- {kind: abacus}\n- {kind: kserve, url: nowhere, inptu: x}\n",
    );
    let lines: Vec<_> = reading.diagnostics.iter().map(|one| one.line.unwrap()).collect();
    assert_eq!(lines, [2, 2, 3, 4, 4], "{:#?}", reading.diagnostics);
    assert!(reading.diagnostics.iter().any(|one| one.hint.as_deref() == Some("did you mean `input`?")));
}

/// Every field of every kind of server, with a value that it may have.
fn whole_files() -> Vec<Value> {
    let common = |kind: BackendKind| {
        let models = if kind.holds_one_model() {
            json!({"a": {"as": "x", "url": "http://one"}, "b": {"url": "http://two"}})
        } else {
            json!({"a": "x", "b": {"as": "y"}, "c": null})
        };
        json!({"kind": kind.name(), "name": "n", "gpus": "0-3", "models": models, "description": "d"})
    };
    let more = json!({
        "url": "http://host:8000", "token_env": "TOKEN", "timeouts": {"connect": 1, "answer": 2.5, "load": 3, "unload": 4},
        "calls": "chat", "level": 1, "speed": 10, "first_device": 2, "command": ["run", "{model}"],
        "health": "http://127.0.0.1:{port}/ready", "env": {"A": "b"}, "grace": 1.5, "logs": "servers", "input": "text",
        "device": "cpu",
    });
    let one = |kind: &BackendKind| {
        let mut server = common(*kind);
        for field in kind.fields() {
            let known = more.get(field.name).unwrap_or_else(|| panic!("no value for `{}`", field.name));
            server[field.name] = known.clone();
        }
        json!({"backends": [server]})
    };
    BackendKind::ALL.iter().map(one).collect()
}

/// Faults that no schema can see: what an address says, which GPUs there are, what other fields say.
const NOT_OF_SHAPE: [&str; 6] = [
    "is not an address",
    "names no GPUs",
    "share a server",
    "has a query",
    "no `url` of their own",
    "`url` is missing",
];

#[test]
fn damaged_files_are_accepted_and_refused_by_the_schema_as_by_the_reader() {
    let (mut compiler, mut schemas) = (boon::Compiler::new(), boon::Schemas::new());
    compiler.add_resource("backends.json", json_schema()).unwrap();
    let index = compiler.compile("backends.json", &mut schemas).unwrap();
    let (mut accepted, mut refused, mut differ) = (0, 0, Vec::new());
    for good in whole_files() {
        assert_eq!(read(&good.to_string()).diagnostics, [], "{good}");
        for (what, file) in damaged(&good) {
            let reading = read(&file.to_string());
            let by_schema = schemas.validate(&file, index);
            let faults: Vec<String> = reading.diagnostics.iter().map(ToString::to_string).collect();
            match (reading.file.is_some(), by_schema.is_ok()) {
                (true, true) => accepted += 1,
                (false, false) => refused += 1,
                (false, true)
                    if faults.iter().all(|one| NOT_OF_SHAPE.iter().any(|says| one.contains(says))) => {}
                (_, by_schema) => {
                    let kind = &good["backends"][0]["kind"];
                    differ
                        .push(format!("{kind}: {what}: the schema says {by_schema}, the reader {faults:?}"));
                }
            }
        }
    }
    assert!(differ.is_empty(), "{} differences:\n{}", differ.len(), differ.join("\n"));
    assert!(accepted > 100 && refused > 500, "{accepted} accepted, {refused} refused");
}
