//! The rules over records that come one after the other: none is broken by a run that keeps them, and each damage is found.

use crate::support::*;
use gswarm_core::Time;
use gswarm_core::check::{StreamCheck, ViolationCode as Code};
use gswarm_core::log::{Execution, ExecutionLog, Status};

/// What is found when the records come in pieces of `size`, by their ends.
fn found(log: &ExecutionLog, size: usize) -> Vec<Code> {
    let (instance, _) = simple();
    let (mut rules, mut found) = (StreamCheck::default(), Vec::new());
    let mut executions = log.executions.clone();
    executions.sort_by_key(|one| one.end);
    for piece in executions.chunks(size) {
        let piece = ExecutionLog { executions: piece.to_vec(), ..ExecutionLog::default() };
        found.extend(rules.check(&instance, &piece).into_iter().map(|one| one.code));
    }
    found
}

#[test]
fn a_run_that_keeps_the_rules_breaks_none() {
    let (_, log) = simple();
    for size in [1, 2, 3, 100] {
        assert_eq!(found(&log, size), [], "{size}");
    }
}

#[test]
fn every_damage_is_found() {
    type Damage = fn(&mut Vec<Execution>);
    let cases: [(Code, Damage); 8] = [
        (Code::TimeSum, |all| all[0].ready = Time(all[0].start.0 + 1_000_000)),
        (Code::WorkLittle, |all| all[6].start = all[6].end),
        (Code::BatchLimit, |all| all[0].batch = 2),
        (Code::Attempt, |all| all[0].attempt = 2),
        (Code::NodeTwice, |all| {
            let (again, by) = (all[6].clone(), 50_000_000);
            let at = |time: Time| Time(time.0 + by);
            let attempt = again.attempt + 1;
            all.push(Execution {
                start: at(again.start),
                end: at(again.end),
                attempt,
                switch: Default::default(),
                ..again
            });
        }),
        (Code::GpuUnknown, |all| all[6].gpus = gswarm_core::Gpus::new(7, 2)),
        (Code::GpuCount, |all| all[0].gpus = gswarm_core::Gpus::new(0, 2)),
        // Long before another replica is done there.
        (Code::Overlap, |all| {
            let last = all.iter_mut().filter(|one| one.status == Status::Completed && one.gpus.first.0 == 0);
            let last = last.max_by_key(|one| one.end).unwrap();
            last.switch = gswarm_core::Span(last.start.0);
        }),
    ];
    for (code, damage) in cases {
        let (_, mut log) = simple();
        damage(&mut log.executions);
        for size in [1, 100] {
            let codes = found(&log, size);
            assert!(codes.contains(&code), "{code}: {codes:?}");
        }
    }
}

#[test]
fn what_is_forgotten_may_come_again() {
    let (instance, log) = simple();
    let mut rules = StreamCheck::default();
    assert_eq!(rules.check(&instance, &log), []);
    rules.forget(instance.task_ids());
    let later = log.executions.iter().map(|one| {
        let at = |time: Time| Time(time.0 + 1_000_000_000);
        Execution { ready: at(one.ready), start: at(one.start), end: at(one.end), ..one.clone() }
    });
    let later = ExecutionLog { executions: later.collect(), ..ExecutionLog::default() };
    assert_eq!(rules.check(&instance, &later), []);
    let codes: Vec<Code> = rules.check(&instance, &log).into_iter().map(|one| one.code).collect();
    assert!(codes.contains(&Code::NodeTwice), "{codes:?}");
}
