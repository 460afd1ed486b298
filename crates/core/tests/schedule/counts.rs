//! Policies for batches on numbers of GPUs that the widest model does not divide, and loads ahead of what waits.

use crate::partition::{narrow_then_wide, odd_problem};
use crate::planner::planned;
use crate::real_files::{instance, published};
use crate::support::{Problem, SEED, decoys, makespan, run, run_all};
use gswarm_core::bound::{all_bounds, lower_bound};
use gswarm_core::instance::Mode;
use gswarm_core::policy::PolicyKind;
use gswarm_core::report::metrics;
use gswarm_core::sim::{InjectedFaults, SimOptions};
use gswarm_core::{GpuId, Time};
use proptest::prelude::*;

const LISTS: [PolicyKind; 3] = [PolicyKind::Offline, PolicyKind::Batch, PolicyKind::Hybrid];
const QUEUES: [PolicyKind; 3] = [PolicyKind::Balanced, PolicyKind::Online, PolicyKind::Sticky];

#[test]
fn list_policies_come_near_the_bound_on_any_number_of_gpus() {
    for (name, counts) in [("simple", &[6, 10, 30][..]), ("complex", &[12, 20, 28, 30])] {
        let Some(scenario) = published(name, Mode::Offline) else { return };
        for &gpus in counts {
            for kind in LISTS.into_iter().chain(QUEUES) {
                let instance = instance(&scenario, kind, gpus, Mode::Offline);
                let found = makespan(&run_all(&instance, kind)).seconds();
                let gap = found / lower_bound(&instance).seconds() - 1.0;
                assert!(gap <= 0.03, "{} on {gpus} GPUs, {name}: {:.2}%", kind.name(), gap * 100.0);
            }
        }
    }
}

/// Some GPUs lie in every window of the widest model, wherever it is put: they are busy with it all the time. What the others
/// do at most is the rest of the work, so that no schedule of this length is more even than `least`.
#[test]
fn balanced_is_as_even_as_can_be_on_any_number_of_gpus() {
    for (name, gpus) in [
        ("simple", 6),
        ("simple", 10),
        ("simple", 30),
        ("complex", 12),
        ("complex", 20),
        ("complex", 28),
        ("complex", 30),
    ] {
        let Some(scenario) = published(name, Mode::Offline) else { return };
        let instance = instance(&scenario, PolicyKind::Balanced, gpus, Mode::Offline);
        let log = run_all(&instance, PolicyKind::Balanced);
        let spread = metrics(&instance, &log).utilisation.spread_points;
        let widest = instance.models.iter_enumerated().max_by_key(|(_, model)| model.gpus).expect("models");
        let width = widest.1.gpus;
        let (blocks, rest) = (gpus / width, gpus % width);
        let work = |wide: bool| -> f64 {
            let tasks = instance.task_ids().filter(|&task| (instance.model_of(task) == widest.0) == wide);
            let area = |task| {
                instance.execution(task).seconds() * f64::from(instance.models[instance.model_of(task)].gpus)
            };
            tasks.map(area).sum()
        };
        let always = f64::from(blocks * (width - rest));
        let serving = work(true) / f64::from(blocks * width);
        let others = (work(true) + work(false) - always * serving) / (f64::from(gpus) - always);
        let least = 100.0 * (serving - others).max(0.0) / makespan(&log).seconds();
        let most = if least < 5.0 { 10.0 } else { least + 4.0 };
        assert!(spread < most, "{name} on {gpus} GPUs: {spread:.1} points, {least:.1} at the least");
    }
}

/// With no more than the widest model and one other, each kind of work has GPUs of its own from the start.
#[test]
fn queues_keep_the_widest_model_at_work() {
    for gpus in [5, 6, 7, 10] {
        let instance = narrow_then_wide(gpus).build();
        for kind in LISTS.into_iter().chain(QUEUES) {
            let gap = makespan(&run_all(&instance, kind)).seconds() / lower_bound(&instance).seconds() - 1.0;
            assert!(gap < 0.15, "{} on {gpus} GPUs: {:.1}%", kind.name(), gap * 100.0);
        }
    }
}

/// The second model is loaded beside the first node: the chain takes as long as its nodes behind the first load.
#[test]
fn lists_load_ahead() {
    let chain = Problem::on(2)
        .model("first", 1, 14.0, 40.0)
        .model("second", 1, 14.0, 60.0)
        .workflow(&[0, 1], &[(0, 1)])
        .request(0, 0.0, &[25.0, 50.0]);
    let instance = chain.build();
    assert_eq!(planned(&instance, 2, SEED).makespan.seconds(), 115.0);
    for kind in LISTS {
        assert_eq!(makespan(&run_all(&instance, kind)).seconds(), 115.0, "{}", kind.name());
    }
}

/// Every window of one model overlaps every one of the other: a load must come between, and the bound knows.
#[test]
fn the_path_counts_loads_that_must_be() {
    let chain = Problem::on(4)
        .model("small", 4, 14.0, 10.0)
        .model("large", 4, 60.0, 40.0)
        .workflow(&[0, 1, 0], &[(0, 1), (1, 2)])
        .request(0, 0.0, &[30.0, 20.0, 30.0]);
    let instance = chain.build();
    let path = all_bounds(&instance).into_iter().find(|bound| bound.witness.name() == "path");
    let bound = path.expect("a longest path");
    let plan = planned(&instance, 4, SEED);
    assert_eq!(plan.makespan, bound.value);
    // On twice as many GPUs the two can stand side by side.
    let mut beside = chain.clone();
    beside.cluster.gpus = 8;
    assert!(lower_bound(&beside.build()) < bound.value);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn odd_counts_lose_nothing_and_load_nothing_in_vain(
        problem in odd_problem(), fail_rate in 0.0f64..0.3, seed in any::<u64>(),
        lost in proptest::option::of((0u64..200_000_000, any::<u32>(), proptest::option::of(0u64..60_000_000))),
    ) {
        let instance = problem.build();
        for kind in LISTS {
            prop_assert_eq!(decoys(&instance, &run_all(&instance, kind)), [], "{}", kind.name());
        }
        let gpu = |number: u32| GpuId(number % problem.cluster.gpus);
        let lose = lost.iter().map(|&(at, number, _)| (Time(at), gpu(number))).collect();
        let back = lost.iter().filter_map(|&(at, number, span)| Some((Time(at + span?), gpu(number)))).collect();
        let faults = InjectedFaults { fail_rate, seed, lose, bring_back: back, ..InjectedFaults::default() };
        for kind in LISTS.into_iter().chain(QUEUES) {
            let log = run(&instance, kind, &SimOptions { faults: faults.clone(), ..SimOptions::default() });
            let log = log.map_err(|error| TestCaseError::fail(format!("{}: {error}", kind.name())))?;
            let gave_up = log.executions.iter().any(|execution| execution.attempt >= 3);
            let left = gswarm_core::report::unfinished(&instance, &log);
            prop_assert!(gave_up || left.iter().all(|one| one.no_gpus_for.is_some()), "{}", kind.name());
        }
    }
}
