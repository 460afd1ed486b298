//! The latency that the policy keeps low.

use crate::rules::param::{ParamKind, ParamValue};
use crate::time::{Span, duration};
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

/// A latency to stay below, as in `p99=60s` or `mean=20s`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyTarget {
    /// The share of requests that are to stay below it; `None` where it is the mean that is to.
    pub quantile: Option<f64>,
    /// The latency.
    pub latency: Span,
}

const QUANTILES: [(&str, Option<f64>); 4] =
    [("mean", None), ("p50", Some(0.5)), ("p95", Some(0.95)), ("p99", Some(0.99))];

impl LatencyTarget {
    /// Reads `p99=60s`.
    #[must_use]
    pub fn parse(text: &str) -> Option<LatencyTarget> {
        let (name, latency) = text.split_once('=')?;
        let &(_, quantile) = QUANTILES.iter().find(|(known, _)| *known == name)?;
        Some(LatencyTarget { quantile, latency: duration(latency).ok()? })
    }
}

impl ParamValue for LatencyTarget {
    const KIND: ParamKind = ParamKind::Target;
    fn read(value: &Value) -> Option<LatencyTarget> {
        LatencyTarget::parse(value.as_str()?)
    }
    fn write(&self) -> Value {
        let name =
            QUANTILES.iter().find(|(_, quantile)| *quantile == self.quantile).map_or("mean", |one| one.0);
        Value::from(format!("{name}={}", self.latency.seconds()))
    }
}
