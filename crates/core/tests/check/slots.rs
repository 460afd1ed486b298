//! Memory that executions take beside the models.

use crate::support::*;
use gswarm_core::check::ViolationCode as Code;
use gswarm_core::input::Scenario;
use gswarm_core::instance::{Infeasible, Instance, Mode, Residency};
use gswarm_core::log::{ExecutionLog, Load, Status};
use gswarm_core::{Gpus, ModelId};

/// One GPU of 30 GB: a takes 14 GB and 3 GB an execution, so that five run at once; beside b, of 10 GB, two do.
fn slots(residency: Residency) -> (Scenario, Instance) {
    let scenario = Scenario::builder()
        .model("a", 1, 14.0, 30.0)
        .batching(&[(1, 1.0), (8, 1.0)])
        .slot_memory(3.0)
        .model("b", 1, 10.0, 20.0)
        .workflow("one")
        .node("x", "a")
        .workflow("two")
        .node("y", "b")
        .request("r1", "one")
        .times(&[40.0])
        .request("r2", "one")
        .times(&[40.0])
        .request("r3", "one")
        .times(&[10.0])
        .request("r4", "two")
        .times(&[5.0])
        .build()
        .unwrap();
    let mut on = cluster(1, None);
    (on.residency, on.gpu_memory_gb) = (residency, 30.0);
    let instance = Instance::build(&scenario, on, Mode::Offline).unwrap();
    (scenario, instance)
}

/// Three of a, the third for 10 s; then b comes beside the two that go on.
fn shared() -> (Instance, ExecutionLog) {
    let (_, instance) = slots(Residency::Memory);
    let mut executions = vec![
        ran(0, (0, 1), 0.0, 30.0, 30.0, 70.0),
        ran(1, (0, 1), 0.0, 0.0, 30.0, 70.0),
        ran(2, (0, 1), 0.0, 0.0, 30.0, 40.0),
        ran(3, (0, 1), 0.0, 0.0, 70.0, 75.0),
    ];
    [3, 3, 3, 1].iter().zip(&mut executions).for_each(|(&batch, one)| one.batch = batch);
    let ahead = Load {
        model: ModelId(1),
        gpus: Gpus::new(0, 1),
        start: at(40.0),
        end: at(60.0),
        status: Status::Completed,
        evicted: Box::new([]),
    };
    (instance, ExecutionLog { executions, loads: vec![ahead], ..ExecutionLog::default() })
}

pub fn rows() -> Vec<Row> {
    vec![
        ("a load beside too many executions", Code::SlotMemory, |log| {
            log["loads"][0]["start_time"] = 35.0.into();
            log["loads"][0]["end_time"] = 55.0.into();
        }),
        ("an execution beside too many models", Code::SlotMemory, |log| shift(record(log, "r3", "x"), 15.0)),
    ]
}

#[test]
fn every_damage_is_found() {
    let (instance, log) = shared();
    assert_found(&instance, &log, &rows());
}

#[test]
fn memory_limits_the_batch_of_a_model_that_is_alone() {
    for residency in [Residency::Single, Residency::Memory] {
        assert_eq!(slots(residency).1.models[ModelId(0)].max_batch(), 5);
    }
}

#[test]
fn a_model_without_room_for_one_execution_is_refused() {
    let (mut scenario, instance) = slots(Residency::Single);
    scenario.models[0].memory_gb_per_slot = Some(16.5);
    let refused = Instance::build(&scenario, instance.cluster, Mode::Offline).unwrap_err();
    let expected = Infeasible::TooLittleMemory { model: "a".into(), needs_gb: 30.5, has_gb: 30.0 };
    assert_eq!(refused, [expected]);
}
