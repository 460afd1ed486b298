//! A good log with one model a GPU, damaged in every way.

use crate::support::*;
use gswarm_core::check::{self, ViolationCode as Code};
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::log::{ExecutionLog, Load, Status};
use gswarm_core::log_file::LogFile;
use gswarm_core::{Gpus, ModelId, Time};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn rows() -> Vec<Row> {
    vec![
        ("a record without a required field", Code::Field, |log| {
            record(log, "r1", "write").as_object_mut().unwrap().remove("ready_time");
        }),
        ("no summary", Code::Field, |log| {
            log.as_object_mut().unwrap().remove("summary");
        }),
        ("a summary without a required field", Code::Field, |log| {
            log["summary"].as_object_mut().unwrap().remove("makespan");
        }),
        ("a field of the wrong type", Code::Record, |log| {
            record(log, "r1", "write")["start_time"] = "soon".into()
        }),
        ("half a GPU", Code::Record, |log| record(log, "r1", "write")["gpu_ids"] = json!([0.5])),
        ("a record that is a number", Code::Record, |log| log["executions"][0] = 7.into()),
        ("an unknown status", Code::Record, |log| record(log, "r1", "write")["status"] = "perhaps".into()),
        ("a summary field of the wrong type", Code::Record, |log| log["summary"]["makespan"] = "long".into()),
        ("executions that are no list", Code::File, |log| log["executions"] = 7.into()),
        ("a newer schema", Code::Schema, |log| log["schema"] = 2.into()),
        ("an unknown request", Code::Unknown, |log| record(log, "r1", "paint")["request_id"] = "r9".into()),
        ("an unknown node", Code::Unknown, |log| record(log, "r1", "paint")["node_id"] = "draw".into()),
        ("an unknown workflow", Code::Unknown, |log| {
            record(log, "r1", "paint")["workflow_id"] = "bush".into()
        }),
        ("an unknown model", Code::Unknown, |log| record(log, "r1", "paint")["model_name"] = "z".into()),
        ("another workflow", Code::Workflow, |log| record(log, "r1", "paint")["workflow_id"] = "solo".into()),
        ("another model", Code::Model, |log| record(log, "r1", "paint")["model_name"] = "a".into()),
        ("a node dropped", Code::NodeMissing, |log| {
            log["executions"].as_array_mut().unwrap().pop();
        }),
        ("all records dropped", Code::NodeMissing, |log| log["executions"] = json!([])),
        ("a node twice", Code::NodeTwice, |log| {
            let copy = record(log, "r1", "paint").clone();
            log["executions"].as_array_mut().unwrap().push(copy);
        }),
        ("a second attempt after success", Code::NodeTwice, |log| {
            let mut copy = record(log, "r1", "paint").clone();
            shift(&mut copy, 40.0);
            copy["attempt"] = 2.into();
            log["executions"].as_array_mut().unwrap().push(copy);
        }),
        ("a first attempt with number 2", Code::Attempt, |log| {
            record(log, "r1", "paint")["attempt"] = 2.into()
        }),
        ("attempt 0", Code::Attempt, |log| record(log, "r1", "paint")["attempt"] = 0.into()),
        ("lost without a lost GPU", Code::Lost, |log| record(log, "r1", "paint")["status"] = "lost".into()),
        ("a negative time", Code::Time, |log| record(log, "r1", "write")["start_time"] = (-1.0).into()),
        ("a negative length", Code::Time, |log| record(log, "r1", "write")["execution_time"] = (-8.0).into()),
        ("a time past all bounds", Code::Time, |log| record(log, "r1", "write")["end_time"] = 1e300.into()),
        ("a switch from before the run", Code::Time, |log| {
            record(log, "r1", "write")["switch_time"] = 31.0.into()
        }),
        ("an end before the start", Code::TimeSum, |log| record(log, "r2", "join")["end_time"] = 81.0.into()),
        ("end is not start + length", Code::TimeSum, |log| {
            record(log, "r2", "join")["execution_time"] = 5.0.into()
        }),
        ("another arrival", Code::Arrival, |log| record(log, "r2", "write")["arrival_time"] = 0.0.into()),
        ("ready too early", Code::Ready, |log| record(log, "r1", "join")["ready_time"] = 10.0.into()),
        ("ready too late", Code::Ready, |log| record(log, "r1", "join")["ready_time"] = 39.0.into()),
        ("another estimate", Code::Estimate, |log| record(log, "r1", "join")["estimated_time"] = 5.0.into()),
        ("before its input", Code::BeforeInput, |log| shift(record(log, "r1", "paint"), -21.0)),
        ("before its arrival", Code::BeforeArrival, |log| shift(record(log, "r3", "join"), -62.0)),
        ("a GPU too many", Code::GpuUnknown, |log| {
            record(log, "r1", "paint")["gpu_ids"] = json!([4]);
            record(log, "r1", "paint")["gpu_id"] = 4.into();
        }),
        ("a negative GPU", Code::GpuUnknown, |log| record(log, "r1", "paint")["gpu_ids"] = json!([-1])),
        ("only the first of two GPUs", Code::GpuCount, |log| {
            record(log, "r1", "join")["gpu_ids"] = json!([2])
        }),
        ("two GPUs for a model of one", Code::GpuCount, |log| {
            record(log, "r1", "write")["gpu_ids"] = json!([0, 1])
        }),
        ("no GPU", Code::GpuCount, |log| record(log, "r1", "write")["gpu_ids"] = json!([])),
        ("GPUs that are not consecutive", Code::GpuWindow, |log| {
            record(log, "r1", "join")["gpu_ids"] = json!([2, 0])
        }),
        ("GPUs of two servers", Code::GpuWindow, |log| {
            record(log, "r1", "join")["gpu_ids"] = json!([1, 2]);
            record(log, "r1", "join")["gpu_id"] = 1.into();
        }),
        ("gpu_id is not the first", Code::GpuWindow, |log| record(log, "r1", "join")["gpu_id"] = 3.into()),
        ("work after the GPU was lost", Code::GpuLost, |log| {
            log["lost_gpus"] = json!([{"gpu_id": 3, "time": 80.0}]);
        }),
        ("a model where it was not assigned", Code::Assignment, |log| {
            log["summary"]["gpu_assignments"] =
                json!({"0": ["a", "b", "wide"], "1": ["wide"], "2": ["wide"], "3": ["wide"]});
        }),
        ("two at once, same replica", Code::Overlap, |log| shift(record(log, "r2", "write"), -1.0)),
        ("two at once, other models", Code::Overlap, |log| {
            let one = record(log, "r3", "join");
            (one["gpu_ids"], one["gpu_id"]) = (json!([0, 1]), 0.into());
            one["switch_time"] = 0.0.into();
            shift(one, -13.5);
        }),
        ("two at once on the second GPU", Code::Overlap, |log| {
            let one = record(log, "r1", "paint");
            (one["gpu_ids"], one["gpu_id"]) = (json!([3]), 3.into());
            one["switch_time"] = 0.0.into();
            shift(one, 20.5);
        }),
        ("a switch during an execution", Code::SwitchOverlap, |log| shift(record(log, "r2", "paint"), -1.0)),
        ("a switch while others switch", Code::SwitchOverlap, |log| {
            let one = record(log, "r1", "paint");
            (one["gpu_ids"], one["gpu_id"]) = (json!([2]), 2.into());
        }),
        ("a switch left out", Code::SwitchMissing, |log| {
            record(log, "r2", "paint")["switch_time"] = 0.0.into()
        }),
        ("a cold load left out", Code::SwitchMissing, |log| {
            record(log, "r1", "write")["switch_time"] = 0.0.into()
        }),
        ("a switch too short", Code::SwitchShort, |log| {
            record(log, "r2", "paint")["switch_time"] = 3.4.into()
        }),
        ("a cold load too short", Code::SwitchShort, |log| {
            record(log, "r1", "write")["switch_time"] = 3.5.into()
        }),
        ("a switch too long", Code::SwitchLong, |log| {
            record(log, "r3", "join")["switch_time"] = 4.5.into();
            shift(record(log, "r3", "join"), 0.125);
        }),
        ("a switch to the model that is there", Code::SwitchLong, |log| {
            record(log, "r2", "join")["switch_time"] = 2.0.into();
            shift(record(log, "r2", "join"), 2.0);
        }),
        ("an eviction of what is not there", Code::Evicted, |log| {
            record(log, "r2", "paint")["evicted"] = json!(["wide"]);
        }),
        ("another batch size", Code::BatchSize, |log| record(log, "r2", "paint")["batch_size"] = 2.into()),
        ("batch size 0", Code::BatchSize, |log| record(log, "r2", "paint")["batch_size"] = 0.into()),
        ("too little work", Code::WorkLittle, |log| record(log, "r2", "join")["end_time"] = 85.0.into()),
        ("no work", Code::WorkLittle, |log| record(log, "r2", "join")["end_time"] = 82.0.into()),
        ("too much work", Code::WorkMuch, |log| record(log, "r2", "join")["end_time"] = 87.0.into()),
        ("another makespan", Code::SumMakespan, |log| log["summary"]["makespan"] = 85.0.into()),
        ("other requests", Code::SumCounts, |log| log["summary"]["total_requests"] = 4.into()),
        ("fewer completed", Code::SumCounts, |log| log["summary"]["completed_requests"] = 2.into()),
        ("more nodes", Code::SumCounts, |log| log["summary"]["total_nodes_executed"] = 8.into()),
        ("another status", Code::SumCounts, |log| log["summary"]["status"] = "incomplete".into()),
        ("no switches", Code::SumSwitches, |log| log["summary"]["model_switches"] = 0.into()),
        ("other cold loads", Code::SumSwitches, |log| log["summary"]["cold_loads"] = 5.into()),
        ("another switch time", Code::SumSwitches, |log| log["summary"]["total_switch_time"] = 97.0.into()),
        ("another efficiency", Code::SumServers, |log| log["summary"]["server_efficiency"] = 1.0.into()),
        ("other requests on one server", Code::SumServers, |log| {
            log["summary"]["intra_server_workflows"] = 3.into()
        }),
        ("other requests on several", Code::SumServers, |log| {
            log["summary"]["inter_server_workflows"] = 0.into()
        }),
        ("other edges across", Code::SumServers, |log| {
            log["summary"]["cross_server_communications"] = 0.into()
        }),
        ("a bound above the makespan", Code::SumBound, |log| log["summary"]["lower_bound"] = 87.0.into()),
        ("another gap", Code::SumBound, |log| log["summary"]["gap_percent"] = 1.0.into()),
        ("a bound of 0", Code::SumBound, |log| log["summary"]["lower_bound"] = 0.into()),
        ("a negative bound", Code::SumBound, |log| {
            log["summary"]["lower_bound"] = (-5.0).into();
            log["summary"].as_object_mut().unwrap().remove("gap_percent");
        }),
        ("a gap without a bound", Code::SumBound, |log| {
            log["summary"].as_object_mut().unwrap().remove("lower_bound");
        }),
        ("a static run without a deployment", Code::Assignment, |log| {
            log["summary"]["policy"] = "static".into()
        }),
        ("an assignment to a GPU too many", Code::Assignment, |log| {
            assign(log);
            log["summary"]["gpu_assignments"]["4"] = json!([]);
        }),
        ("an assignment of an unknown model", Code::Assignment, |log| {
            assign(log);
            log["summary"]["gpu_assignments"]["0"] = json!(["a", "b", "wide", "z"]);
        }),
        ("no models on servers", Code::Assignment, |log| {
            assign(log);
            log["summary"]["server_assignments"] = json!({});
        }),
        ("other models on servers", Code::Assignment, |log| {
            assign(log);
            log["summary"]["server_assignments"]["1"] = json!(["a"]);
        }),
        ("an explicit load where it was not assigned", Code::Assignment, |log| {
            assign(log);
            log["loads"] = json!([{"model_name": "a", "gpu_ids": [3], "start_time": 86.0, "end_time": 90.0}]);
        }),
        ("no rules", Code::Field, |log| log["summary"]["cluster"] = Value::Null),
        ("empty rules", Code::Field, |log| log["summary"]["cluster"] = json!({})),
        ("no word on servers", Code::Field, |log| {
            log["summary"].as_object_mut().unwrap().remove("gpus_per_server");
        }),
        ("no schema", Code::Schema, |log| {
            log.as_object_mut().unwrap().remove("schema");
        }),
        ("GPUs with a gap", Code::SumCluster, |log| log["summary"]["gpus"] = json!([0, 1, 3])),
        ("a GPU twice in the list", Code::SumCluster, |log| log["summary"]["gpus"] = json!([0, 1, 2, 3, 3])),
        ("no GPUs", Code::Record, |log| log["summary"]["gpus"] = json!([])),
        ("too many GPUs", Code::Record, |log| log["summary"]["gpus"] = 4_294_967_296u64.into()),
        ("servers of no GPU", Code::SumCluster, |log| log["summary"]["gpus_per_server"] = 0.into()),
        ("servers of too many", Code::Record, |log| {
            log["summary"]["gpus_per_server"] = 4_294_967_296u64.into()
        }),
        ("no bandwidth", Code::SumCluster, |log| log["summary"]["cluster"]["pcie_gb_per_s"] = 0.into()),
        ("a GPU twice", Code::GpuCount, |log| record(log, "r1", "join")["gpu_ids"] = json!([2, 2])),
        ("a GPU twice for a model of one", Code::GpuCount, |log| {
            record(log, "r1", "write")["gpu_ids"] = json!([0, 0])
        }),
        ("another mode", Code::SumCluster, |log| log["summary"]["mode"] = "offline".into()),
        ("other servers", Code::SumCluster, |log| log["summary"]["gpus_per_server"] = 4.into()),
        ("another bandwidth", Code::SumCluster, |log| {
            log["summary"]["cluster"]["pcie_gb_per_s"] = 32.0.into()
        }),
        ("another rule", Code::SumCluster, |log| {
            log["summary"]["cluster"]["switch_cost"] = "load_time".into()
        }),
        ("a fault in an explicit load", Code::SwitchLong, |log| {
            log["loads"] =
                json!([{"model_name": "wide", "gpu_ids": [2, 3], "start_time": 86.0, "end_time": 90.0}]);
        }),
        ("an explicit load of nothing known", Code::Unknown, |log| {
            log["loads"] =
                json!([{"model_name": "z", "gpu_ids": [2, 3], "start_time": 86.0, "end_time": 90.0}]);
        }),
        ("an explicit load over work", Code::SwitchOverlap, |log| {
            log["loads"] =
                json!([{"model_name": "wide", "gpu_ids": [2, 3], "start_time": 80.0, "end_time": 90.0}]);
        }),
        ("an explicit load on half its GPUs", Code::GpuCount, |log| {
            log["loads"] =
                json!([{"model_name": "wide", "gpu_ids": [2], "start_time": 86.0, "end_time": 90.0}]);
        }),
    ]
}

/// The deployment that the log keeps to.
fn assign(log: &mut Value) {
    log["summary"]["gpu_assignments"] =
        json!({"0": ["a", "b", "wide"], "1": ["b", "wide"], "2": ["wide"], "3": ["wide"]});
    log["summary"]["server_assignments"] = json!({"0": ["wide", "b", "a"], "1": ["wide"]});
}

#[test]
fn a_static_run_switches_only_where_models_share_gpus() {
    let (instance, log) = simple();
    let mut value = json(&instance, &log);
    value["summary"]["policy"] = "static".into();
    assign(&mut value);
    assert_eq!(check_value(&instance, &value), []);
    // With one model a GPU the same switches cannot be.
    value["summary"]["gpu_assignments"] = json!({"0": ["a"], "1": ["b"], "2": ["wide"], "3": ["wide"]});
    value["summary"]["server_assignments"] = json!({"0": ["a", "b"], "1": ["wide"]});
    let found = check_value(&instance, &value);
    assert!(
        found.iter().any(|one| one.message.ends_with("it has 2 model switches")),
        "{}",
        check::report(&found)
    );
}

#[test]
fn a_gap_that_follows_from_no_bound_is_found() {
    let (instance, log) = simple();
    for bound in [0.0, -1.0] {
        let mut value = json(&instance, &log);
        value["summary"]["lower_bound"] = bound.into();
        let found = check_value(&instance, &value);
        assert_eq!(found.iter().filter(|one| one.code == Code::SumBound).count(), 2);
    }
}

#[test]
fn a_log_without_a_schema_is_said_to_be_one() {
    let note = |text: &str| LogFile::read(text).cluster(&ClusterSpec::default()).1.join(" ");
    let summary = "\"summary\": {\"policy\": \"x\"}, \"executions\": []";
    assert!(note(&format!("{{{summary}}}")).contains("C-SCHEMA: the log has no `schema`"));
    assert!(!note(&format!("{{\"schema\": 1, {summary}}}")).contains("C-SCHEMA"));
}

#[test]
fn a_file_that_is_no_log_gives_one_violation() {
    let (instance, _) = simple();
    let rows = [
        ("", "the file is empty"),
        (" \n\n", "the file is empty"),
        ("\u{0}\u{1}garbage", "a log is JSON or JSON Lines"),
        ("models:\n  a: {}\n", "looks like YAML; a log is JSON or JSON Lines"),
        ("# inputs\nrequests:\n- request_id: r1\n", "looks like YAML"),
        ("[1, 2]", "a log is JSON or JSON Lines"),
        ("{\"models\": {}}", "not an execution log"),
        ("{", "a log is JSON or JSON Lines"),
    ];
    for (text, message) in rows {
        let found = check::check(&instance, &LogFile::read(text));
        assert_eq!(found.len(), 1, "{text:?}: {}", check::report(&found));
        assert_eq!(found[0].code, Code::File);
        assert!(found[0].message.contains(message), "{text:?}: {}", found[0].message);
    }
    let found = check::check(&instance, &LogFile::read_bytes(b"\xff\xfe{\x00"));
    assert_eq!(found.iter().map(|one| one.code).collect::<Vec<_>>(), [Code::File]);
}

#[test]
fn huge_makespans_are_compared_in_microseconds() {
    let (instance, mut log) = simple();
    for micros in [(1u64 << 54) + 1, (1 << 60) + 12_345_677, u64::MAX - 1] {
        log.executions[6].end = Time(micros);
        let summary = summary(&instance, &log);
        let found = check::check_log(&instance, &log, Some(&summary));
        assert!(found.iter().all(|one| one.code != Code::SumMakespan), "{}", check::report(&found));
    }
    log.executions[6].end = Time(8_000_000_000_000_040);
    let mut value = json(&instance, &log);
    value["summary"]["makespan"] = 8e9.into();
    let found = check_value(&instance, &value);
    let message = &found.iter().find(|one| one.code == Code::SumMakespan).unwrap().message;
    assert_eq!(message, "makespan is 8000000000 s, but the records give 8000000000.00004 s");
}

#[test]
fn every_damage_is_found() {
    let (instance, log) = simple();
    assert_found(&instance, &log, &rows());
}

#[test]
fn every_code_has_a_damage_and_is_documented() {
    let others = crate::memory::rows().into_iter().chain(crate::batch::rows()).chain(crate::failures::rows());
    let others = others.chain(crate::slots::rows());
    let others = others.chain(crate::bounds::rows());
    let tried: BTreeSet<Code> = rows().into_iter().chain(others).map(|(_, code, _)| code).collect();
    let docs = include_str!("../../../../docs/checks.md");
    for &code in Code::ALL {
        assert!(tried.contains(&code), "{code} is never provoked");
        assert!(docs.contains(&format!("`{code}`")), "{code} is not in docs/checks.md");
    }
}

#[test]
fn the_order_of_records_means_nothing() {
    let (instance, log) = simple();
    let mut value = json(&instance, &log);
    value["executions"].as_array_mut().unwrap().reverse();
    assert_eq!(check_value(&instance, &value), []);
}

#[test]
fn files_that_are_no_logs_are_reported() {
    let (instance, log) = simple();
    let good = json(&instance, &log).to_string();
    let cut = &good[..good.len() / 2];
    for text in
        ["", "   ", "nonsense", "[]", "7", "null", "{", "{}", "{\"executions\": 3}", "{\"a\": 1}\n{", cut]
    {
        let found = check::check(&instance, &LogFile::read(text));
        assert!(!found.is_empty(), "{text}");
    }
    let found = check::check(&instance, &LogFile::read_bytes(b"{\"executions\": [\n\xff]}"));
    assert_eq!((found[0].code, found[0].place.line), (Code::File, Some(2)));
}

#[test]
fn not_a_number_is_a_time_fault_and_not_the_end_of_the_check() {
    let (instance, log) = simple();
    let good = json(&instance, &log).to_string();
    for value in ["NaN", "Infinity", "-Infinity"] {
        let text = good.replace("\"end_time\":86.0", &format!("\"end_time\":{value}"));
        let found = check::check(&instance, &LogFile::read(&text));
        assert!(found.iter().any(|one| one.code == Code::Time), "{}", check::report(&found));
        assert!(found.iter().all(|one| one.code != Code::File));
    }
}

#[test]
fn measured_lengths_are_not_held_against_the_inputs() {
    let (instance, log) = simple();
    let mut value = json(&instance, &log);
    value["summary"]["timing"] = "measured".into();
    let one = record(&mut value, "r2", "join");
    (one["end_time"], one["execution_time"]) = (86.5.into(), 4.5.into());
    value["summary"]["makespan"] = 86.5.into();
    value["summary"].as_object_mut().unwrap().remove("gap_percent");
    assert_eq!(check_value(&instance, &value), []);
    shift(record(&mut value, "r2", "write"), -2.0);
    assert!(check_value(&instance, &value).iter().any(|one| one.code == Code::Overlap));
}

#[test]
fn logs_of_the_published_programs_can_be_read() {
    let (instance, log) = simple();
    let mut value = json(&instance, &log);
    value.as_object_mut().unwrap().remove("schema");
    for one in value["executions"].as_array_mut().unwrap() {
        let fields = one.as_object_mut().unwrap();
        for field in ["arrival_time", "ready_time", "batch_size", "attempt", "status", "estimated_time"] {
            fields.remove(field);
        }
        if fields["model_name"] != "wide" {
            fields.remove("gpu_ids");
        }
    }
    for field in ["cluster", "status", "timing", "cold_loads", "total_switch_time"] {
        value["summary"].as_object_mut().unwrap().remove(field);
    }
    assert_eq!(check_value(&instance, &value), []);
    // A model of two GPUs that names one of them holds one of them.
    record(&mut value, "r1", "join").as_object_mut().unwrap().remove("gpu_ids");
    assert_eq!(
        check_value(&instance, &value).iter().map(|one| one.code).collect::<Vec<_>>(),
        [Code::GpuCount]
    );
}

#[test]
fn the_report_groups_and_counts() {
    let (instance, log) = simple();
    let mut value = json(&instance, &log);
    value["executions"] = Value::Array(vec![]);
    let found = check_value(&instance, &value);
    let text = check::report(&found);
    assert!(text.contains("C-NODE-MISSING: a node has not run (7)"), "{text}");
    assert!(text.contains("... and 2 more"), "{text}");
    assert_eq!(serde_json::to_value(&found[0]).unwrap()["code"], "C-NODE-MISSING");
    assert_eq!(check::report(&[]), "No violation found.\n");
}

#[test]
fn a_switch_from_a_model_that_executed_nothing_costs_a_cold_load() {
    let scenario = Scenario::builder()
        .model("small", 1, 16.0, 1.0)
        .model("large", 1, 32.0, 50.0)
        .workflow("solo")
        .node("n", "large")
        .request("r", "solo")
        .times(&[10.0])
        .build()
        .unwrap();
    let instance = Instance::build(&scenario, cluster(1, None), Mode::Offline).unwrap();
    let ahead = Load {
        model: ModelId(0),
        gpus: Gpus::new(0, 1),
        start: at(0.0),
        end: at(1.0),
        status: Status::Completed,
        evicted: Box::default(),
    };
    let codes = |switch: f64| -> Vec<Code> {
        let start = 1.0 + switch;
        let executions = vec![ran(0, (0, 1), 0.0, switch, start, start + 10.0)];
        let log = ExecutionLog { executions, loads: vec![ahead.clone()], ..ExecutionLog::default() };
        check::check_log(&instance, &log, None).iter().map(|violation| violation.code).collect()
    };
    // As a plain switch it would be (16 + 32) / 16 + 2 s.
    assert_eq!(codes(5.0), [Code::SwitchShort]);
    assert_eq!(codes(50.0), []);
    assert_eq!(codes(51.0), [Code::SwitchLong]);
}
