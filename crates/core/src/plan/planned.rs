//! `planned`: the planner's best plan, followed.
//!
//! Optimises the makespan of a batch: see [`crate::plan`]. The plan is never worse than what any other policy does on the
//! same problem. Where models batch or share GPUs, it says how large batches may be and what is loaded ahead.
//!
//! Cost: a few rounds of search before the run starts; O(1) per task to follow.

use super::file::PlanRead;
use super::{Follow, FollowSteps, Planned, SearchLimits, improve};
use crate::engine::Policy;
use crate::instance::{Instance, Start};
use crate::rules::Rule;
use crate::rules::info::{BuildContext, OFFLINE, PolicyInfo};
use crate::rules::param::params;
use crate::sim::{SimOptions, simulate};
use crate::time::{Span, Time};

pub(crate) const INFO: PolicyInfo = PolicyInfo::new(
    "planned",
    OFFLINE,
    "search for the shortest makespan, with a lower bound; for any batch",
);

params! {
    /// How long the `planned` policy searches.
    pub struct PlannedParams {
        /// Rounds of search (8 by default, unless a budget is given)
        rounds: Option<u64>,
        /// Time to search; all of it is used unless the plan is proven optimal
        budget: Option<Span>,
    }
}

pub(crate) type Params = PlannedParams;

/// Rounds of search where nothing is said of them.
const ROUNDS: u64 = 8;

/// The policy that carries out what was planned.
#[must_use]
pub fn carry_out<'i>(instance: &'i Instance, planned: &Planned) -> Box<dyn Policy + 'i> {
    match &planned.steps {
        Some(steps) => Box::new(FollowSteps::new(instance, steps)),
        None => Box::new(Follow::new(instance, &planned.plan)),
    }
}

/// The policy that follows a plan that was read from a file.
#[must_use]
pub fn follow<'i>(instance: &'i Instance, read: &PlanRead) -> Box<dyn Policy + 'i> {
    follow_as(instance, read, false)
}

/// The same, strictly where asked: see [`BuildContext::strict_plan`].
#[must_use]
pub fn follow_as<'i>(instance: &'i Instance, read: &PlanRead, strict: bool) -> Box<dyn Policy + 'i> {
    match read {
        PlanRead::Order(plan) if strict => Box::new(Follow::new(instance, plan).strictly()),
        PlanRead::Order(plan) => Box::new(Follow::new(instance, plan)),
        PlanRead::Steps(steps) => Box::new(FollowSteps::new(instance, steps)),
    }
}

/// The best plan that a search finds; `tell` hears of each that is better than the one before.
#[must_use]
pub fn search(
    instance: &Instance,
    params: &PlannedParams,
    context: &BuildContext<'_>,
    tell: &mut dyn FnMut(&Planned),
) -> Planned {
    // Whoever gives time alone wants all of it used.
    let usual = if params.budget.is_some() { u64::MAX } else { ROUNDS };
    let rounds = params.rounds.unwrap_or(usual);
    let limits = SearchLimits {
        rounds,
        stop: context.stop,
        seed: context.seed,
        bound: context.bound,
        ..SearchLimits::default()
    };
    improve(instance, &limits, tell)
}

/// Searches, then carries out what was found.
pub(crate) fn build<'i>(
    instance: &'i Instance,
    params: &Params,
    context: &BuildContext<'_>,
) -> Box<dyn Policy + 'i> {
    if !instance.start.is_empty() {
        return from_here(instance, params, context);
    }
    let planned = search(instance, params, context, &mut |_| {});
    if context.strict_plan && planned.steps.is_none() {
        return Box::new(Follow::new(instance, &planned.plan).strictly());
    }
    carry_out(instance, &planned)
}

/// For what is left of a run. The search reckons with empty GPUs, so that what it finds is held, from where the run really
/// stands, against what every policy would do; the best is carried out.
fn from_here<'i>(
    instance: &'i Instance,
    params: &Params,
    context: &BuildContext<'_>,
) -> Box<dyn Policy + 'i> {
    let mut bare = instance.clone();
    bare.start = Start::default();
    // From empty GPUs another bound holds.
    let searched = search(&bare, params, &BuildContext { bound: None, ..*context }, &mut |_| {});
    let followed = || carry_out(instance, &searched);
    let ends = |policy: &mut dyn Policy| -> Option<Time> {
        let log = simulate(instance, policy, &SimOptions::default(), &mut |_| {}).ok()?;
        log.executions.iter().map(|execution| execution.end).max()
    };
    let others = Rule::fitting(instance);
    let best = others
        .filter_map(|(place, rule)| Some((ends(rule.build(instance, context).as_mut())?, place, rule)))
        .min_by_key(|&(end, place, _)| (end, place));
    match (ends(followed().as_mut()), best) {
        (Some(end), Some((other, _, rule))) if other < end => rule.build(instance, context),
        (None, Some((_, _, rule))) => rule.build(instance, context),
        _ => followed(),
    }
}
