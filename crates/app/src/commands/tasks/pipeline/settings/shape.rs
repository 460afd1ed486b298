//! What is wrong with a file of settings that is not of their shape: each fault with its code, line and path.

use super::{Settings, Source};
use gswarm_core::input::document::{
    Document, Faults, Item, Kind, Path, Scalar, Shown, without_mark, wrong_type,
};
use gswarm_core::input::{Code, Diagnostic};
use serde_json::Value;

/// All faults of shape, as far as they are seen here; the defaults say what each setting is.
pub fn faults(name: &str, bytes: &[u8]) -> Vec<Diagnostic> {
    let mut faults = Faults::default();
    if let Some(document) = Document::parse(bytes, &mut faults) {
        let shape = serde_json::to_value(Settings::default()).unwrap_or_default();
        look(document.root(), &Path::root(), &shape, &mut faults);
    }
    let mut found = Vec::new();
    faults.locate(name, without_mark(bytes), &mut found);
    for fault in &mut found {
        fault.hint.get_or_insert_with(|| super::HINT.to_owned());
    }
    found
}

fn look(item: Item<'_>, path: &Path<'_>, shape: &Value, faults: &mut Faults) {
    match shape {
        Value::Object(known) if item.kind() == Kind::Map => {
            let mut seen = Vec::new();
            for (key, value) in item.entries() {
                let name = key.text();
                let below = path.key(name, key.at());
                if seen.contains(&name) {
                    let message = format_args!("`{}` is given twice", Shown(name));
                    faults.add(Code::Duplicate, key.at(), &below, message);
                    continue;
                }
                seen.push(name);
                match known.get(name) {
                    Some(shape) => look(value, &below, shape, faults),
                    None => {
                        let hint = faults.nearest(name, known.keys().map(String::as_str));
                        let names: Vec<&str> = known.keys().map(String::as_str).collect();
                        let names = names.join(", ");
                        let message = format_args!("there is no setting `{}`; they are {names}", Shown(name));
                        faults.add_hinted(Code::UnknownChoice, key.at(), &below, message, hint);
                    }
                }
            }
        }
        // A section with nothing in it is as if it were left out.
        Value::Object(_) if item.is_null() => {}
        Value::Object(_) => wrong_type(item, path, "a mapping", faults),
        Value::Array(shapes) if item.kind() == Kind::Seq => {
            for (place, one) in item.items().enumerate() {
                let shape = shapes.first().unwrap_or(&Value::Null);
                look(one, &path.index(place, one.at()), shape, faults);
            }
            // Of a workload they are all a least and a greatest.
            if path.to_string().starts_with("workload.") && item.count() != 2 {
                let message = format_args!("two numbers are expected, and there are {}", item.count());
                faults.add(Code::WrongType, item.at(), path, message);
            }
        }
        Value::Array(_) => wrong_type(item, path, "a list of numbers", faults),
        Value::Bool(_) if !matches!(item.scalar(), Some(Scalar::Bool(_))) => {
            wrong_type(item, path, "`true` or `false`", faults);
        }
        Value::Number(number) if number.is_f64() => {
            if !matches!(item.scalar(), Some(Scalar::Number(_))) {
                wrong_type(item, path, "a number", faults);
            }
        }
        // What has no value of its own unless given is a number of something.
        Value::Number(_) => whole(item, path, faults),
        Value::Null if !item.is_null() => whole(item, path, faults),
        Value::String(_) if item.scalar() != Some(Scalar::Text) => wrong_type(item, path, "text", faults),
        Value::String(_) if path.to_string() == "profile.use" => {
            let known = [Source::Auto, Source::Described, Source::Measured].map(Source::name);
            if !known.contains(&item.text()) {
                let hint = faults.nearest(item.text(), known);
                let message =
                    format_args!("`{}` is no profile; they are {}", Shown(item.text()), known.join(", "));
                faults.add_hinted(Code::UnknownChoice, item.at(), path, message, hint);
            }
        }
        Value::Bool(_) | Value::String(_) | Value::Null => {}
    }
}

/// A number without a sign or a fraction, and not too large to count with.
fn whole(item: Item<'_>, path: &Path<'_>, faults: &mut Faults) {
    let Some(Scalar::Number(number)) = item.scalar() else {
        return wrong_type(item, path, "a whole number", faults);
    };
    let text = Shown(item.text());
    // Seeds may be longer than counts.
    let most = if path.name() == "seed" { u64::MAX } else { u64::from(u32::MAX) };
    let (code, message) = if !number.is_finite() {
        (Code::NotFinite, format!("{text} is no number of anything"))
    } else if number < 0.0 {
        (Code::Negative, format!("{text} is below zero"))
    } else if number.fract() != 0.0 {
        (Code::NotWhole, format!("{text} is not whole"))
    } else if number > most as f64 || item.text().parse::<u64>().is_ok_and(|number| number > most) {
        (Code::TooLarge, format!("{text} is above the limit of {most}"))
    } else if item.text().parse::<u64>().is_err() {
        (Code::WrongType, format!("{text} is to be written in digits"))
    } else {
        return;
    };
    faults.add(code, item.at(), path, format_args!("{message}"));
}
