//! Every policy's run can be explained, and all the parts add up.

use crate::support::*;
use gswarm_core::explain::{self, Timeline};
use gswarm_core::generate::{Format, Preset, RequestOptions, requests, write_config, write_requests};
use gswarm_core::input::{Scenario, Source, read_config, read_scenario};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::log::ExecutionLog;
use gswarm_core::policy::{BuildContext, PolicyKind, PolicySpec};
use gswarm_core::report;
use gswarm_core::sim::{InjectedFaults, SimOptions, simulate};
use gswarm_core::{GpuId, Time};

pub fn scenario(preset: Preset, count: u32, mode: Mode) -> Scenario {
    let (mut config, mut drawn) = (Vec::new(), Vec::new());
    write_config(&preset.config(), Format::Json, &mut config).unwrap();
    let bare = read_config(Source { name: "config", bytes: &config }).scenario.unwrap();
    let options = RequestOptions { count, seed: 5, ..RequestOptions::default() };
    write_requests(requests(&bare, &options).unwrap(), Format::Json, &mut drawn).unwrap();
    read_scenario(Source { name: "c", bytes: &config }, Source { name: "r", bytes: &drawn }, mode)
        .scenario
        .unwrap()
}

pub fn run(
    scenario: &Scenario,
    kind: PolicyKind,
    mode: Mode,
    options: &SimOptions,
) -> (Instance, ExecutionLog) {
    let mut cluster = Cluster::from_spec(&scenario.cluster).unwrap();
    cluster.residency = kind.residency(cluster.residency);
    let instance = Instance::build(scenario, cluster, mode).unwrap();
    let spec = PolicySpec::default_of(kind).with_rounds(1);
    let log =
        simulate(&instance, &mut *spec.build(&instance, &BuildContext::default()), options, &mut |_| {})
            .unwrap();
    (instance, log)
}

fn adds_up(instance: &Instance, log: &ExecutionLog) {
    let timeline = Timeline::new(instance, log);
    let metrics = report::metrics(instance, log);
    let mut idle = 0;
    for gpu in 0..instance.cluster.gpus {
        let story = explain::gpu(&timeline, GpuId(gpu), 3);
        assert_eq!(story.executing + story.switching + story.idle + story.lost, story.makespan, "GPU {gpu}");
        assert_eq!(story.executing + story.switching, metrics.gpus[gpu as usize].busy);
        assert_eq!(story.executing, metrics.gpus[gpu as usize].compute);
        idle += u128::from(story.idle.0);
    }
    let story = explain::idle(&timeline, 5);
    assert!((story.idle_gpu_seconds - idle as f64 / 1e6).abs() < 1e-3);
    for request in instance.requests.keys() {
        let Some(story) = explain::request(&timeline, request) else { continue };
        let parts = story.waiting + story.switching + story.executing + story.retrying;
        assert_eq!(parts, story.latency, "{}", story.request);
        assert!(story.undisturbed <= story.latency || !story.completed);
    }
    let slow = explain::slowest(&timeline, explain::SLOWEST);
    assert_eq!(slow.len() as u64, metrics.completed_requests.min(explain::SLOWEST as u64));
    assert!(slow.is_sorted_by(|one, next| one.latency_seconds >= next.latency_seconds));
    assert_eq!(slow.first().map_or(0.0, |one| one.latency_seconds), metrics.request_latency.max);
    for one in &slow {
        let parts =
            one.waiting_seconds + one.switching_seconds + one.executing_seconds + one.retrying_seconds;
        assert!((parts - one.latency_seconds).abs() < 1e-6, "{one:?}");
        assert!(!one.why.is_empty() && !one.node.is_empty(), "{one:?}");
    }
    let workflows = &metrics.workflows;
    assert_eq!(workflows.iter().map(|one| one.requests).sum::<u64>(), metrics.total_requests);
    assert_eq!(workflows.iter().map(|one| one.latency.count).sum::<u64>(), metrics.request_latency.count);
    let longest = workflows.iter().map(|one| one.latency.max).fold(0.0, f64::max);
    assert_eq!(longest, metrics.request_latency.max);
    for task in instance.task_ids().step_by(7) {
        let Some(story) = explain::node(&timeline, task) else { continue };
        let wait = story.wait;
        assert_eq!(wait.executing + wait.loading + wait.switching + wait.idle, wait.total, "{}", story.node);
        let own = story.alternatives.iter().filter(|one| one.chosen).count();
        assert_eq!(own, 1, "{}", story.node);
        assert!(story.alternatives.iter().all(|one| one.could_start >= story.ready));
    }
}

#[test]
fn the_parts_add_up_under_every_policy() {
    for (preset, count) in [(Preset::Simple, 30), (Preset::Complex, 12)] {
        for mode in [Mode::Offline, Mode::Online] {
            let scenario = scenario(preset, count, mode);
            for &kind in PolicyKind::ALL.iter().filter(|kind| kind.supports(mode)) {
                let (instance, log) = run(&scenario, kind, mode, &SimOptions::default());
                adds_up(&instance, &log);
            }
        }
    }
}

#[test]
fn the_parts_add_up_with_failures_and_lost_gpus() {
    let scenario = scenario(Preset::Simple, 30, Mode::Online);
    let faults = InjectedFaults {
        fail_rate: 0.1,
        seed: 3,
        lose: vec![(Time(300_000_000), GpuId(2))],
        ..InjectedFaults::default()
    };
    let options = SimOptions { max_attempts: 2, faults, ..SimOptions::default() };
    let (instance, log) = run(&scenario, PolicyKind::Baseline, Mode::Online, &options);
    adds_up(&instance, &log);
}

#[test]
fn a_server_border_makes_gpus_too_narrow() {
    // One model on 2 GPUs of servers of 2; GPUs 1 and 2 are neighbours and no window.
    let scenario = Scenario::builder()
        .model("wide", 2, 28.0, 40.0)
        .model("a", 1, 14.0, 40.0)
        .workflow("w")
        .node("x", "wide")
        .workflow("n")
        .node("y", "a")
        .request("n1", "n")
        .times(&[50.0])
        .request("n2", "n")
        .times(&[50.0])
        .request("w1", "w")
        .times(&[1.0])
        .build()
        .unwrap();
    let instance = Instance::build(&scenario, cluster(4, Some(2)), Mode::Offline).unwrap();
    let executions = vec![
        ran(0, (0, 1), 0.0, 40.0, 40.0, 90.0),
        ran(1, (3, 1), 0.0, 40.0, 40.0, 90.0),
        // 42 / 16 + 2 on GPU 0, 40 on GPU 1, which is empty.
        ran(2, (0, 2), 0.0, 40.0, 130.0, 131.0),
    ];
    let log = ExecutionLog { executions, ..ExecutionLog::default() };
    assert_valid(&instance, &log);
    let story = explain::idle(&Timeline::new(&instance, &log), 4);
    let narrow = story.causes.iter().find(|one| one.cause == explain::Cause::TooNarrow).unwrap();
    assert_eq!(narrow.gpu_seconds, 180.0);
}
