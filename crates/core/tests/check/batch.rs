//! Several executions at once on a replica.

use crate::support::*;
use gswarm_core::Span;
use gswarm_core::belief::Estimate;
use gswarm_core::check::ViolationCode as Code;
use gswarm_core::input::Scenario;
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::log::ExecutionLog;
use gswarm_core::report;

/// Work of 10, 7 and 6 s; the third joins 5 s after the others. Two run at 1/1.25, three at 1/1.5.
///
/// From 30 to 35 the first two do 4 s each. Then three run: the second needs 3 x 1.5 = 4.5 s more and ends at 39.5, where
/// the first has done 7 and the third 3; both need 3 x 1.25 = 3.75 s more and end at 43.25.
pub fn joined() -> (Instance, ExecutionLog) {
    let scenario = Scenario::builder()
        .model("m", 1, 14.0, 30.0)
        .batching(&[(1, 1.0), (2, 1.25), (3, 1.5)])
        .workflow("one")
        .node("x", "m")
        .request("r1", "one")
        .arrival(0.0)
        .times(&[10.0])
        .request("r2", "one")
        .arrival(0.0)
        .times(&[7.0])
        .request("r3", "one")
        .arrival(35.0)
        .times(&[6.0])
        .request("r4", "one")
        .arrival(35.0)
        .times(&[1.0])
        .build()
        .unwrap();
    let instance = Instance::build(&scenario, cluster(1, None), Mode::Online).unwrap();
    let mut executions = vec![
        ran(0, (0, 1), 0.0, 30.0, 30.0, 43.25),
        ran(1, (0, 1), 0.0, 0.0, 30.0, 39.5),
        ran(2, (0, 1), 35.0, 0.0, 35.0, 43.25),
        ran(3, (0, 1), 35.0, 0.0, 43.25, 44.25),
    ];
    [2, 2, 3, 1].iter().zip(&mut executions).for_each(|(&batch, one)| one.batch = batch);
    (instance, ExecutionLog { executions, ..ExecutionLog::default() })
}

pub fn rows() -> Vec<Row> {
    vec![
        ("four at once", Code::BatchLimit, |log| shift(record(log, "r4", "x"), -6.0)),
        ("another batch size", Code::BatchSize, |log| record(log, "r3", "x")["batch_size"] = 2.into()),
        ("as fast as alone", Code::WorkLittle, |log| record(log, "r3", "x")["end_time"] = 41.0.into()),
        ("slower than its batch", Code::WorkMuch, |log| record(log, "r1", "x")["end_time"] = 43.3.into()),
        ("a load inside the batch", Code::SwitchOverlap, |log| {
            record(log, "r3", "x")["switch_time"] = 1.0.into()
        }),
    ]
}

#[test]
fn every_damage_is_found() {
    let (instance, log) = joined();
    assert_found(&instance, &log, &rows());
}

#[test]
fn predictions_are_judged_by_executions_that_were_alone() {
    let (mut instance, mut log) = joined();
    let half = |seconds: f64| Span::from_seconds(seconds / 2.0);
    let estimate = Estimate { mean: half(1.0), low: half(0.5), high: half(3.0) };
    instance.believe(|task| (task.index() != 1).then_some(estimate));
    let found = report::metrics(&instance, &log).predictions.unwrap();
    assert_eq!((found.predicted, found.not_predicted, found.learned), (3, 1, None));
    let accuracy = found.predictor.unwrap();
    assert_eq!((accuracy.executions, accuracy.mean_absolute_error), (1, half(1.0)));
    assert_eq!((accuracy.relative_error, accuracy.bias, accuracy.interval_coverage), (0.5, -0.5, 1.0));
    // The last execution of a model says what was learned of it, whoever was beside it.
    log.executions[2].expected = Some(Box::new(Estimate { mean: half(1.5), ..estimate }));
    let learned = report::metrics(&instance, &log).predictions.unwrap();
    assert_eq!((learned.learned, learned.models[0].factor), (None, 1.5));
}

#[test]
fn busy_time_counts_the_batch_once() {
    let (instance, log) = joined();
    let metrics = report::metrics(&instance, &log);
    assert_eq!(metrics.gpus[0].busy, at(44.25).since(at(0.0)));
    assert_eq!(metrics.gpus[0].compute, at(14.25).since(at(0.0)));
    assert_eq!((metrics.cold_loads, metrics.total_switch_time), (1, at(30.0).since(at(0.0))));
}

#[test]
fn rounding_at_each_change_is_forgiven_and_more_is_not() {
    let (instance, mut log) = joined();
    log.executions[1].end.0 += 2;
    assert_eq!(gswarm_core::check::check_log(&instance, &log, None), []);
    log.executions[1].end.0 += 20;
    assert!(!gswarm_core::check::check_log(&instance, &log, None).is_empty());
}
