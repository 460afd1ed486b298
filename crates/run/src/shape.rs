//! Checks a JSON or YAML file against the JSON Schema of its type: every fault at once, with its line.

use gswarm_core::input::document::{
    Document, Faults, Item, Kind, Path, Scalar, Shown, keep, without_mark, wrong_type,
};
use gswarm_core::input::{Code, Diagnostic, Severity, Source};
use serde_json::{Map, Value};

/// The file's value, with warnings, where it is of the shape that `schema` describes.
///
/// # Errors
/// Every fault.
pub fn read(source: Source<'_>, schema: &Value) -> Result<(Value, Vec<Diagnostic>), Vec<Diagnostic>> {
    let (value, found) = faults_of(source, schema);
    match value {
        Some(value) if found.iter().all(|one| one.severity == Severity::Warning) => Ok((value, found)),
        _ => Err(found),
    }
}

/// The file's value, where it is a document at all, and every fault. What is `null` is as if it were left out.
pub fn faults_of(source: Source<'_>, schema: &Value) -> (Option<Value>, Vec<Diagnostic>) {
    let mut faults = Faults::default();
    let document = Document::parse(source.bytes, &mut faults);
    let value = document.map(|document| {
        let path = Path::root();
        Walk { definitions: schema, faults: &mut faults }.item(document.root(), &path, schema);
        // Keys given twice are refused here.
        let mut value = keep(document.root(), &path, &mut faults);
        if let Value::Object(fields) = &mut value {
            fields.remove("$schema");
            // A section with nothing in it is left out.
            fields.retain(|_, field| !field.is_null());
        }
        value
    });
    let mut found = Vec::new();
    faults.locate(source.name, without_mark(source.bytes), &mut found);
    (value, found)
}

/// A fault of the value at a path such as `times.drift[1]`, with its line.
#[must_use]
pub fn fault_at(source: Source<'_>, path: &str, code: Code, message: &str) -> Diagnostic {
    let mut fault = Diagnostic { path: path.to_owned(), ..Diagnostic::of_file(source.name, code, message) };
    let mut faults = Faults::default();
    if let Some(document) = Document::parse(source.bytes, &mut faults) {
        let mut parts = path.split(['.', '[']).map(|part| part.trim_end_matches(']'));
        let found =
            parts.try_fold(document.root(), |item, part| match (item.kind(), part.parse::<usize>()) {
                (Kind::Seq, Ok(place)) => item.items().nth(place),
                _ => item.get(part),
            });
        let at = found.unwrap_or(document.root()).at();
        faults.add(code, at, &Path::root(), format_args!("{message}"));
    }
    let mut located = Vec::new();
    faults.locate(source.name, without_mark(source.bytes), &mut located);
    if let Some(place) = located.first() {
        (fault.line, fault.column) = (place.line, place.column);
    }
    fault
}

struct Walk<'s, 'f> {
    definitions: &'s Value,
    faults: &'f mut Faults,
}

impl<'s> Walk<'s, '_> {
    fn item(&mut self, item: Item<'_>, path: &Path<'_>, schema: &'s Value) {
        let schema = self.resolved(schema);
        if item.is_null() && (allows(schema, "null") || allows(schema, "object")) {
            return;
        }
        if let Some(branches) = branches(schema) {
            if let Some(wrong) = self.misnamed(item, branches) {
                let (name, known) = wrong;
                let hint = self.faults.nearest(name.text(), known.iter().copied());
                let message =
                    format_args!("`{}` is unknown; use one of {}", Shown(name.text()), known.join(", "));
                let below = path.key("name", name.at());
                self.faults.add_hinted(Code::UnknownChoice, name.at(), &below, message, hint);
                return;
            }
            match self.branch(item, branches) {
                Some(branch) => self.item(item, path, branch),
                None => wrong_type(item, path, &expected(schema, branches), self.faults),
            }
            return;
        }
        match item.kind() {
            Kind::Map if allows(schema, "object") => self.fields(item, path, schema),
            Kind::Seq if allows(schema, "array") => {
                let shape = schema.get("items").unwrap_or(&Value::Null);
                for (place, one) in item.items().enumerate() {
                    self.item(one, &path.index(place, one.at()), shape);
                }
                let limit = |name: &str, usual| schema.get(name).and_then(Value::as_u64).unwrap_or(usual);
                let (least, most, count) = (limit("minItems", 0), limit("maxItems", u64::MAX), item.count());
                if !(least..=most).contains(&(count as u64)) {
                    let code = if count == 0 { Code::Nothing } else { Code::WrongType };
                    let give = match (count as u64) < least {
                        _ if least == most => most.to_string(),
                        true => format!("{least} or more"),
                        false => format!("{most} at most"),
                    };
                    let message = format_args!("the list has {count} entries; give {give}");
                    self.faults.add(code, item.at(), path, message);
                }
            }
            Kind::Map | Kind::Seq => wrong_type(item, path, &expected(schema, &[]), self.faults),
            Kind::Plain | Kind::Quoted => self.scalar(item, path, schema),
        }
    }

    fn resolved(&self, schema: &'s Value) -> &'s Value {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return schema };
        let found = reference.strip_prefix('#').and_then(|pointer| self.definitions.pointer(pointer));
        found.unwrap_or(schema)
    }

    /// The branch of a union that a value is meant to be: one that takes its type, and of objects the one of its `name`.
    fn branch(&self, item: Item<'_>, branches: &'s [Value]) -> Option<&'s Value> {
        let kind = match (item.kind(), item.scalar()) {
            (Kind::Map, _) => "object",
            (Kind::Seq, _) => "array",
            (_, Some(Scalar::Bool(_))) => "boolean",
            (_, Some(Scalar::Number(_))) => "number",
            (_, Some(Scalar::Null)) => "null",
            _ => "string",
        };
        let mut fitting = branches.iter().filter(|branch| {
            let branch = self.resolved(branch);
            branches_fit(branch, kind) || (kind == "number" && allows(branch, "integer"))
        });
        let first = fitting.next()?;
        let name = item.get("name").map(Item::text);
        let named = |branch: &&Value| {
            let known = self.resolved(branch).pointer("/properties/name/const").and_then(Value::as_str);
            known.is_some() && known == name
        };
        Some(branches.iter().find(named).unwrap_or(first))
    }

    /// The `name` of a mapping that is none of those that tell the branches of a union apart, and these.
    fn misnamed<'t>(&self, item: Item<'t>, branches: &'s [Value]) -> Option<(Item<'t>, Vec<&'s str>)> {
        let name = item.get("name").filter(|_| item.kind() == Kind::Map)?;
        let known: Vec<&str> = branches
            .iter()
            .filter_map(|branch| self.resolved(branch).pointer("/properties/name/const")?.as_str())
            .collect();
        (!known.is_empty() && !known.contains(&name.text())).then_some((name, known))
    }

    fn fields(&mut self, item: Item<'_>, path: &Path<'_>, schema: &'s Value) {
        let known = schema.get("properties").and_then(Value::as_object);
        let names = || known.into_iter().flat_map(Map::keys).map(String::as_str);
        let rest = schema.get("additionalProperties");
        for (key, value) in item.entries() {
            let name = key.text();
            let below = path.key(name, key.at());
            match (known.and_then(|known| known.get(name)), rest) {
                (Some(shape), _) => self.item(value, &below, shape),
                (None, _) if name == "$schema" => {}
                (None, Some(Value::Bool(false))) => {
                    let hint = self.faults.nearest(name, names());
                    let message = format_args!("unknown field `{}`", Shown(name));
                    self.faults.add_hinted(Code::UnknownChoice, key.at(), &below, message, hint);
                }
                (None, Some(shape @ Value::Object(_))) => self.item(value, &below, shape),
                (None, _) => {}
            }
        }
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let name = name.as_str().unwrap_or_default();
            if item.get(name).is_none() {
                let below = path.key(name, item.at());
                self.faults.add(Code::Missing, item.at(), &below, format_args!("field `{name}` is missing"));
            }
        }
    }

    fn scalar(&mut self, item: Item<'_>, path: &Path<'_>, schema: &Value) {
        let Some(scalar) = item.scalar() else { return };
        let fits = match scalar {
            Scalar::Null => allows(schema, "null"),
            Scalar::Bool(_) => allows(schema, "boolean"),
            Scalar::Number(_) => allows(schema, "number") || allows(schema, "integer"),
            _ => allows(schema, "string"),
        };
        if !fits {
            return wrong_type(item, path, &expected(schema, &[]), self.faults);
        }
        if let Scalar::Number(number) = scalar {
            return self.number(item, path, schema, number);
        }
        let choices: Vec<&str> = choices(schema);
        if !choices.is_empty() && !choices.contains(&item.text()) {
            let hint = self.faults.nearest(item.text(), choices.iter().copied());
            let message =
                format_args!("`{}` is unknown; use one of {}", Shown(item.text()), choices.join(", "));
            self.faults.add_hinted(Code::UnknownChoice, item.at(), path, message, hint);
        }
    }

    fn number(&mut self, item: Item<'_>, path: &Path<'_>, schema: &Value, number: f64) {
        let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
        let largest = match schema.get("format").and_then(Value::as_str) {
            Some("uint32") => Some(f64::from(u32::MAX)),
            Some("uint" | "uint64") => Some(u64::MAX as f64),
            _ => None,
        };
        let shown = Shown(item.text());
        let (code, message) = if !number.is_finite() {
            (Code::NotFinite, format!("{shown} is not a finite number"))
        } else if !allows(schema, "number") && number.fract() != 0.0 {
            (Code::NotWhole, format!("{shown} is not a whole number"))
        } else if let Some(least) = limit("minimum").filter(|least| number < *least) {
            let code = if number < 0.0 { Code::Negative } else { Code::NotPositive };
            (code, format!("{shown} is below {least}"))
        } else if let Some(least) = limit("exclusiveMinimum").filter(|least| number <= *least) {
            (Code::NotPositive, format!("{shown} is not above {least}"))
        } else if let Some(most) = limit("maximum").or(largest).filter(|most| number > *most) {
            (Code::TooLarge, format!("{shown} is above the limit of {most}"))
        } else {
            return;
        };
        self.faults.add(code, item.at(), path, format_args!("{message}"));
    }
}

fn branches(schema: &Value) -> Option<&Vec<Value>> {
    let of = |name: &str| schema.get(name).and_then(Value::as_array);
    // An enumeration whose values have descriptions is a union of constants.
    of("oneOf")
        .or(of("anyOf"))
        .filter(|branches| !branches.iter().all(|branch| branch.get("const").is_some()))
}

fn branches_fit(schema: &Value, kind: &str) -> bool {
    match branches(schema) {
        Some(inner) => inner.iter().any(|branch| branches_fit(branch, kind)),
        None => allows(schema, kind),
    }
}

/// Whether values of a type are of this shape.
fn allows(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        // Constants without a type are text here; what says nothing takes anything.
        _ if !choices(schema).is_empty() => kind == "string",
        _ => match branches(schema) {
            Some(branches) => branches.iter().any(|branch| allows(branch, kind)),
            None => true,
        },
    }
}

/// The words that a field may be.
fn choices(schema: &Value) -> Vec<&str> {
    let list = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let constants = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let constants = constants.filter_map(|branch| branch.get("const"));
    list.chain(constants).chain(schema.get("const")).filter_map(Value::as_str).collect()
}

fn expected(schema: &Value, branches: &[Value]) -> String {
    let all = [("object", "a mapping"), ("array", "a list"), ("boolean", "`true` or `false`")];
    let all =
        all.into_iter().chain([("number", "a number"), ("integer", "a whole number"), ("string", "text")]);
    let fits = |kind: &str| allows(schema, kind) || branches.iter().any(|branch| allows(branch, kind));
    let words: Vec<&str> = all.filter(|(kind, _)| fits(kind)).map(|(_, words)| words).collect();
    words.join(" or ")
}
