//! What policies say about their parameters, and how values are read against it.

use gswarm_core::policy::{OnlineParams, ParamKind, ParamValues, PolicyKind, PolicySpec};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn values(given: &Value) -> ParamValues {
    given.as_object().unwrap().clone().into_iter().collect()
}

#[test]
fn a_policy_is_read_from_its_name_or_with_parameters() {
    let weights = OnlineParams { alpha: 2.0, ..OnlineParams::default() };
    for (text, spec, written) in [
        (json!("online"), PolicySpec::default_of(PolicyKind::Online), json!({"name": "online"})),
        (
            json!({"name": "online", "alpha": 2, "beta": 1.5}),
            PolicySpec::Online(weights),
            json!({"name": "online", "alpha": 2.0}),
        ),
    ] {
        let read: PolicySpec = serde_json::from_value(text).unwrap();
        assert_eq!(read, spec);
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }
}

#[test]
fn every_fault_is_told_at_once() {
    let given = json!({"alpha": -1, "lookahead": 1.5, "rounds": 3, "wings": 2});
    let faults = PolicySpec::from_values(PolicyKind::Online, &values(&given)).unwrap_err();
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "policy `online` does not take rounds; planned does",
            "no policy has the parameter wings",
            "alpha is -1: give a number of zero or more",
            "lookahead is 1.5: give a whole number from 0 to 4294967295",
        ]
    );
    let read =
        serde_json::from_value::<PolicySpec>(json!({"name": "adaptive", "objective": "p98", "alpha": 1}));
    let told = read.unwrap_err().to_string();
    assert!(told.contains("does not take alpha") && told.contains("one of mean, p99, balanced"), "{told}");
    for wrong in [json!("nobody"), json!({"alpha": 1}), json!(3)] {
        assert!(serde_json::from_value::<PolicySpec>(wrong).is_err());
    }
}

#[test]
fn defaults_are_values_that_are_taken() {
    for &kind in PolicyKind::ALL {
        let spec = PolicySpec::default_of(kind);
        assert_eq!(spec.kind(), kind);
        assert!(spec.params().is_empty());
        for info in kind.params() {
            let default = (info.default)();
            assert!(default.is_null() || info.kind.takes(&default), "{} of {}", info.name, kind.name());
            assert_ne!(info.name, "name", "a policy is written with its `name` beside its parameters");
        }
    }
}

#[test]
fn texts_of_the_command_line_are_values() {
    assert_eq!(ParamKind::Seconds.parse("2min"), Ok(json!(120.0)));
    assert_eq!(ParamKind::Seconds.parse("0"), Ok(json!(0.0)));
    let share = ParamKind::Number { min: 0.0, max: Some(1.0) };
    for (kind, wrong) in
        [(ParamKind::Seconds, "-1"), (ParamKind::Seconds, "soon"), (share, "1.5"), (share, "nan")]
    {
        assert!(kind.parse(wrong).is_err(), "{wrong}");
    }
}

/// The table of docs/policies.md; `UPDATE_DOCS=1` writes it.
#[test]
fn the_docs_list_every_parameter() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- parameters: begin -->\n", "<!-- parameters: end -->");
    let (before, rest) = text.split_once(begin).expect("the first marker");
    let (_, after) = rest.split_once(end).expect("the second marker");
    let mut table =
        "| policy | parameter | value | default | what it does |\n|---|---|---|---|---|\n".to_owned();
    for &kind in PolicyKind::ALL {
        for info in kind.params() {
            let default = match (info.default)() {
                Value::Null => "none".to_owned(),
                Value::String(text) => text,
                other => other.to_string(),
            };
            let (policy, name) = (kind.name(), info.name);
            table += &format!("| `{policy}` | `{name}` | {} | {default} | {} |\n", info.kind, info.help);
        }
    }
    up_to_date(path, &format!("{before}{begin}{table}{end}{after}"));
}

fn up_to_date(path: &str, expected: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(path, expected).unwrap();
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text == expected, "run again with UPDATE_DOCS=1: {path} would be\n{expected}");
}

/// The keywords of `gswarm.run` that are parameters of policies; `UPDATE_DOCS=1` writes them.
#[test]
fn python_has_a_keyword_for_every_parameter() {
    let mut text = "\
\"\"\"Parameters of policies, written by `UPDATE_DOCS=1 cargo test -p gswarm-core --test schedule`.\"\"\"

from __future__ import annotations

from typing import Literal, TypedDict


class PolicyParameters(TypedDict, total=False):
    \"\"\"Each is taken by the policies that `gswarm.policies()` lists it under.\"\"\"

"
    .to_owned();
    let mut known = BTreeMap::new();
    for info in PolicyKind::ALL.iter().flat_map(|kind| kind.params()) {
        // Policies share a keyword only where it takes the same values.
        if let Some(other) = known.insert(info.name, info.kind) {
            assert_eq!(other, info.kind, "{}", info.name);
            continue;
        }
        let taken = match info.kind {
            ParamKind::Number { .. } => "float".to_owned(),
            ParamKind::Integer { .. } => "int".to_owned(),
            ParamKind::Seconds => "float | str".to_owned(),
            ParamKind::Target => "str".to_owned(),
            ParamKind::Choice { names } => format!("Literal[\"{}\"]", names.join("\", \"")),
        };
        text += &format!("    {}: {taken} | None\n    \"\"\"{}.\"\"\"\n", info.name, info.help);
    }
    up_to_date(concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/gswarm/_parameters.py"), &text);
}
