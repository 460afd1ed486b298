//! How policies fare on streams: `cargo run --release -p gswarm-core --example streams [published|gentd26|speed]...`;
//! `... streams rows FIRST LAST POLICY...` gives the figures of generated streams of the seeds from FIRST to before LAST, comma-separated;
//! `... streams folders POLICY,... FOLDER...` those of streams in folders.

mod folders;
mod generated;
mod gentd26;
mod rows;
mod speed;

use gswarm_core::check::check_log;
use gswarm_core::input::{ClusterSpec, Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::policy::{AdaptiveParams, BuildContext, Objective, PolicyKind, PolicySpec};
use gswarm_core::report::metrics;
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::{Instance, Span};
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

fn show(case: &str, name: &str, instance: &Instance, spec: &PolicySpec) {
    let mut policy = spec.build(instance, &BuildContext::default());
    let log = match simulate(instance, &mut *policy, &SimOptions::default(), &mut |_| {}) {
        Ok(log) => log,
        Err(error) => return println!("{case:14} {name:18} {error}"),
    };
    let violations = check_log(instance, &log, None);
    let found = metrics(instance, &log);
    println!(
        "{case:14} {name:18} {:>9.1} {:>9.1} {:>7} {:>9.1} {:>9.1} {:>6}{}",
        found.request_latency.mean,
        found.request_latency.p99,
        found.model_switches + found.cold_loads,
        found.makespan.seconds(),
        found.waiting_time.max,
        log.executions.iter().filter(|one| (one.start - one.ready).seconds() > 600.0).count(),
        if violations.is_empty() { "" } else { "  VIOLATIONS" }
    );
}

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    if chosen == ["speed"] {
        return speed::decisions();
    }
    if chosen.first().is_some_and(|one| one == "rows") {
        return rows::print(&chosen[1..]);
    }
    if chosen.first().is_some_and(|one| one == "folders") {
        return folders::print(&chosen[1..]);
    }
    let wanted = |part: &str| chosen.is_empty() || chosen.iter().any(|one| one == part);
    println!(
        "{:14} {:18} {:>9} {:>9} {:>7} {:>9} {:>9} {:>6}",
        "case", "policy", "mean", "P99", "loads", "makespan", "max wait", ">600"
    );
    if wanted("published") {
        for (name, counts) in [("simple", vec![8, 32, 128]), ("complex", vec![32, 128, 256, 384])] {
            let Some(scenario) = published(name) else { continue };
            for gpus in counts {
                compare(
                    &format!("{name} {gpus}"),
                    &on(&scenario, gpus),
                    &[PolicyKind::Baseline, PolicyKind::Srpt, PolicyKind::Sticky],
                );
            }
        }
    }
    for seed in gentd26::KNOWN_DRAW..=5 {
        let Some(scenario) = gentd26::scenario(seed).filter(|_| wanted("gentd26")) else { continue };
        for gpus in [4, 8, 16, 24, 32] {
            let instance = on(&scenario, gpus);
            compare(&format!("gentd26/{seed} {gpus}"), &instance, &[PolicyKind::Lru, PolicyKind::Sticky]);
            let bound = Some(Span::from_seconds(600.0));
            let params = AdaptiveParams { max_collate_wait: bound, ..AdaptiveParams::default() };
            show(
                &format!("gentd26/{seed} {gpus}"),
                "adaptive, 600 s",
                &instance,
                &PolicySpec::Adaptive(params),
            );
        }
    }
}

/// The yardsticks, and `adaptive` under each objective.
fn compare(case: &str, instance: &Instance, yardsticks: &[PolicyKind]) {
    for &kind in yardsticks {
        show(case, kind.name(), instance, &PolicySpec::default_of(kind));
    }
    for &objective in Objective::ALL {
        let name = format!("adaptive, {}", objective.name());
        show(
            case,
            &name,
            instance,
            &PolicySpec::Adaptive(AdaptiveParams { objective, ..AdaptiveParams::default() }),
        );
    }
}
