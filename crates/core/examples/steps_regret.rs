//! What not knowing run times costs plans of steps, as they are made where models batch:
//! `cargo run --release -p gswarm-core --example steps_regret -- [GPUs] [seeds]`.
//!
//! The published `simple`, its language models in batches of 16 that take half as long again as one alone; true times are
//! drawn around the estimates. In percent, over seeds, with the standard error: how much longer the plan takes than the plan
//! that knows all times, and how much longer `adaptive`, which has no plan, takes than that.

use gswarm_core::check::check_run;
use gswarm_core::input::{BatchingSpec, ClusterSpec, Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::plan::{Planned, SearchLimits, improve};
use gswarm_core::policy::{Adaptive, AdaptiveParams, Policy, carry_out};
use gswarm_core::report::metrics;
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::truth::{Noise, Truth, TruthSpec};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut number = |usual: u32| args.next().map_or(Ok(usual), |text| text.parse());
    let (gpus, seeds) = (number(8)?, number(10)?);
    let scenario = batched()?;
    let spec = ClusterSpec { gpus: Some(gpus), ..scenario.cluster.clone() };
    let cluster = Cluster::from_spec(&spec).ok_or("no GPUs")?;
    let instance =
        Instance::build(&scenario, cluster, Mode::Offline).map_err(|faults| format!("{faults:?}"))?;
    let plan = planned(&instance);
    plan.steps.as_ref().ok_or("the plan has no steps")?;
    println!("| case | planned | adaptive |\n| --- | --- | --- |");
    for share in [0.2, 0.5] {
        let mut found = [const { Vec::new() }; 2];
        for seed in 1..=u64::from(seeds) {
            let spec = TruthSpec { noise: Noise::lognormal(share), seed, ..TruthSpec::default() };
            let truth = Truth::new(&spec, &instance, &instance).map_err(|why| format!("{why:?}"))?;
            let known = truth.known(&instance);
            let best = planned(&known).makespan.seconds();
            let followed = run(&instance, &mut *carry_out(&instance, &plan), &truth)?;
            let free = run(&instance, &mut Adaptive::new(&instance, &AdaptiveParams::default()), &truth)?;
            for (list, took) in found.iter_mut().zip([followed, free]) {
                list.push((took / best - 1.0) * 100.0);
            }
        }
        let cells = found.map(|list| mean_and_error(&list)).join(" | ");
        println!("| simple {gpus}, batches, {:.0}% | {cells} |", share * 100.0);
    }
    Ok(())
}

fn planned(instance: &Instance) -> Planned {
    improve(instance, &SearchLimits { rounds: 8, seed: 1, ..SearchLimits::default() }, &mut |_| {})
}

fn run(instance: &Instance, policy: &mut dyn Policy, truth: &Truth) -> Result<f64, Box<dyn Error>> {
    let options = SimOptions { truth: truth.clone(), ..SimOptions::default() };
    let log = simulate(instance, policy, &options, &mut |_| {})?;
    let violations = check_run(instance, truth, &log, None);
    assert!(violations.is_empty(), "{violations:?}");
    Ok(metrics(instance, &log).makespan.seconds())
}

fn mean_and_error(values: &[f64]) -> String {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    format!("{mean:.2} ±{:.2}", (variance / count).sqrt())
}

fn batched() -> Result<Scenario, Box<dyn Error>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gswarm");
    let config = std::fs::read(data.join("simple_config.json"))?;
    let requests = std::fs::read(data.join("simple_requests.yaml"))?;
    let reading = read_scenario(
        Source { name: "config", bytes: &config },
        Source { name: "requests", bytes: &requests },
        Mode::Offline,
    );
    let mut scenario = reading.scenario.ok_or("the published files are not valid")?;
    for name in ["llm7b", "llm30b"] {
        let spec = scenario.models.iter_mut().find(|spec| spec.id == name).ok_or("no such model")?;
        spec.batching = Some(BatchingSpec { max_batch: 16, slowdown: vec![(1, 1.0), (16, 1.5)] });
    }
    Ok(scenario)
}
