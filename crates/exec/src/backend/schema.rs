//! The JSON Schema of a file of servers, from the descriptions of fields.

use super::field::{Described, Field, Shape};
use super::kinds::BackendKind;
use super::spec::{COMMON, Endpoint, Reach};
use gswarm_core::input::document::NumberRange;
use serde_json::{Map, Value, json};

/// The JSON Schema (draft 2020-12) of a file of servers.
#[must_use]
pub fn json_schema() -> Value {
    let servers: Vec<Value> = BackendKind::ALL.iter().map(|kind| server(*kind)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gswarm backends",
        "description": "The servers that models run on: docs/backends.md",
        "type": "object",
        "required": ["backends"],
        "additionalProperties": false,
        "properties": {
            "$schema": {"description": "For editors; not read."},
            "backends": {
                "description": "In order of preference, where several could serve.",
                "type": "array",
                "minItems": 1,
                "items": {"oneOf": servers},
            },
        },
    })
}

fn server(kind: BackendKind) -> Value {
    let about = kind.about();
    let defaults = [Endpoint::defaults(), (about.defaults)()];
    let default = |name: &str| defaults.iter().find_map(|defaults| defaults.get(name)).cloned();
    let mut required = vec!["kind"];
    required.extend(kind.fields().filter(|field| field.required.is_some()).map(|field| field.name));
    match about.reach {
        Reach::One => required.push("url"),
        Reach::Each => required.push("models"),
        Reach::Nowhere | Reach::Started | Reach::OneOrEach => {}
    }
    let mut properties = Map::new();
    for field in COMMON.iter().chain(kind.fields()) {
        let schema = described(field, default(field.name));
        let is_optional = !required.contains(&field.name);
        properties.insert(field.name.to_owned(), if is_optional { or_null(schema) } else { schema });
    }
    properties["kind"] = json!({"const": about.name});
    if about.reach == Reach::Each {
        properties["models"]["minProperties"] = 1.into();
    }
    json!({
        "title": about.name,
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": properties,
    })
}

/// The same, and null, which stands for a field that is left out.
fn or_null(mut schema: Value) -> Value {
    match schema.get_mut("type") {
        Some(Value::Array(types)) => types.push("null".into()),
        Some(one) => *one = json!([one, "null"]),
        None => {}
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    schema
}

fn described(field: &Field, default: Option<Value>) -> Value {
    let mut schema = of_shape(field.shape, default.as_ref());
    schema["description"] = field.help.trim().into();
    if let Some(default) = default.filter(|default| !default.is_null() && !default.is_object()) {
        schema["default"] = default;
    }
    schema
}

fn of_shape(shape: Shape, default: Option<&Value>) -> Value {
    // Text may be written as a number.
    let text = || json!({"type": ["string", "number"]});
    match shape {
        Shape::Number(limits) => within("number", limits),
        Shape::Whole(limits) => within("integer", limits),
        Shape::Text => text(),
        Shape::Name => json!({"type": ["string", "number"], "minLength": 1}),
        Shape::Address => json!({"type": "string", "pattern": "^https?://"}),
        Shape::Texts => json!({"type": "array", "items": text()}),
        Shape::TextMap => {
            json!({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}})
        }
        Shape::Choice(words) => json!({"enum": words}),
        Shape::Fields(fields) => {
            let of = |field: &Field| default.and_then(|default| default.get(field.name)).cloned();
            let properties: Map<String, Value> = fields
                .iter()
                .map(|field| (field.name.to_owned(), or_null(described(field, of(field)))))
                .collect();
            json!({"type": "object", "additionalProperties": false, "properties": properties})
        }
        Shape::Gpus => json!({"type": ["string", "integer"], "pattern": "^ *[0-9]+ *(- *[0-9]+ *)?$"}),
        Shape::Models => {
            let address = of_shape(Shape::Address, None);
            let model = json!({"as": or_null(text()), "url": or_null(address)});
            json!({
                "type": "object",
                "additionalProperties": {"oneOf": [
                    {"type": ["string", "number", "null"]},
                    {"type": "object", "additionalProperties": false, "properties": model},
                ]},
            })
        }
    }
}

fn within(kind: &str, limits: NumberRange) -> Value {
    let least = if limits.zero { "minimum" } else { "exclusiveMinimum" };
    json!({"type": kind, least: 0, "maximum": limits.max})
}
