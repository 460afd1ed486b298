//! The list of policies: names, what they are for, and how they are made.

use super::{baseline, Policy};
use crate::instance::{Instance, Mode, Residency};

/// The policies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// See [`super::Baseline`].
    Baseline,
}

/// What a policy can be told. Each policy uses what concerns it.
#[derive(Clone, Debug, PartialEq)]
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
}

impl Default for PolicyParams {
    fn default() -> PolicyParams {
        PolicyParams { seed: 0, alpha: 1.0, beta: 1.5, gamma: 0.3, delta: 0.5, lookahead: 3 }
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
    pub const ALL: &'static [PolicyKind] = &[PolicyKind::Baseline];

    /// As flags and file names spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Baseline => "baseline",
        }
    }

    /// What it optimises and when to use it, in a line.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            PolicyKind::Baseline => "first come, first served, as Ray does; the yardstick",
        }
    }

    /// How requests may arrive.
    #[must_use]
    pub fn modes(self) -> &'static [Mode] {
        match self {
            PolicyKind::Baseline => BOTH,
        }
    }

    /// Whether it can be used in this mode.
    #[must_use]
    pub fn supports(self, mode: Mode) -> bool {
        self.modes().contains(&mode)
    }

    /// The residency under which it runs on a cluster that has `residency`.
    #[must_use]
    pub fn residency(self, residency: Residency) -> Residency {
        residency
    }

    /// The policy, ready to run `instance`.
    #[must_use]
    pub fn build<'i>(self, instance: &'i Instance, _params: &PolicyParams) -> Box<dyn Policy + 'i> {
        match self {
            PolicyKind::Baseline => Box::new(baseline::Baseline::new(instance)),
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
