//! The policies for batches on any number of GPUs, on the published files:
//! `cargo run --release -p gswarm-core --example counts -- [POLICY]... [simple:6|complex:12|...]...`.
//!
//! Prints makespan, switches, gap to the bound, and the spread of utilisation (busiest minus idlest GPU, in points). Every log
//! has passed the check. The files are searched in `../shared/data/gswarm`, or in `GSWARM_DATA`.

use gswarm_core::Instance;
use gswarm_core::bound::lower_bound;
use gswarm_core::check::check_log;
use gswarm_core::input::{ClusterSpec, Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::policy::{BuildContext, PolicyKind, PolicySpec};
use gswarm_core::report::metrics;
use gswarm_core::sim::{SimOptions, simulate};
use std::path::PathBuf;

const POLICIES: [&str; 6] = ["offline", "batch", "hybrid", "balanced", "online", "sticky"];
const CASES: [&str; 7] =
    ["simple:6", "simple:10", "simple:30", "complex:12", "complex:20", "complex:28", "complex:30"];

fn main() {
    let (cases, policies): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.contains(':'));
    let or_all = |given: Vec<String>, all: &[&str]| match given.is_empty() {
        true => all.iter().map(|&name| name.to_owned()).collect(),
        false => given,
    };
    let policies = or_all(policies, &POLICIES);
    println!(
        "| case | policy | makespan, s | switches | gap, % | spread, points |\n|---|---|---:|---:|---:|---:|"
    );
    for case in or_all(cases, &CASES) {
        let (name, gpus) = case.split_once(':').expect("a case is NAME:GPUS");
        let scenario = published(name);
        let gpus = gpus.parse().expect("a number of GPUs");
        policies.iter().for_each(|policy| println!("{}", row(&case, &scenario, gpus, policy)));
    }
}

fn published(name: &str) -> Scenario {
    let beside = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gswarm"));
    let folder = std::env::var_os("GSWARM_DATA").map_or(beside, PathBuf::from);
    let read = |file: String| std::fs::read(folder.join(file)).expect("the published files");
    let (config, requests) = (read(format!("{name}_config.json")), read(format!("{name}_requests.yaml")));
    let (config, requests) =
        (Source { name: "config", bytes: &config }, Source { name: "requests", bytes: &requests });
    read_scenario(config, requests, Mode::Offline).scenario.expect("valid files")
}

fn row(case: &str, scenario: &Scenario, gpus: u32, policy: &str) -> String {
    let kind: PolicyKind = policy.parse().expect("the name of a policy");
    let spec = ClusterSpec { gpus: Some(gpus), ..scenario.cluster.clone() };
    let mut cluster = Cluster::from_spec(&spec).expect("GPUs");
    cluster.residency = kind.residency(cluster.residency);
    let instance = Instance::build(scenario, cluster, Mode::Offline).expect("feasible");
    let mut built = PolicySpec::default_of(kind).build(&instance, &BuildContext::default());
    let log = simulate(&instance, built.as_mut(), &SimOptions::default(), &mut |_| {}).expect("it ends");
    let violations = check_log(&instance, &log, None);
    assert!(violations.is_empty(), "{policy} on {case}: {violations:?}");
    let found = metrics(&instance, &log);
    let gap = 100.0 * (found.makespan.seconds() / lower_bound(&instance).seconds() - 1.0);
    let (makespan, spread) = (found.makespan.seconds(), found.utilisation.spread_points);
    format!("| {case} | {policy} | {makespan:.0} | {} | {gap:.2} | {spread:.1} |", found.model_switches)
}
