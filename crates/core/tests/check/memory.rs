//! Several models on a GPU.

use crate::support::*;
use gswarm_core::check::ViolationCode as Code;
use gswarm_core::input::Scenario;
use gswarm_core::instance::{Instance, Mode, Residency};
use gswarm_core::log::{ExecutionLog, Load, Status, Unload};
use gswarm_core::{GpuId, Gpus, ModelId};
use serde_json::json;

/// One GPU of 30 GB. a (14 GB) and b (10 GB) fit together; c (12 GB) needs b's place.
fn two_fit() -> (Instance, ExecutionLog) {
    let scenario = Scenario::builder()
        .model("a", 1, 14.0, 30.0)
        .model("b", 1, 10.0, 20.0)
        .model("c", 1, 12.0, 25.0)
        .workflow("one")
        .node("x", "a")
        .workflow("two")
        .node("y", "b")
        .node("z", "c")
        .edge("y", "z")
        .request("r1", "one")
        .times(&[40.0])
        .request("r2", "two")
        .times(&[5.0, 6.0])
        .request("r3", "one")
        .times(&[2.0])
        .build()
        .unwrap();
    let mut on = cluster(1, None);
    (on.residency, on.gpu_memory_gb) = (Residency::Memory, 30.0);
    let instance = Instance::build(&scenario, on, Mode::Offline).unwrap();
    let mut replaces = ran(2, (0, 1), 75.0, 3.375, 78.375, 84.375);
    // b (10 GB) leaves for c (12 GB): 22 / 16 + 2.
    replaces.evicted = Box::new([ModelId(1)]);
    let executions = vec![
        ran(0, (0, 1), 0.0, 30.0, 30.0, 70.0),
        ran(1, (0, 1), 0.0, 0.0, 70.0, 75.0),
        replaces,
        ran(3, (0, 1), 0.0, 0.0, 84.375, 86.375),
    ];
    // b comes while a executes.
    let ahead = Load {
        model: ModelId(1),
        gpus: Gpus::new(0, 1),
        start: at(40.0),
        end: at(60.0),
        status: Status::Completed,
        evicted: Box::new([]),
    };
    // Nobody wants them any more: c once its node has run, a at the end.
    let left = |model, at| Unload { model: ModelId(model), gpu: GpuId(0), at };
    let unloads = vec![left(2, at(85.0)), left(0, at(86.375))];
    (instance, ExecutionLog { executions, loads: vec![ahead], unloads, ..ExecutionLog::default() })
}

pub fn rows() -> Vec<Row> {
    vec![
        ("b and c and a together", Code::Memory, |log| {
            let one = record(log, "r2", "z");
            one.as_object_mut().unwrap().remove("evicted");
            one["switch_time"] = 25.0.into();
            shift(one, 21.625);
            shift(record(log, "r3", "x"), 21.625);
        }),
        ("an eviction of what is not there", Code::Evicted, |log| log["loads"][0]["evicted"] = json!(["c"])),
        ("an eviction of itself", Code::Evicted, |log| record(log, "r2", "z")["evicted"] = json!(["b", "c"])),
        ("an eviction of what executes", Code::SwitchOverlap, |log| {
            log["loads"][0]["evicted"] = json!(["a"])
        }),
        ("a load of what executes", Code::SwitchOverlap, |log| log["loads"][0]["model_name"] = "a".into()),
        ("loads at once", Code::SwitchOverlap, |log| {
            log["loads"][0]["start_time"] = 20.0.into();
            log["loads"][0]["end_time"] = 40.0.into();
        }),
        ("an execution while its model is loading", Code::SwitchMissing, |log| {
            log["loads"][0]["start_time"] = 55.0.into();
            log["loads"][0]["end_time"] = 75.0.into();
        }),
        ("two models execute at once", Code::Overlap, |log| shift(record(log, "r2", "y"), -5.0)),
        ("a load for an execution while another runs", Code::SwitchOverlap, |log| {
            let load = log["loads"].as_array_mut().unwrap().pop();
            assert!(load.is_some());
            record(log, "r2", "y")["switch_time"] = 20.0.into();
        }),
        ("an evicted model executes", Code::SwitchMissing, |log| {
            record(log, "r2", "z")["evicted"] = json!(["b", "a"])
        }),
        ("a load cheaper than its evictions", Code::SwitchShort, |log| {
            record(log, "r2", "z")["evicted"] = json!(["b", "a"]);
        }),
        ("an eviction is a switch", Code::SumSwitches, |log| {
            log["summary"]["model_switches"] = 0.into();
            log["summary"]["cold_loads"] = 3.into();
        }),
        ("a load ends before it starts", Code::TimeSum, |log| log["loads"][0]["end_time"] = 30.0.into()),
        ("an unload of what has left", Code::Unload, |log| log["unloads"][0]["model_name"] = "b".into()),
        ("an unload under an execution", Code::Unload, |log| log["unloads"][1]["time"] = 85.0.into()),
        ("an unload under a load", Code::Unload, |log| log["unloads"][0]["time"] = 76.0.into()),
        ("an unloaded model executes", Code::SwitchMissing, |log| log["unloads"][1]["time"] = 72.0.into()),
        ("an unload from an unknown GPU", Code::GpuUnknown, |log| log["unloads"][0]["gpu_id"] = 9.into()),
        ("an unload of an unknown model", Code::Unknown, |log| log["unloads"][0]["model_name"] = "z".into()),
        ("an unload at no time", Code::Time, |log| log["unloads"][0]["time"] = (-1.0).into()),
        ("a load without a model", Code::Field, |log| {
            log["loads"][0].as_object_mut().unwrap().remove("model_name");
        }),
    ]
}

#[test]
fn every_damage_is_found() {
    let (instance, log) = two_fit();
    assert_found(&instance, &log, &rows());
}
