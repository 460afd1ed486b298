//! Makespan and mean latency of plans of the published files: `cargo run --release -p gswarm-core --example sooner -- [NAME GPUS]...`.
//! For each case the search for the makespan alone, the same with ties by latency, and `makespan=1,mean=0.05`.

use gswarm_core::Instance;
use gswarm_core::input::{ClusterSpec, Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::plan::{ObjectiveValues, PlanObjective, Planned, SearchLimits, aim, improve};
use gswarm_core::policy::carry_out;
use gswarm_core::sim::{SimOptions, simulate};
use std::path::Path;
use std::time::Instant;

const CASES: [(&str, u32); 9] = [
    ("simple", 8),
    ("simple", 10),
    ("simple", 32),
    ("complex", 8),
    ("complex", 12),
    ("complex", 20),
    ("complex", 32),
    ("complex", 256),
    ("complex", 512),
];

fn published(name: &str, gpus: u32) -> Option<Instance> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gswarm");
    let config = std::fs::read(folder.join(format!("{name}_config.json"))).ok()?;
    let requests = std::fs::read(folder.join(format!("{name}_requests.yaml"))).ok()?;
    let (config, requests) =
        (Source { name: "config", bytes: &config }, Source { name: "requests", bytes: &requests });
    let scenario = read_scenario(config, requests, Mode::Offline).scenario?;
    let spec = ClusterSpec { gpus: Some(gpus), ..scenario.cluster.clone() };
    Some(Instance::build(&scenario, Cluster::from_spec(&spec)?, Mode::Offline).expect("feasible"))
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let aimed_too = words.iter().any(|word| word == "aim");
    println!("| case | plan | makespan, s | mean, s | P99, s | switches | found by | took, s |");
    println!("|---|---|---:|---:|---:|---:|---|---:|");
    for (name, gpus) in CASES {
        let case = format!("{name} {gpus}");
        if !words.iter().all(|word| word == "aim" || case.contains(word.as_str())) {
            continue;
        }
        let Some(instance) = published(name, gpus) else { continue };
        for (label, sooner) in [("shortest", false), ("ties by latency", true)] {
            let limits = SearchLimits { seed: 1, sooner, ..SearchLimits::default() };
            let start = Instant::now();
            let planned = improve(&instance, &limits, &mut |_| {});
            show(&case, label, &instance, &planned, start);
        }
        if aimed_too {
            let objective = PlanObjective::parse("makespan=1,mean=0.05").expect("terms");
            let start = Instant::now();
            let limits = SearchLimits { seed: 1, ..SearchLimits::default() };
            let aimed = aim(&instance, &objective, &limits, &mut |_| {});
            show(&case, "makespan=1,mean=0.05", &instance, &aimed.planned, start);
        }
    }
}

fn show(case: &str, label: &str, instance: &Instance, planned: &Planned, start: Instant) {
    let took = start.elapsed().as_secs_f64();
    let mut policy = carry_out(instance, planned);
    let log = simulate(instance, &mut *policy, &SimOptions::default(), &mut |_| {}).expect("it ends");
    let found = ObjectiveValues::of(instance, &log);
    println!(
        "| {case} | {label} | {:.1} | {:.1} | {:.1} | {} | {} | {took:.2} |",
        found.makespan, found.latency, found.p99, found.switches, planned.found_by
    );
}
