//! How long executions really take, where that is not what is expected of them.
//!
//! An [`Instance`] holds what is believed: policies, planners and the log's estimates read it. The simulator's machine, the
//! checker and bounds ask a [`Truth`]. A draw depends on the seed and the number of the task alone, so that whoever knows
//! the inputs and the [`TruthSpec`] can draw the same again, in whatever order tasks run.

use crate::estimate::sigma_of;
use crate::id::{IdVec, ModelId, TaskId};
use crate::instance::Instance;
use crate::time::{MAX_SECONDS, Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// How true times come about, as flags and logs spell it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TruthSpec {
    /// What varies from task to task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// What the draws depend on.
    #[serde(default)]
    pub seed: u64,
    /// What changes for all tasks, or all of a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
    /// What all that goes around.
    #[serde(default)]
    pub times: TrueTimes,
}

/// What true times go around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrueTimes {
    /// The estimates.
    #[default]
    Estimates,
    /// The times that the requests give, whatever was estimated.
    Requests,
}

/// Noise that leaves the mean as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Noise {
    /// `none`: executions take what was estimated, as in the published programs.
    None,
    /// `config`: lognormal around the models' means, with their `inference_time_std` or `token_std`. Times that requests
    /// give are exact.
    Config,
    /// `lognormal:0.2`: all times, with this standard deviation as a share of the mean.
    Lognormal(f64),
}

/// A change of true times: of executions that start at `at` or later, of one model or of all: `1.3@1000`, `llm7b=0.8@0`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Drift {
    /// The model, by name; all where there is none.
    pub model: Option<String>,
    /// So many times as long.
    pub factor: f64,
    /// From when on.
    pub at: Time,
}

impl Noise {
    /// More than this is no estimate any more.
    const MOST: f64 = 10.0;

    /// Noise with this standard deviation, as a share of the mean, from 0 to 10.
    #[must_use]
    pub fn lognormal(deviation: f64) -> Option<Noise> {
        (0.0..=Noise::MOST).contains(&deviation).then_some(Noise::Lognormal(deviation))
    }

    /// The standard deviation of the logarithm of a task's time.
    #[must_use]
    pub fn sigma(self, instance: &Instance, task: TaskId) -> f64 {
        match self {
            Noise::None => 0.0,
            Noise::Config => sigma_of(instance.deviation(task)),
            Noise::Lognormal(deviation) => sigma_of(deviation),
        }
    }

    /// Whether no time of a problem varies.
    #[must_use]
    pub fn is_silent(self, instance: &Instance) -> bool {
        match self {
            Noise::None => true,
            Noise::Config => !instance.varies(),
            Noise::Lognormal(deviation) => deviation == 0.0,
        }
    }
}

impl FromStr for Noise {
    type Err = String;

    fn from_str(text: &str) -> Result<Noise, String> {
        let deviation = text.strip_prefix("lognormal:").and_then(|number| number.parse().ok());
        let noise = match text {
            "none" => Some(Noise::None),
            "config" => Some(Noise::Config),
            _ => deviation.and_then(Noise::lognormal),
        };
        noise.ok_or_else(|| {
            "give none, config (the deviations in the configuration), or a standard deviation from 0 to 10 \
             as a share of the mean, as in lognormal:0.2"
                .to_owned()
        })
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Noise::None => f.write_str("none"),
            Noise::Config => f.write_str("config"),
            Noise::Lognormal(deviation) => write!(f, "lognormal:{deviation}"),
        }
    }
}

impl FromStr for Drift {
    type Err = String;

    fn from_str(text: &str) -> Result<Drift, String> {
        let usage =
            || "give a factor and a start time, such as 1.3@1000s, or llm7b=1.3@0 for one model".to_owned();
        // Names may hold either sign.
        let (rest, at) = text.rsplit_once('@').ok_or_else(usage)?;
        let (model, factor) = match rest.rsplit_once('=') {
            Some((model, factor)) => (Some(model.to_owned()), factor),
            None => (None, rest),
        };
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let factor = number(factor).filter(|&factor| (0.001..=1000.0).contains(&factor)).ok_or_else(usage)?;
        let at = number(at.strip_suffix('s').unwrap_or(at)).filter(|at| (0.0..=MAX_SECONDS).contains(at));
        let at = Time::ZERO + Span::from_seconds(at.ok_or_else(usage)?);
        Ok(Drift { model, factor, at })
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.model.iter().try_for_each(|model| write!(f, "{model}="))?;
        write!(f, "{}@{}", self.factor, self.at.seconds())
    }
}

/// Files hold these as text.
macro_rules! as_text {
    ($($Type:ident)+) => {$(
        impl TryFrom<String> for $Type {
            type Error = String;
            fn try_from(text: String) -> Result<$Type, String> {
                text.parse()
            }
        }

        impl From<$Type> for String {
            fn from(value: $Type) -> String {
                value.to_string()
            }
        }
    )+};
}
as_text!(Noise Drift);

/// The true times of a problem. The default: everything takes what was estimated.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// `None` where no time of the problem varies.
    noise: Option<Noise>,
    seed: u64,
    drifts: Vec<(Option<ModelId>, f64, Time)>,
    /// What the draws go around, where that is not the estimates.
    around: Option<Arc<IdVec<TaskId, Span>>>,
}

impl Truth {
    /// The truth that `spec` describes; an error names a model that there is not. `given` is what the requests say, for
    /// [`TrueTimes::Requests`].
    pub fn new(spec: &TruthSpec, instance: &Instance, given: &Instance) -> Result<Truth, String> {
        let number = |name: &String| {
            let found = instance.models.iter_enumerated().find(|(_, model)| model.name == *name);
            found.map(|(id, _)| id).ok_or_else(|| format!("there is no model `{name}`"))
        };
        let drifts: Result<_, String> = spec
            .drift
            .iter()
            .map(|drift| Ok((drift.model.as_ref().map(number).transpose()?, drift.factor, drift.at)))
            .collect();
        let times = || Arc::new(given.task_ids().map(|task| given.execution(task)).collect());
        Ok(Truth {
            noise: spec.noise.filter(|noise| !noise.is_silent(instance)),
            seed: spec.seed,
            drifts: drifts?,
            around: (spec.times == TrueTimes::Requests).then(times),
        })
    }

    /// The same around other times.
    #[must_use]
    pub fn around(self, times: IdVec<TaskId, Span>) -> Truth {
        Truth { around: Some(Arc::new(times)), ..self }
    }

    /// Whether everything takes what was estimated.
    #[must_use]
    pub fn is_estimate(&self) -> bool {
        self.noise.is_none() && self.drifts.is_empty() && self.around.is_none()
    }

    /// What a task that starts at `start` takes at batch 1.
    #[must_use]
    pub fn time(&self, instance: &Instance, task: TaskId, start: Time) -> Span {
        if self.is_estimate() {
            return instance.execution(task);
        }
        let model = instance.model_of(task);
        let holds =
            |&&(of, _, at): &&(Option<ModelId>, f64, Time)| start >= at && of.is_none_or(|of| of == model);
        let factor = self.drifts.iter().filter(holds).map(|&(_, factor, _)| factor).product::<f64>();
        self.drawn(instance, task, factor)
    }

    /// The least that a task takes, whenever it starts: what bounds may count on.
    #[must_use]
    pub fn least(&self, instance: &Instance, task: TaskId) -> Span {
        if self.is_estimate() {
            return instance.execution(task);
        }
        let moments = self.drifts.iter().map(|&(_, _, at)| at).chain([Time::ZERO]);
        let times = moments.map(|at| self.time(instance, task, at));
        times.min().unwrap_or_else(|| instance.execution(task))
    }

    /// The problem as it is, for bounds and for schedulers that are to know everything.
    #[must_use]
    pub fn known(&self, instance: &Instance) -> Instance {
        instance.retimed(|task| self.least(instance, task))
    }

    fn drawn(&self, instance: &Instance, task: TaskId, factor: f64) -> Span {
        let around = match &self.around {
            Some(times) => times.get(task).copied().unwrap_or_else(|| instance.execution(task)),
            None => instance.execution(task),
        };
        let noise = match self.noise.map_or(0.0, |noise| noise.sigma(instance, task)) {
            0.0 => 1.0,
            sigma => libm::exp(sigma * normal(self.seed, task) - sigma * sigma / 2.0),
        };
        // A run can only count so far.
        let longest = MAX_SECONDS * 1e6;
        Span((around.0 as f64 * noise * factor).round().clamp(1.0, longest) as u64)
    }
}

/// A standard normal draw of its own for each task.
fn normal(seed: u64, task: TaskId) -> f64 {
    let bits = mix(seed ^ mix(u64::from(task.0) ^ (0x7472_7565 << 32)));
    // Never 0, whose logarithm there is not.
    let (one, other) = (1.0 - unit(bits), unit(mix(bits)));
    (-2.0 * libm::log(one)).sqrt() * libm::cos(std::f64::consts::TAU * other)
}

/// A number from 0 to 1, 1 excluded, from random bits.
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Spreads the bits of a number (the finaliser of splitmix64): a draw that needs no state, so that it does not depend on
/// the order in which executions start.
#[must_use]
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_read_and_written() {
        for text in ["lognormal:0.2", "lognormal:0", "lognormal:10", "none", "config"] {
            assert_eq!(text.parse::<Noise>().unwrap().to_string(), text);
        }
        for bad in ["", "0.2", "normal:0.2", "lognormal:", "lognormal:-1", "lognormal:nan", "lognormal:11"] {
            assert!(bad.parse::<Noise>().is_err(), "{bad}");
        }
        for (text, written) in [("1.3@1000s", "1.3@1000"), ("a=b@2=0.5@0", "a=b@2=0.5@0"), ("2@1.5", "2@1.5")]
        {
            assert_eq!(text.parse::<Drift>().unwrap().to_string(), written);
        }
        for bad in ["", "1.3", "@1", "1.3@", "0@1", "-1@1", "nan@1", "1.3@-1", "m=@1", "1.3@1e300"] {
            assert!(bad.parse::<Drift>().is_err(), "{bad}");
        }
    }

    #[test]
    fn noise_keeps_the_mean_and_has_the_deviation_that_it_says() {
        for share in [0.2, 0.5] {
            let sigma = sigma_of(share);
            let draws = 200_000;
            let of = |task: u32| (sigma * normal(7, TaskId(task)) - sigma * sigma / 2.0).exp();
            let mean = (0..draws).map(of).sum::<f64>() / f64::from(draws);
            let spread = (0..draws).map(|task| (of(task) - mean).powi(2)).sum::<f64>() / f64::from(draws);
            assert!((mean - 1.0).abs() < 0.005, "{mean}");
            assert!((spread.sqrt() - share).abs() < 0.01 * (1.0 + share), "{}", spread.sqrt());
        }
    }
}
