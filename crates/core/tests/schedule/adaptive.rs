//! What `adaptive` promises on problems with a known answer.

use crate::properties::problem;
use crate::support::Problem;
use gswarm_core::check::check_log;
use gswarm_core::instance::{Instance, Mode, Residency};
use gswarm_core::log::ExecutionLog;
use gswarm_core::policy::{AdaptiveParams, BuildContext, LatencyTarget, Objective, PolicySpec};
use gswarm_core::report::metrics;
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::{RequestId, Span, Time};
use proptest::prelude::*;
use rstest::rstest;

pub fn run_with(instance: &Instance, params: &AdaptiveParams) -> ExecutionLog {
    let mut policy = PolicySpec::Adaptive(params.clone()).build(instance, &BuildContext::default());
    let log = simulate(instance, &mut *policy, &SimOptions::default(), &mut |_| {}).expect("it ends");
    let violations = check_log(instance, &log, None);
    assert!(violations.is_empty(), "{violations:?}");
    log
}

fn run(instance: &Instance) -> ExecutionLog {
    run_with(instance, &AdaptiveParams::default())
}

fn end(instance: &Instance, log: &ExecutionLog, request: u32) -> f64 {
    let of_request = |task| instance.request_of(task) == RequestId(request);
    log.executions.iter().filter(|one| of_request(one.task)).map(|one| one.end.seconds()).fold(0.0, f64::max)
}

fn longest_wait(log: &ExecutionLog) -> f64 {
    log.executions.iter().map(|one| (one.start - one.ready).seconds()).fold(0.0, f64::max)
}

/// Two models on one GPU: `a` has forty tasks from the start, `b` one that comes later.
fn one_among_many() -> Problem {
    let mut problem = Problem::on(1).model("a", 1, 8.0, 5.0).model("b", 1, 8.0, 5.0);
    problem.mode = Mode::Online;
    problem = problem.workflow(&[0], &[]).workflow(&[1], &[]);
    for _ in 0..40 {
        problem = problem.request(0, 0.0, &[10.0]);
    }
    problem.request(1, 12.0, &[10.0])
}

#[test]
fn a_deadline_that_presses_goes_before_what_waits_at_the_next_node() {
    let mut problem = one_among_many();
    let without = problem.build();
    problem.builder.scenario.requests[40].deadline = Some(Span::from_seconds(50.0));
    let with = problem.build();
    assert!(end(&without, &run(&without), 40) > 62.0);
    assert!(end(&with, &run(&with), 40) <= 62.0);
    assert_eq!(metrics(&with, &run(&with)).deadline_misses, 0);
}

#[test]
fn a_deadline_that_is_far_away_costs_nobody_anything() {
    let mut problem = one_among_many();
    let without = run(&problem.build());
    problem.builder.scenario.requests[40].deadline = Some(Span::from_seconds(100_000.0));
    let with = run(&problem.build());
    assert_eq!(with.executions, without.executions);
}

#[test]
fn a_deadline_that_cannot_be_kept_does_not_cost_others_theirs() {
    let mut problem = Problem::on(1).model("a", 1, 8.0, 5.0).workflow(&[0], &[]);
    problem.mode = Mode::Online;
    problem = problem.request(0, 0.0, &[20.0]).request(0, 1.0, &[30.0]).request(0, 2.0, &[10.0]);
    problem.builder.scenario.requests[1].deadline = Some(Span::from_seconds(25.0));
    problem.builder.scenario.requests[2].deadline = Some(Span::from_seconds(40.0));
    let instance = problem.build();
    assert!(end(&instance, &run(&instance), 2) <= 42.0);
}

#[test]
fn priority_comes_first_whatever_is_loaded() {
    let mut problem = one_among_many();
    problem.builder.scenario.requests[40].priority = 1;
    let instance = problem.build();
    // One task of `a` (5 s load, 10 s) is under way; then `b` comes over: 3 s, 10 s.
    assert_eq!(end(&instance, &run(&instance), 40), 28.0);
}

/// Three models for two GPUs. One of them is asked for all the time, so that its GPUs never need to give it up.
fn a_model_that_is_always_asked_for(last: u32) -> Problem {
    let mut problem = Problem::on(2);
    problem.mode = Mode::Online;
    for name in ["a", "b", "c", "d"] {
        problem = problem.model(name, 1, 8.0, 5.0);
    }
    for model in 0..4 {
        problem = problem.workflow(&[model], &[]);
    }
    for second in 0..last {
        let at = f64::from(second) * 10.0;
        problem = problem.request(0, at, &[13.0]);
        if second % 20 == 3 {
            problem =
                problem.request(1, at, &[4.0]).request(2, at + 3.0, &[4.0]).request(3, at + 5.0, &[4.0]);
        }
    }
    problem
}

#[rstest]
#[case(60.0)]
#[case(120.0)]
#[case(300.0)]
fn the_bound_on_collating_is_kept_by_turns(#[case] bound: f64) {
    let instance = a_model_that_is_always_asked_for(400).build();
    for &objective in Objective::ALL {
        let params = AdaptiveParams { max_collate_wait: Some(Span::from_seconds(bound)), ..with(objective) };
        let found = longest_wait(&run_with(&instance, &params));
        assert!(found <= bound, "{}: {found} s", objective.name());
    }
}

#[test]
fn a_long_request_is_not_overtaken_for_ever() {
    let mut problem = Problem::on(1).model("a", 1, 8.0, 5.0).workflow(&[0], &[]);
    problem.mode = Mode::Online;
    problem = problem.request(0, 0.0, &[1.0]).request(0, 0.5, &[60.0]);
    for place in 0..2_000 {
        problem = problem.request(0, 1.0 + f64::from(place) * 5.0, &[4.9]);
    }
    let instance = problem.build();
    assert!(end(&instance, &run(&instance), 1) < 5_000.0);
}

#[test]
fn a_batch_is_joined_while_it_runs_and_no_gpu_waits_for_it_to_fill() {
    let mut problem =
        Problem::on(1).model("a", 1, 8.0, 5.0).batching(&[(1, 1.0), (8, 1.0)]).workflow(&[0], &[]);
    problem.mode = Mode::Online;
    for place in 0..8 {
        problem = problem.request(0, f64::from(place), &[20.0]);
    }
    let instance = problem.build();
    let log = run(&instance);
    // The first begins once its model is there; each of the others as it comes, or with the load.
    assert_eq!(log.executions.iter().map(|one| one.end.seconds()).fold(0.0, f64::max), 27.0);
}

#[test]
fn a_backlog_of_a_batching_model_spreads_over_idle_gpus() {
    let mut problem =
        Problem::on(4).model("a", 1, 8.0, 5.0).batching(&[(1, 1.0), (32, 10.0)]).workflow(&[0], &[]);
    for _ in 0..32 {
        problem = problem.request(0, 0.0, &[30.0]);
    }
    let log = run(&problem.build());
    let used: std::collections::BTreeSet<_> = log.executions.iter().map(|one| one.gpus.first).collect();
    assert_eq!(used.len(), 4);
}

#[test]
fn models_that_fit_beside_each_other_are_not_evicted() {
    let mut problem = Problem::on(1).model("a", 1, 20.0, 5.0).model("b", 1, 20.0, 5.0);
    problem.cluster.residency = gswarm_core::instance::Residency::Memory;
    problem.mode = Mode::Online;
    problem = problem.workflow(&[0, 1], &[(0, 1)]);
    for place in 0..20 {
        problem = problem.request(0, f64::from(place) * 3.0, &[2.0, 2.0]);
    }
    let instance = problem.build();
    let found = metrics(&instance, &run(&instance));
    assert_eq!((found.model_switches, found.cold_loads), (0, 2));
}

/// A stream that is long enough for the policy to look ahead many times: chains of two nodes over four models, one of them on
/// two GPUs, on four GPUs.
fn chains(residency: Residency, requests: u32, gap: f64) -> Problem {
    let mut problem =
        Problem::on(4).model("a", 1, 20.0, 6.0).model("b", 1, 20.0, 6.0).model("c", 1, 20.0, 6.0);
    problem = problem.model("wide", 2, 40.0, 8.0);
    problem.mode = Mode::Online;
    problem.cluster.residency = residency;
    problem = problem.workflow(&[0, 1], &[(0, 1)]).workflow(&[2, 3], &[(0, 1)]).workflow(&[1], &[]);
    for place in 0..requests {
        let (workflow, some) = (place * 7 % 3, f64::from(place * 13 % 5));
        let times = if workflow == 2 { vec![2.0 + some] } else { vec![1.0 + some, 3.0 + some] };
        problem = problem.request(workflow, f64::from(place) * gap + some / 3.0, &times);
    }
    problem
}

fn with(objective: Objective) -> AdaptiveParams {
    AdaptiveParams { objective, ..AdaptiveParams::default() }
}

#[rstest]
fn a_stream_that_is_cut_is_run_alike_up_to_the_cut(
    #[values(Residency::Single, Residency::Memory)] residency: Residency,
    #[values(Objective::Mean, Objective::P99, Objective::Balanced)] objective: Objective,
    #[values(40.0, 130.0)] cut: f64,
) {
    let problem = chains(residency, 90, 2.0);
    let mut until = chains(residency, 90, 2.0);
    until.builder.scenario.requests.retain(|one| one.timestamp.unwrap_or(0) as f64 <= cut * 1e6);
    assert!((10..90).contains(&until.builder.scenario.requests.len()));
    let early = |problem: &Problem| {
        let instance = problem.build();
        let log = run_with(&instance, &with(objective));
        let started = log.executions.iter().filter(|one| one.start.seconds() <= cut);
        let mut early: Vec<_> =
            started.map(|one| (one.start, instance.task_name(one.task), one.gpus)).collect();
        early.sort();
        early
    };
    assert_eq!(early(&problem), early(&until));
}

#[rstest]
fn the_same_stream_gives_the_same_log(
    #[values(Residency::Single, Residency::Memory)] residency: Residency,
    #[values(Objective::Mean, Objective::P99, Objective::Balanced)] objective: Objective,
) {
    let instance = chains(residency, 120, 2.0).build();
    assert_eq!(run_with(&instance, &with(objective)), run_with(&instance, &with(objective)));
}

/// Where models share GPUs, one on several GPUs finds its window although others could always use a part of it. Under
/// overload `mean` has long requests wait, which these are.
#[rstest]
fn wide_models_do_not_starve_where_models_share_gpus(
    #[values(Objective::P99, Objective::Balanced)] objective: Objective,
) {
    let instance = chains(Residency::Memory, 200, 1.9).build();
    let log = run_with(&instance, &with(objective));
    let waits = |wide: bool| {
        let of_kind = log.executions.iter().filter(|one| (one.gpus.count > 1) == wide);
        let waits: Vec<f64> = of_kind.map(|one| (one.start - one.ready).seconds()).collect();
        waits.iter().sum::<f64>() / waits.len() as f64
    };
    assert!(waits(true) < 4.0 * waits(false) + 10.0, "wide {}, others {}", waits(true), waits(false));
}

#[test]
fn a_target_is_read_and_comes_before_the_objective() {
    let sixty = LatencyTarget { quantile: Some(0.99), latency: Span::from_seconds(60.0) };
    assert_eq!(LatencyTarget::parse("p99=60s"), Some(sixty));
    assert_eq!(LatencyTarget::parse("p99=1min"), Some(sixty));
    for bad in ["", "p99", "p99=", "p98=60s", "p99=-1", "=60s", "60s"] {
        assert_eq!(LatencyTarget::parse(bad), None, "{bad}");
    }
    let instance = chains(Residency::Single, 200, 3.2).build();
    let p99 = |params: &AdaptiveParams| metrics(&instance, &run_with(&instance, params)).request_latency.p99;
    let (plain, best) = (p99(&with(Objective::Mean)), p99(&with(Objective::P99)));
    let target = Some(LatencyTarget { quantile: Some(0.99), latency: Span::from_seconds(best) });
    let aimed = p99(&AdaptiveParams { target, ..with(Objective::Mean) });
    assert!(aimed < plain, "{aimed} against {plain}; {best} can be had");
}

proptest! {
    /// What happens before a moment does not depend on requests that come after it.
    #[test]
    fn the_future_is_not_looked_at(
        mut problem in problem(), cut in 0.0f64..100.0, factor in 2u64..50, objective in 0usize..3,
    ) {
        problem.mode = Mode::Online;
        // The first arrival is time 0: it must not move.
        let first = problem.builder.scenario.requests.iter().filter_map(|request| request.timestamp).min().unwrap_or(0);
        let params = AdaptiveParams { objective: Objective::ALL[objective], ..AdaptiveParams::default() };
        let cut = Time((cut * 1e6) as u64);
        let before = problem.build();
        for request in &mut problem.builder.scenario.requests {
            if request.timestamp.unwrap_or(0) - first > cut.0 as i64 {
                request.times.iter_mut().flatten().for_each(|time| time.0 *= factor);
                request.priority += 1;
                request.deadline = Some(Span(5_000_000));
            }
        }
        let after = problem.build();
        let early = |instance: &Instance| {
            let log = run_with(instance, &params);
            let mut early: Vec<_> = log.executions.into_iter().filter(|one| one.end <= cut).collect();
            early.sort_by_key(|one| (one.start, one.task));
            early
        };
        prop_assert_eq!(early(&before), early(&after));
    }
}
