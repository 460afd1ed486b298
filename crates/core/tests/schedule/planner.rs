//! The planner: its plans do what they promise, and nothing does better.

use crate::properties::problem;
use crate::support::{Problem, SEED, decoys, makespan, run_all};
use gswarm_core::input::ClusterSpec;
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::plan::{ObjectiveValues, PlanObjective, SearchLimits, TimedPlan, aim, first, improve};
use gswarm_core::policy::{Follow, PolicyKind, carry_out};
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::{Instance, Time};
use proptest::prelude::*;

pub(crate) fn planned(instance: &Instance, rounds: u64, seed: u64) -> gswarm_core::plan::Planned {
    improve(instance, &SearchLimits { rounds, seed, ..SearchLimits::default() }, &mut |_| {})
}

/// The same for the makespan alone.
fn shortest(instance: &Instance, rounds: u64, seed: u64) -> gswarm_core::plan::Planned {
    let limits = SearchLimits { rounds, seed, sooner: false, ..SearchLimits::default() };
    improve(instance, &limits, &mut |_| {})
}

/// The makespan of the log that carrying out a plan leads to.
pub(crate) fn carried_out(instance: &Instance, plan: &gswarm_core::plan::Planned) -> Time {
    let mut policy = carry_out(instance, plan);
    let log = simulate(instance, &mut *policy, &SimOptions::default(), &mut |_| {}).unwrap();
    let violations = gswarm_core::check::check_log(instance, &log, None);
    assert!(violations.is_empty(), "{violations:?}");
    assert_eq!(decoys(instance, &log), [], "loads that are of no use, by {}", plan.found_by);
    Time(makespan(&log).0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn plans_keep_their_promise_and_nothing_is_better(mut problem in problem()) {
        problem.mode = Mode::Offline;
        let instance = problem.build();
        // The seed of `run_all`: policies that draw must draw the same.
        let plan = shortest(&instance, 2, SEED);
        prop_assert_eq!(carried_out(&instance, &plan).0, plan.makespan.0, "by {}", plan.found_by);
        prop_assert!(plan.makespan >= plan.bound.value);
        if let Some((first, promised)) = first(&instance) {
            prop_assert_eq!(first.0.len(), instance.tasks());
            let timed = TimedPlan::of(&instance, &first).makespan;
            prop_assert!(timed.0 <= promised.0, "{timed:?} is later than {promised}");
            prop_assert!(timed.0 >= plan.bound.value.0);
        }
        let same_problem = |kind: &PolicyKind| kind.is_portfolio() && kind.residency(problem.cluster.residency) == problem.cluster.residency;
        for &kind in PolicyKind::ALL.iter().filter(|kind| same_problem(kind)) {
            let other = makespan(&run_all(&instance, kind));
            prop_assert!(plan.makespan <= other, "{} takes {other}, the plan {}", kind.name(), plan.makespan);
        }
        let sooner = planned(&instance, 2, SEED);
        prop_assert_eq!(carried_out(&instance, &sooner).0, sooner.makespan.0, "by {}", sooner.found_by);
        let most = plan.makespan.0 + plan.makespan.0 / 1000;
        prop_assert!(sooner.makespan.0 <= most, "{} for {}", sooner.makespan, plan.makespan);
        prop_assert!(sooner.proof.is_some() || plan.proof.is_none(), "a proof is not given up");
    }
}

/// The mean latency of the log that carrying out a plan leads to.
fn mean_latency(instance: &Instance, plan: &gswarm_core::plan::Planned) -> f64 {
    let log =
        simulate(instance, &mut *carry_out(instance, plan), &SimOptions::default(), &mut |_| {}).unwrap();
    ObjectiveValues::of(instance, &log).latency
}

/// At most a thousandth longer, and never later on the mean: so much sooner at least, in percent.
#[test]
fn of_plans_about_as_short_the_one_whose_requests_end_sooner() {
    for (name, gpus, percent) in [("simple", 8, 25.0), ("simple", 32, 20.0), ("complex", 32, 8.0)] {
        let Some(scenario) = crate::real_files::published(name, Mode::Offline) else { return };
        let spec = ClusterSpec { gpus: Some(gpus), ..scenario.cluster.clone() };
        let instance = Instance::build(&scenario, Cluster::from_spec(&spec).unwrap(), Mode::Offline).unwrap();
        let (before, now) = (shortest(&instance, 4, SEED), planned(&instance, 4, SEED));
        assert!(now.makespan.seconds() <= 1.001 * before.makespan.seconds(), "{name} {gpus}");
        assert_eq!(carried_out(&instance, &now).0, now.makespan.0);
        let (late, soon) = (mean_latency(&instance, &before), mean_latency(&instance, &now));
        assert!(soon <= late * (1.0 - percent / 100.0), "{name} on {gpus}: {soon:.1} s for {late:.1} s");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_policy_does_better_by_the_objective(mut problem in problem(), weights in [0u32..4, 0u32..4, 0u32..4, 0u32..4]) {
        problem.mode = Mode::Offline;
        let instance = problem.build();
        let [makespan, latency, p99, switches] = weights.map(f64::from);
        let objective = PlanObjective { makespan, latency: latency + 0.1, p99, switches };
        let aimed = aim(&instance, &objective, &SearchLimits { rounds: 1, seed: SEED, ..SearchLimits::default() }, &mut |_| {});
        prop_assert!(aimed.cost >= aimed.bound * (1.0 - 1e-12), "{} is below {}", aimed.cost, aimed.bound);
        let least = ObjectiveValues::least(&instance, &aimed.planned.bound);
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
            let other = objective.cost(&ObjectiveValues::of(&instance, &run_all(&instance, kind)));
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

#[test]
fn the_number_of_threads_changes_nothing() {
    let mut problem = Problem::on(8)
        .model("a", 1, 8.0, 5.0)
        .model("b", 2, 30.0, 20.0)
        .workflow(&[0, 1, 0], &[(0, 1), (1, 2)])
        .workflow(&[1, 0], &[(0, 1)]);
    for request in 0..60 {
        let times = [1.0 + f64::from(request % 7), 9.0 + f64::from(request % 5), 2.0];
        problem = problem.request(request % 2, 0.0, &times[..3 - (request % 2) as usize]);
    }
    let instance = problem.build();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| planned(&instance, 4, 7).plan)
    };
    assert_eq!(on(1), on(3));
}

/// No limit but the bound: the search must see by itself that nothing shorter is possible.
#[test]
fn a_search_ends_when_its_plan_is_proved_to_be_the_shortest() {
    let problem = Problem::on(2).model("a", 1, 8.0, 5.0).workflow(&[0], &[]);
    let instance = problem.request(0, 0.0, &[4.0]).request(0, 0.0, &[4.0]).build();
    let plan = planned(&instance, u64::MAX, 1);
    assert_eq!(plan.makespan, plan.bound.value);
    assert_eq!(plan.makespan.seconds(), 9.0);
}

/// One GPU, two models of 8 GB: 5 s to load the first, 3 s to change, 30 s of work, whichever order; and that is a schedule.
#[test]
fn the_bound_counts_every_change_of_model() {
    let problem = Problem::on(1).model("a", 1, 8.0, 5.0).model("b", 1, 8.0, 7.0);
    let problem = problem.workflow(&[0], &[]).workflow(&[1], &[]);
    let instance = problem.request(0, 0.0, &[10.0]).request(1, 0.0, &[20.0]).build();
    let plan = planned(&instance, u64::MAX, 1);
    assert_eq!(plan.bound.value.seconds(), 38.0);
    assert_eq!(plan.bound.witness.name(), "visits");
    assert_eq!(plan.makespan, plan.bound.value);
}

/// The prices of the witness add up to what it says is lost.
#[test]
fn prices_of_visits_add_up() {
    let problem = Problem::on(4).model("a", 1, 8.0, 5.0).model("b", 4, 30.0, 20.0);
    let mut problem = problem.workflow(&[0, 1, 0], &[(0, 1), (1, 2)]);
    for request in 0..20 {
        problem = problem.request(0, 0.0, &[3.0, 9.0 + f64::from(request % 3), 2.0]);
    }
    let bounds = gswarm_core::bound::all_bounds(&problem.build());
    let visits = bounds.iter().find(|bound| bound.witness.name() == "visits").unwrap();
    let gswarm_core::bound::Witness::Visits { work, lost, gpus, begin, end, prices } = &visits.witness else {
        panic!("{:?}", visits.witness)
    };
    let worth: i128 =
        prices.iter().map(|price| i128::from(price.visits) * i128::from(price.leave + price.enter)).sum();
    assert_eq!(worth + i128::from(*gpus) * i128::from(begin + end), *lost as i128);
    assert!(work + lost > u128::from(visits.value.0 - 1) * u128::from(*gpus));
}
