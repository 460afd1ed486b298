//! What must hold on the published files; skipped where they are missing.

use crate::support::{decoys, makespan, run_all};
use gswarm_core::Instance;
use gswarm_core::input::{Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::log::ExecutionLog;
use gswarm_core::policy::PolicyKind;
use gswarm_core::report::metrics;
use std::path::Path;

/// The published input `name`, if it is there.
pub fn published(name: &str, mode: Mode) -> Option<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gswarm");
    let read = |file: String| std::fs::read(folder.join(file)).ok();
    let (config, requests) = (read(format!("{name}_config.json")), read(format!("{name}_requests.yaml")));
    let (Some(config), Some(requests)) = (config, requests) else {
        gswarm_testing::skip("the published files are not beside the checkout");
        return None;
    };
    let reading = read_scenario(
        Source { name: "config", bytes: &config },
        Source { name: "requests", bytes: &requests },
        mode,
    );
    Some(reading.scenario.expect("the published files are valid"))
}

pub fn instance(scenario: &Scenario, kind: PolicyKind, gpus: u32, mode: Mode) -> Instance {
    let mut cluster =
        Cluster::from_spec(&gswarm_core::input::ClusterSpec { gpus: Some(gpus), ..scenario.cluster.clone() })
            .unwrap();
    cluster.residency = kind.residency(cluster.residency);
    Instance::build(scenario, cluster, mode).expect("feasible")
}

fn result(scenario: &Scenario, kind: PolicyKind, gpus: u32, mode: Mode) -> (Instance, ExecutionLog) {
    let instance = instance(scenario, kind, gpus, mode);
    let log = run_all(&instance, kind);
    (instance, log)
}

#[test]
fn baseline_takes_as_long_as_the_published_one() {
    let Some(scenario) = published("simple", Mode::Offline) else { return };
    let published =
        [(4, 26_866.0), (6, 25_779.0), (8, 13_449.5), (10, 13_014.0), (16, 6_782.0), (32, 3_421.0)];
    for (gpus, expected) in published {
        let (_, log) = result(&scenario, PolicyKind::Baseline, gpus, Mode::Offline);
        let error = makespan(&log).seconds() / expected - 1.0;
        assert!(error.abs() <= 0.005, "{gpus} GPUs: {} is {:.2}% off", makespan(&log), error * 100.0);
        assert_eq!(log.executions.len(), 1_486);
    }
}

#[test]
fn every_policy_runs_all_nodes_of_complex_at_every_count() {
    let Some(scenario) = published("complex", Mode::Offline) else { return };
    for gpus in [8, 12, 16, 20, 28, 32, 64, 256] {
        // The planner's own tests are elsewhere: it takes longer.
        for &kind in PolicyKind::ALL.iter().filter(|kind| kind.is_portfolio()) {
            let (_, log) = result(&scenario, kind, gpus, Mode::Offline);
            assert_eq!(log.executions.len(), 5_660);
        }
    }
}

#[test]
fn streams_run_too() {
    for (name, counts) in [("simple", [4, 8, 32]), ("complex", [8, 32, 256])] {
        let Some(scenario) = published(name, Mode::Online) else { return };
        for gpus in counts {
            for &kind in PolicyKind::ALL.iter().filter(|kind| kind.supports(Mode::Online)) {
                result(&scenario, kind, gpus, Mode::Online);
            }
        }
    }
}

#[test]
fn offline_switches_seldom_static_never_and_balanced_is_even() {
    let Some(simple) = published("simple", Mode::Offline) else { return };
    let Some(complex) = published("complex", Mode::Offline) else { return };
    let (instance, log) = result(&simple, PolicyKind::Offline, 4, Mode::Offline);
    assert!(metrics(&instance, &log).model_switches <= 12);
    for scenario in [&simple, &complex] {
        for gpus in [8, 16, 20, 32] {
            let (instance, log) = result(scenario, PolicyKind::Static, gpus, Mode::Offline);
            assert_eq!(metrics(&instance, &log).model_switches, 0, "{gpus} GPUs");
        }
    }
    let (instance, log) = result(&complex, PolicyKind::Balanced, 16, Mode::Offline);
    let spread = metrics(&instance, &log).utilisation.spread_points;
    assert!(spread < 10.0, "{spread} points");
}

#[test]
fn any_number_of_gpus_will_do() {
    let Some(scenario) = published("complex", Mode::Offline) else { return };
    let slice = Scenario { requests: scenario.requests[..60].to_vec(), ..scenario };
    for gpus in (8..40).chain([63, 64, 65, 100, 127, 255, 257, 511, 1000, 1023, 1024]) {
        for &kind in PolicyKind::ALL.iter().filter(|kind| kind.is_portfolio()) {
            result(&slice, kind, gpus, Mode::Offline);
        }
    }
}

#[test]
fn the_planner_comes_close_to_the_bound() {
    for (name, gpus, gap) in
        [("simple", 8, 0.003), ("simple", 6, 0.003), ("complex", 8, 0.001), ("complex", 32, 0.004)]
    {
        let Some(scenario) = published(name, Mode::Offline) else { return };
        let (instance, log) = result(&scenario, PolicyKind::Planned, gpus, Mode::Offline);
        let found = makespan(&log).seconds() / gswarm_core::bound::lower_bound(&instance).seconds() - 1.0;
        assert!(found <= gap, "{name} on {gpus}: {found}");
        assert_eq!(decoys(&instance, &log), [], "{name} on {gpus}");
    }
}
