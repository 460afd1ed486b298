//! JSON Schemas as regular expressions. Whatever matches keeps to the schema; what a schema asks that cannot be said so is
//! refused by name, never passed over.

use regex_syntax::escape;
use serde_json::{Map, Value};
use std::cell::Cell;

type Said = Result<String, String>;

/// White space that an answer may have between parts.
const GAP: &str = " ?";
const STRING_LETTER: &str = r#"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))"#;
const WHOLE: &str = "(?:0|[1-9][0-9]{0,17})";
const PART: &str = r"(?:\.[0-9]{1,17})?";
/// How deep values are that a schema says nothing of.
const FREE_DEPTH: usize = 3;
/// How deep schemas may stand in one another.
const MAX_DEPTH: usize = 32;
/// Most schemas in a schema.
const MAX_SCHEMAS: usize = 10_000;
/// Most whole numbers of a range.
const MAX_RANGE: i64 = 1000;
/// Most repetitions that are counted.
const MAX_COUNT: u64 = 1000;
/// What schemas say for people.
const NOTES: [&str; 14] = [
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "strict",
];

/// Any JSON object.
pub(super) fn object() -> String {
    free_object(FREE_DEPTH)
}

/// What a schema describes.
pub(super) fn pattern(schema: &Value) -> Said {
    Reader { root: schema, read: Cell::new(0) }.value(schema, 0)
}

fn string() -> String {
    format!("\"{STRING_LETTER}*\"")
}

fn number() -> String {
    format!("-?{WHOLE}{PART}(?:[eE][+-]?[0-9]{{1,3}})?")
}

fn free(depth: usize) -> String {
    let scalar = format!("{}|{}|true|false|null", string(), number());
    match depth {
        0 => format!("(?:{scalar})"),
        _ => format!("(?:{scalar}|{}|{})", list(&free(depth - 1), 0, None), free_object(depth)),
    }
}

fn free_object(depth: usize) -> String {
    let pair = format!("{}:{GAP}{}", string(), free(depth.saturating_sub(1)));
    format!(r"\{{(?:{pair}(?:,{GAP}{pair})*)?\}}")
}

fn list(item: &str, least: u64, most: Option<u64>) -> String {
    let more = |least: u64, most: Option<u64>| match most {
        Some(most) => format!("{{{least},{most}}}"),
        None => format!("{{{least},}}"),
    };
    match (least, most) {
        (_, Some(0)) => r"\[\]".to_owned(),
        (0, most) => {
            let rest = more(0, most.map(|most| most - 1));
            format!(r"\[(?:{item}(?:,{GAP}{item}){rest})?\]")
        }
        (least, most) => {
            let rest = more(least - 1, most.map(|most| most - 1));
            format!(r"\[{item}(?:,{GAP}{item}){rest}\]")
        }
    }
}

struct Reader<'s> {
    root: &'s Value,
    /// Schemas that were read so far: those of references again and again.
    read: Cell<usize>,
}

impl Reader<'_> {
    fn value(&self, schema: &Value, depth: usize) -> Said {
        if depth > MAX_DEPTH {
            return Err("its parts stand too deep in one another, or in themselves".to_owned());
        }
        self.read.set(self.read.get() + 1);
        if self.read.get() > MAX_SCHEMAS {
            return Err("it has too many parts".to_owned());
        }
        let schema = match schema {
            Value::Bool(true) => return Ok(free(FREE_DEPTH)),
            Value::Object(schema) => schema,
            _ => return Err("a schema is an object".to_owned()),
        };
        if let Some(at) = schema.get("$ref") {
            only(schema, &["$ref"])?;
            return self.value(self.at(at)?, depth + 1);
        }
        if let Some(value) = schema.get("const") {
            only(schema, &["const", "type"])?;
            return Ok(escape(&value.to_string()));
        }
        if let Some(values) = schema.get("enum") {
            only(schema, &["enum", "type"])?;
            let values = values.as_array().filter(|values| !values.is_empty());
            let values = values.ok_or("`enum` is a list of values")?;
            return Ok(any(values.iter().map(|value| escape(&value.to_string()))));
        }
        for name in ["anyOf", "oneOf", "allOf"] {
            let Some(parts) = schema.get(name) else { continue };
            only(schema, &[name])?;
            let parts = parts.as_array().filter(|parts| !parts.is_empty());
            let parts = parts.ok_or_else(|| format!("`{name}` is a list of schemas"))?;
            if name == "allOf" && parts.len() > 1 {
                return Err("`allOf` with several schemas is not supported".to_owned());
            }
            let parts: Vec<String> =
                parts.iter().map(|part| self.value(part, depth + 1)).collect::<Result<_, _>>()?;
            return Ok(any(parts.into_iter()));
        }
        match schema.get("type") {
            Some(Value::String(kind)) => self.of_type(kind, schema, depth),
            Some(Value::Array(kinds)) if !kinds.is_empty() => {
                // Each type goes by the settings that are its own.
                let one = |kind: &Value| {
                    let kind = kind.as_str().ok_or("`type` is a name or a list of names")?;
                    let mut own = schema.clone();
                    own.retain(|name, _| !is_of_another(name, kind));
                    self.of_type(kind, &own, depth)
                };
                Ok(any(kinds.iter().map(one).collect::<Result<Vec<_>, _>>()?.into_iter()))
            }
            Some(_) => Err("`type` is a name or a list of names".to_owned()),
            None if schema.contains_key("properties") => self.of_type("object", schema, depth),
            None if schema.contains_key("items") => self.of_type("array", schema, depth),
            None => {
                only(schema, &[])?;
                Ok(free(FREE_DEPTH))
            }
        }
    }

    fn of_type(&self, kind: &str, schema: &Map<String, Value>, depth: usize) -> Said {
        match kind {
            "null" => only(schema, &["type"]).map(|()| "null".to_owned()),
            "boolean" => only(schema, &["type"]).map(|()| "(?:true|false)".to_owned()),
            "integer" => whole(schema),
            "number" => real(schema),
            "string" => text(schema),
            "array" => {
                only(schema, &["type", "items", "minItems", "maxItems"])?;
                let item = schema
                    .get("items")
                    .map_or_else(|| Ok(free(FREE_DEPTH - 1)), |item| self.value(item, depth + 1))?;
                let (least, most) = (count(schema, "minItems")?.unwrap_or(0), count(schema, "maxItems")?);
                ordered(least, most)?;
                Ok(list(&item, least, most))
            }
            "object" => self.object(schema, depth),
            other => Err(format!("there is no type `{other}`")),
        }
    }

    fn object(&self, schema: &Map<String, Value>, depth: usize) -> Said {
        only(schema, &["type", "properties", "required", "additionalProperties"])?;
        let nothing = Map::new();
        let properties = schema.get("properties").map_or(Some(&nothing), Value::as_object);
        let properties = properties.ok_or("`properties` are schemas by name")?;
        if properties.is_empty() {
            let item = match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => return Ok(r"\{\}".to_owned()),
                None | Some(Value::Bool(true)) => return Ok(free_object(FREE_DEPTH)),
                Some(item) => self.value(item, depth + 1)?,
            };
            let pair = format!("{}:{GAP}{item}", string());
            return Ok(format!(r"\{{(?:{pair}(?:,{GAP}{pair})*)?\}}"));
        }
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return Err(format!("`{name}` is required, but has no schema"));
        }
        // Of what is left: `first` where nothing is written yet, `rest` where something is. From the last one on.
        let (mut first, mut rest) = (String::new(), String::new());
        for (name, value) in properties.iter().rev() {
            let name_text = escape(&Value::from(name.as_str()).to_string());
            let pair = format!("{name_text}:{GAP}{}", self.value(value, depth + 1)?);
            if required.contains(&name.as_str()) {
                first = format!("{pair}{rest}");
                rest = format!(",{GAP}{pair}{rest}");
            } else {
                first = format!("(?:{pair}{rest}|{first})");
                rest = format!("(?:,{GAP}{pair})?{rest}");
            }
            if first.len() > super::MAX_PATTERN {
                return Err("it is too large".to_owned());
            }
        }
        Ok(format!(r"\{{{first}\}}"))
    }

    fn at(&self, place: &Value) -> Result<&Value, String> {
        let place = place.as_str().unwrap_or_default();
        let found = place.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        found.ok_or_else(|| format!("there is nothing at `$ref` `{place}`"))
    }
}

fn any(patterns: impl Iterator<Item = String>) -> String {
    format!("(?:{})", patterns.collect::<Vec<_>>().join("|"))
}

/// That a schema says nothing but what is known here.
fn only(schema: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    let unknown =
        schema.keys().find(|name| !known.contains(&name.as_str()) && !NOTES.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| Err(format!("`{name}` is not supported here")))
}

fn is_of_another(name: &str, kind: &str) -> bool {
    let of = match name {
        "properties" | "required" | "additionalProperties" => "object",
        "items" | "minItems" | "maxItems" => "array",
        "minLength" | "maxLength" | "pattern" | "format" => "string",
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            return !matches!(kind, "integer" | "number");
        }
        _ => return false,
    };
    of != kind
}

fn count(schema: &Map<String, Value>, name: &str) -> Result<Option<u64>, String> {
    let Some(value) = schema.get(name) else { return Ok(None) };
    let count = value.as_u64().filter(|&count| count <= MAX_COUNT);
    count.map(Some).ok_or_else(|| format!("`{name}` is a whole number up to {MAX_COUNT}"))
}

fn ordered(least: u64, most: Option<u64>) -> Result<(), String> {
    let fits = most.is_none_or(|most| least <= most);
    if fits {
        Ok(())
    } else {
        Err(format!("at least {least} and at most {} cannot both hold", most.unwrap_or(0)))
    }
}

fn text(schema: &Map<String, Value>) -> Said {
    only(schema, &["type", "minLength", "maxLength", "format"])?;
    let (least, most) = (count(schema, "minLength")?, count(schema, "maxLength")?);
    ordered(least.unwrap_or(0), most)?;
    let day = "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])";
    let time = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?Z";
    let shaped = match schema.get("format").and_then(Value::as_str) {
        None => {
            let most = most.map_or(String::new(), |most| most.to_string());
            return Ok(format!("\"{STRING_LETTER}{{{},{most}}}\"", least.unwrap_or(0)));
        }
        Some("date") => day.to_owned(),
        Some("time") => time.to_owned(),
        Some("date-time") => format!("{day}T{time}"),
        Some("uuid") => "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}".to_owned(),
        Some(other) => return Err(format!("`format` `{other}` is not supported here")),
    };
    match (least, most) {
        (None, None) => Ok(format!("\"{shaped}\"")),
        _ => Err("`format` with a length is not supported here".to_owned()),
    }
}

/// The bounds of a number, both included, as far as there are any.
fn bounds(schema: &Map<String, Value>, step: f64) -> Result<(Option<f64>, Option<f64>), String> {
    only(schema, &["type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])?;
    let given = |name: &str| match schema.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| format!("`{name}` is a number")),
    };
    let least = given("exclusiveMinimum")?.map(|least| (least / step).floor() * step + step);
    let most = given("exclusiveMaximum")?.map(|most| (most / step).ceil() * step - step);
    let least = [given("minimum")?, least].into_iter().flatten().reduce(f64::max);
    let most = [given("maximum")?, most].into_iter().flatten().reduce(f64::min);
    Ok((least, most))
}

fn whole(schema: &Map<String, Value>) -> Said {
    let (least, most) = bounds(schema, 1.0)?;
    match (least.map(f64::ceil), most.map(f64::floor)) {
        (None, None) => Ok(format!("-?{WHOLE}")),
        (Some(0.0), None) => Ok(WHOLE.to_owned()),
        (Some(1.0), None) => Ok("[1-9][0-9]{0,17}".to_owned()),
        (Some(least), Some(most)) if least <= most && most - least <= MAX_RANGE as f64 => {
            Ok(any((least as i64..=most as i64).map(|number| number.to_string())))
        }
        _ => {
            Err(format!("whole numbers have no bounds, 0 or 1 as `minimum`, or a range of up to {MAX_RANGE}"))
        }
    }
}

fn real(schema: &Map<String, Value>) -> Said {
    match bounds(schema, f64::MIN_POSITIVE)? {
        (None, None) => Ok(number()),
        (Some(0.0), None) => Ok(format!("{WHOLE}{PART}")),
        (Some(0.0), Some(most)) if most >= 1.0 && most.fract() == 0.0 && most <= MAX_RANGE as f64 => {
            let below = any((0..most as i64).map(|number| number.to_string()));
            Ok(format!(r"(?:{below}{PART}|{most}(?:\.0{{1,17}})?)"))
        }
        _ => Err(format!(
            "numbers have no bounds, 0 as `minimum`, or a range from 0 to a whole number up to {MAX_RANGE}"
        )),
    }
}

#[cfg(test)]
mod tests;
