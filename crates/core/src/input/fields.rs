//! Values of fields: each getter gives what a field says, or reports why it cannot.

use super::code::Code;
use super::faults::{Faults, Path, Shown};
use super::tree::{Item, Kind, Scalar, number};
use super::validity;
use serde_json::{Map, Number, Value};

/// Names the schema of a file, for editors; it says nothing to a reader.
const SCHEMA_KEY: &str = "$schema";

/// For people who are used to other formats.
pub(super) const NO_COMMENT: &str =
    "`//` and `/*` do not start comments: YAML uses `#`, JSON has no comments";

/// A field of a mapping, there or not.
#[derive(Clone, Copy)]
pub struct Slot<'t, 'p> {
    /// `None` where the field is absent or null.
    pub item: Option<Item<'t>>,
    /// Where it is, or would be.
    pub path: Path<'p>,
}

/// What a number may be.
#[derive(Clone, Copy)]
pub struct NumberRange {
    /// Whether it may be zero.
    pub zero: bool,
    /// The largest.
    pub max: f64,
    /// As messages write it behind a number, with the space before it.
    pub unit: &'static str,
}

/// Above zero, up to `max`.
#[must_use]
pub const fn positive(max: f64, unit: &'static str) -> NumberRange {
    NumberRange { zero: false, max, unit }
}

/// Zero or above, up to `max`.
#[must_use]
pub const fn not_negative(max: f64, unit: &'static str) -> NumberRange {
    NumberRange { zero: true, max, unit }
}

/// The fields of `map` by `names`, in the same order; others are warned of, and those given twice refused. `None`
/// where it is no mapping, which is reported.
pub(super) fn fields<'t, 'p, const N: usize>(
    map: Item<'t>,
    path: &'p Path<'p>,
    names: [&'static str; N],
    faults: &mut Faults,
) -> Option<[Slot<'t, 'p>; N]> {
    fields_or(Code::UnknownField, map, path, names, faults)
}

/// The same, with another code for fields that are not among them.
pub fn fields_or<'t, 'p, const N: usize>(
    unknown: Code,
    map: Item<'t>,
    path: &'p Path<'p>,
    names: [&'static str; N],
    faults: &mut Faults,
) -> Option<[Slot<'t, 'p>; N]> {
    let mut slots = names.map(|name| Slot { item: None, path: path.key(name, path.at) });
    fill(unknown, map, path, (&mut slots, &mut [false; N]), faults).then_some(slots)
}

/// The same for a list of names that is known only at run time.
pub fn fields_among<'t, 'p>(
    unknown: Code,
    map: Item<'t>,
    path: &'p Path<'p>,
    names: &[&'static str],
    faults: &mut Faults,
) -> Option<Vec<Slot<'t, 'p>>> {
    let slot = |&name: &&'static str| Slot { item: None, path: path.key(name, path.at) };
    let mut slots: Vec<_> = names.iter().map(slot).collect();
    let mut seen = vec![false; slots.len()];
    fill(unknown, map, path, (&mut slots, &mut seen), faults).then_some(slots)
}

fn fill<'t>(
    unknown: Code,
    map: Item<'t>,
    path: &Path<'_>,
    (slots, seen): (&mut [Slot<'t, '_>], &mut [bool]),
    faults: &mut Faults,
) -> bool {
    if map.kind() != Kind::Map {
        wrong_type(map, path, "a mapping", faults);
        return false;
    }
    for (key, value) in map.entries() {
        let name = key.text();
        if name == SCHEMA_KEY {
            continue;
        }
        let Some(place) = slots.iter().position(|slot| slot.path.name() == name) else {
            let hint = match name.starts_with("//") || name.starts_with("/*") {
                true => Some(NO_COMMENT.to_owned()),
                false => faults.nearest(name, slots.iter().map(|slot| slot.path.name())),
            };
            let path = path.key(name, key.at());
            let left_out = if unknown == Code::UnknownField { ", ignored" } else { "" };
            let message = format_args!("unknown field `{}`{left_out}", Shown(name));
            faults.add_hinted(unknown, key.at(), &path, message, hint);
            continue;
        };
        if seen[place] {
            duplicate_key(key, path, faults);
            continue;
        }
        seen[place] = true;
        slots[place].path.at = key.at();
        slots[place].item = (!value.is_null()).then_some(value);
    }
    true
}

/// Reports that a mapping has this key twice.
pub fn duplicate_key(key: Item<'_>, path: &Path<'_>, faults: &mut Faults) {
    let path = path.key(key.text(), key.at());
    faults.add(Code::Duplicate, key.at(), &path, format_args!("key `{}` is given twice", Shown(key.text())));
}

/// Reports that something else was expected here.
pub fn wrong_type(item: Item<'_>, path: &Path<'_>, expected: &str, faults: &mut Faults) {
    let found = item.described();
    let is_number = item.kind() == Kind::Quoted && number(item.text()).is_some();
    let hint = match expected {
        "a number" if is_number => Some(format!("write it without quotes: {}", Shown(item.text()))),
        "a number" => without_unit(item.text()),
        _ => None,
    };
    let message = match item.scalar() {
        Some(Scalar::Text | Scalar::Number(_)) => {
            format!("expected {expected}, found {found} `{}`", Shown(item.text()))
        }
        _ => format!("expected {expected}, found {found}"),
    };
    faults.add_hinted(Code::WrongType, item.at(), path, format_args!("{message}"), hint);
}

/// What to write in place of a number with its unit, such as `500ms`.
fn without_unit(text: &str) -> Option<String> {
    let units = [
        ("ms", 1e-3, "seconds"),
        ("sec", 1.0, "seconds"),
        ("s", 1.0, "seconds"),
        ("min", 60.0, "seconds"),
        ("m", 60.0, "seconds"),
        ("h", 3600.0, "seconds"),
        ("mb", 1e-3, "GB"),
        ("mib", 1.048_576e-3, "GB"),
        ("gb", 1.0, "GB"),
        ("g", 1.0, "GB"),
        ("gib", 1.073_741_824, "GB"),
        ("tb", 1e3, "GB"),
    ];
    let at = text.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (value, unit) = (text[..at].trim().parse::<f64>().ok()?, text[at..].trim().to_lowercase());
    let &(_, factor, base) = units.iter().find(|(name, ..)| *name == unit)?;
    Some(format!("write only the number, in {base}: {}", value * factor))
}

/// An id or a name. A number is taken as it is written: people number their requests.
pub fn text<'t>(item: Item<'t>, path: &Path<'_>, faults: &mut Faults) -> Option<&'t str> {
    match item.scalar() {
        Some(Scalar::Text | Scalar::Number(_)) => Some(item.text()),
        _ => {
            wrong_type(item, path, "text", faults);
            None
        }
    }
}

impl<'t, 'p> Slot<'t, 'p> {
    /// The value; its absence is reported.
    pub fn required(&self, faults: &mut Faults) -> Option<Item<'t>> {
        self.required_hinted(None, faults)
    }

    /// The value; its absence is reported, with what might be the reason.
    pub fn required_hinted(&self, hint: Option<&str>, faults: &mut Faults) -> Option<Item<'t>> {
        if self.item.is_none() {
            let message = format_args!("field `{}` is missing", self.path.name());
            faults.add_hinted(Code::Missing, self.path.at, &self.path, message, hint.map(str::to_owned));
        }
        self.item
    }

    /// Text; a number is taken as it is written.
    pub fn text(&self, faults: &mut Faults) -> Option<&'t str> {
        text(self.item?, &self.path, faults)
    }

    /// An id, which cannot be empty or absent.
    pub fn id(&self, faults: &mut Faults) -> Option<&'t str> {
        let item = self.required(faults)?;
        validity::id(text(item, &self.path, faults)?, item.at(), &self.path, faults)
    }

    /// The same, owned.
    pub fn string(&self, faults: &mut Faults) -> Option<String> {
        self.text(faults).map(str::to_owned)
    }

    /// The value, if it is a mapping.
    pub fn map(&self, faults: &mut Faults) -> Option<Item<'t>> {
        self.container(Kind::Map, "a mapping", faults)
    }

    /// The value, if it is a list.
    pub fn list(&self, faults: &mut Faults) -> Option<Item<'t>> {
        self.container(Kind::Seq, "a list", faults)
    }

    fn container(&self, kind: Kind, expected: &str, faults: &mut Faults) -> Option<Item<'t>> {
        let item = self.item?;
        if item.kind() != kind {
            wrong_type(item, &self.path, expected, faults);
            return None;
        }
        Some(item)
    }

    /// A list of names.
    pub fn texts(&self, faults: &mut Faults) -> Vec<String> {
        let items = self.list(faults).map(|list| list.items().enumerate());
        let texts = items.into_iter().flatten().filter_map(|(place, item)| {
            text(item, &self.path.index(place, item.at()), faults).map(str::to_owned)
        });
        texts.collect()
    }

    /// A number within `limits`.
    pub fn number(&self, limits: NumberRange, faults: &mut Faults) -> Option<f64> {
        quantity(self.item?, &self.path, limits, faults)
    }

    /// A number within the limits of this field.
    pub fn amount(&self, faults: &mut Faults) -> Option<f64> {
        self.number(validity::limits(self.path.name()), faults)
    }

    /// A whole number within the limits of this field.
    pub fn whole_amount(&self, faults: &mut Faults) -> Option<u32> {
        let value = self.amount(faults)?;
        whole(value, self.item?, &self.path, faults).map(|value| value as u32)
    }

    /// A number of things, from 1 to `max`.
    pub fn count(&self, max: u32, faults: &mut Faults) -> Option<u32> {
        self.whole(positive(f64::from(max), ""), faults)
    }

    /// A whole number within `limits`, which end below 2^32.
    pub fn whole(&self, limits: NumberRange, faults: &mut Faults) -> Option<u32> {
        let value = self.number(limits, faults)?;
        whole(value, self.item?, &self.path, faults).map(|value| value as u32)
    }

    /// Any whole number of 32 bits.
    pub fn integer(&self, faults: &mut Faults) -> Option<i32> {
        let item = self.item?;
        let value = finite(item, &self.path, faults)?;
        if value.abs() > f64::from(i32::MAX) {
            let message = format_args!("{} is beyond {}", Shown(item.text()), i32::MAX);
            faults.add(Code::TooLarge, item.at(), &self.path, message);
            return None;
        }
        whole(value, item, &self.path, faults).map(|value| value as i32)
    }

    /// A value that is kept as it is.
    pub fn kept(&self, faults: &mut Faults) -> Value {
        self.item.map_or(Value::Null, |item| keep(item, &self.path, faults))
    }

    /// A mapping that is kept as it is.
    pub fn kept_map(&self, faults: &mut Faults) -> Map<String, Value> {
        match self.map(faults).map(|item| keep(item, &self.path, faults)) {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }
}

/// A number that has no fraction.
pub(super) fn whole(value: f64, item: Item<'_>, path: &Path<'_>, faults: &mut Faults) -> Option<f64> {
    if value.fract() != 0.0 {
        faults.add(
            Code::NotWhole,
            item.at(),
            path,
            format_args!("{} is not a whole number", Shown(item.text())),
        );
        return None;
    }
    Some(value)
}

/// A number that is neither infinite nor NaN.
pub(super) fn finite(item: Item<'_>, path: &Path<'_>, faults: &mut Faults) -> Option<f64> {
    let Some(Scalar::Number(value)) = item.scalar() else {
        wrong_type(item, path, "a number", faults);
        return None;
    };
    finite_number(value, item.text(), item.at(), path, faults)
}

/// The same of a number that is written as `text`.
fn finite_number(value: f64, text: &str, at: u32, path: &Path<'_>, faults: &mut Faults) -> Option<f64> {
    if value.is_finite() {
        return Some(value);
    }
    let written_out = text.bytes().any(|byte| byte.is_ascii_digit());
    let (code, reason) = if written_out {
        (Code::TooLarge, "is too large for a number")
    } else {
        (Code::NotFinite, "is not a finite number")
    };
    faults.add(code, at, path, format_args!("`{}` {reason}", Shown(text)));
    None
}

/// A number within `limits`.
pub fn quantity(item: Item<'_>, path: &Path<'_>, limits: NumberRange, faults: &mut Faults) -> Option<f64> {
    limits.check(finite(item, path, faults)?, item.text(), item.at(), path, faults)
}

impl NumberRange {
    /// The number, which is written as `text`, where it is finite and within the limits; otherwise that is reported.
    pub(super) fn check(
        self,
        value: f64,
        text: &str,
        at: u32,
        path: &Path<'_>,
        faults: &mut Faults,
    ) -> Option<f64> {
        let value = finite_number(value, text, at, path, faults)?;
        let shown = Shown(text);
        let hint = (value < 0.0).then(|| format!("did you mean {}?", -value));
        if value < 0.0 && self.zero {
            faults.add_hinted(Code::Negative, at, path, format_args!("{shown} is below zero"), hint);
        } else if value <= 0.0 && !self.zero {
            faults.add_hinted(Code::NotPositive, at, path, format_args!("{shown} is not above zero"), hint);
        } else if value > self.max {
            let message = format_args!("{shown} is above the limit of {}{}", self.max, self.unit);
            faults.add_hinted(Code::TooLarge, at, path, message, Some(in_unit(value, self)));
        } else {
            return Some(value);
        }
        None
    }
}

/// What to do about a number above its limit: most are right, and in another unit.
fn in_unit(value: f64, limits: NumberRange) -> String {
    let smaller = match limits.unit {
        " seconds" => [(1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds")],
        " GB" | " GB/s" => [(1e3, "MB"), (1e6, "kB"), (1e9, "bytes")],
        _ => return "give a smaller number".to_owned(),
    };
    let unit = smaller.iter().find(|(of_one, _)| value / of_one <= limits.max);
    let give = limits.unit.trim_start();
    match unit {
        Some((_, unit)) if limits.unit != " GB/s" => format!("give {give}; if it is in {unit}, divide it"),
        _ => format!("give fewer {give}"),
    }
}

/// A value as it is, for what is only passed on. Keys given twice are refused here too.
pub fn keep(item: Item<'_>, path: &Path<'_>, faults: &mut Faults) -> Value {
    match item.kind() {
        Kind::Map => {
            let mut map = Map::new();
            for (key, value) in item.entries() {
                let kept = keep(value, &path.key(key.text(), key.at()), faults);
                if map.insert(key.text().to_owned(), kept).is_some() {
                    duplicate_key(key, path, faults);
                }
            }
            Value::Object(map)
        }
        Kind::Seq => {
            let items = item.items().enumerate();
            Value::Array(items.map(|(i, item)| keep(item, &path.index(i, item.at()), faults)).collect())
        }
        Kind::Plain | Kind::Quoted => match item.scalar() {
            Some(Scalar::Null) => Value::Null,
            Some(Scalar::Bool(value)) => Value::Bool(value),
            Some(Scalar::Number(value)) => kept_number(item.text(), value),
            _ => Value::String(item.text().to_owned()),
        },
    }
}

/// A whole number stays one. What JSON has no number for stays text.
fn kept_number(text: &str, value: f64) -> Value {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let whole = digits.parse::<u64>().map(Number::from).or_else(|_| digits.parse::<i64>().map(Number::from));
    let number = whole.ok().or_else(|| Number::from_f64(value));
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}
