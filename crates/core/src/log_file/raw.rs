//! The shape of one record of a log, read with as little trust as possible.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A record of a log: an execution, a load or a lost GPU. Names are numbers to be looked up with
/// [`LogFile::name`](super::LogFile::name); times are seconds as written, NaN included.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // The fields are those of docs/formats.md.
pub struct Record {
    /// Line of the file, from 1.
    pub line: u32,
    pub request: Option<u32>,
    pub workflow: Option<u32>,
    pub node: Option<u32>,
    pub model: Option<u32>,
    pub status: Option<u32>,
    pub evicted: Option<Box<[u32]>>,
    pub gpu_id: Option<i64>,
    pub gpu_ids: Option<Box<[i64]>>,
    pub batch_size: Option<i64>,
    pub attempt: Option<i64>,
    pub arrival_time: Option<f64>,
    pub ready_time: Option<f64>,
    pub switch_time: Option<f64>,
    pub start_time: Option<f64>,
    pub end_time: Option<f64>,
    pub execution_time: Option<f64>,
    pub estimated_time: Option<f64>,
    pub predicted_low: Option<f64>,
    pub predicted_high: Option<f64>,
    pub expected_time: Option<f64>,
    pub expected_low: Option<f64>,
    pub expected_high: Option<f64>,
    /// Of a lost GPU.
    pub time: Option<f64>,
    /// Of a GPU that was lost for a time.
    pub until: Option<f64>,
}

impl Record {
    /// Every GPU that the record names.
    pub fn gpus(&self) -> impl Iterator<Item = i64> + '_ {
        self.gpu_id.into_iter().chain(self.gpu_ids.iter().flat_map(|ids| ids.iter().copied()))
    }
}

/// A record before its names are numbered.
#[derive(serde::Deserialize)]
pub(super) struct Raw<'a> {
    #[serde(borrow, default)]
    pub kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub request_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub workflow_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub node_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub model_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub status: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub evicted: Option<Vec<Text<'a>>>,
    pub gpu_id: Option<Whole>,
    pub gpu_ids: Option<Vec<Whole>>,
    pub batch_size: Option<Whole>,
    pub attempt: Option<Whole>,
    pub arrival_time: Option<Number>,
    pub ready_time: Option<Number>,
    pub switch_time: Option<Number>,
    pub start_time: Option<Number>,
    pub end_time: Option<Number>,
    pub execution_time: Option<Number>,
    pub estimated_time: Option<Number>,
    pub predicted_low: Option<Number>,
    pub predicted_high: Option<Number>,
    pub expected_time: Option<Number>,
    pub expected_low: Option<Number>,
    pub expected_high: Option<Number>,
    pub time: Option<Number>,
    pub until: Option<Number>,
}

const NUMBERS: [&str; 14] = [
    "arrival_time",
    "ready_time",
    "switch_time",
    "start_time",
    "end_time",
    "execution_time",
    "estimated_time",
    "predicted_low",
    "predicted_high",
    "expected_time",
    "expected_low",
    "expected_high",
    "time",
    "until",
];

/// Why a record could not be read, by the name of the field where it can be told.
pub(super) fn explain(text: &str, error: &serde_json::Error) -> String {
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(text) else {
        return format!("it is not a JSON object ({error})");
    };
    for (field, value) in &fields {
        let one = || Some(value.to_string());
        let wrong = match field.as_str() {
            "kind" | "request_id" | "workflow_id" | "node_id" | "model_name" | "status" => {
                one().filter(|_| !value.is_string() && !value.is_number() && !value.is_null())
            }
            "gpu_id" | "batch_size" | "attempt" => {
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
