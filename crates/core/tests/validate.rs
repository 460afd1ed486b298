//! A scenario in memory is held to the same rules as files: what is wrong with it is found by `validate`, and by the reader once it
//! is written.

use gswarm_core::cost::SwitchRule;
use gswarm_core::generate::{Format, write_config, write_scenario_requests};
use gswarm_core::input::{
    BatchingSpec, Code, Diagnostic, Lacking, Scenario, Source, read_lacking, read_scenario,
};
use gswarm_core::instance::{Cluster, Infeasible, Instance, Mode};
use gswarm_core::{ModelId, Span, WorkflowId};
use serde_json::json;

fn good() -> Scenario {
    Scenario::builder()
        .gpus(4)
        .model("llm", 1, 16.0, 8.0)
        .run_time(2.0)
        .batching(&[(1, 1.0), (8, 2.5)])
        .unload_time(1.0)
        .model("painter", 2, 24.0, 12.0)
        .tokens(100.0, 50.0)
        .unload_time(0.0)
        .workflow("poster")
        .node("write", "llm")
        .node("paint", "painter")
        .node("check", "llm")
        .edge("write", "paint")
        .edge("paint", "check")
        .request("r1", "poster")
        .arrival(0.0)
        .time("paint", 30.0)
        .priority(2)
        .deadline(90.0)
        .input("topic", "bears")
        .options("write", json!({"max_tokens": 5}).as_object().unwrap().clone())
        .request("r2", "poster")
        .arrival(1.5)
        .build()
        .unwrap()
}

fn places(found: &[Diagnostic]) -> Vec<(Code, &str)> {
    let mut places: Vec<_> = found.iter().map(|one| (one.code, one.path.as_str())).collect();
    places.sort_unstable();
    places
}

/// What is done to a scenario, and what is found then.
type Row = (fn(&mut Scenario), Code, &'static str);

#[test]
fn what_is_wrong_in_memory_is_wrong_in_files() {
    let rows: [Row; 20] = [
        (|s| s.models[0].memory_gb = -1.0, Code::NotPositive, "models.llm.memory_gb"),
        (|s| s.models[1].gpus_required = 0, Code::NotPositive, "models.painter.gpus_required"),
        (|s| s.models[0].load_time_seconds = 1e12, Code::TooLarge, "models.llm.load_time_seconds"),
        (|s| s.models[0].unload_time_seconds = Some(-0.5), Code::Negative, "models.llm.unload_time_seconds"),
        (|s| s.models[1].tokens_per_second = Some(1e-9), Code::TooLarge, "models.painter.tokens_per_second"),
        (
            |s| s.models[0].batching = Some(BatchingSpec::new(4, vec![])),
            Code::Batching,
            "models.llm.batching.slowdown",
        ),
        (
            |s| s.models[0].batching = Some(BatchingSpec::new(4, vec![(2, 1.5), (4, 1.2)])),
            Code::Batching,
            "models.llm.batching.slowdown[2]",
        ),
        (
            |s| s.models[0].batching = Some(BatchingSpec::new(1 << 20, vec![(2, 1.5)])),
            Code::TooLarge,
            "models.llm.batching.max_batch",
        ),
        (|s| s.models[1].id = "llm".into(), Code::Duplicate, "models.llm"),
        (|s| s.workflows[0].nodes[2].id = "write".into(), Code::Duplicate, "workflows.poster.nodes[2].id"),
        (|s| s.workflows[0].nodes[0].id.clear(), Code::BadId, "workflows.poster.nodes[0].id"),
        (|s| s.workflows[0].edges.push((2, 0)), Code::Cycle, "workflows.poster.edges[2]"),
        (|s| s.workflows[0].edges.push((1, 1)), Code::SelfEdge, "workflows.poster.edges[2]"),
        (|s| s.cluster.gpus = Some(0), Code::NotPositive, "cluster.gpus"),
        (|s| s.cluster.pcie_gb_per_s = Some(1e-9), Code::TooLarge, "cluster.pcie_gb_per_s"),
        (
            |s| s.cluster.switch_overhead_seconds = Some(-1.0),
            Code::Negative,
            "cluster.switch_overhead_seconds",
        ),
        (|s| s.requests[1].id = "r1".into(), Code::Duplicate, "requests[1].request_id"),
        (|s| s.requests[1].timestamp = None, Code::NoTimestamp, "requests[1].timestamp"),
        (
            |s| s.requests[1].node_configs.extend([("wrte".into(), json!({}))]),
            Code::UnknownNode,
            "requests[1].node_configs.wrte",
        ),
        (|s| s.models[0].inference_time_mean = None, Code::NoTime, "workflows.poster.nodes[0].model"),
    ];
    for (damage, code, path) in rows {
        let mut scenario = good();
        assert_eq!(scenario.validate_for(Mode::Online, Lacking::Nothing), []);
        damage(&mut scenario);
        let found = scenario.validate_for(Mode::Online, Lacking::Nothing);
        assert!(places(&found).contains(&(code, path)), "{found:?}");
        let (mut config, mut requests) = (Vec::new(), Vec::new());
        write_config(&scenario, Format::Json, &mut config).unwrap();
        write_scenario_requests(&scenario, Format::Json, &mut requests).unwrap();
        let [config, requests] = [&config, &requests].map(|bytes| Source { name: "file", bytes });
        let read = read_scenario(config, requests, Mode::Online);
        assert!(read.scenario.is_none());
        assert!(places(&read.diagnostics).contains(&(code, path)), "{:?}", read.diagnostics);
    }
}

/// What no file can say.
#[test]
fn numbers_that_lead_nowhere_are_found() {
    let rows: [Row; 7] = [
        (|s| s.models[0].memory_gb = f64::NAN, Code::NotFinite, "models.llm.memory_gb"),
        (
            |s| s.workflows[0].nodes[0].model = ModelId(7),
            Code::UnknownModel,
            "workflows.poster.nodes[0].model",
        ),
        (|s| s.workflows[0].edges.push((0, 9)), Code::UnknownNode, "workflows.poster.edges[2].to"),
        (|s| s.requests[0].workflow = WorkflowId(3), Code::UnknownWorkflow, "requests[0].workflow_id"),
        (
            |s| s.requests[0].times = vec![Some(Span(0))],
            Code::NotPositive,
            "requests[0].node_execution_times.write",
        ),
        (|s| s.requests[0].times = vec![None; 5], Code::UnknownNode, "requests[0].node_execution_times[3]"),
        (|s| s.requests[0].timestamp = Some(i64::MAX), Code::TooLarge, "requests[0].timestamp"),
    ];
    for (damage, code, path) in rows {
        let mut scenario = good();
        damage(&mut scenario);
        let found = scenario.validate();
        assert!(places(&found).contains(&(code, path)), "{found:?}");
    }
}

#[test]
fn what_comes_from_elsewhere_may_be_lacking() {
    let mut scenario = good();
    scenario.models[0].inference_time_mean = None;
    scenario.models[0].unload_time_seconds = None;
    scenario.cluster.switch_cost = Some(SwitchRule::Measured);
    let codes = |lacking| -> Vec<Code> {
        scenario.validate_for(Mode::Offline, lacking).iter().map(|one| one.code).collect()
    };
    assert_eq!(codes(Lacking::Nothing), [Code::NoTime, Code::NoTime, Code::NoProfile]);
    assert_eq!(codes(Lacking::Times), [Code::NoProfile]);
    assert_eq!(codes(Lacking::Costs), []);
}

#[test]
fn a_node_without_a_time_is_never_scheduled() {
    let config = br#"{"models": {"m": {"memory_gb": 1, "gpus_required": 1, "load_time_seconds": 1}},
        "workflows": {"w": {"nodes": [{"id": "n", "model": "m"}]}}, "cluster": {"gpus": 1}}"#;
    let requests = br#"[{"request_id": "r", "workflow_id": "w"}]"#;
    let [config, requests] = [&config[..], &requests[..]].map(|bytes| Source { name: "file", bytes });
    let scenario = read_lacking(config, requests, Mode::Offline, Lacking::Times).scenario.unwrap();
    let cluster = Cluster::from_spec(&scenario.cluster).unwrap();
    let refused = Instance::build(&scenario, cluster, Mode::Offline).unwrap_err();
    assert_eq!(refused, [Infeasible::NoTime { request: "r".into(), node: "n".into() }]);
}

#[test]
fn builders_report_everything_at_once() {
    let found = Scenario::builder()
        .run_time(1.0)
        .model("m", 1, 0.0, 1.0)
        .workflow("w")
        .node("a", "n")
        .edge("a", "b")
        .request("r", "v")
        .arrival(f64::NAN)
        .request("r", "w")
        .time("c", 1.0)
        .deadline(-1.0)
        .build()
        .unwrap_err();
    let expected = [
        (Code::Duplicate, "requests[1].request_id"),
        (Code::Missing, ""),
        (Code::NotFinite, "requests[0].timestamp"),
        (Code::NotPositive, "models.m.memory_gb"),
        (Code::NotPositive, "requests[1].deadline_seconds"),
        (Code::UnknownModel, "workflows.w.nodes[0].model"),
        (Code::UnknownNode, "requests[1].node_execution_times.c"),
        (Code::UnknownNode, "workflows.w.edges[0].to"),
        (Code::UnknownWorkflow, "requests[0].workflow_id"),
    ];
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(places(&found), expected);
}
