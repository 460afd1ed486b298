//! How far predictions are off: of a run itself nothing, of shifted runs what they were shifted by; and a run made again at
//! the same costs is the same run.

use crate::properties::problem;
use crate::support::{Problem, makespan, run_all};
use gswarm_core::check::check_log;
use gswarm_core::cost::SwitchRule;
use gswarm_core::fidelity::{Compared, fidelity, replay};
use gswarm_core::log::{ExecutionLog, Status};
use gswarm_core::policy::PolicyKind;
use gswarm_core::{Span, Time};
use proptest::prelude::*;

fn two_requests() -> Problem {
    Problem::on(1)
        .model("chat", 1, 14.0, 10.0)
        .model("paint", 1, 8.0, 6.0)
        .workflow(&[0, 1], &[(0, 1)])
        .request(0, 0.0, &[4.0, 2.0])
        .request(0, 0.0, &[8.0, 2.0])
}

#[test]
fn a_run_is_what_it_is() {
    let instance = two_requests().build();
    let log = run_all(&instance, PolicyKind::Lru);
    let found = fidelity(&instance, &log, &log, 3);
    let nothing = |of: &Compared| of.error_percent == Some(0.0) && of.predicted == of.measured;
    assert!(nothing(&found.makespan) && nothing(&found.switch_time) && nothing(&found.median_latency));
    for errors in [found.requests, found.nodes] {
        assert_eq!((errors.median, errors.p90, errors.worst, errors.mean_signed), (0.0, 0.0, 0.0, 0.0));
    }
    assert_eq!((found.requests.count, found.nodes.count, found.loads.0), (2, 4, found.loads.1));
    assert!(found.models.iter().all(|one| nothing(&one.executing) && nothing(&one.load)));
}

/// Every execution and every load of the log in a run that takes `slower` percent more for all of them.
fn stretched(log: &ExecutionLog, percent: u64) -> ExecutionLog {
    let mut log = log.clone();
    let time = |at: Time| Time(at.0 * (100 + percent) / 100);
    for one in &mut log.executions {
        (one.ready, one.start, one.end) = (time(one.ready), time(one.start), time(one.end));
        one.switch = Span(one.switch.0 * (100 + percent) / 100);
    }
    for one in &mut log.loads {
        (one.start, one.end) = (time(one.start), time(one.end));
    }
    log
}

#[test]
fn known_shifts_give_known_errors() {
    let instance = two_requests().build();
    let measured = run_all(&instance, PolicyKind::Lru);
    let found = fidelity(&instance, &stretched(&measured, 25), &measured, 3);
    let is = |of: &Compared, percent: f64| (of.error_percent.unwrap() - percent).abs() < 1e-9;
    assert!(is(&found.makespan, 25.0) && is(&found.switch_time, 25.0) && is(&found.median_latency, 25.0));
    assert_eq!((found.requests.median, found.nodes.median, found.nodes.mean_signed), (25.0, 25.0, 25.0));
    // The other way about the share is of what was measured.
    let found = fidelity(&instance, &measured, &stretched(&measured, 25), 3);
    assert!(is(&found.makespan, -20.0) && is(&found.models[0].load, -20.0), "{found:?}");
    assert_eq!((found.requests.worst, found.requests.mean_signed), (20.0, -20.0));

    // One node of four that takes a second less was predicted 1 s too long; the names say which.
    let mut other = measured.clone();
    let last = other.executions.iter_mut().max_by_key(|one| one.end).unwrap();
    last.end = Time(last.end.0 - 1_000_000);
    let (task, took) = (last.task, (last.end - last.start).seconds());
    let found = fidelity(&instance, &measured, &other, 1);
    assert_eq!(found.worst_nodes[0].name, instance.task_name(task));
    assert!(is(&found.worst_nodes[0].seconds, 100.0 / took));
    assert_eq!(found.nodes.median, 0.0, "three of four are as they were");
    assert_eq!(found.requests.worst, found.worst_requests[0].seconds.error_percent.unwrap());
}

#[test]
fn a_run_that_was_not_completed_is_not_replayed() {
    let instance = two_requests().build();
    let mut log = run_all(&instance, PolicyKind::Lru);
    log.executions[3].status = Status::Failed;
    assert_eq!(replay(&instance, &log).unwrap(), None);
}

/// What leaves takes its time, and only under this rule.
#[test]
fn a_measured_switch_is_the_load_and_what_leaving_takes() {
    let mut problem = Problem::on(1)
        .model("a", 1, 14.0, 3.0)
        .unload(0.25)
        .model("b", 1, 8.0, 5.0)
        .unload(1.5)
        .workflow(&[0, 1, 0], &[(0, 1), (1, 2)])
        .request(0, 0.0, &[1.0, 1.0, 1.0]);
    problem.cluster.switch.rule = SwitchRule::Measured;
    let log = run_all(&problem.build(), PolicyKind::Baseline);
    let switches: Vec<f64> = log.executions.iter().map(|one| one.switch.seconds()).collect();
    assert_eq!(switches, [3.0, 5.25, 4.5]);
    assert_eq!(makespan(&log).seconds(), 15.75);
}

proptest! {
    /// With batching and without, with one model on a GPU and with several. Policies that wait for moments of their own choice
    /// are left out: nothing in a log tells of those.
    #[test]
    fn a_run_made_again_at_the_same_costs_is_the_same(problem in problem()) {
        let own_time = |kind: &&PolicyKind| matches!(kind, PolicyKind::Planned | PolicyKind::Adaptive);
        let kinds = PolicyKind::ALL.iter().filter(|kind| kind.supports(problem.mode));
        for &kind in kinds.filter(|kind| !own_time(kind)) {
            let instance = problem.build_for(kind);
            let log = run_all(&instance, kind);
            let again = replay(&instance, &log);
            let again = again.map_err(|error| TestCaseError::fail(format!("{}: {error}", kind.name())))?.unwrap();
            prop_assert_eq!(check_log(&instance, &again, None), vec![], "{}", kind.name());
            let found = fidelity(&instance, &again, &log, 1);
            prop_assert_eq!(found.makespan.error_percent.unwrap_or(0.0), 0.0, "{}", kind.name());
            prop_assert_eq!(found.requests.worst, 0.0, "{}: {:?}", kind.name(), found.worst_requests);
            prop_assert_eq!(found.nodes.worst, 0.0, "{}: {:?}", kind.name(), found.worst_nodes);
        }
    }
}
