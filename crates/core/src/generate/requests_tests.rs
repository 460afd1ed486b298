use super::*;
use crate::generate::{Format, write_requests};
use crate::id::ModelId;
use serde_json::{Map, json};

fn model(id: &str, tokens: Option<(f64, f64, f64)>, seconds: Option<(f64, f64)>) -> ModelSpec {
    ModelSpec {
        id: id.into(),
        gpus_required: 1,
        tokens_per_second: tokens.map(|(rate, ..)| rate),
        token_mean: tokens.map(|(_, mean, _)| mean),
        token_std: tokens.map(|(_, _, std)| std),
        inference_time_mean: seconds.map(|(mean, _)| mean),
        inference_time_std: seconds.map(|(_, std)| std),
        config: Map::from_iter([("steps".to_string(), json!([20, 30])), ("scale".to_string(), json!(7.5))]),
        ..ModelSpec::default()
    }
}

fn node(id: &str, model: u32, input: &str, output: &str, options: &[&str]) -> NodeSpec {
    NodeSpec {
        id: id.into(),
        model: ModelId(model),
        inputs: vec![input.into()],
        outputs: vec![output.into()],
        config_options: options.iter().map(ToString::to_string).collect(),
    }
}

fn scenario() -> Scenario {
    Scenario {
        models: vec![model("llm", Some((50.0, 500.0, 100.0)), None), model("image", None, Some((2.0, 0.5)))],
        workflows: vec![
            WorkflowSpec {
                id: "pair".into(),
                nodes: vec![
                    node("write", 0, "user_prompt", "text", &[]),
                    node("paint", 1, "text", "image", &["steps", "scale", "unknown"]),
                ],
                edges: vec![(0, 1)],
                ..WorkflowSpec::default()
            },
            WorkflowSpec {
                id: "one".into(),
                nodes: vec![node("only", 1, "x", "y", &[])],
                ..WorkflowSpec::default()
            },
        ],
        ..Scenario::default()
    }
}

fn text(options: &RequestOptions, format: Format) -> String {
    let scenario = scenario();
    let mut out = Vec::new();
    write_requests(requests(&scenario, options).unwrap(), format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn options(count: u32, seed: u64) -> RequestOptions {
    RequestOptions { count, seed, ..RequestOptions::default() }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for format in [Format::Json, Format::Yaml] {
        assert_eq!(text(&options(50, 1), format), text(&options(50, 1), format));
        assert_ne!(text(&options(50, 1), format), text(&options(50, 2), format));
    }
}

/// Remembered output: a change here changes every file that users have made with a seed.
#[test]
fn the_first_request_of_a_seed_never_changes() {
    let made = text(&options(2, 42), Format::Json);
    insta::assert_snapshot!(made);
    insta::assert_snapshot!(text(&options(1, 42), Format::Yaml));
}

#[test]
fn means_and_spreads_are_those_of_the_models() {
    let scenario = scenario();
    let all: Vec<Sampled<'_>> = requests(&scenario, &options(20_000, 3)).unwrap().collect();
    for (node, mean, std) in [("write", 10.0, 2.0), ("paint", 2.0, 0.5), ("only", 2.0, 0.5)] {
        let times: Vec<f64> = all
            .iter()
            .flat_map(|request| &request.node_execution_times)
            .filter(|(id, _)| *id == node)
            .map(|&(_, seconds)| seconds)
            .collect();
        let found = times.iter().sum::<f64>() / times.len() as f64;
        let spread = (times.iter().map(|t| (t - found).powi(2)).sum::<f64>() / times.len() as f64).sqrt();
        assert!((found / mean - 1.0).abs() < 0.02, "{node}: {found}");
        assert!((spread / std - 1.0).abs() < 0.03, "{node}: {spread}");
        assert!(times.iter().all(|&seconds| seconds > 0.0));
    }
}

#[test]
fn the_mix_is_kept() {
    let scenario = scenario();
    let mix = vec![("pair".to_string(), 3.0), ("one".to_string(), 1.0)];
    let made = requests(&scenario, &RequestOptions { mix, ..options(10_000, 4) }).unwrap();
    let pairs = made.filter(|request| request.workflow_id == "pair").count();
    assert!((7_300..7_700).contains(&pairs), "{pairs}");
    let only = vec![("one".to_string(), 1.0)];
    let made = requests(&scenario, &RequestOptions { mix: only, ..options(100, 4) }).unwrap();
    assert!(made.into_iter().all(|request| request.workflow_id == "one"));
}

#[test]
fn the_arrival_process_leaves_the_times_alone() {
    let scenario = scenario();
    let times = |arrivals| -> Vec<_> {
        let made = requests(&scenario, &RequestOptions { arrivals, ..options(100, 9) }).unwrap();
        made.map(|request| request.node_execution_times).collect()
    };
    assert_eq!(times(Arrivals::Poisson), times(Arrivals::Bursty));
    assert_eq!(times(Arrivals::Poisson), times(Arrivals::Diurnal));
}

#[test]
fn faults_are_named() {
    let error = |scenario: &Scenario, mix: &[(&str, f64)]| {
        let mix = mix.iter().map(|&(name, weight)| (name.to_string(), weight)).collect();
        requests(scenario, &RequestOptions { mix, ..options(1, 0) }).err().map(|error| error.to_string())
    };
    let good = scenario();
    assert_eq!(error(&good, &[]), None);
    assert!(error(&good, &[("pears", 1.0)]).unwrap().contains("`pair`, `one`"));
    assert!(error(&good, &[("pair", -1.0)]).unwrap().contains("-1"));
    assert!(error(&good, &[("pair", 0.0)]).unwrap().contains("above zero"));
    assert!(error(&Scenario::default(), &[]).unwrap().contains("no workflow"));
    let mut timeless = scenario();
    timeless.models[1].inference_time_mean = None;
    assert!(error(&timeless, &[]).unwrap().contains("`image`"));
}

#[test]
fn a_spread_far_above_the_mean_still_ends() {
    let times = Times { mean: 1e-9, std: 1e9, rate: 1.0 };
    assert!((0..1000).all(|_| times.draw(&mut stream(0, 0)) > 0.0));
}
