//! Inputs that nobody wrote: no panic, and always a scenario or a reason why there is none.

use gswarm_core::input::{Reading, Severity, Source, read_config, read_scenario, render};
use gswarm_core::instance::Mode;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const YAML: &str = "\
models:
  llm7b: &base {memory_gb: 14, gpus_required: 1, load_time_seconds: 30.5, inference_time_mean: 8.5}
  big:
    <<: *base
    memory_gb: 1.4e2
    batching: {max_batch: 32, slowdown: [[1, 1.0], [8, 1.11]]}
workflows:
  chat:
    name: \"two\\tsteps\"
    nodes:
      - {id: write, model: llm7b, outputs: [draft]}
      - {id: check, model: big, inputs: [draft]}
    edges: [{from: write, to: check}]
cluster: {gpus: 8, switch_cost: transfer, residency: memory}
";
const LINES: &str = "\
{\"request_id\": \"a\", \"timestamp\": \"2024-01-01T10:00:00\", \"workflow_id\": \"chat\", \"priority\": -1}
{\"request_id\": \"b\\u00e9\", \"timestamp\": \"2024-01-01T10:00:00.5Z\", \"workflow_id\": \"chat\", \"node_execution_times\": {\"write\": 2.5}}
";

fn read(config: &[u8], requests: &[u8]) -> Reading {
    let config = Source { name: "config", bytes: config };
    let reading = read_scenario(config, Source { name: "requests", bytes: requests }, Mode::Online);
    let errors = reading.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    assert_eq!(reading.scenario.is_none(), errors > 0, "{:#?}", reading.diagnostics);
    assert_eq!(render(&reading.diagnostics).is_empty(), reading.diagnostics.is_empty());
    for diagnostic in &reading.diagnostics {
        assert!(diagnostic.message.len() < 1_000 && !diagnostic.message.contains('\n'));
    }
    reading
}

/// A change to a text: at a place (in thousandths), remove some bytes and put others there.
fn mutation() -> impl Strategy<Value = (usize, usize, Vec<u8>)> {
    let pieces = prop_oneof![
        vec(any::<u8>(), 0..4),
        "[\\[\\]{},:\"'&*<!|>#%@`~ \n\t-]{1,4}".prop_map(String::into_bytes),
        prop::sample::select(vec![
            "null", "-1", "1e999", ".nan", "0", "write", "- ", "&x ", "*base", "---\n", "\u{feff}"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    (0..1_000_usize, 0..12_usize, pieces)
}

fn mutated(text: &str, changes: &[(usize, usize, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (place, removed, piece) in changes {
        let start = place * bytes.len() / 1_000;
        let end = (start + removed).min(bytes.len());
        bytes.splice(start..end, piece.iter().copied());
    }
    bytes
}

#[test]
fn the_texts_that_are_mutated_are_valid() {
    assert_eq!(read(YAML.as_bytes(), LINES.as_bytes()).diagnostics, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes(config in vec(any::<u8>(), 0..200), requests in vec(any::<u8>(), 0..200)) {
        read(&config, &requests);
    }

    #[test]
    fn any_text(config in "(.|\n){0,100}", requests in "[\\[\\]{},:\"'&*<!|># \na-c0-9-]{0,100}") {
        read(config.as_bytes(), requests.as_bytes());
        read(YAML.as_bytes(), requests.as_bytes());
    }

    #[test]
    fn valid_files_with_some_bytes_changed(
        config in vec(mutation(), 0..4), requests in vec(mutation(), 0..4),
    ) {
        read(&mutated(YAML, &config), &mutated(LINES, &requests));
    }

    #[test]
    fn truncated_files(config in 0..1_000_usize, requests in 0..1_000_usize) {
        let cut = |text: &str, at: usize| text.as_bytes()[..text.len() * at / 1_000].to_vec();
        read(&cut(YAML, config), &cut(LINES, requests));
    }
}

/// Data that both formats can say.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["null", "007", "1e3", "", "~", "- a", "a: b", "\"", "2024-01-01"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,6}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn json_and_yaml_of_the_same_content_mean_the_same(
        kept in prop::collection::btree_map(".{1,6}", value(), 0..5),
        memory in 1e-3..1e6_f64, gpus in 1_u32..100, load in 1e-3..1e6_f64, mean in 1e-3..1e6_f64,
    ) {
        let metadata = Value::Object(kept.into_iter().collect());
        let content = json!({
            "metadata": metadata,
            "models": {"m": {"memory_gb": memory, "gpus_required": gpus, "load_time_seconds": load, "inference_time_mean": mean}},
            "workflows": {"w": {"nodes": [{"id": "a", "model": "m"}, {"id": "b", "model": "m"}], "edges": [{"from": "a", "to": "b"}]}},
        });
        let json = serde_json::to_string_pretty(&content).unwrap();
        let yaml = serde_saphyr::to_string(&content).unwrap();
        let from_json = read_config(Source { name: "json", bytes: json.as_bytes() });
        let from_yaml = read_config(Source { name: "yaml", bytes: yaml.as_bytes() });
        let scenario = from_json.scenario.expect("valid");
        prop_assert_eq!(&scenario.config_metadata, &metadata);
        prop_assert_eq!(scenario.models[0].memory_gb, memory);
        let other = from_yaml.scenario;
        prop_assert!(other.is_some(), "{}\n{}", yaml, render(&from_yaml.diagnostics));
        prop_assert_eq!(format!("{:?}", other.unwrap()), format!("{scenario:?}"));
    }
}
