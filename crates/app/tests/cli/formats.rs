//! The reference of file formats: its lists are made from the JSON Schemas, which other tests hold against the readers.

use crate::support::{Place, root};
use gswarm_testing::list_item;
use serde_json::Value;

/// The parts of each schema that have a list, in order: the pointer, and the heading.
const LISTS: [(&str, &[(&str, &str)]); 3] = [
    (
        "config",
        &[
            ("", "Top level"),
            ("/$defs/model", "`models.ID`"),
            ("/$defs/batching", "`models.ID.batching`"),
            ("/$defs/workflow", "`workflows.ID`"),
            ("/$defs/node", "`workflows.ID.nodes[]`"),
            ("/$defs/edge", "`workflows.ID.edges[]`"),
            ("/$defs/cluster", "`cluster`"),
        ],
    ),
    ("requests", &[("/anyOf/0", "Top level"), ("/$defs/request", "`requests[]`")]),
    (
        "log",
        &[
            ("", "Top level"),
            ("/$defs/summary", "`summary`"),
            ("/$defs/execution", "`executions[]`"),
            ("/$defs/load", "`loads[]`"),
            ("/$defs/lost_gpu", "`lost_gpus[]`"),
            ("/$defs/unload", "`unloads[]`"),
        ],
    ),
];

/// The schema that a reference stands for, with what is said beside the reference.
fn resolved<'s>(schema: &'s Value, part: &'s Value) -> &'s Value {
    let target = part.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix('#'));
    target
        .map_or(part, |pointer| schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer} leads nowhere")))
}

/// What a field holds, in words.
fn holds(schema: &Value, part: &Value) -> String {
    let part = resolved(schema, part);
    if let Some(options) = part.get("anyOf").and_then(Value::as_array) {
        let words: Vec<String> =
            options.iter().map(|option| holds(schema, option)).filter(|word| word != "null").collect();
        return words.join(", or ");
    }
    if let Some(words) = part.get("enum").and_then(Value::as_array) {
        let words: Vec<String> =
            words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    if let Some(value) = part.get("const") {
        return format!("`{value}`");
    }
    let kinds = match &part["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return "anything".to_owned(),
    };
    let above_zero = part.get("exclusiveMinimum").is_some();
    let from = part.get("minimum").and_then(Value::as_f64).filter(|&least| least > i32::MIN.into());
    let range = |noun: &str| match (above_zero, from) {
        (true, _) => format!("{noun} > 0"),
        (_, Some(least)) if least.abs() < 1e9 => format!("{noun} >= {least}"),
        _ => noun.to_owned(),
    };
    match kinds.iter().find(|kind| **kind != "null").copied().unwrap_or("null") {
        "string" if part.get("minimum").is_some() => "text or number".to_owned(),
        "string" => "text".to_owned(),
        "number" => range("number"),
        "integer" => range("whole number"),
        "boolean" => "`true`, `false`".to_owned(),
        "array" => match part.get("items") {
            Some(items) if resolved(schema, items)["type"] == "object" => "list of mappings".to_owned(),
            Some(items) if resolved(schema, items)["type"] == "array" => "list of pairs".to_owned(),
            Some(items) => format!("list of {}s", holds(schema, items).replace(" >= 0", "")),
            None => "list".to_owned(),
        },
        "object" => "mapping".to_owned(),
        other => other.to_owned(),
    }
}

/// The fields of an object; those that are required first.
fn list(schema: &Value, object: &Value) -> String {
    let required: Vec<&str> = object["required"]
        .as_array()
        .map_or(Vec::new(), |names| names.iter().filter_map(Value::as_str).collect());
    let mut fields: Vec<_> = object["properties"].as_object().unwrap().iter().collect();
    fields.sort_by_key(|(name, _)| required.iter().position(|one| one == name).unwrap_or(usize::MAX));
    let item = |(name, part): (&String, &Value)| {
        let meaning = part.get("description").or_else(|| resolved(schema, part).get("description"));
        let meaning =
            meaning.and_then(Value::as_str).unwrap_or_else(|| panic!("`{name}` has no description"));
        let needed = if required.contains(&name.as_str()) { ", **required**" } else { "" };
        list_item(&format!("`{name}` ({}{needed}): {meaning}", holds(schema, part)))
    };
    fields.into_iter().map(item).collect()
}

fn lists(place: &Place, kind: &str, parts: &[(&str, &str)]) -> String {
    let schema: Value = serde_json::from_str(&place.run(&format!("schema {kind}")).code(0).out).unwrap();
    let parts = parts.iter().map(|(pointer, heading)| {
        let object = schema.pointer(pointer).unwrap_or_else(|| panic!("{kind}: {pointer} leads nowhere"));
        format!("### {heading}\n\n{}\n", list(&schema, object))
    });
    parts.collect()
}

/// The page has the lists that the schemas give. `UPDATE_DOCS=1` writes them, to be looked at like any other change.
#[test]
fn the_reference_of_fields_is_made_from_the_schemas() {
    let (place, path) = (Place::new(), root().join("docs/formats.md"));
    let page = std::fs::read_to_string(&path).unwrap();
    let mut fresh = page.clone();
    for (kind, parts) in LISTS {
        let (open, close) = (format!("<!-- generated: {kind} -->\n"), format!("<!-- end: {kind} -->"));
        let start = fresh.find(&open).unwrap_or_else(|| panic!("no {open}")) + open.len();
        let end = fresh[start..].find(&close).unwrap_or_else(|| panic!("no {close}")) + start;
        fresh.replace_range(start..end, &format!("\n{}", lists(&place, kind, parts)));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    } else {
        assert!(page == fresh, "run again with UPDATE_DOCS=1: the page would be\n{fresh}");
    }
}

/// The example at the top of the page is valid, plausible, and runs.
#[test]
fn the_example_of_the_reference_is_valid_and_runs() {
    let place = Place::new();
    let page = std::fs::read_to_string(root().join("docs/formats.md")).unwrap();
    for name in ["config", "requests"] {
        let block = page.split(&format!("```yaml {name}\n")).nth(1).unwrap().split("```").next().unwrap();
        place.write(&format!("{name}.yaml"), block);
    }
    let done = place.run("validate --strict config.yaml requests.yaml").code(0);
    assert!(done.out.contains("No faults found."), "{}", done.out);
    place.run("run --mode online --config config.yaml --requests requests.yaml --quiet").code(0);
}
