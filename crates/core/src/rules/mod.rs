//! Policies that go by a rule: each proposes what to start where, and nothing else. One file each. The planner, which tries all of
//! them, and [`crate::policy`], which lists all policies, stand above.

mod division;
pub(crate) mod info;
pub(crate) mod lists;
pub(crate) mod param;
pub(crate) mod place;
mod pools;
mod ready;
mod reserve;
pub(crate) mod sketch;
mod waves;
mod yardsticks;

pub use adaptive::{Adaptive, AdaptiveParams, LatencyTarget, Objective};
pub(crate) use baseline::Baseline;
pub(crate) use fixed::deploy;
pub use info::BuildContext;
pub use online::OnlineParams;
pub use param::{NoParams, ParamFault, ParamInfo, ParamKind, ParamValues};

use crate::engine::Policy;
use crate::instance::Instance;
use info::PolicyInfo;

/// Gives the list of rules to a macro. A new rule is its file and its line here, which declares the module too.
macro_rules! with_rules {
    ($callback:ident) => {
        $callback! {
            Adaptive => adaptive,
            Baseline => baseline,
            Offline => offline,
            Batch => batch,
            Balanced => balanced,
            Improved => improved,
            Hybrid => hybrid,
            Static => fixed,
            Online => online,
            Lru => lru,
            Srpt => shortest,
            Sticky => sticky,
            RoundRobin => round_robin,
            Random => random,
        }
    };
}
pub(crate) use with_rules;

macro_rules! modules {
    ($($Kind:ident => $module:ident,)+) => { $(pub(crate) mod $module;)+ };
}
with_rules!(modules);

/// A rule with its default parameters, as the planner tries it.
pub(crate) struct Rule {
    /// What it says about itself.
    pub info: &'static PolicyInfo,
    build: for<'i> fn(&'i Instance, &BuildContext<'_>) -> Box<dyn Policy + 'i>,
}

macro_rules! portfolio {
    ($($Kind:ident => $module:ident,)+) => {
        /// Every rule, in the order in which policies are shown.
        static PORTFOLIO: &[Rule] = &[$(Rule {
            info: &$module::INFO,
            build: |instance, context| $module::build(instance, &<$module::Params>::default(), context),
        },)+];
    };
}
with_rules!(portfolio);

impl Rule {
    /// The rules that can be run on a problem as it is, each with its place in the list.
    pub fn fitting(instance: &Instance) -> impl Iterator<Item = (usize, &'static Rule)> {
        let (mode, residency) = (instance.mode, instance.cluster.residency);
        PORTFOLIO.iter().enumerate().filter(move |(_, rule)| {
            rule.info.modes.contains(&mode) && rule.info.residency.unwrap_or(residency) == residency
        })
    }

    /// The rule, ready to run `instance`.
    pub fn build<'i>(&self, instance: &'i Instance, context: &BuildContext<'_>) -> Box<dyn Policy + 'i> {
        (self.build)(instance, context)
    }
}
