//! What has to be kept: a measure of a run, of all requests or of one workflow's, and its limit.

use crate::time::{Span, duration};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

named! {
    /// What a target is about.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Measure {
        /// Last end minus first arrival.
        Makespan = "makespan",
        /// Mean request latency.
        Mean = "mean",
        /// The latency that half of the requests do not exceed.
        P50 = "p50",
        /// The latency that 95% of the requests do not exceed.
        P95 = "p95",
        /// The latency that 99% of the requests do not exceed.
        P99 = "p99",
        /// The share of requests that miss their deadlines, of those that have one.
        Deadline = "deadline",
    }
}

impl Measure {
    /// The share of requests that a percentile covers.
    #[must_use]
    pub fn percentile(self) -> Option<f64> {
        match self {
            Measure::P50 => Some(0.5),
            Measure::P95 => Some(0.95),
            Measure::P99 => Some(0.99),
            Measure::Makespan | Measure::Mean | Measure::Deadline => None,
        }
    }

    /// What tables and sentences call it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Measure::Makespan => "makespan",
            Measure::Mean => "mean latency",
            Measure::P50 => "P50 latency",
            Measure::P95 => "P95 latency",
            Measure::P99 => "P99 latency",
            Measure::Deadline => "missed deadlines",
        }
    }
}

/// A limit that is to be kept. Written as `p99=60s`, `chat:p95=20s` or `deadline=99%`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    /// Of what.
    pub measure: Measure,
    /// Of this workflow's requests alone.
    pub workflow: Option<String>,
    /// At most this: seconds, or for deadlines the share that may be missed.
    pub at_most: f64,
}

impl Target {
    /// A limit on a time, of all requests.
    #[must_use]
    pub fn time(measure: Measure, at_most: Span) -> Target {
        Target { measure, workflow: None, at_most: at_most.seconds() }
    }

    /// Whether a value keeps it. Seconds are rounded from whole microseconds.
    #[must_use]
    pub fn is_kept(&self, value: f64) -> bool {
        value <= self.at_most + 5e-7
    }

    /// The limit as a length of time. Only of targets that are about one.
    #[must_use]
    pub fn span(&self) -> Span {
        Span::from_seconds(self.at_most)
    }

    /// `P99 latency`, `P99 latency of chat`.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.workflow {
            Some(workflow) => format!("{} of {workflow}", self.measure.title()),
            None => self.measure.title().to_owned(),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let names: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
        let usage = || {
            format!(
                "give one of {} and a limit, as in makespan=2h, p99=60s, chat:p95=20s (of one workflow) or deadline=99%",
                names.join(", ")
            )
        };
        // Names of workflows may hold either sign.
        let (name, limit) = text.rsplit_once('=').ok_or_else(usage)?;
        let (workflow, name) = match name.rsplit_once(':') {
            Some((workflow, name)) => (Some(workflow.trim().to_owned()), name),
            None => (None, name),
        };
        let measure = Measure::of_name(name.trim()).ok_or_else(usage)?;
        if measure == Measure::Makespan && workflow.is_some() {
            return Err("a makespan covers all requests: omit the workflow".to_owned());
        }
        let at_most = match measure {
            Measure::Deadline => kept_share(limit.trim()).map(|kept| 1.0 - kept),
            _ => duration(limit.trim()).map(Span::seconds),
        };
        let at_most = at_most.map_err(|error| format!("{}: {error}", measure.name()))?;
        Ok(Target { measure, workflow, at_most })
    }
}

/// `99%`: the share of deadlines that are to be kept.
fn kept_share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.filter(|share| (0.0..=100.0).contains(share));
    share.map(|share| share / 100.0).ok_or_else(|| "give the share to keep, as in deadline=99%".to_owned())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.workflow.iter().try_for_each(|workflow| write!(f, "{workflow}:"))?;
        match self.measure {
            // Ten digits are more than anybody asks for, and leave out what the subtraction above adds.
            Measure::Deadline => {
                write!(f, "deadline={}%", (1e12 * (1.0 - self.at_most)).round() / 1e10)
            }
            measure => write!(f, "{}={}s", measure.name(), self.at_most),
        }
    }
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Target, String> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> String {
        target.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_written() {
        let rows = [
            ("makespan=2h", Measure::Makespan, None, 7200.0, "makespan=7200s"),
            ("p99=60", Measure::P99, None, 60.0, "p99=60s"),
            ("mean=1h30m", Measure::Mean, None, 5400.0, "mean=5400s"),
            ("chat:p95=0.5s", Measure::P95, Some("chat"), 0.5, "chat:p95=0.5s"),
            ("a=b:c:p50=90s", Measure::P50, Some("a=b:c"), 90.0, "a=b:c:p50=90s"),
            ("deadline=99.9%", Measure::Deadline, None, 0.001, "deadline=99.9%"),
        ];
        for (text, measure, workflow, at_most, written) in rows {
            let target = Target::from_str(text).unwrap();
            assert_eq!((target.measure, target.workflow.as_deref()), (measure, workflow), "{text}");
            assert!((target.at_most - at_most).abs() < 1e-12, "{text}");
            assert_eq!(target.to_string(), written);
            assert_eq!(Target::from_str(written).unwrap().to_string(), written);
        }
        let bad = [
            "",
            "makespan",
            "makespan=",
            "speed=2",
            "p99=-1",
            "p99=soon",
            "=2h",
            "deadline=2",
            "deadline=101%",
            "w:makespan=2h",
        ];
        for bad in bad {
            assert!(Target::from_str(bad).is_err(), "{bad}");
        }
    }
}
