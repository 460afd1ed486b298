//! The shape of one record of a log, read with as little trust as possible.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Declares [`Record`] and what it is read from. A text has the name of its field in files behind it.
macro_rules! records {
    (texts: $($text:ident = $key:ident)+; wholes: $($whole:ident)+; numbers: $($number:ident)+;) => {
        /// A record of a log: an execution, a load or a lost GPU. Names are numbers to be looked up with
        /// [`LogFile::name`](super::LogFile::name); times are seconds as written, NaN included.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[allow(missing_docs)] // The fields are those of docs/formats.md.
        pub struct Record {
            /// Line of the file, from 1.
            pub line: u32,
            $(pub $text: Option<u32>,)+
            pub evicted: Option<Box<[u32]>>,
            pub gpu_ids: Option<Box<[i64]>>,
            $(pub $whole: Option<i64>,)+
            $(pub $number: Option<f64>,)+
        }

        /// A record before its names are numbered.
        #[derive(serde::Deserialize)]
        pub(super) struct Raw<'a> {
            #[serde(borrow, default)]
            pub kind: Option<Text<'a>>,
            $(#[serde(borrow, default)] $key: Option<Text<'a>>,)+
            #[serde(borrow, default)]
            evicted: Option<Vec<Text<'a>>>,
            gpu_ids: Option<Vec<Whole>>,
            $($whole: Option<Whole>,)+
            $($number: Option<Number>,)+
        }

        impl Raw<'_> {
            /// The record, with the number that `number` gives each name.
            pub fn record(self, line: u32, mut number: impl FnMut(Text<'_>) -> u32) -> Record {
                Record {
                    line,
                    $($text: self.$key.map(&mut number),)+
                    evicted: self.evicted.map(|models| models.into_iter().map(&mut number).collect()),
                    gpu_ids: self.gpu_ids.map(|ids| ids.into_iter().map(|Whole(id)| id).collect()),
                    $($whole: self.$whole.map(|Whole(number)| number),)+
                    $($number: self.$number.map(|Number(number)| number),)+
                }
            }
        }

        const TEXTS: &[&str] = &["kind", $(stringify!($key),)+];
        const WHOLES: &[&str] = &[$(stringify!($whole),)+];
        const NUMBERS: &[&str] = &[$(stringify!($number),)+];
    };
}

// `time` and `until` are those of a lost GPU.
records! {
    texts: request = request_id workflow = workflow_id node = node_id model = model_name status = status;
    wholes: gpu_id batch_size attempt;
    numbers: arrival_time ready_time switch_time start_time end_time execution_time estimated_time
        predicted_low predicted_high expected_time expected_low expected_high time until;
}

impl Record {
    /// Every GPU that the record names.
    pub fn gpus(&self) -> impl Iterator<Item = i64> + '_ {
        self.gpu_id.into_iter().chain(self.gpu_ids.iter().flat_map(|ids| ids.iter().copied()))
    }
}

/// Why a record could not be read, by the name of the field where it can be told.
pub(super) fn explain(text: &str, error: &serde_json::Error) -> String {
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(text) else {
        return format!("it is not a JSON object ({error})");
    };
    for (field, value) in &fields {
        let one = || Some(value.to_string());
        let wrong = match field.as_str() {
            name if TEXTS.contains(&name) => {
                one().filter(|_| !value.is_string() && !value.is_number() && !value.is_null())
            }
            name if WHOLES.contains(&name) => {
                one().filter(|text| serde_json::from_str::<Option<Whole>>(text).is_err())
            }
            "gpu_ids" => one().filter(|text| serde_json::from_str::<Option<Vec<Whole>>>(text).is_err()),
            name if NUMBERS.contains(&name) => {
                one().filter(|text| serde_json::from_str::<Option<Number>>(text).is_err())
            }
            _ => None,
        };
        if let Some(value) = wrong {
            return format!("{field} cannot be {value}");
        }
    }
    error.to_string()
}

/// A string, borrowed where it has no escapes; numbers are taken as their text.
pub(super) struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_string())))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(number.to_string())))
            }
        }
        deserializer.deserialize_any(V)
    }
}

/// A number; `NaN` and the infinities, which JSON does not have, come as the strings that the reader made of them.
#[derive(Clone, Copy)]
pub(super) struct Number(pub f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
                Ok(Number(number))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number as f64))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number as f64))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                match text {
                    "NaN" => Ok(Number(f64::NAN)),
                    "Infinity" => Ok(Number(f64::INFINITY)),
                    "-Infinity" => Ok(Number(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_type(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(V)
    }
}

/// A whole number; `2.0` is one.
#[derive(Clone, Copy)]
pub(super) struct Whole(pub i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Number(number) = Number::deserialize(deserializer)?;
        if number.fract() == 0.0 && number.abs() < 9e15 {
            Ok(Whole(number as i64))
        } else {
            Err(de::Error::custom(format!("{number} is not a whole number")))
        }
    }
}
