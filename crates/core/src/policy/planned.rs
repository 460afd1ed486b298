//! `planned`: the planner's best plan, followed.
//!
//! Optimises the makespan of a batch: see [`crate::plan`]. The plan is never worse than what any other policy does on the
//! same problem. Where models batch or share GPUs, it says how large batches may be and what is loaded ahead.
//!
//! Cost: a few rounds of search before the run starts; O(1) per task to follow.

use super::{Follow, FollowSteps, Policy, PolicyParams};
use crate::instance::{Instance, Start};
use crate::plan::file::Read;
use crate::plan::{self, Limits, Planned};
use crate::policy::PolicyKind;
use crate::sim::{SimOptions, simulate};
use crate::time::Time;

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
pub fn follow<'i>(instance: &'i Instance, read: &Read) -> Box<dyn Policy + 'i> {
    follow_as(instance, read, &PolicyParams::default())
}

/// The same, strictly where the parameters say so.
#[must_use]
pub fn follow_as<'i>(instance: &'i Instance, read: &Read, params: &PolicyParams) -> Box<dyn Policy + 'i> {
    match read {
        Read::Order(plan) if params.strict_plan => Box::new(Follow::new(instance, plan).strictly()),
        Read::Order(plan) => Box::new(Follow::new(instance, plan)),
        Read::Steps(steps) => Box::new(FollowSteps::new(instance, steps)),
    }
}

/// Plans by the rounds that the parameters allow, or until `stop`, then carries it out.
pub(super) fn plan<'i>(
    instance: &'i Instance,
    params: &PolicyParams,
    stop: &(dyn Fn() -> bool + Sync),
) -> Box<dyn Policy + 'i> {
    if !instance.start.is_empty() {
        return from_here(instance, params);
    }
    let limits = Limits { rounds: params.rounds, stop, gap: 0.0, seed: params.seed };
    let planned = plan::improve(instance, &limits, &mut |_| {});
    if params.strict_plan && planned.steps.is_none() {
        return Box::new(Follow::new(instance, &planned.plan).strictly());
    }
    carry_out(instance, &planned)
}

/// For what is left of a run. The search reckons with empty GPUs, so that what it finds is held, from where the run really
/// stands, against what every policy would do; the best is carried out.
fn from_here<'i>(instance: &'i Instance, params: &PolicyParams) -> Box<dyn Policy + 'i> {
    let mut bare = instance.clone();
    bare.start = Start::default();
    let limits = Limits { rounds: params.rounds, stop: &|| false, gap: 0.0, seed: params.seed };
    let searched = plan::improve(&bare, &limits, &mut |_| {});
    let followed = || carry_out(instance, &searched);
    let ends = |policy: &mut dyn Policy| -> Option<Time> {
        let log = simulate(instance, policy, &SimOptions::default(), &mut |_| {}).ok()?;
        log.executions.iter().map(|execution| execution.end).max()
    };
    let fits = |kind: &PolicyKind| {
        kind.is_portfolio()
            && kind.supports(instance.mode)
            && kind.residency(instance.cluster.residency) == instance.cluster.residency
    };
    let others = PolicyKind::ALL.iter().copied().filter(fits);
    let best = others
        .filter_map(|kind| Some((ends(kind.build(instance, params).as_mut())?, kind)))
        .min_by_key(|&(end, kind)| (end, kind));
    match (ends(followed().as_mut()), best) {
        (Some(end), Some((other, kind))) if other < end => kind.build(instance, params),
        (None, Some((_, kind))) => kind.build(instance, params),
        _ => followed(),
    }
}
