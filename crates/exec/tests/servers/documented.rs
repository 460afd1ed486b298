//! The generated parts of docs/backends.md, and the JSON Schema. `UPDATE_DOCS=1 cargo test -p gswarm-exec` writes them anew.

use gswarm_exec::backend::{BackendKind, COMMON, Described, Endpoint, Field, Shape, json_schema};
use gswarm_testing::list_item;
use serde_json::Value;
use std::path::Path;

fn kinds_list() -> String {
    let item = |kind: &BackendKind| {
        let [load, unload, state, call] = kind.about().protocol;
        let name = kind.name();
        list_item(&format!("**`{name}`**. Load: {load}. Unload: {unload}. State: {state}. Call: {call}."))
    };
    BackendKind::ALL.iter().map(item).collect()
}

fn fields_list() -> String {
    let mut rows: Vec<(String, Vec<BackendKind>, &Field, String)> = Vec::new();
    for field in COMMON {
        rows.push((field.name.to_owned(), BackendKind::ALL.to_vec(), field, String::new()));
    }
    for &kind in BackendKind::ALL {
        let defaults = [Endpoint::defaults(), (kind.about().defaults)()];
        for field in kind.fields() {
            let default = defaults.iter().find_map(|defaults| defaults.get(field.name)).unwrap();
            let default = shown(default);
            let same = |row: &&mut (String, Vec<BackendKind>, &Field, String)| {
                row.0 == field.name && row.2.help == field.help && row.3 == default
            };
            match rows.iter_mut().find(same) {
                Some(row) => row.1.push(kind),
                None => rows.push((field.name.to_owned(), vec![kind], field, default)),
            }
        }
    }
    let mut list = String::new();
    for (name, kinds, field, default) in rows {
        let kinds = match kinds.len() {
            all if all == BackendKind::ALL.len() => "all kinds".to_owned(),
            _ => kinds.iter().map(|kind| format!("`{}`", kind.name())).collect::<Vec<_>>().join(", "),
        };
        let help = field.help.trim();
        let (holds, help) = match field.shape {
            Shape::Fields(parts) => {
                let defaults = Endpoint::defaults();
                let part = |part: &Field| {
                    let default = shown(&defaults[field.name][part.name]);
                    format!("`{}` ({default}): {}", part.name, part.help.trim())
                };
                let parts: Vec<String> = parts.iter().map(part).collect();
                ("a mapping".to_owned(), format!("{help} {}.", parts.join(". ")))
            }
            shape => (holds(shape), help.to_owned()),
        };
        let default = if default.is_empty() { default } else { format!(" Default: {default}.") };
        list += &list_item(&format!("**`{name}`** ({kinds}; {holds}): {help}{default}"));
    }
    list
}

fn holds(shape: Shape) -> String {
    match shape {
        Shape::Number(limits) | Shape::Whole(limits) => {
            let whole = if matches!(shape, Shape::Whole(_)) { "a whole number" } else { "a number" };
            let least = match shape {
                _ if limits.zero => "from 0",
                Shape::Whole(_) => "from 1",
                _ => "above 0",
            };
            format!("{whole} {least} to {}", limits.max)
        }
        Shape::Text | Shape::Name => "text".to_owned(),
        Shape::Address => "an address".to_owned(),
        Shape::Texts => "a list of texts".to_owned(),
        Shape::TextMap => "texts by name".to_owned(),
        Shape::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Gpus => "a number or a range".to_owned(),
        Shape::Models | Shape::Fields(_) => "a mapping".to_owned(),
    }
}

fn shown(default: &Value) -> String {
    match default {
        Value::Null => String::new(),
        Value::String(text) => format!("`{text}`"),
        Value::Number(number) => number.as_f64().unwrap().to_string(),
        Value::Array(_) | Value::Object(_) => String::new(),
        other => other.to_string(),
    }
}

fn examples() -> String {
    let examples: Vec<&str> = BackendKind::ALL.iter().map(|kind| kind.about().example).collect();
    examples.join("\n\n") + "\n"
}

#[test]
fn the_page_about_servers_says_what_the_adapters_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/backends.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mut fresh = page.clone();
    for (name, text) in [("kinds", kinds_list()), ("fields", fields_list()), ("examples", examples())] {
        let (start, end) = (format!("<!-- generated: {name} -->\n"), format!("<!-- end: {name} -->"));
        let from = fresh.find(&start).unwrap_or_else(|| panic!("{start} is not there")) + start.len();
        let to = fresh.find(&end).unwrap_or_else(|| panic!("{end} is not there"));
        fresh.replace_range(from..to, &text);
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, &fresh).unwrap();
    }
    assert!(page == fresh, "docs/backends.md is not up to date: UPDATE_DOCS=1 cargo test -p gswarm-exec");
}

/// The schema knows every field of every kind, and no other.
#[test]
fn the_schema_describes_every_kind() {
    let schema = json_schema();
    let servers = schema["properties"]["backends"]["items"]["oneOf"].as_array().unwrap();
    assert_eq!(servers.len(), BackendKind::ALL.len());
    for (server, kind) in servers.iter().zip(BackendKind::ALL) {
        assert_eq!(server["properties"]["kind"]["const"], kind.name());
        let properties = server["properties"].as_object().unwrap();
        let known: Vec<&str> = COMMON.iter().chain(kind.fields()).map(|field| field.name).collect();
        assert!(properties.keys().all(|name| known.contains(&name.as_str())));
        assert_eq!(properties.len(), known.len(), "{}", kind.name());
    }
}

/// What a description lets through, the field can hold.
#[test]
fn every_field_can_be_read() {
    use gswarm_core::input::{Source, render};
    for kind in BackendKind::ALL {
        let value = |field: &Field| match field.shape {
            Shape::Number(_) | Shape::Whole(_) | Shape::Gpus => "1".to_owned(),
            Shape::Text | Shape::Name => "word".to_owned(),
            Shape::Address => "'http://localhost:1'".to_owned(),
            Shape::Texts => "[sh]".to_owned(),
            Shape::TextMap => "{a: 1}".to_owned(),
            Shape::Choice(words) => words[words.len() - 1].to_owned(),
            Shape::Fields(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| format!("{}: 1.5", part.name)).collect();
                format!("{{{}}}", parts.join(", "))
            }
            Shape::Models => "{m: there}".to_owned(),
        };
        let mut text = format!("backends:\n- kind: {}\n", kind.name());
        for field in COMMON[1..].iter().chain(kind.fields()) {
            text += &format!("  {}: {}\n", field.name, value(field));
        }
        let source = Source { name: "servers", bytes: text.as_bytes() };
        let reading = gswarm_exec::backend::read_backends(source);
        assert!(reading.file.is_some(), "{text}\n{}", render(&reading.diagnostics));
    }
}
