//! Figures of streams in folders, each with a `config.json` and a `requests.json`: a row for each stream and policy.

use crate::rows::policy;
use gswarm_core::Instance;
use gswarm_core::check::check_log;
use gswarm_core::input::{Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::policy::{BuildContext, PolicySpec};
use gswarm_core::report::metrics;
use gswarm_core::sim::{SimOptions, simulate};
use std::path::Path;
use std::time::Instant;

fn read(folder: &Path) -> Option<Scenario> {
    let config = std::fs::read(folder.join("config.json")).ok()?;
    let requests = std::fs::read(folder.join("requests.json")).ok()?;
    let (config, requests) =
        (Source { name: "config.json", bytes: &config }, Source { name: "requests.json", bytes: &requests });
    read_scenario(config, requests, Mode::Online).scenario
}

/// `words` are policies, separated by commas, and folders.
pub fn print(words: &[String]) {
    let (names, folders) = words.split_first().expect("folders POLICY,... FOLDER...");
    let policies: Vec<(&str, PolicySpec)> = names
        .split(',')
        .map(|name| (name, policy(name).expect("a policy, or mean, p99, balanced")))
        .collect();
    println!("stream,policy,mean,P99,loads,seconds");
    for folder in folders {
        let scenario = read(Path::new(folder)).expect("config.json and requests.json");
        for (name, spec) in &policies {
            let mut cluster = Cluster::from_spec(&scenario.cluster).expect("GPUs are given");
            cluster.residency = spec.kind().residency(cluster.residency);
            let instance = Instance::build(&scenario, cluster, Mode::Online).expect("feasible");
            let mut policy = spec.build(&instance, &BuildContext::default());
            let start = Instant::now();
            let log =
                simulate(&instance, &mut *policy, &SimOptions::default(), &mut |_| {}).expect("it ends");
            let took = start.elapsed().as_secs_f64();
            assert!(check_log(&instance, &log, None).is_empty(), "{folder}, {name}");
            let found = metrics(&instance, &log);
            let (latency, loads) = (&found.request_latency, found.model_switches + found.cold_loads);
            let name_of = Path::new(folder).file_name().and_then(|name| name.to_str()).unwrap_or(folder);
            println!("{name_of},{name},{:.4},{:.4},{loads},{took:.2}", latency.mean, latency.p99);
        }
    }
}
