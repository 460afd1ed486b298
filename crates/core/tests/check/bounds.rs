//! Bounds and their witnesses: good ones pass, and every figure of every witness is held against the inputs.

use crate::support::*;
use gswarm_core::Span;
use gswarm_core::bound::{Bound, all_bounds, best_bound};
use gswarm_core::check::{self, ViolationCode as Code};
use gswarm_core::input::{Scenario, ScenarioBuilder};
use gswarm_core::instance::{Instance, Mode, Residency};
use gswarm_core::log_file::{BoundFile, LogFile, write_json};
use gswarm_core::report::{self, RunInfo};
use serde_json::{Value, json};

/// The log of `simple` with its best bound, as a file.
fn with_bound() -> (Instance, Value) {
    let (instance, log) = simple();
    let (metrics, bound) = (report::metrics(&instance, &log), best_bound(&instance));
    let info = RunInfo {
        policy: "by hand".into(),
        lower_bound: Some(bound.value),
        bound: Some(bound.claim(&instance)),
        ..RunInfo::default()
    };
    let mut bytes = Vec::new();
    write_json(&instance, &log, &report::summary(&instance, &metrics, info), &mut bytes).unwrap();
    (instance, serde_json::from_slice(&bytes).unwrap())
}

/// What the table of all codes is told: done to the log of `simple`, whose own bound is made by hand.
pub fn rows() -> Vec<Row> {
    vec![
        ("a witness of other inputs", Code::BoundWitness, |log| {
            log["summary"]["bound"] = json!({"argument": "area", "gpus": 3, "work_gpu_seconds": 1.0});
        }),
        ("a bound that its witness does not give", Code::BoundValue, |log| {
            // 16 + 6 of one GPU, 12 of two: 46 GPU-seconds on 4 GPUs, 11.5 s.
            log["summary"]["bound"] = json!({"argument": "area", "gpus": 4, "work_gpu_seconds": 46.0});
        }),
    ]
}

#[test]
fn bounds_without_support_are_found() {
    let (instance, log) = simple();
    assert_found(&instance, &log, &rows());
}

#[test]
fn a_log_with_its_bound_is_good_and_a_better_bound_is_not_believed() {
    let (instance, log) = with_bound();
    assert_eq!(check_value(&instance, &log), []);
    for by in [1e-5, 0.01, 5.0] {
        let mut value = log.clone();
        value["summary"]["lower_bound"] = json!(log["summary"]["lower_bound"].as_f64().unwrap() + by);
        value["summary"].as_object_mut().unwrap().remove("gap_percent");
        let found = check_value(&instance, &value);
        assert!(found.iter().any(|one| one.code == Code::BoundValue), "{by}: {}", check::report(&found));
    }
    let mut value = log;
    value["summary"].as_object_mut().unwrap().remove("lower_bound");
    assert!(check_value(&instance, &value).iter().any(|one| one.code == Code::BoundWitness));
}

#[test]
fn an_argument_that_nobody_knows_is_a_fault_of_the_record() {
    let (instance, mut log) = with_bound();
    for bad in [json!({"argument": "hope"}), json!(7), json!({"argument": "area", "gpus": 4}), json!({})] {
        log["summary"]["bound"] = bad.clone();
        let found = check_value(&instance, &log);
        assert!(found.iter().any(|one| one.code == Code::Record), "{bad}: {}", check::report(&found));
    }
}

/// A model that nobody uses, and that is cheap to bring in, is no way to prove more than there is.
#[test]
fn bounds_hold_where_some_models_are_not_used() {
    let scenario = Scenario::builder()
        .model("wide", 2, 140.0, 2.0)
        .model("narrow", 1, 70.0, 2.0)
        .model("unused", 2, 10.0, 2.0)
        .workflow("w")
        .node("n1", "narrow")
        .node("n2", "wide")
        .request("r", "w")
        .times(&[0.1, 3.0])
        .build()
        .unwrap();
    let instance = Instance::build(&scenario, cluster(2, None), Mode::Offline).unwrap();
    let file = file(&instance, &all_bounds(&instance));
    assert_eq!(codes(&instance, &file), [], "{file:#}");
}

fn file(instance: &Instance, bounds: &[Bound]) -> Value {
    let all: Vec<_> = bounds.iter().map(|bound| bound.record(instance)).collect();
    let best = bounds.iter().map(|bound| bound.value.seconds()).fold(0.0, f64::max);
    json!({"schema": 1, "gpus": instance.cluster.gpus, "lower_bound": best, "bounds": all})
}

fn codes(instance: &Instance, file: &Value) -> Vec<Code> {
    let file = BoundFile::read_bytes(file.to_string().as_bytes()).expect("a file of bounds");
    check::check_bounds(instance, &file).iter().map(|one| one.code).collect()
}

/// Every problem: by server size, mode, residency and batching.
fn problems() -> Vec<Instance> {
    let scenario = |batch: bool| {
        let narrow = Scenario::builder().model("narrow", 1, 14.0, 30.0);
        let narrow = if batch { narrow.batching(&[(1, 1.0), (4, 1.3), (7, 1.9)]) } else { narrow };
        let workflows = narrow
            .model("wide", 3, 130.0, 80.0)
            .model("small", 1, 1.0, 4.0)
            .workflow("chain")
            .node("x", "narrow")
            .node("y", "wide")
            .node("z", "small")
            .edge("x", "y")
            .edge("y", "z")
            .workflow("tree")
            .node("a", "small")
            .node("b", "wide")
            .node("c", "narrow")
            .edge("a", "b")
            .edge("a", "c");
        let requests = [
            ("r1", "chain", 0.0, [7.0, 19.0, 3.0]),
            ("r2", "chain", 4.0, [9.0, 11.5, 2.0]),
            ("r3", "tree", 6.0, [1.25, 30.0, 2.0]),
            ("r4", "tree", 50.0, [2.5, 8.0, 60.0]),
            ("r5", "chain", 9.0, [70.0, 5.0, 3.0]),
        ];
        let add = |builder: ScenarioBuilder, (id, workflow, at, times): (&str, &str, f64, [f64; 3])| {
            builder.request(id, workflow).arrival(at).times(&times)
        };
        requests.into_iter().fold(workflows, add).build().unwrap()
    };
    let mut all = Vec::new();
    for (gpus, per) in [(3, None), (4, None), (7, None), (8, Some(4)), (9, Some(2)), (5, Some(4))] {
        for mode in [Mode::Offline, Mode::Online] {
            for residency in [Residency::Single, Residency::Memory] {
                for batch in [false, true] {
                    let mut cluster = cluster(gpus, per);
                    cluster.residency = residency;
                    all.push(Instance::build(&scenario(batch), cluster, mode).expect("feasible"));
                }
            }
        }
    }
    all
}

#[test]
fn the_bounds_of_every_problem_pass() {
    for instance in problems() {
        let bounds = all_bounds(&instance);
        assert!(bounds.len() >= 4);
        let file = file(&instance, &bounds);
        assert_eq!(codes(&instance, &file), [], "{file:#}");
    }
}

#[test]
fn rounding_of_loads_and_switches_is_no_violation() {
    // Sizes that are no multiple of anything: a load and a switch round on their own, their sum rounds once; 60 replicas.
    for step in 0..40 {
        let odd = f64::from(step) * 0.000_003_7;
        let scenario = (0..150)
            .fold(
                Scenario::builder()
                    .model("narrow", 1, 14.0 + odd, 30.0 + odd / 7.0)
                    .model("wide", 3, 130.0 + odd * 3.0, 80.0)
                    .model("small", 1, 1.0 + odd * 1.3, 4.0 + odd / 3.0)
                    .workflow("chain")
                    .node("x", "narrow")
                    .node("y", "wide")
                    .node("z", "small")
                    .edge("x", "y")
                    .edge("y", "z"),
                |builder, id| {
                    builder.request(&format!("r{id}"), "chain").times(&[7.0 + odd, 1.0 + f64::from(id), 3.0])
                },
            )
            .build()
            .unwrap();
        let instance = Instance::build(&scenario, cluster(60, None), Mode::Offline).unwrap();
        let file = file(&instance, &all_bounds(&instance));
        assert_eq!(codes(&instance, &file), [], "{step}: {file:#}");
    }
}

/// The figures of a witness, each made larger and smaller, by a little and by much.
fn damages(witness: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    let mut put = |field: &str, value: Value| {
        let mut damaged = witness.clone();
        damaged[field] = value;
        all.push(damaged);
    };
    for (field, value) in witness.as_object().unwrap() {
        match value {
            Value::Number(number) if number.is_f64() => {
                let number = number.as_f64().unwrap();
                let larger = [number * 1.05 + 0.01, number * 2.0 + 1.0, -1.0];
                let smaller = [number * 0.95, number / 2.0, 0.0].into_iter().filter(|_| number > 0.0);
                larger.into_iter().chain(smaller).for_each(|value| put(field, json!(value)));
            }
            Value::Number(number) => {
                let number = number.as_u64().unwrap();
                [number + 1, number - 1, 0].into_iter().for_each(|value| put(field, json!(value)));
            }
            Value::String(_) if field == "argument" => {}
            Value::String(_) => put(field, json!("nobody")),
            Value::Array(nodes) => {
                put(field, json!([]));
                put(field, json!(["nobody"]));
                put(field, json!(nodes.iter().chain(nodes).collect::<Vec<_>>()));
                put(field, json!(nodes[..nodes.len() - 1]));
            }
            other => panic!("what is {other}"),
        }
    }
    all
}

#[test]
fn every_figure_of_every_witness_is_held_against_the_inputs() {
    let mut tried = std::collections::BTreeMap::<String, usize>::new();
    for instance in problems() {
        let batched = instance.models.iter().any(|model| model.max_batch() > 1);
        for bound in all_bounds(&instance) {
            let good = file(&instance, std::slice::from_ref(&bound));
            for witness in damages(&good["bounds"][0]["witness"]) {
                let mut damaged = good.clone();
                damaged["bounds"][0]["witness"] = witness.clone();
                // Other limits may give the same set of nodes, or one that supports the bound as well; and just below the
                // bound a schedule may need another load, so that more than one figure is true. Then it is no lie.
                let name = bound.witness.name();
                let limits =
                    ["least_head_seconds", "least_tail_seconds", "loading_gpu_seconds", "lost_gpu_seconds"];
                let was = &good["bounds"][0]["witness"];
                // A visit that is worth nothing need not be counted on.
                let other_prices = name == "visits" && was["prices"] != witness["prices"];
                let is_limit = other_prices || limits.iter().any(|&limit| was[limit] != witness[limit]);
                let found = codes(&instance, &damaged);
                if found.is_empty() {
                    assert!(is_limit || batched && name == "replicas", "{was:#} became {witness:#}");
                    assert!(still_holds(&instance, &bound, &witness), "{was:#} became {witness:#}");
                }
                *tried.entry(name.to_string()).or_default() += 1;
            }
        }
    }
    for name in ["area", "switching", "visits", "path", "replicas"] {
        assert!(tried.get(name).is_some_and(|&count| count > 200), "{name}: {tried:?}");
    }
}

/// A changed limit that still supports the value: checked once more with a value just above, which it must not support
/// unless the best bound of the problem does.
fn still_holds(instance: &Instance, bound: &Bound, witness: &Value) -> bool {
    let above = Span(bound.value.0 * 2);
    let file = json!({
        "gpus": instance.cluster.gpus, "lower_bound": above.seconds(),
        "bounds": [{"seconds": above.seconds(), "witness": witness}],
    });
    !codes(instance, &file).is_empty()
}

#[test]
fn a_bound_above_the_makespan_is_found_whatever_its_witness() {
    let (instance, log) = with_bound();
    let mut value = log.clone();
    let makespan = log["summary"]["makespan"].as_f64().unwrap();
    value["summary"]["lower_bound"] = json!(makespan + 1.0);
    let found = check::check(&instance, &LogFile::read(&value.to_string()));
    assert!(found.iter().any(|one| one.code == Code::SumBound));
    assert!(found.iter().any(|one| one.code == Code::BoundValue));
}

#[test]
fn what_is_said_of_the_whole_file_has_to_be_one_of_its_bounds() {
    let (instance, _) = simple();
    let mut good = file(&instance, &all_bounds(&instance));
    assert_eq!(codes(&instance, &good), []);
    good["lower_bound"] = json!(good["lower_bound"].as_f64().unwrap() + 1.0);
    assert_eq!(codes(&instance, &good), [Code::BoundValue]);
    good["bounds"] = json!([]);
    assert!(codes(&instance, &good).contains(&Code::BoundWitness));
    assert!(BoundFile::read_bytes(b"{\"executions\": []}").is_none());
    assert!(BoundFile::read_bytes(b"nonsense").is_none());
}

/// So many requests of 10 s of one model that takes 30 s to load, on one GPU.
fn one_model(requests: u32, slowdown: Option<&[(u32, f64)]>) -> Instance {
    let alone = Scenario::builder().model("a", 1, 14.0, 30.0);
    let model = match slowdown {
        Some(points) => alone.batching(points),
        None => alone,
    };
    let scenario = (0..requests)
        .fold(model.workflow("one").node("x", "a"), |builder, id| {
            builder.request(&format!("r{id}"), "one").times(&[10.0])
        })
        .build()
        .unwrap();
    Instance::build(&scenario, cluster(1, None), Mode::Offline).unwrap()
}

fn one_bound(seconds: f64, witness: Value) -> Value {
    json!({"gpus": 1, "lower_bound": seconds, "bounds": [{"seconds": seconds, "witness": witness}]})
}

#[test]
fn prices_prove_what_is_lost_between_models() {
    // Two executions behind the load: 20 s of work, 30 s lost at the beginning, 50 s.
    let instance = one_model(2, None);
    let witness = |begin: f64, end: f64, leave: f64, enter: f64, visits: u64, lost: f64| {
        json!({
            "argument": "visits", "gpus": 1, "work_gpu_seconds": 20.0, "lost_gpu_seconds": lost,
            "begin_seconds": begin, "end_seconds": end,
            "prices": [{"model_name": "a", "visits": visits, "leave_seconds": leave, "enter_seconds": enter}],
        })
    };
    let good = witness(30.0, 0.0, 0.0, 0.0, 1, 30.0);
    assert_eq!(codes(&instance, &one_bound(50.0, good.clone())), []);
    // The same worth, on the other side of the step.
    assert_eq!(codes(&instance, &one_bound(50.0, witness(25.0, 0.0, 0.0, 5.0, 1, 30.0))), []);
    assert_eq!(codes(&instance, &one_bound(50.1, good.clone())), [Code::BoundValue]);
    let bad = [
        witness(31.0, 0.0, 0.0, 0.0, 1, 31.0),
        witness(30.0, 1.0, 0.0, 0.0, 1, 31.0),
        witness(30.0, 0.0, 1.0, 0.0, 1, 31.0),
        witness(30.0, 0.0, 0.0, 1.0, 1, 31.0),
        witness(25.0, 0.0, 0.0, 5.0, 2, 35.0),
        witness(30.0, 0.0, 0.0, 0.0, 1, 31.0),
        witness(f64::MAX, 0.0, 0.0, 0.0, 1, 30.0),
    ];
    for witness in bad {
        assert_eq!(codes(&instance, &one_bound(50.0, witness.clone())), [Code::BoundWitness], "{witness:#}");
    }
    let mut unknown = good.clone();
    unknown["prices"][0]["model_name"] = "z".into();
    assert_eq!(codes(&instance, &one_bound(50.0, unknown)), [Code::BoundWitness]);
    let mut twice = good;
    twice["prices"] = json!([twice["prices"][0], twice["prices"][0]]);
    assert_eq!(codes(&instance, &one_bound(50.0, twice)), [Code::BoundWitness]);
}

#[test]
fn a_pace_is_what_the_time_of_each_node_allows() {
    // Eight executions in batches of four at most, 1.3 times as slow: 26 s of one GPU behind 30 s of loading; no node is short
    // of time for that. With a target of 42 s each could take 1.2 times as long at most: a share of 0.4, 32 s.
    let instance = one_model(8, Some(&[(1, 1.0), (4, 1.3)]));
    let witness = |work: f64, idle: f64| json!({"argument": "pace", "gpus": 1, "work_gpu_seconds": work, "idle_gpu_seconds": idle});
    assert_eq!(codes(&instance, &one_bound(56.0, witness(26.0, 30.0))), []);
    assert_eq!(
        codes(&instance, &one_bound(42.0, witness(32.0, 30.0))),
        [],
        "weaker than it could be, and true"
    );
    assert_eq!(codes(&instance, &one_bound(56.1, witness(26.0, 30.0))), [Code::BoundValue]);
    for (work, idle) in [(27.0, 30.0), (25.0, 30.0), (26.0, 31.0), (26.0, 29.0)] {
        let found = codes(&instance, &one_bound(56.0, witness(work, idle)));
        assert_eq!(found, [Code::BoundWitness], "{work} {idle}");
    }
}
