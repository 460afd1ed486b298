//! Advice on capacity: how far it depends on the draw of the traffic, and what it says.

use gswarm_core::input::Scenario;
use gswarm_core::instance::Mode;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_core::size::AdviceReport;
use gswarm_core::truth::mix;
use gswarm_run::advise::{AdviseSpec, Spare, advise};
use gswarm_run::{Failure, Materials, Problem, RunSpec, Silent, prepare};
use std::sync::Arc;

fn unit(seed: u64) -> f64 {
    (mix(seed) >> 11) as f64 / (1u64 << 53) as f64
}

/// A Poisson stream of three workflows: a short one, one of two steps, and a rare one on two GPUs.
fn traffic(seed: u64, count: u64, every: f64) -> Scenario {
    let mut builder = Scenario::builder()
        .model("small", 1, 8.0, 6.0)
        .model("large", 1, 30.0, 20.0)
        .model("wide", 2, 100.0, 40.0)
        .workflow("ask")
        .node("answer", "small")
        .workflow("write")
        .node("draft", "small")
        .node("finish", "large")
        .edge("draft", "finish")
        .workflow("study")
        .node("read", "wide");
    let mut at = 0.0;
    for number in 0..count {
        let draw = |what: u64| unit(seed << 32 ^ number << 4 ^ what);
        at -= every * (1.0 - draw(1)).ln();
        let (workflow, times): (&str, Vec<f64>) = match draw(2) {
            share if share < 0.6 => ("ask", vec![1.0 + 3.0 * draw(3)]),
            share if share < 0.9 => ("write", vec![1.0 + draw(3), 5.0 + 5.0 * draw(4)]),
            _ => ("study", vec![8.0 + 4.0 * draw(3)]),
        };
        builder = builder.request(&format!("r{number}"), workflow).arrival(at).times(&times).deadline(60.0);
    }
    builder.build().unwrap()
}

fn spec(policy: Option<PolicyKind>, targets: &[&str]) -> AdviseSpec {
    let run =
        RunSpec { mode: Mode::Online, policy: policy.map(PolicySpec::default_of), ..RunSpec::default() };
    let targets = targets.iter().map(|target| target.parse().unwrap()).collect();
    AdviseSpec { run, targets, max_gpus: 64, ..AdviseSpec::default() }
}

fn ask(spec: &AdviseSpec, scenario: &Scenario) -> Result<AdviceReport, Failure> {
    let materials = Materials::of(Problem::Scenario(Arc::new(scenario.clone())));
    advise(spec, &materials, &mut Silent, &mut |_, _| {})
}

/// The P99 of a stream on so many GPUs, without its first tenth.
fn p99_on(scenario: &Scenario, gpus: u32, policy: PolicyKind) -> f64 {
    let mut spec = spec(Some(policy), &["p99=1s"]).run;
    spec.cluster.gpus = Some(gpus);
    let materials = Materials::of(Problem::Scenario(Arc::new(scenario.clone())));
    let prepared = prepare(spec, materials, &mut Silent).unwrap();
    let outcome = prepared.simulate(&mut Silent).unwrap().outcome;
    let latencies = gswarm_core::report::request_latencies(&prepared.instance, &outcome.log);
    let cut = latencies.len() / 10;
    let mut latencies: Vec<f64> =
        latencies[cut..].iter().map(|(_, latency)| latency.unwrap().seconds()).collect();
    latencies.sort_by(f64::total_cmp);
    latencies[latencies.len() * 99 / 100]
}

#[test]
fn six_draws_of_the_same_traffic_need_the_same_gpus_within_one_and_a_long_run_meets_the_target() {
    let spec = spec(Some(PolicyKind::Sticky), &["p99=60s"]);
    let answers: Vec<AdviceReport> =
        (1..=6).map(|seed| ask(&spec, &traffic(seed, 600, 1.2)).unwrap()).collect();
    let gpus: Vec<u32> = answers.iter().map(|answer| answer.gpus.unwrap()).collect();
    let (least, most) = (*gpus.iter().min().unwrap(), *gpus.iter().max().unwrap());
    assert!(most - least <= 1, "{gpus:?}");
    for answer in &answers {
        let check = answer.check.as_ref().unwrap();
        assert!(check.met && check.traces == 10 && check.requests > 5_000, "{check:?}");
        let (low, high) = (answer.gpus_low.unwrap(), answer.gpus_high.unwrap_or(u32::MAX));
        assert!(low <= answer.gpus.unwrap() && answer.gpus.unwrap() <= high, "{low} {high}");
        assert!(answer.traces >= 10, "{}", answer.traces);
        // 0.6 x 2.5 + 0.3 x 9 + 0.1 x 20 GPU-seconds a request, one every 1.2 s.
        let (load, spread) = (answer.load_gpus.unwrap(), answer.load_plus_minus.unwrap());
        assert!((load - 5.17).abs() < 1.5 * spread && spread < 1.5, "{load} +- {spread}");
        let known = answer.known_low.unwrap()..=answer.known_high.unwrap();
        assert!(known.contains(&answer.gpus.unwrap()), "{known:?} {:?}", answer.gpus);
        assert!(answer.requests_for_one_gpu.unwrap() >= 10);
    }
    // Ten times as long, and none of the six.
    let truth = p99_on(&traffic(99, 6_000, 1.2), most, PolicyKind::Sticky);
    assert!(truth <= 60.0, "{truth} on {most}");
}

#[test]
fn the_same_seed_gives_the_same_advice() {
    let scenario = traffic(3, 150, 1.5);
    let spec = spec(Some(PolicyKind::Baseline), &["mean=20s"]);
    assert_eq!(ask(&spec, &scenario).unwrap(), ask(&spec, &scenario).unwrap());
}

#[test]
fn more_traffic_and_spare_gpus_need_more() {
    let scenario = traffic(4, 200, 2.0);
    let once = spec(Some(PolicyKind::Sticky), &["p95=40s"]);
    let gpus = |spec: &AdviseSpec| ask(spec, &scenario).unwrap().gpus.unwrap();
    let plain = gpus(&once);
    let spare = gpus(&AdviseSpec { spare: Spare::Gpus(1), ..once.clone() });
    assert!(spare > plain, "{spare} {plain}");
    let twice = ask(&AdviseSpec { traffic: 2.0, price: Some(2.0), ..once.clone() }, &scenario).unwrap();
    assert!(twice.gpus.unwrap() > plain && twice.requests_per_trace == 400.0);
    let cost = twice.cost.unwrap();
    assert!((cost.per_hour - 2.0 * f64::from(twice.gpus.unwrap())).abs() < 1e-9);
    // 1,000 requests take 1,000 seconds at this rate, about.
    let each = cost.per_thousand_requests.unwrap() / cost.per_hour * 3600.0;
    assert!((800.0..1200.0).contains(&each), "{each}");
}

#[test]
fn a_target_below_what_requests_take_by_themselves_is_refused_with_the_reason() {
    let report = ask(&spec(None, &["write:p50=5s"]), &traffic(5, 100, 2.0)).unwrap();
    assert_eq!((report.verdict.as_str(), report.gpus), ("below_floor", None));
    let floor = report.floor.as_ref().unwrap();
    assert_eq!(floor.workflow, "write");
    let models: Vec<&str> = floor.path.iter().map(|(model, _)| model.as_str()).collect();
    assert_eq!(models, ["small", "large"]);
    let path: f64 = floor.path.iter().map(|(_, seconds)| seconds).sum();
    assert!(floor.floor > 6.0 && path >= floor.floor - 0.5, "{floor:?}");
    assert!(report.sentences()[0].contains("is the floor"), "{:?}", report.sentences());
}

#[test]
fn what_the_slowest_requests_wait_for_is_told_where_no_number_does() {
    // On two GPUs the models have to take turns: loads cannot be avoided.
    let mut spec = spec(Some(PolicyKind::Baseline), &["p95=15s"]);
    spec.max_gpus = 2;
    let report = ask(&spec, &traffic(6, 60, 60.0)).unwrap();
    assert_eq!((report.verdict.as_str(), report.gpus), ("not_found", None));
    assert!(report.slowest.iter().any(|part| part.what == "loading" && part.model.is_some()), "{report:?}");
    assert!(report.sentences().iter().any(|one| one.contains("resident")), "{:?}", report.sentences());
}

#[test]
fn deadlines_and_workflows_have_targets_of_their_own_and_few_requests_are_warned_of() {
    let scenario = traffic(7, 200, 2.0);
    let report = ask(&spec(Some(PolicyKind::Sticky), &["deadline=95%", "study:p99=80s"]), &scenario).unwrap();
    let answer = report.gpus.unwrap();
    let point = report.points.iter().map(|tried| &tried.point).find(|point| point.gpus == answer).unwrap();
    assert!(point.met && point.targets[0].value.unwrap() <= 0.05 && point.targets[1].value.unwrap() <= 80.0);
    assert!(point.targets[1].requests < point.targets[0].requests / 4);
    assert!(report.warnings.iter().any(|text| text.contains("of study")), "{:?}", report.warnings);
}

#[test]
fn policies_are_compared_and_a_placement_is_given() {
    let report = ask(&spec(None, &["mean=30s"]), &traffic(8, 100, 2.5)).unwrap();
    let names: Vec<&str> = report.policies.iter().filter_map(|tried| tried.policy["name"].as_str()).collect();
    assert_eq!(names, ["adaptive", "online", "sticky", "static"]);
    let best = report.policies.iter().filter_map(|tried| tried.gpus).min();
    assert!(best >= report.gpus, "{best:?}");
    let placed: Vec<&str> = report.deployment.iter().map(|one| one.model.as_str()).collect();
    assert_eq!(placed, ["small", "large", "wide"]);
    assert!(report.static_meets.is_some());
}

#[test]
fn a_batch_is_taken_as_it_is() {
    let scenario = traffic(9, 40, 1.0);
    let mut spec = spec(Some(PolicyKind::Baseline), &["makespan=3min"]);
    spec.run.mode = Mode::Offline;
    let report = ask(&spec, &scenario).unwrap();
    let answer = report.gpus.unwrap();
    let mut run = spec.run.clone();
    run.cluster.gpus = Some(answer);
    let materials = Materials::of(Problem::Scenario(Arc::new(scenario)));
    let outcome = prepare(run, materials, &mut Silent).unwrap().simulate(&mut Silent).unwrap().outcome;
    let point = report.points.iter().map(|tried| &tried.point).find(|point| point.gpus == answer).unwrap();
    assert_eq!(point.makespan, outcome.metrics.makespan.seconds());
    assert!(report.traces == 1 && report.check.is_none());
}

#[test]
fn a_spare_server_needs_servers_and_unknown_workflows_are_refused() {
    let scenario = traffic(1, 20, 2.0);
    let mut server = spec(Some(PolicyKind::Baseline), &["mean=30s"]);
    server.spare = Spare::Server;
    assert!(ask(&server, &scenario).unwrap_err().message().contains("server"));
    let unknown = spec(None, &["nothing:mean=30s"]);
    assert!(ask(&unknown, &scenario).unwrap_err().message().contains("nothing"));
}
