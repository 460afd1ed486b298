//! Exact search for small problems: it finds the shortest schedule, or proves that none is shorter.
//!
//! A schedule is a list of tasks with their GPUs, in order of their starts; all times follow from it (see
//! [`problem::ExactProblem::steps`]). Lists are grown task by task, depth first, and left where they cannot end sooner than the
//! best known schedule ([`bounds`], [`shares`]), or where one that is no worse was searched before ([`memo`],
//! [`symmetry`]).
//!
//! The search allows for all that a schedule may do, loads that run nothing included, and for a little more: a load of a
//! model that needs several GPUs may prepare one of them alone ([`ways`]). So what it excludes is
//! impossible; and where it finds something that no plan can do, it proves nothing.

mod beam;
mod bounds;
mod build;
mod memo;
mod problem;
mod shares;
mod symmetry;
mod tree;
mod ways;

use super::search::{Planned, Report, SearchLimits};
use super::{Plan, Proof, TimedPlan, search};
use crate::instance::Instance;
use crate::time::{Span, Time};
use build::Small;
use problem::Step;
use tree::{Ended, Tree};
use ways::Loads;

/// Rounds of the other search before the exact one begins: a good schedule to begin with saves it most of its work.
const FIRST_ROUNDS: u64 = 3;

/// States that are looked at for each round that is allowed: about as much work as a round of the other search.
const STATES_PER_ROUND: u64 = 20_000;

/// How many states at a time are grown together, one try after the other.
const BEAMS: [usize; 3] = [10, 100, 1_000];

/// Plans a batch: the best of every policy, then a search until a limit is reached. A small problem is also searched
/// exactly.
#[must_use]
pub fn improve(instance: &Instance, limits: &SearchLimits<'_>, report: Report<'_>) -> Planned {
    let Some(small) = Small::of(instance, Loads::AnyWay) else {
        return search::improve(instance, limits, report);
    };
    let first = SearchLimits { rounds: limits.rounds.min(FIRST_ROUNDS), ..*limits };
    let begun = search::improve(instance, &first, report);
    let mut best = prove(instance, &small, begun, limits, report);
    let rounds = limits.rounds.saturating_sub(FIRST_ROUNDS);
    if best.proof.is_some() || best.gap() <= limits.gap || rounds == 0 || (limits.stop)() {
        return best;
    }
    let bound = best.bound.clone();
    let rest = SearchLimits { rounds, seed: limits.seed.wrapping_add(1), bound: Some(&bound), ..*limits };
    let least = best.makespan;
    let more = search::improve(instance, &rest, &mut |found| {
        if found.makespan < least {
            report(found);
        }
    });
    if more.makespan < least {
        best = more;
    }
    best
}

fn prove(
    instance: &Instance,
    small: &Small,
    mut best: Planned,
    limits: &SearchLimits<'_>,
    report: Report<'_>,
) -> Planned {
    if best.proof.is_some() || best.gap() <= limits.gap || (limits.stop)() || small.problem.tasks.is_empty() {
        return best;
    }
    // Something that the search takes for possible and no plan can do: then nothing is proved.
    let mut out_of_reach = false;
    let mut target = best.makespan.0;
    let mut offer = |makespan: u64, steps: &[Step]| {
        let plan = small.plan(instance, steps);
        let timed = TimedPlan::of(instance, &plan).makespan;
        out_of_reach |= timed > Time(makespan) && makespan < best.makespan.0;
        if timed < Time(best.makespan.0) {
            best = improved(&best, plan, timed.since(Time::ZERO));
            report(&best);
        }
        best.makespan.0
    };
    let states = limits.rounds.saturating_mul(STATES_PER_ROUND);
    let mut for_beams = states / 2;
    for width in BEAMS {
        let grown = beam::beam(&small.problem, target, width, &mut for_beams, limits.stop);
        if let Some((makespan, steps)) = grown {
            target = offer(makespan, &steps);
        }
    }
    let ended = Tree::new(&small.problem, target, states / 2, limits.stop, &mut offer).search();
    if out_of_reach {
        // It went after what no plan can do, and may have passed over the best that plans can.
        if let Some(plans) = Small::of(instance, Loads::AsPlanned) {
            let target = best.makespan.0;
            let mut offer = |_: u64, steps: &[Step]| {
                let plan = plans.plan(instance, steps);
                let timed = TimedPlan::of(instance, &plan).makespan;
                if timed < Time(best.makespan.0) {
                    best = improved(&best, plan, timed.since(Time::ZERO));
                    report(&best);
                }
                best.makespan.0
            };
            let _ = Tree::new(&plans.problem, target, states / 2, limits.stop, &mut offer).search();
        }
    } else if ended == Ended::Exhausted && best.proof.is_none() {
        best.proof = Some(Proof::Search);
        report(&best);
    }
    best
}

fn improved(best: &Planned, plan: Plan, makespan: Span) -> Planned {
    let found_by = "exact search".to_owned();
    let mut planned = Planned { plan, makespan, found_by, steps: None, ..best.clone() };
    planned.proof = (makespan == planned.bound.value).then_some(Proof::Bound);
    planned
}
