//! The specification of a capacity question.

use crate::failure::Failure;
use crate::spec::RunSpec;
use gswarm_core::input::{MAX_GPUS, Scenario};
use gswarm_core::instance::Mode;
use gswarm_core::policy::{ParamValues, PolicyKind, PolicySpec};
use gswarm_core::size::{Measure, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Rounds of search for each number of GPUs, where the policy plans and nothing is said of them.
pub const ROUNDS: u64 = 2;

/// A question of capacity: which targets, at which traffic, with what lost, at which price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdviseSpec {
    /// The traffic, the models and how they run. The number of GPUs is what is asked for. Without a policy, several are tried.
    pub run: RunSpec,
    /// What has to be kept, all of it: `p99=60s`, `chat:p95=20s`, `deadline=99%`, `makespan=2h`.
    #[schemars(with = "Vec<String>")]
    pub targets: Vec<Target>,
    /// So many times the traffic of the requests.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1000))]
    pub traffic: f64,
    /// What may be lost with the targets still kept: a number of GPUs, or `server`.
    #[schemars(with = "String")]
    pub spare: Spare,
    /// Price of one GPU per hour.
    #[schemars(range(min = 0))]
    pub price: Option<f64>,
    /// Largest number of GPUs to consider.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_gpus: u32,
    /// Resampled traces to rest the answer on. Without it, as many as it takes for a stream; a batch is taken as it is.
    #[schemars(range(min = 1, max = 1000))]
    pub traces: Option<u32>,
}

impl Default for AdviseSpec {
    fn default() -> AdviseSpec {
        AdviseSpec {
            run: RunSpec::default(),
            targets: Vec::new(),
            traffic: 1.0,
            spare: Spare::Gpus(0),
            price: None,
            max_gpus: 1024,
            traces: None,
        }
    }
}

/// What may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Spare {
    /// So many GPUs.
    Gpus(u32),
    /// One server with all its GPUs.
    Server,
}

impl FromStr for Spare {
    type Err = String;

    fn from_str(text: &str) -> Result<Spare, String> {
        match (text, text.parse::<u32>()) {
            ("server", _) => Ok(Spare::Server),
            (_, Ok(gpus)) if gpus < MAX_GPUS => Ok(Spare::Gpus(gpus)),
            _ => Err("give the number of GPUs that may be lost, or `server`".to_owned()),
        }
    }
}

impl fmt::Display for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spare::Gpus(gpus) => write!(f, "{gpus}"),
            Spare::Server => f.write_str("server"),
        }
    }
}

impl TryFrom<String> for Spare {
    type Error = String;

    fn try_from(text: String) -> Result<Spare, String> {
        text.parse()
    }
}

impl From<Spare> for String {
    fn from(spare: Spare) -> String {
        spare.to_string()
    }
}

/// `x2`, `1.5`: so many times the traffic.
///
/// # Errors
/// What is wrong with it.
pub fn traffic(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('x').unwrap_or(text).parse::<f64>().ok();
    number
        .filter(|number| *number > 0.0 && *number <= 1000.0)
        .ok_or_else(|| "give a factor above 0 and at most 1000, as in x2 or x0.5".to_owned())
}

/// The mode that targets are about where none is given: a makespan is of a batch, a latency of a stream.
#[must_use]
pub fn mode_of(targets: &[Target]) -> Mode {
    let batch = targets.iter().all(|target| target.measure == Measure::Makespan);
    if batch { Mode::Offline } else { Mode::Online }
}

impl AdviseSpec {
    /// The mode that the targets are about: a makespan alone is of a batch, a latency of a stream.
    #[must_use]
    pub fn usual_mode(targets: &[Target]) -> Mode {
        mode_of(targets)
    }

    /// All that is wrong with the question itself.
    pub(crate) fn validate(&self, scenario: &Scenario) -> Result<(), Failure> {
        if self.targets.is_empty() {
            return Err(Failure::input("no target is given").hint("give one, as in --target p99=60s"));
        }
        let names: Vec<&str> = scenario.workflows.iter().map(|workflow| workflow.id.as_str()).collect();
        for target in &self.targets {
            if let Some(name) = target.workflow.as_deref().filter(|name| !names.contains(name)) {
                return Err(Failure::input(format!("target {target}: there is no workflow `{name}`"))
                    .hint(format!("there are {}", names.join(", "))));
            }
            let of_it = scenario.requests.iter().filter(|request| {
                target.workflow.as_ref().is_none_or(|name| names[request.workflow.index()] == name)
            });
            let mut of_it = of_it.peekable();
            if of_it.peek().is_none() {
                return Err(Failure::input(format!("target {target}: no request uses this workflow")));
            }
            if target.measure == Measure::Deadline && of_it.all(|request| request.deadline.is_none()) {
                return Err(Failure::input(format!("target {target}: no request has a deadline"))
                    .hint("give the requests `deadline_seconds`"));
            }
        }
        Ok(())
    }

    /// The policies that are tried: the one that is named, or the one that suits the targets and those that may beat it.
    #[must_use]
    pub fn policies(&self) -> Vec<PolicySpec> {
        if let Some(policy) = &self.run.policy {
            return vec![policy.clone()];
        }
        let default = PolicySpec::default_of;
        match self.run.mode {
            Mode::Offline => vec![default(PolicyKind::Planned).with_rounds(ROUNDS)],
            Mode::Online => {
                vec![
                    self.adaptive(),
                    default(PolicyKind::Online),
                    default(PolicyKind::Sticky),
                    default(PolicyKind::Static),
                ]
            }
        }
    }

    /// `adaptive` for what the targets are about, as far as it has an objective for that.
    fn adaptive(&self) -> PolicySpec {
        let objective = |target: &Target| match target.measure {
            Measure::Mean | Measure::P50 => "mean",
            Measure::P95 | Measure::P99 => "p99",
            Measure::Deadline => "deadline",
            Measure::Makespan => "balanced",
        };
        let mut objectives: Vec<&str> = self.targets.iter().map(objective).collect();
        objectives.sort_unstable();
        objectives.dedup();
        let named = match objectives.as_slice() {
            [one] => *one,
            _ => "balanced",
        };
        let values = ParamValues::from([("objective".to_owned(), named.into())]);
        PolicySpec::from_values(PolicyKind::Adaptive, &values)
            .unwrap_or_else(|_| PolicySpec::default_of(PolicyKind::Adaptive))
    }
}
