//! How well batches are planned: `cargo run --release -p gswarm-core --example batching [GPUs] [seconds] [largest batch]`.
//!
//! The published `simple`, its language models batched as measured on an H200, planned with seeds 1 to 5. Needs the published
//! files beside the checkout.

use gswarm_core::check::check_log;
use gswarm_core::input::{BatchingSpec, ClusterSpec, Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::plan::{SearchLimits, improve};
use gswarm_core::policy::carry_out;
use gswarm_core::sim::{SimOptions, simulate};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut number = |usual: u32| args.next().map_or(Ok(usual), |text| text.parse());
    let (gpus, seconds, most) = (number(8)?, number(10)?, number(32)?);
    let scenario = batched(most)?;
    let spec = ClusterSpec { gpus: Some(gpus), ..scenario.cluster.clone() };
    let cluster = Cluster::from_spec(&spec).ok_or("no GPUs")?;
    let instance =
        Instance::build(&scenario, cluster, Mode::Offline).map_err(|faults| format!("{faults:?}"))?;
    println!("simple on {gpus} GPUs, batches of {most} at the most, {seconds} s a plan");
    for seed in 1..=5 {
        let begun = Instant::now();
        let stop = || begun.elapsed() >= Duration::from_secs(seconds.into());
        let limits = SearchLimits { rounds: u64::MAX, stop: &stop, seed, ..SearchLimits::default() };
        let mut best_policy = None;
        let plan = improve(&instance, &limits, &mut |found| {
            best_policy.get_or_insert((found.makespan, found.found_by.clone()));
        });
        let policy = &mut *carry_out(&instance, &plan);
        let log = simulate(&instance, policy, &SimOptions::default(), &mut |_| {})?;
        let violations = check_log(&instance, &log, None).len();
        let (first, by) = best_policy.ok_or("no plan")?;
        println!(
            "seed {seed}: {:.1} s, bound {:.1} s ({}), gap {:.2}%, {violations} violations; best policy {by}: {:.1} s",
            plan.makespan.seconds(),
            plan.bound.value.seconds(),
            plan.bound.witness.name(),
            plan.gap() * 100.0,
            first.seconds()
        );
    }
    Ok(())
}

/// The published input with batching for its language models.
fn batched(most: u32) -> Result<Scenario, Box<dyn Error>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let config = std::fs::read(data.join("gswarm/simple_config.json"))?;
    let requests = std::fs::read(data.join("gswarm/simple_requests.yaml"))?;
    let measured: serde_json::Value =
        serde_json::from_slice(&std::fs::read(data.join("h200-measured.json"))?)?;
    let reading = read_scenario(
        Source { name: "config", bytes: &config },
        Source { name: "requests", bytes: &requests },
        Mode::Offline,
    );
    let mut scenario = reading.scenario.ok_or("the published files are not valid")?;
    for (model, shape) in [("llm7b", "llama-7b"), ("llm30b", "llama-34b")] {
        let steps = measured["models"][shape]["decode"].as_array().ok_or("no measurements")?;
        let step = |at: &serde_json::Value| Some((at["batch"].as_u64()? as u32, at["step_s"].as_f64()?));
        let steps: Vec<(u32, f64)> = steps.iter().filter_map(step).collect();
        let alone = steps.first().ok_or("no measurements")?.1;
        let slowdown = steps.iter().map(|&(batch, seconds)| (batch, seconds / alone)).collect();
        let spec = scenario.models.iter_mut().find(|spec| spec.id == model).ok_or("no such model")?;
        spec.batching = Some(BatchingSpec { max_batch: most, slowdown });
    }
    Ok(scenario)
}
