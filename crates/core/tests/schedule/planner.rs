//! The planner: its plans do what they promise, and nothing does better.

use crate::properties::problem;
use crate::support::{Problem, SEED, makespan, run_all};
use gswarm_core::instance::Mode;
use gswarm_core::plan::{Limits, Objective, Values, aim, improve};
use gswarm_core::policy::{Follow, PolicyKind, carry_out};
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::{Instance, Time};
use proptest::prelude::*;

fn planned(instance: &Instance, rounds: u64, seed: u64) -> gswarm_core::plan::Planned {
    improve(instance, &Limits { rounds, stop: &|| false, gap: 0.0, seed }, &mut |_| {})
}

/// The makespan of the log that carrying out a plan leads to.
fn carried_out(instance: &Instance, plan: &gswarm_core::plan::Planned) -> Time {
    let mut policy = carry_out(instance, plan);
    let log = simulate(instance, &mut *policy, &SimOptions::default(), &mut |_| {}).unwrap();
    let violations = gswarm_core::check::check_log(instance, &log, None);
    assert!(violations.is_empty(), "{violations:?}");
    Time(makespan(&log).0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn plans_keep_their_promise_and_nothing_is_better(mut problem in problem()) {
        problem.mode = Mode::Offline;
        let instance = problem.build();
        // The seed of `run_all`: policies that draw must draw the same.
        let plan = planned(&instance, 2, SEED);
        prop_assert_eq!(carried_out(&instance, &plan).0, plan.makespan.0, "by {}", plan.found_by);
        prop_assert!(plan.makespan >= plan.bound.value);
        let same_problem = |kind: &PolicyKind| kind.is_portfolio() && kind.residency(problem.cluster.residency) == problem.cluster.residency;
        for &kind in PolicyKind::ALL.iter().filter(|kind| same_problem(kind)) {
            let other = makespan(&run_all(&instance, kind));
            prop_assert!(plan.makespan <= other, "{} takes {other}, the plan {}", kind.name(), plan.makespan);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_policy_does_better_by_the_objective(mut problem in problem(), weights in [0u32..4, 0u32..4, 0u32..4, 0u32..4]) {
        problem.mode = Mode::Offline;
        let instance = problem.build();
        let [makespan, latency, p99, switches] = weights.map(f64::from);
        let objective = Objective { makespan, latency: latency + 0.1, p99, switches };
        let aimed = aim(&instance, &objective, &Limits { rounds: 1, stop: &|| false, gap: 0.0, seed: SEED }, &mut |_| {});
        prop_assert!(aimed.cost >= aimed.bound * (1.0 - 1e-12), "{} is below {}", aimed.cost, aimed.bound);
        let least = Values::least(&instance);
        for (is, bound) in [
            (aimed.values.makespan, least.makespan),
            (aimed.values.latency, least.latency),
            (aimed.values.p99, least.p99),
            (aimed.values.switches, least.switches),
        ] {
            prop_assert!(is >= bound - 1e-9, "{is} is below {bound}");
        }
        prop_assert_eq!(carried_out(&instance, &aimed.planned).0, aimed.planned.makespan.0, "by {}", aimed.planned.found_by);
        let same_problem = |kind: &PolicyKind| kind.is_portfolio() && kind.residency(problem.cluster.residency) == problem.cluster.residency;
        for &kind in PolicyKind::ALL.iter().filter(|kind| same_problem(kind)) {
            let other = objective.cost(&Values::of(&instance, &run_all(&instance, kind)));
            prop_assert!(aimed.cost <= other + 1e-9, "{} comes to {other}, the plan to {}", kind.name(), aimed.cost);
        }
    }
}

#[test]
fn the_same_seed_and_rounds_give_the_same_plan() {
    let mut problem = Problem::on(8)
        .model("a", 1, 8.0, 5.0)
        .model("b", 4, 30.0, 20.0)
        .workflow(&[0, 1, 0], &[(0, 1), (1, 2)]);
    for request in 0..40 {
        problem = problem.request(0, 0.0, &[1.0 + f64::from(request % 7), 9.0, 2.0]);
    }
    let instance = problem.build();
    let (one, two) = (planned(&instance, 3, 5), planned(&instance, 3, 5));
    assert_eq!(one.plan, two.plan);
    assert_eq!(one.makespan, two.makespan);
    assert!(one.makespan < makespan(&run_all(&instance, PolicyKind::Baseline)));
}

/// While the first task runs, the second GPU's model comes over, just in time, and the log says so as its switch.
#[test]
fn a_plan_switches_while_inputs_are_awaited() {
    let problem = Problem::on(2).model("a", 1, 8.0, 5.0).model("b", 1, 8.0, 7.0).workflow(&[0, 1], &[(0, 1)]);
    let instance = problem.request(0, 0.0, &[10.0, 1.0]).build();
    let plan = gswarm_core::plan::Plan(vec![
        (gswarm_core::TaskId(0), gswarm_core::Gpus::new(0, 1)),
        (gswarm_core::TaskId(1), gswarm_core::Gpus::new(1, 1)),
    ]);
    let log =
        simulate(&instance, &mut Follow::new(&instance, &plan), &SimOptions::default(), &mut |_| {}).unwrap();
    assert!(gswarm_core::check::check_log(&instance, &log, None).is_empty());
    assert_eq!(makespan(&log).seconds(), 16.0);
    assert_eq!(log.executions[1].switch.seconds(), 7.0);
    assert!(log.loads.is_empty());
}
