//! Plans where the widest model does not divide the GPUs: some GPUs can never serve it.

use crate::planner::{carried_out, planned};
use crate::real_files::published;
use crate::support::{Problem, SEED, makespan, run_all};
use gswarm_core::Instance;
use gswarm_core::input::ClusterSpec;
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::plan::{SearchLimits, improve};
use gswarm_core::policy::PolicyKind;
use proptest::prelude::*;

/// Models one, two and more GPUs wide, workflows that go back and forth between them, and GPUs that the widest does not
/// divide.
pub(crate) fn odd_problem() -> impl Strategy<Value = Problem> {
    let widths = (3u32..9, 2u32..6, 1u32..3);
    let workflow = proptest::collection::vec(0u32..4, 1..6);
    let workflows = proptest::collection::vec((workflow, any::<u32>()), 1..4);
    let requests =
        proptest::collection::vec((any::<u32>(), proptest::collection::vec(0.5f64..40.0, 6)), 1..40);
    (widths, 1u32..3, any::<u32>(), proptest::option::of(2u32..5), workflows, requests).prop_map(
        |((widest, second, third), times, rest, per_server, workflows, requests)| {
            let second = second.min(widest);
            let gpus = widest * times + 1 + rest % (widest - 1);
            let mut problem = Problem::on(gpus);
            // A model that is wider than a server starts at a server's first GPU: there must be one with room.
            problem.cluster.gpus_per_server =
                per_server.filter(|&per| per >= widest || gpus >= widest.div_ceil(per) * per);
            problem = problem.model("widest", widest, 30.0, 20.0).model("second", second, 14.0, 10.0);
            problem = problem.model("third", third, 8.0, 6.0).model("narrow", 1, 4.0, 3.0);
            for (nodes, edges) in &workflows {
                // The widest somewhere, or the GPUs would not be odd.
                let nodes: Vec<u32> = nodes.iter().copied().chain([0]).collect();
                let all = (1..nodes.len() as u32).flat_map(|to| (0..to).map(move |from| (from, to)));
                let edges: Vec<_> = all
                    .enumerate()
                    .filter(|(at, _)| edges >> (at % 32) & 1 == 1)
                    .map(|(_, edge)| edge)
                    .collect();
                problem = problem.workflow(&nodes, &edges);
            }
            for (workflow, times) in requests {
                let workflow = workflow % workflows.len() as u32;
                let nodes = workflows[workflow as usize].0.len() + 1;
                problem = problem.request(workflow, 0.0, &times[..nodes]);
            }
            problem
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn odd_plans_keep_their_promise_and_nothing_is_better(problem in odd_problem()) {
        let instance = problem.build();
        let plan = planned(&instance, 2, SEED);
        prop_assert_eq!(carried_out(&instance, &plan).0, plan.makespan.0, "by {}", plan.found_by);
        prop_assert!(plan.makespan >= plan.bound.value);
        for &kind in PolicyKind::ALL.iter().filter(|kind| kind.is_portfolio() && kind.residency(problem.cluster.residency) == problem.cluster.residency) {
            let other = makespan(&run_all(&instance, kind));
            prop_assert!(plan.makespan <= other, "{} takes {other}, the plan {}", kind.name(), plan.makespan);
        }
    }
}

/// Sixty requests on `gpus` GPUs: a narrow task, a wide one on four, and for every third request only narrow ones.
pub(crate) fn narrow_then_wide(gpus: u32) -> Problem {
    let mut problem = Problem::on(gpus)
        .model("narrow", 1, 14.0, 10.0)
        .model("wide", 4, 60.0, 40.0)
        .model("other", 1, 8.0, 6.0)
        .workflow(&[0, 1], &[(0, 1)])
        .workflow(&[0, 2], &[(0, 1)]);
    for request in 0..60u32 {
        let (short, long) = (4.0 + f64::from(request * 7 % 11), 20.0 + f64::from(request * 13 % 29));
        let times = if request % 3 == 2 { [short, short] } else { [short, long] };
        problem = problem.request(u32::from(request % 3 == 2), 0.0, &times);
    }
    problem
}

/// The wide model can run from about 20 s on without a break: then the makespan is its work, and little else.
#[test]
fn the_widest_model_never_waits() {
    for gpus in [5, 6, 7, 10] {
        let instance = narrow_then_wide(gpus).build();
        let plan = planned(&instance, 4, SEED);
        assert_eq!(plan.bound.witness.name(), "replicas");
        assert!(plan.gap() < 0.02, "{gpus} GPUs: gap {:.4}", plan.gap());
        assert_eq!(carried_out(&instance, &plan).0, plan.makespan.0);
    }
}

#[test]
fn the_same_seed_and_rounds_give_the_same_odd_plan() {
    let instance = narrow_then_wide(10).build();
    let (one, two) = (planned(&instance, 3, 5), planned(&instance, 3, 5));
    assert_eq!(one.plan, two.plan);
    assert_eq!(one.makespan, two.makespan);
}

#[test]
fn a_search_that_is_stopped_at_once_still_has_a_plan() {
    let instance = narrow_then_wide(6).build();
    let limits = SearchLimits { rounds: u64::MAX, stop: &|| true, seed: SEED, ..SearchLimits::default() };
    let plan = improve(&instance, &limits, &mut |_| {});
    assert_eq!(plan.plan.0.len(), instance.tasks());
    assert_eq!(carried_out(&instance, &plan).0, plan.makespan.0);
}

/// The grid and one round of variations are enough to come near the bound.
#[test]
fn published_files_on_odd_counts() {
    for (name, gpus, most) in [("simple", 6, 0.001), ("simple", 10, 0.0025), ("complex", 20, 0.004)] {
        let Some(scenario) = published(name, Mode::Offline) else { return };
        let spec = ClusterSpec { gpus: Some(gpus), ..scenario.cluster.clone() };
        let instance = Instance::build(&scenario, Cluster::from_spec(&spec).unwrap(), Mode::Offline).unwrap();
        let plan = planned(&instance, 1, SEED);
        assert!(plan.gap() <= most, "{name} on {gpus}: gap {:.4}", plan.gap());
        assert_eq!(carried_out(&instance, &plan).0, plan.makespan.0);
    }
}
