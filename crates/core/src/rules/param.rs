//! Parameters of policies: each policy declares its own with [`params!`], and flags, keywords, forms and docs are made from
//! the table that this gives.

use super::adaptive::LatencyTarget;
use crate::time::{MAX_SECONDS, Span, duration};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// The values of parameters, by name.
pub type ParamValues = BTreeMap<String, Value>;

/// One parameter of a policy.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ParamInfo {
    /// Its name. Flags write `-` for `_`.
    pub name: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
    /// The values that it takes.
    #[serde(rename = "value")]
    pub kind: ParamKind,
    /// The value where none is given; `null` where the parameter is optional.
    #[serde(serialize_with = "called")]
    pub default: fn() -> Value,
}

fn called<S: serde::Serializer>(default: &fn() -> Value, serializer: S) -> Result<S::Ok, S::Error> {
    default().serialize(serializer)
}

impl ParamInfo {
    /// The JSON Schema of its values.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut schema = match self.kind {
            ParamKind::Number { min, max: Some(max) } => {
                json!({"type": "number", "minimum": min, "maximum": max})
            }
            ParamKind::Number { min, max: None } => json!({"type": "number", "minimum": min}),
            ParamKind::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            ParamKind::Seconds => json!({"type": "number", "minimum": 0, "maximum": MAX_SECONDS}),
            ParamKind::Choice { names } => json!({"type": "string", "enum": names}),
            ParamKind::Target => json!({"type": "string", "pattern": "^(mean|p50|p95|p99)=.+$"}),
        };
        schema["description"] = Value::from(self.help);
        schema["default"] = (self.default)();
        schema
    }
}

/// The values that a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ParamKind {
    /// A number.
    Number {
        /// The least.
        min: f64,
        /// The greatest, where there is one.
        max: Option<f64>,
    },
    /// A whole number.
    Integer {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A length of time in seconds, zero or more.
    Seconds,
    /// One of these names.
    Choice {
        /// The names.
        names: &'static [&'static str],
    },
    /// A latency to stay below.
    Target,
}

/// What to give.
impl Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamKind::Number { min, max: Some(max) } => write!(f, "a number from {min} to {max}"),
            ParamKind::Number { min: 0.0, max: None } => write!(f, "a number of zero or more"),
            ParamKind::Number { min, max: None } => write!(f, "a number of {min} or more"),
            ParamKind::Integer { min: 0, max: u64::MAX } => write!(f, "a whole number of zero or more"),
            ParamKind::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            ParamKind::Seconds => write!(f, "a number of seconds, zero or more"),
            ParamKind::Choice { names } => write!(f, "one of {}", names.join(", ")),
            ParamKind::Target => write!(f, "mean, p50, p95 or p99 and a time, as in p99=60s"),
        }
    }
}

impl ParamKind {
    /// Whether a value is one of these.
    #[must_use]
    pub fn takes(&self, value: &Value) -> bool {
        match self {
            ParamKind::Number { min, max } => {
                value.as_f64().is_some_and(|value| value >= *min && max.is_none_or(|max| value <= max))
            }
            ParamKind::Integer { min, max } => {
                value.as_u64().is_some_and(|value| (*min..=*max).contains(&value))
            }
            ParamKind::Seconds => value.as_f64().is_some_and(|value| (0.0..=MAX_SECONDS).contains(&value)),
            ParamKind::Choice { names } => value.as_str().is_some_and(|value| names.contains(&value)),
            ParamKind::Target => value.as_str().and_then(LatencyTarget::parse).is_some(),
        }
    }

    /// The value that a text on the command line stands for.
    ///
    /// # Errors
    /// What to give instead.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self {
            ParamKind::Number { .. } => text.parse::<f64>().ok().map(Value::from),
            ParamKind::Integer { .. } => text.parse::<u64>().ok().map(Value::from),
            ParamKind::Seconds => {
                text.parse::<f64>().ok().or_else(|| duration(text).ok().map(Span::seconds)).map(Value::from)
            }
            ParamKind::Choice { .. } | ParamKind::Target => Some(Value::from(text)),
        };
        value.filter(|value| self.takes(value)).ok_or_else(|| format!("give {self}"))
    }
}

/// Something wrong with the parameters that were given to a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamFault {
    /// The policy has no parameter of this name.
    Unknown {
        /// The policy.
        policy: &'static str,
        /// The name that was given.
        name: String,
        /// The policies that do have it.
        takers: Vec<&'static str>,
    },
    /// The parameter does not take this value.
    Value {
        /// The parameter.
        name: &'static str,
        /// The value that was given.
        given: Value,
        /// The values that it takes.
        takes: ParamKind,
    },
}

impl ParamFault {
    /// The parameter.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            ParamFault::Unknown { name, .. } => name,
            ParamFault::Value { name, .. } => name,
        }
    }
}

impl Display for ParamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamFault::Unknown { policy, name, takers } if takers.is_empty() => {
                write!(f, "no policy has the parameter {name}")
            }
            ParamFault::Unknown { policy, name, takers } => {
                let does = if takers.len() == 1 { "does" } else { "do" };
                write!(f, "policy `{policy}` does not take {name}; {} {does}", takers.join(", "))
            }
            ParamFault::Value { name, given, takes } => write!(f, "{name} is {given}: give {takes}"),
        }
    }
}

/// The type of a parameter.
pub(crate) trait ParamValue: Sized + Default {
    /// The values that it takes where its declaration has no range.
    const KIND: ParamKind;
    /// From a value that [`ParamKind::takes`] has let through.
    fn read(value: &Value) -> Option<Self>;
    /// As [`ParamValue::read`] reads it.
    fn write(&self) -> Value;
}

impl ParamValue for f64 {
    const KIND: ParamKind = ParamKind::Number { min: 0.0, max: None };
    fn read(value: &Value) -> Option<f64> {
        value.as_f64()
    }
    fn write(&self) -> Value {
        Value::from(*self)
    }
}

impl ParamValue for u32 {
    const KIND: ParamKind = ParamKind::Integer { min: 0, max: u32::MAX as u64 };
    fn read(value: &Value) -> Option<u32> {
        value.as_u64()?.try_into().ok()
    }
    fn write(&self) -> Value {
        Value::from(*self)
    }
}

impl ParamValue for u64 {
    const KIND: ParamKind = ParamKind::Integer { min: 0, max: u64::MAX };
    fn read(value: &Value) -> Option<u64> {
        value.as_u64()
    }
    fn write(&self) -> Value {
        Value::from(*self)
    }
}

impl ParamValue for Span {
    const KIND: ParamKind = ParamKind::Seconds;
    fn read(value: &Value) -> Option<Span> {
        value.as_f64().map(Span::from_seconds)
    }
    fn write(&self) -> Value {
        Value::from(self.seconds())
    }
}

/// An optional parameter: `null` is none.
impl<T: ParamValue> ParamValue for Option<T> {
    const KIND: ParamKind = T::KIND;
    fn read(value: &Value) -> Option<Option<T>> {
        T::read(value).map(Some)
    }
    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::write)
    }
}

/// The parameters of one policy, as [`params!`] declares them.
pub(crate) trait Params: Default {
    /// What there is to say about them, in the order in which they are shown.
    const TABLE: &'static [ParamInfo];
    /// From values that were checked against the table.
    fn read(values: &ParamValues) -> Self;
    /// All of them.
    fn write(&self) -> Vec<Value>;
}

/// Reads and checks the parameters of a policy; names that it does not have are left to the caller.
pub(crate) fn read_params<P: Params>(values: &ParamValues, faults: &mut Vec<ParamFault>) -> P {
    let given = |info: &ParamInfo| values.get(info.name).filter(|value| !value.is_null());
    let wrong = P::TABLE.iter().filter_map(|info| Some((info, given(info)?)));
    let wrong = wrong.filter(|(info, value)| !info.kind.takes(value));
    faults.extend(wrong.map(|(info, value)| ParamFault::Value {
        name: info.name,
        given: value.clone(),
        takes: info.kind,
    }));
    P::read(values)
}

/// The values that differ from the defaults.
pub(crate) fn changed<P: Params>(params: &P) -> ParamValues {
    let of = P::TABLE.iter().zip(params.write());
    of.filter(|(info, value)| *value != (info.default)())
        .map(|(info, value)| (info.name.to_owned(), value))
        .collect()
}

/// Declares the parameters of a policy: the type that holds them, and their table.
///
/// ```text
/// params! {
///     /// Weights of the `online` policy.
///     pub struct OnlineParams {
///         /// Weight of waiting
///         alpha: f64 = 1.0,
///         /// The part of GPUs that is kept free
///         free: f64 = 0.1 => ParamKind::Number { min: 0.0, max: Some(1.0) },
///         /// The longest wait
///         longest: Option<Span>,
///     }
/// }
/// ```
///
/// The comment of a parameter is its help text. The range that may follow `=>` is a [`ParamKind`].
macro_rules! params {
    (
        $(#[$about:meta])+
        pub struct $Params:ident {
            $($(#[doc = $help:literal])+ $name:ident: $Type:ty $(= $default:expr)? $(=> $kind:expr)?,)*
        }
    ) => {
        $(#[$about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Params {
            $($(#[doc = $help])+ pub $name: $Type,)*
        }

        impl Default for $Params {
            fn default() -> $Params {
                $Params { $($name: $crate::rules::param::params!(@default $Type $(, $default)?),)* }
            }
        }

        impl $crate::rules::param::Params for $Params {
            const TABLE: &'static [$crate::rules::param::ParamInfo] = &[$($crate::rules::param::ParamInfo {
                name: stringify!($name),
                help: concat!($($help),+).trim_ascii(),
                kind: $crate::rules::param::params!(@kind $Type $(, $kind)?),
                default: || $crate::rules::param::ParamValue::write(&$Params::default().$name),
            },)*];

            #[allow(unused_variables, reason = "a policy may have no parameters")]
            fn read(values: &$crate::rules::param::ParamValues) -> $Params {
                #[allow(unused_mut, reason = "a policy may have no parameters")]
                let mut params = $Params::default();
                $(if let Some(value) = values.get(stringify!($name)).and_then($crate::rules::param::ParamValue::read) {
                    params.$name = value;
                })*
                params
            }

            fn write(&self) -> Vec<serde_json::Value> {
                vec![$($crate::rules::param::ParamValue::write(&self.$name)),*]
            }
        }
    };
    (@default $Type:ty) => { <$Type>::default() };
    (@default $Type:ty, $default:expr) => { $default };
    (@kind $Type:ty) => { <$Type as $crate::rules::param::ParamValue>::KIND };
    (@kind $Type:ty, $kind:expr) => { $kind };
}
pub(crate) use params;

params! {
    /// The parameters of a policy that has none.
    pub struct NoParams {}
}
