//! How policies fare on streams: `cargo run --release -p gswarm-core --example streams [published|gentd26]...`.

mod gentd26;

use gswarm_core::Instance;
use gswarm_core::check::check_log;
use gswarm_core::input::{ClusterSpec, Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::policy::{PolicyKind, PolicyParams};
use gswarm_core::report::metrics;
use gswarm_core::sim::{SimOptions, simulate};
use std::path::Path;

fn published(name: &str) -> Option<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gswarm");
    let config = std::fs::read(folder.join(format!("{name}_config.json"))).ok()?;
    let requests = std::fs::read(folder.join(format!("{name}_requests.yaml"))).ok()?;
    let (config, requests) =
        (Source { name: "config", bytes: &config }, Source { name: "requests", bytes: &requests });
    read_scenario(config, requests, Mode::Online).scenario
}

fn on(scenario: &Scenario, gpus: u32) -> Instance {
    let spec = ClusterSpec { gpus: Some(gpus), ..scenario.cluster.clone() };
    let cluster = Cluster::from_spec(&spec).expect("GPUs are given");
    Instance::build(scenario, cluster, Mode::Online).expect("feasible")
}

fn show(case: &str, name: &str, instance: &Instance, kind: PolicyKind, params: &PolicyParams) {
    let mut policy = kind.build(instance, params);
    let log = match simulate(instance, &mut *policy, &SimOptions::default(), &mut |_| {}) {
        Ok(log) => log,
        Err(error) => return println!("{case:14} {name:18} {error}"),
    };
    let violations = check_log(instance, &log, None);
    let found = metrics(instance, &log);
    println!(
        "{case:14} {name:18} {:>9.1} {:>9.1} {:>7} {:>9.1} {:>9.1}{}",
        found.request_latency.mean,
        found.request_latency.p99,
        found.model_switches + found.cold_loads,
        found.makespan.seconds(),
        found.waiting_time.max,
        if violations.is_empty() { "" } else { "  VIOLATIONS" }
    );
}

const YARDSTICKS: [PolicyKind; 3] = [PolicyKind::Baseline, PolicyKind::Srpt, PolicyKind::Sticky];

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |part: &str| chosen.is_empty() || chosen.iter().any(|one| one == part);
    println!("{:14} {:18} {:>9} {:>9} {:>7} {:>9} {:>9}", "case", "policy", "mean", "P99", "loads", "makespan", "max wait");
    if wanted("published") {
        for (name, counts) in [("simple", vec![8, 32, 128]), ("complex", vec![32, 128, 256, 384])] {
            let Some(scenario) = published(name) else { continue };
            for gpus in counts {
                let instance = on(&scenario, gpus);
                for kind in YARDSTICKS {
                    show(&format!("{name} {gpus}"), kind.name(), &instance, kind, &PolicyParams::default());
                }
            }
        }
    }
    if wanted("gentd26") {
        let Some(scenario) = gentd26::scenario(1) else { return };
        for gpus in [4, 8, 16] {
            let instance = on(&scenario, gpus);
            for kind in [PolicyKind::Lru, PolicyKind::Baseline, PolicyKind::Sticky] {
                show(&format!("gentd26 {gpus}"), kind.name(), &instance, kind, &PolicyParams::default());
            }
        }
    }
}
