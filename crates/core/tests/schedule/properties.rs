//! Random problems: whatever is drawn, every policy finishes it, the checker finds nothing, and the same seed gives the
//! same log.

use crate::support::{Problem, run, run_all};
use gswarm_core::cost::SwitchRule;
use gswarm_core::instance::{Mode, Residency};
use gswarm_core::log::Status;
use gswarm_core::policy::PolicyKind;
use gswarm_core::sim::{InjectedFaults, SimOptions};
use gswarm_core::{GpuId, Time, report};
use proptest::prelude::*;

prop_compose! {
    fn model()(gpus in 1u32..5, gb in 1.0f64..70.0, load in prop_oneof![0.01f64..60.0, (1u32..60).prop_map(f64::from)], max_batch in 1u32..6, slope in 0.0f64..0.5, slot in proptest::option::of(0.1f64..10.0), unload in prop_oneof![Just(0.0), 0.0f64..20.0])
        -> (u32, f64, f64, u32, f64, Option<f64>, f64) { (gpus, gb, load, max_batch, slope, slot, unload) }
}

pub(crate) fn problem() -> impl Strategy<Value = Problem> {
    let models = proptest::collection::vec(model(), 1..5);
    let workflows =
        proptest::collection::vec((proptest::collection::vec(any::<u32>(), 1..7), any::<u64>()), 1..4);
    let time = prop_oneof![0.000001f64..0.01, 0.1f64..50.0, Just(10.0)];
    let requests = proptest::collection::vec(
        (any::<u32>(), 0.0f64..100.0, proptest::collection::vec(time, 7), -2i32..3),
        1..14,
    );
    let cluster = (0u32..9, proptest::option::of(1u32..6), 0u32..3, any::<bool>(), any::<bool>());
    (models, workflows, requests, cluster, any::<bool>()).prop_map(
        |(models, workflows, requests, cluster, batching)| {
            let (extra, per_server, rule, by_memory, online) = cluster;
            let widest = models.iter().map(|model| model.0).max().unwrap();
            // With servers, a model that is wider than one starts at a server's first GPU: there must be one with room.
            let mut problem = Problem::on(widest + extra);
            problem.cluster.gpus_per_server =
                per_server.filter(|&per| per >= widest || widest + extra >= widest.div_ceil(per) * per);
            problem.cluster.switch.rule =
                [SwitchRule::Transfer, SwitchRule::LoadTime, SwitchRule::Measured][rule as usize];
            if by_memory {
                problem.cluster.residency = Residency::Memory;
            }
            if online {
                problem.mode = Mode::Online;
            }
            for (place, &(gpus, gb, load, max_batch, slope, slot, unload)) in models.iter().enumerate() {
                problem = problem.model(&format!("m{place}"), gpus, gb, load).unload(unload);
                if let Some(gb) = slot {
                    problem = problem.slot(gb);
                }
                if batching && max_batch > 1 {
                    problem = problem.batching(&[(1, 1.0), (max_batch, 1.0 + slope * f64::from(max_batch))]);
                }
            }
            for (nodes, mut bits) in workflows.clone() {
                let nodes: Vec<u32> = nodes.iter().map(|&node| node % models.len() as u32).collect();
                let mut edges = Vec::new();
                for to in 1..nodes.len() as u32 {
                    for from in 0..to {
                        bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        if bits >> 62 == 0 {
                            edges.push((from, to));
                        }
                    }
                }
                problem = problem.workflow(&nodes, &edges);
            }
            for (workflow, arrival, times, priority) in requests {
                let workflow = workflow % workflows.len() as u32;
                let nodes = workflows[workflow as usize].0.len();
                problem = problem.request(workflow, arrival, &times[..nodes]);
                problem.builder.scenario.requests.last_mut().unwrap().priority = priority;
            }
            problem
        },
    )
}

proptest! {
    #[test]
    fn every_policy_finishes_every_feasible_problem(problem in problem()) {
        for &kind in PolicyKind::ALL.iter().filter(|kind| kind.supports(problem.mode)) {
            let instance = problem.build_for(kind);
            let log = run_all(&instance, kind);
            prop_assert_eq!(log, run_all(&instance, kind), "{} is not deterministic", kind.name());
        }
    }

    #[test]
    fn failures_and_lost_gpus_lose_nothing(
        problem in problem(), fail_rate in 0.0f64..0.4, seed in any::<u64>(),
        lose in proptest::collection::vec((prop_oneof![0u64..60_000_000, (0u64..60).prop_map(|s| s * 1_000_000)], any::<u32>()), 0..3),
        gone_for in proptest::option::of(prop_oneof![0u64..60_000_000, (0u64..60).prop_map(|s| s * 1_000_000)]),
    ) {
        let lose: Vec<_> = lose.into_iter().map(|(at, gpu)| (Time(at), GpuId(gpu % problem.cluster.gpus))).collect();
        let bring_back = gone_for.map(|span| lose.iter().map(|&(at, gpu)| (Time(at.0 + span), gpu)).collect());
        let faults = InjectedFaults { fail_rate, seed, lose, bring_back: bring_back.unwrap_or_default(), ..InjectedFaults::default() };
        let options = SimOptions { faults, ..SimOptions::default() };
        for &kind in PolicyKind::ALL.iter().filter(|kind| kind.supports(problem.mode)) {
            let instance = problem.build_for(kind);
            let log = run(&instance, kind, &options);
            let log = log.map_err(|error| TestCaseError::fail(format!("{}: {error}", kind.name())))?;
            let failed = log.executions.iter().filter(|execution| execution.status == Status::Failed);
            let gave_up = failed.filter(|execution| execution.attempt >= 3).count() > 0;
            let left = report::unfinished(&instance, &log);
            prop_assert!(gave_up || left.iter().all(|one| one.no_gpus_for.is_some()), "{}", kind.name());
        }
    }
}
