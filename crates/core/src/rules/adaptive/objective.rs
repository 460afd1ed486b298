//! What the policy is asked to keep low.

use crate::rules::param::{ParamKind, ParamValue};
use serde_json::Value;

/// What a stream is run for: the one knob of `adaptive`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The mean latency of requests: short requests first.
    Mean,
    /// The latency that one request in a hundred exceeds: in order of arrival.
    P99,
    /// Both, and few loads.
    #[default]
    Balanced,
}

impl ParamValue for Objective {
    const KIND: ParamKind = ParamKind::Choice { names: &["mean", "p99", "balanced"] };
    fn read(value: &Value) -> Option<Objective> {
        Objective::ALL.iter().copied().find(|one| value == one.name())
    }
    fn write(&self) -> Value {
        Value::from(self.name())
    }
}

impl Objective {
    /// All of them.
    pub const ALL: &'static [Objective] = &[Objective::Mean, Objective::P99, Objective::Balanced];

    /// As flags spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Objective::Mean => "mean",
            Objective::P99 => "p99",
            Objective::Balanced => "balanced",
        }
    }
}
