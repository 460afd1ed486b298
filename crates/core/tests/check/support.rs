//! Instances and logs built by hand.

use gswarm_core::check::{self, Violation, ViolationCode};
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::log::{Execution, ExecutionLog, Status};
use gswarm_core::log_file::{LogFile, Summary, write_json};
use gswarm_core::report::{self, RunInfo};
use gswarm_core::{Gpus, Span, TaskId, Time};
use serde_json::Value;

pub fn cluster(gpus: u32, per_server: Option<u32>) -> Cluster {
    let spec = ClusterSpec { gpus: Some(gpus), gpus_per_server: per_server, ..ClusterSpec::default() };
    Cluster::from_spec(&spec).unwrap()
}

/// Seconds.
pub fn at(seconds: f64) -> Time {
    Time((seconds * 1e6).round() as u64)
}

/// A completed first attempt alone on its GPUs: (task, first GPU, GPUs, ready, switch, start, end).
pub fn ran(task: u32, gpus: (u32, u32), ready: f64, switch: f64, start: f64, end: f64) -> Execution {
    Execution {
        task: TaskId(task),
        gpus: Gpus::new(gpus.0, gpus.1),
        attempt: 1,
        batch: 1,
        status: Status::Completed,
        ready: at(ready),
        switch: Span::from_seconds(switch),
        start: at(start),
        end: at(end),
        evicted: Box::new([]),
        expected: None,
    }
}

/// Three requests on four GPUs in two servers, one model a GPU. Two run write -> paint and write -> join, one only join.
pub fn simple() -> (Instance, ExecutionLog) {
    let scenario = Scenario::builder()
        .model("a", 1, 14.0, 30.0)
        .model("b", 1, 10.0, 20.0)
        .model("wide", 2, 28.0, 40.0)
        .workflow("tree")
        .node("write", "a")
        .node("paint", "b")
        .node("join", "wide")
        .edge("write", "paint")
        .edge("write", "join")
        .workflow("solo")
        .node("join", "wide")
        .request("r1", "tree")
        .arrival(100.0)
        .times(&[8.0, 3.0, 4.0])
        .request("r2", "tree")
        .arrival(105.0)
        .times(&[8.0, 3.0, 4.0])
        .request("r3", "solo")
        .arrival(105.0)
        .times(&[4.0])
        .build()
        .unwrap();
    let instance = Instance::build(&scenario, cluster(4, Some(2)), Mode::Online).unwrap();
    let executions = vec![
        ran(0, (0, 1), 0.0, 30.0, 30.0, 38.0),
        ran(3, (0, 1), 5.0, 0.0, 38.0, 46.0),
        // a (14 GB) is replaced by b (10 GB): 24 / 16 + 2.
        ran(4, (0, 1), 46.0, 3.5, 49.5, 52.5),
        ran(1, (1, 1), 38.0, 20.0, 58.0, 61.0),
        // b on both GPUs is replaced by wide (28 GB): 38 / 16 + 2.
        ran(6, (0, 2), 5.0, 4.375, 65.375, 69.375),
        ran(2, (2, 2), 38.0, 40.0, 78.0, 82.0),
        ran(5, (2, 2), 46.0, 0.0, 82.0, 86.0),
    ];
    (instance, ExecutionLog { executions, ..ExecutionLog::default() })
}

pub fn summary(instance: &Instance, log: &ExecutionLog) -> Summary {
    let metrics = report::metrics(instance, log);
    let info = RunInfo {
        policy: "by hand".into(),
        simulate: true,
        lower_bound: Some(Span::from_seconds(metrics.makespan.seconds() * 0.8)),
        ..RunInfo::default()
    };
    report::summary(instance, &metrics, info)
}

pub fn json(instance: &Instance, log: &ExecutionLog) -> Value {
    let mut bytes = Vec::new();
    write_json(instance, log, &summary(instance, log), &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

pub fn check_value(instance: &Instance, log: &Value) -> Vec<Violation> {
    check::check(instance, &LogFile::read(&log.to_string()))
}

/// The log is good, both in memory and through a file.
pub fn assert_valid(instance: &Instance, log: &ExecutionLog) {
    let found = check::check_log(instance, log, Some(&summary(instance, log)));
    assert!(found.is_empty(), "{}", check::report(&found));
    let found = check_value(instance, &json(instance, log));
    assert!(found.is_empty(), "{}", check::report(&found));
}

/// What was done to a log, the code that must be found, and how.
pub type Row = (&'static str, ViolationCode, fn(&mut Value));

pub fn assert_found(instance: &Instance, log: &ExecutionLog, rows: &[Row]) {
    assert_valid(instance, log);
    for (what, code, damage) in rows {
        let mut value = json(instance, log);
        damage(&mut value);
        let found = check_value(instance, &value);
        assert!(found.iter().any(|one| one.code == *code), "{what}: no {code} in {}", check::report(&found));
    }
}

/// The record of an execution, by request and node.
pub fn record<'v>(log: &'v mut Value, request: &str, node: &str) -> &'v mut Value {
    let all = log["executions"].as_array_mut().unwrap();
    all.iter_mut().find(|one| one["request_id"] == request && one["node_id"] == node).unwrap()
}

/// Moves an execution in time, keeping its length.
pub fn shift(record: &mut Value, by: f64) {
    for field in ["start_time", "end_time"] {
        record[field] = (record[field].as_f64().unwrap() + by).into();
    }
}
