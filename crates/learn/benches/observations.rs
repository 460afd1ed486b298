//! The cost of an observation under `--learn`: an execution has ended, and the belief about its model is asked again.

use criterion::{Criterion, criterion_group, criterion_main};
use gswarm_core::belief::{Learner, Observation, Recent};
use gswarm_core::input::{Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::{GpuId, Gpus, Instance, Span, TaskId};
use gswarm_learn::beliefs::{Corrections, Predicted};
use gswarm_learn::{Column, FitSettings, Predictor, PredictorKind, Table, Values, fit};
use std::fmt::Write as _;
use std::sync::Arc;

const GPUS: u32 = 64;
const MODELS: usize = 8;
const REQUESTS: usize = 1_000;

/// Eight models of one node each, a thousand requests, 64 GPUs.
fn problem() -> (Scenario, Instance) {
    let (mut config, mut requests) = (String::from("models:\n"), String::from("requests:\n"));
    for model in 0..MODELS {
        let _ = writeln!(
            config,
            "  m{model}: {{memory_gb: 14, gpus_required: 1, load_time_seconds: 30, inference_time_mean: 8}}"
        );
    }
    config.push_str("workflows:\n");
    for model in 0..MODELS {
        let _ = writeln!(config, "  w{model}: {{nodes: [{{id: n, model: m{model}}}], edges: []}}");
    }
    for request in 0..REQUESTS {
        let _ = writeln!(requests, "- {{request_id: r{request}, workflow_id: w{}}}", request % MODELS);
    }
    let source = |name, text: &'static str| Source { name, bytes: text.as_bytes() };
    let (config, requests) = (config.leak(), requests.leak());
    let reading = read_scenario(source("config", config), source("requests", requests), Mode::Offline);
    let scenario = reading.scenario.unwrap_or_else(|| panic!("{:?}", reading.diagnostics));
    let mut spec = scenario.cluster.clone();
    spec.gpus = Some(GPUS);
    let cluster = Cluster::from_spec(&spec).expect("a cluster");
    let instance = Instance::build(&scenario, cluster, Mode::Offline).expect("an instance");
    (scenario, instance)
}

/// A predictor of what nodes take, by their model.
fn predictor() -> Predictor {
    let names: Vec<String> = (0..400).map(|row| format!("m{}", row % MODELS)).collect();
    let seconds = (0..400).map(|row| (4 + row % MODELS) as f64 * (0.9 + (row * 7_919 % 100) as f64 / 500.0));
    let model = Column { name: "model".to_owned(), values: names.iter().map(String::as_str).collect() };
    let took = Column { name: "execution_time".to_owned(), values: Values::Numbers(seconds.collect()) };
    let table = Table::new("runs", vec![model, took]);
    let settings = FitSettings::new(PredictorKind::GradientBoosting);
    fit(&table, "execution_time", &["model".to_owned()], &settings).expect("a predictor")
}

fn observations(criterion: &mut Criterion) {
    let (scenario, instance) = problem();
    let predictor = predictor();
    let predicted = Arc::new(Predicted::of("m.model", &predictor, &scenario).expect("predictions"));
    let learners: [(&str, Box<dyn Learner>); 2] = [
        ("recent", Box::new(Recent::new())),
        ("predictor", Box::new(Corrections::new(&predictor, predicted, &instance))),
    ];
    let mut group = criterion.benchmark_group("observations");
    for (name, mut learner) in learners {
        let mut number = 0_u32;
        group.bench_function(name, |bench| {
            bench.iter(|| {
                number = number.wrapping_add(1);
                let task = TaskId::from(number as usize % REQUESTS);
                let model = instance.model_of(task);
                let gpus = Gpus { first: GpuId(number / 3 % GPUS), count: 1 };
                let estimated = instance.execution(task);
                let took = Span(estimated.0 * u64::from(80 + number.wrapping_mul(7_919) % 40) / 100);
                learner.observe(&instance, &Observation { task, model, gpus, estimated, took, batch: 1 });
                (learner.belief(model, None), learner.belief(model, Some(gpus)))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, observations);
criterion_main!(benches);
