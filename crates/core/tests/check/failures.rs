//! Failed attempts and lost GPUs.

use crate::support::*;
use gswarm_core::check::{self, ViolationCode as Code};
use gswarm_core::input::Scenario;
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::log::{Execution, ExecutionLog, Loss, Status};
use gswarm_core::{GpuId, report};
use serde_json::json;

fn again(mut one: Execution, attempt: u32, status: Status) -> Execution {
    (one.attempt, one.status) = (attempt, status);
    one
}

/// r1 fails once and then completes; r2 fails for good, so its second node never runs; r3 loses GPU 2 while executing on
/// [2, 3], then GPU 4 while loading on [4, 5], and completes on [0, 1].
fn failing() -> (Instance, ExecutionLog) {
    let scenario = Scenario::builder()
        .model("a", 1, 14.0, 30.0)
        .model("wide", 2, 28.0, 40.0)
        .workflow("chain")
        .node("x", "a")
        .node("y", "a")
        .edge("x", "y")
        .workflow("solo")
        .node("w", "wide")
        .request("r1", "chain")
        .times(&[8.0, 2.0])
        .request("r2", "chain")
        .times(&[8.0, 2.0])
        .request("r3", "solo")
        .times(&[5.0])
        .build()
        .unwrap();
    let instance = Instance::build(&scenario, cluster(6, None), Mode::Offline).unwrap();
    let executions = vec![
        again(ran(0, (0, 1), 0.0, 30.0, 30.0, 33.0), 1, Status::Failed),
        again(ran(0, (0, 1), 34.0, 0.0, 34.0, 42.0), 2, Status::Completed),
        ran(1, (0, 1), 42.0, 0.0, 42.0, 44.0),
        again(ran(2, (1, 1), 0.0, 30.0, 30.0, 38.0), 1, Status::Failed),
        again(ran(4, (2, 2), 0.0, 40.0, 40.0, 41.0), 1, Status::Lost),
        // Cut short after 9 of 40 seconds.
        again(ran(4, (4, 2), 41.0, 9.0, 50.0, 50.0), 2, Status::Lost),
        // a leaves both GPUs: 42 / 16 + 2.
        again(ran(4, (0, 2), 50.0, 4.625, 54.625, 59.625), 3, Status::Completed),
    ];
    let losses = vec![
        Loss { gpu: GpuId(2), at: at(41.0), until: None },
        Loss { gpu: GpuId(4), at: at(50.0), until: None },
    ];
    (instance, ExecutionLog { executions, losses, ..ExecutionLog::default() })
}

fn attempt<'v>(log: &'v mut serde_json::Value, request: &str, attempt: u64) -> &'v mut serde_json::Value {
    let all = log["executions"].as_array_mut().unwrap();
    all.iter_mut().find(|one| one["request_id"] == request && one["attempt"] == attempt).unwrap()
}

pub fn rows() -> Vec<Row> {
    vec![
        ("an attempt left out", Code::Attempt, |log| attempt(log, "r1", 2)["attempt"] = 3.into()),
        ("an attempt before the last ended", Code::Attempt, |log| shift(attempt(log, "r1", 2), -2.0)),
        ("ready before the last ended", Code::Ready, |log| attempt(log, "r1", 2)["ready_time"] = 30.0.into()),
        ("no attempt after a loss", Code::NodeMissing, |log| {
            log["executions"].as_array_mut().unwrap().pop();
        }),
        ("a failed attempt that did too much", Code::WorkMuch, |log| {
            attempt(log, "r2", 1)["end_time"] = 39.0.into();
            attempt(log, "r2", 1)["execution_time"] = 9.0.into();
        }),
        ("a node after its input failed", Code::BeforeInput, |log| {
            let mut copy = record(log, "r1", "y").clone();
            copy["request_id"] = "r2".into();
            shift(&mut copy, 2.0);
            log["executions"].as_array_mut().unwrap().push(copy);
        }),
        ("lost on other GPUs", Code::Lost, |log| {
            let one = attempt(log, "r3", 1);
            (one["gpu_ids"], one["gpu_id"]) = (json!([3, 4]), 3.into());
        }),
        ("lost at another time", Code::Lost, |log| log["lost_gpus"][0]["time"] = 45.0.into()),
        ("work goes on on a lost GPU", Code::GpuLost, |log| log["lost_gpus"][0]["time"] = 40.5.into()),
        ("an unknown GPU was lost", Code::GpuUnknown, |log| log["lost_gpus"][0]["gpu_id"] = 9.into()),
        ("lost at no time", Code::Time, |log| log["lost_gpus"][0]["time"] = (-1.0).into()),
        ("a partial load longer than a whole one", Code::SwitchLong, |log| {
            attempt(log, "r3", 2)["switch_time"] = 49.0.into();
        }),
        ("a failed request counted as completed", Code::SumCounts, |log| {
            log["summary"]["completed_requests"] = 3.into();
        }),
        ("said to be complete", Code::SumCounts, |log| log["summary"]["status"] = "completed".into()),
    ]
}

#[test]
fn every_damage_is_found() {
    let (instance, log) = failing();
    assert_found(&instance, &log, &rows());
}

#[test]
fn a_load_cut_short_leaves_its_gpus_empty() {
    let (instance, log) = failing();
    let mut value = json(&instance, &log);
    // GPU 5 was in the window of the load that GPU 4's loss cut short: a starts there only after a cold load.
    let one = record(&mut value, "r1", "y");
    (one["gpu_ids"], one["gpu_id"]) = (json!([5]), 5.into());
    one["switch_time"] = 30.0.into();
    shift(one, 38.0);
    for (field, number) in [("makespan", 82.0), ("total_switch_time", 143.625), ("gap_percent", 71.9078)] {
        value["summary"][field] = number.into();
    }
    value["summary"]["cold_loads"] = 5.into();
    let found = check_value(&instance, &value);
    assert!(found.is_empty(), "{}", check::report(&found));
}

#[test]
fn failures_are_counted() {
    let (instance, log) = failing();
    let metrics = report::metrics(&instance, &log);
    assert_eq!((metrics.completed_requests, metrics.failed_requests, metrics.completed_nodes), (2, 1, 3));
    assert_eq!(
        (metrics.retries, metrics.failed_executions, metrics.lost_executions, metrics.lost_gpus),
        (3, 2, 2, 2)
    );
    assert_eq!((metrics.model_switches, metrics.cold_loads), (1, 4));
    assert_eq!(metrics.total_switch_time, at(113.625).since(at(0.0)));
}
