//! The list of policies: names, what they are for, and how they are made.

use super::{
    Objective, Policy, adaptive, balanced, baseline, batch, fixed, hybrid, improved, lru, offline, online,
    planned, shortest, sticky, yardsticks,
};
use crate::instance::{Instance, Mode, Residency};
use crate::time::Span;

/// The policies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// See [`crate::plan`].
    Planned,
    /// See [`super::Adaptive`].
    Adaptive,
    /// See [`super::Baseline`].
    Baseline,
    /// See [`super::Offline`].
    Offline,
    /// See [`super::Batch`].
    Batch,
    /// See [`super::Balanced`].
    Balanced,
    /// See [`super::Improved`].
    Improved,
    /// See [`super::Hybrid`].
    Hybrid,
    /// See [`super::Static`].
    Static,
    /// See [`super::Online`].
    Online,
    /// See [`super::Lru`].
    Lru,
    /// See [`super::Shortest`].
    Srpt,
    /// See [`super::Sticky`].
    Sticky,
    /// See [`super::Yardstick`].
    RoundRobin,
    /// See [`super::Yardstick`].
    Random,
}

/// What a policy can be told. Each policy uses what concerns it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PolicyParams {
    /// For every random choice.
    pub seed: u64,
    /// `online`: weight of waiting.
    pub alpha: f64,
    /// `online`: weight of switching.
    pub beta: f64,
    /// `online`: weight of what a switch does to later tasks.
    pub gamma: f64,
    /// `online`: weight of load imbalance.
    pub delta: f64,
    /// `online`: how many later tasks are looked at.
    pub lookahead: u32,
    /// `planned`: rounds of search.
    pub rounds: u64,
    /// `planned`: do what was planned, however late that is, and take no work elsewhere.
    #[serde(default)]
    pub strict_plan: bool,
    /// `adaptive`: what is kept low.
    pub objective: Objective,
    /// `adaptive`: how long a task may wait because others are collated by model.
    pub max_collate_wait: Option<Span>,
}

impl Default for PolicyParams {
    fn default() -> PolicyParams {
        PolicyParams {
            seed: 0,
            alpha: 1.0,
            beta: 1.5,
            gamma: 0.3,
            delta: 0.5,
            lookahead: 3,
            rounds: 8,
            strict_plan: false,
            objective: Objective::default(),
            max_collate_wait: None,
        }
    }
}

/// There is no policy of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy `{name}`; there are {known}")]
pub struct UnknownPolicy {
    name: String,
    known: String,
}

const OFFLINE: &[Mode] = &[Mode::Offline];
const BOTH: &[Mode] = &[Mode::Offline, Mode::Online];

impl PolicyKind {
    /// All of them, in the order in which they are shown.
    pub const ALL: &'static [PolicyKind] = &[
        PolicyKind::Planned,
        PolicyKind::Adaptive,
        PolicyKind::Baseline,
        PolicyKind::Offline,
        PolicyKind::Batch,
        PolicyKind::Balanced,
        PolicyKind::Improved,
        PolicyKind::Hybrid,
        PolicyKind::Static,
        PolicyKind::Online,
        PolicyKind::Lru,
        PolicyKind::Srpt,
        PolicyKind::Sticky,
        PolicyKind::RoundRobin,
        PolicyKind::Random,
    ];

    /// As flags and file names spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Planned => "planned",
            PolicyKind::Adaptive => "adaptive",
            PolicyKind::Baseline => "baseline",
            PolicyKind::Offline => "offline",
            PolicyKind::Batch => "batch",
            PolicyKind::Balanced => "balanced",
            PolicyKind::Improved => "improved",
            PolicyKind::Hybrid => "hybrid",
            PolicyKind::Static => "static",
            PolicyKind::Online => "online",
            PolicyKind::Lru => "lru",
            PolicyKind::Srpt => "srpt",
            PolicyKind::Sticky => "sticky",
            PolicyKind::RoundRobin => "round_robin",
            PolicyKind::Random => "random",
        }
    }

    /// What it optimises and when to use it, in a line.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            PolicyKind::Planned => {
                "the shortest makespan that a search finds, with a bound on what is left; for any batch"
            }
            PolicyKind::Adaptive => {
                "low latency at few switches, whatever the load, deadlines and priorities kept; for any stream"
            }
            PolicyKind::Baseline => "first come, first served, as Ray does; the yardstick to beat",
            PolicyKind::Offline => {
                "fewest switches for a batch known in advance: by level and model, GPUs balanced"
            }
            PolicyKind::Batch => {
                "whole batches of one model kept together, idle GPUs steal; for many requests of few workflows"
            }
            PolicyKind::Balanced => {
                "even use of all GPUs: completion time plus a penalty for what a GPU has done; for shared hardware"
            }
            PolicyKind::Improved => {
                "the model whose ready batch is worth a switch most, whenever GPUs fall free; for changing backlogs"
            }
            PolicyKind::Hybrid => {
                "batches prepared ahead, executed as things come; for batches whose times are roughly known"
            }
            PolicyKind::Static => {
                "no switches at all: a permanent deployment for the pattern of the requests; when memory holds all models"
            }
            PolicyKind::Online => {
                "waiting, switching, future use and load in one cost, with work stealing; for streams"
            }
            PolicyKind::Lru => {
                "strictly in order of arrival, least recently used model evicted, as Ollama and llama-swap do; a yardstick"
            }
            PolicyKind::Srpt => {
                "the request with the least work left first, whatever switching costs; a yardstick"
            }
            PolicyKind::Sticky => "every GPU keeps its model while it has work, whoever waits; a yardstick",
            PolicyKind::RoundRobin => "each task to the next GPUs in turn; a yardstick",
            PolicyKind::Random => "each task to any GPUs by a seeded draw; a yardstick",
        }
    }

    /// How requests may arrive.
    #[must_use]
    pub fn modes(self) -> &'static [Mode] {
        match self {
            PolicyKind::Planned
            | PolicyKind::Offline
            | PolicyKind::Batch
            | PolicyKind::Balanced
            | PolicyKind::Hybrid => OFFLINE,
            PolicyKind::Adaptive
            | PolicyKind::Baseline
            | PolicyKind::Improved
            | PolicyKind::Static
            | PolicyKind::Online
            | PolicyKind::Lru
            | PolicyKind::Srpt
            | PolicyKind::Sticky
            | PolicyKind::RoundRobin
            | PolicyKind::Random => BOTH,
        }
    }

    /// Whether it is there to be compared with, not to be used.
    #[must_use]
    pub fn is_yardstick(self) -> bool {
        matches!(
            self,
            PolicyKind::Lru
                | PolicyKind::Srpt
                | PolicyKind::Sticky
                | PolicyKind::RoundRobin
                | PolicyKind::Random
        )
    }

    /// Whether the planner starts from it.
    #[must_use]
    pub fn is_portfolio(self) -> bool {
        self != PolicyKind::Planned
    }

    /// Whether it can be used in this mode.
    #[must_use]
    pub fn supports(self, mode: Mode) -> bool {
        self.modes().contains(&mode)
    }

    /// The residency under which it runs on a cluster that has `residency`.
    #[must_use]
    pub fn residency(self, residency: Residency) -> Residency {
        // A deployment puts several models on a GPU where memory allows: that is the point of it.
        if self == PolicyKind::Static { Residency::Memory } else { residency }
    }

    /// The policy, ready to run `instance`.
    #[must_use]
    pub fn build<'i>(self, instance: &'i Instance, params: &PolicyParams) -> Box<dyn Policy + 'i> {
        self.build_until(instance, params, &|| false)
    }

    /// The same where somebody may lose patience: a search ends, with the best so far, once `stop` says so.
    #[must_use]
    pub fn build_until<'i>(
        self,
        instance: &'i Instance,
        params: &PolicyParams,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Box<dyn Policy + 'i> {
        match self {
            PolicyKind::Planned => planned::plan(instance, params, stop),
            PolicyKind::Adaptive => Box::new(adaptive::Adaptive::new(instance, params)),
            PolicyKind::Baseline => Box::new(baseline::Baseline::new(instance)),
            PolicyKind::Offline => Box::new(offline::Offline::new(instance)),
            PolicyKind::Batch => Box::new(batch::Batch::new(instance)),
            PolicyKind::Balanced => Box::new(balanced::Balanced::new(instance, params.seed)),
            PolicyKind::Improved => Box::new(improved::Improved::new(instance)),
            PolicyKind::Hybrid => Box::new(hybrid::Hybrid::new(instance)),
            PolicyKind::Static => Box::new(fixed::Static::new(instance)),
            PolicyKind::Online => Box::new(online::Online::new(instance, params)),
            PolicyKind::Lru => Box::new(lru::Lru::new(instance)),
            PolicyKind::Srpt => Box::new(shortest::Shortest::new(instance)),
            PolicyKind::Sticky => Box::new(sticky::Sticky::new(instance)),
            PolicyKind::RoundRobin => Box::new(yardsticks::Yardstick::round_robin(instance)),
            PolicyKind::Random => Box::new(yardsticks::Yardstick::random(instance, params.seed)),
        }
    }
}

impl std::str::FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<PolicyKind, UnknownPolicy> {
        PolicyKind::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| UnknownPolicy {
            name: name.to_owned(),
            known: PolicyKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "),
        })
    }
}
