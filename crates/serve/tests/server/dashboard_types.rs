//! The TypeScript types of the dashboard are those of the OpenAPI document: this writes them, and fails when the committed file differs.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/api/types.ts");

/// The paths that the page asks for.
const PATHS: [&str; 7] = [
    "/v1/overview",
    "/v1/history",
    "/v1/queue",
    "/v1/requests",
    "/v1/what-if",
    "/v1/workflows/",
    "/v1/policies",
];

#[test]
fn the_dashboards_types_are_those_of_the_openapi_document() {
    let document = serde_json::to_value(gswarm_serve::front::openapi()).unwrap();
    let expected = types(&document);
    if std::env::var_os("GSWARM_WRITE_TYPES").is_some() {
        std::fs::write(FILE, &expected).unwrap();
    }
    let found = std::fs::read_to_string(Path::new(FILE)).unwrap();
    assert!(found == expected, "web/src/api/types.ts is stale: run `cargo xtask dashboard --types`");
}

fn types(document: &Value) -> String {
    let schemas = &document["components"]["schemas"];
    let mut named = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        if PATHS.iter().any(|prefix| path.starts_with(prefix)) {
            names(operations, schemas, &mut named);
        }
    }
    let mut text = String::from(
        "// Generated from the OpenAPI document of `gswarm serve` by `cargo xtask dashboard --types`; do not edit.\n\
         //\n\
         // Times are seconds since the service or the run began, except fields named `..._at`, which are seconds since 1970.\n",
    );
    for name in &named {
        let schema = &schemas[name];
        text.push('\n');
        comment(schema, "", &mut text);
        match schema.get("properties") {
            Some(_) => writeln!(text, "export interface {name} {}", fields(schema)).unwrap(),
            None => writeln!(text, "export type {name} = {};", of(schema)).unwrap(),
        }
    }
    text
}

/// The names of all schemas that a part of the document refers to, also by way of others.
fn names(part: &Value, schemas: &Value, found: &mut BTreeSet<String>) {
    match part {
        Value::Object(entries) => {
            if let Some(name) = entries.get("$ref").and_then(referred)
                && found.insert(name.to_owned())
            {
                names(&schemas[name], schemas, found);
            }
            entries.values().for_each(|value| names(value, schemas, found));
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, schemas, found)),
        _ => {}
    }
}

fn referred(reference: &Value) -> Option<&str> {
    reference.as_str()?.strip_prefix("#/components/schemas/")
}

fn comment(schema: &Value, indent: &str, text: &mut String) {
    if let Some(words) = schema["description"].as_str() {
        writeln!(text, "{indent}/** {} */", words.replace('\n', " ")).unwrap();
    }
}

fn fields(schema: &Value) -> String {
    let is_required = |name: &str| {
        schema["required"].as_array().is_some_and(|required| required.iter().any(|other| other == name))
    };
    let mut text = String::from("{\n");
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        comment(field, "  ", &mut text);
        let mark = if is_required(name) { "" } else { "?" };
        writeln!(text, "  {name}{mark}: {};", of(field)).unwrap();
    }
    text + "}"
}

/// A schema as a type.
fn of(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(referred) {
        return name.to_owned();
    }
    for (key, joint) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if let Some(parts) = schema[key].as_array() {
            // What may be null says so first; people expect it last.
            let (null, others): (Vec<_>, Vec<_>) = parts.iter().map(of).partition(|part| part == "null");
            return [others, null].concat().join(joint);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            let alone = |kind: &Value| {
                let mut schema = schema.clone();
                schema["type"] = kind.clone();
                of(&schema)
            };
            kinds.iter().map(alone).collect::<Vec<_>>().join(" | ")
        }
        Value::String(kind) => match kind.as_str() {
            "integer" | "number" => "number".to_owned(),
            "array" => match of(&schema["items"]) {
                item if item.contains(' ') => format!("({item})[]"),
                item => format!("{item}[]"),
            },
            "object" if schema.get("properties").is_some() => fields(schema),
            "object" => match schema.get("additionalProperties") {
                Some(value) if value.is_object() => format!("Record<string, {}>", of(value)),
                _ => "Record<string, unknown>".to_owned(),
            },
            plain => plain.to_owned(),
        },
        _ => "unknown".to_owned(),
    }
}
