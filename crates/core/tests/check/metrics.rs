//! Metrics of hand-made logs, held against sums done by hand.

use crate::support::*;
use gswarm_core::check;
use gswarm_core::log::{ExecutionLog, Load, Loss, Status};
use gswarm_core::report::{self, Stats};
use gswarm_core::{GpuId, Gpus, ModelId, RequestId, Span, Time};

fn near(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-9, "{one} is not {other}");
}

#[test]
fn percentiles_interpolate_between_neighbours() {
    let stats = Stats::of([4.0, 1.0, 3.0, 2.0].map(Span::from_seconds).to_vec());
    near(stats.mean, 2.5);
    near(stats.median, 2.5);
    near(stats.p90, 3.7);
    near(stats.p99, 3.97);
    assert_eq!((stats.count, stats.min, stats.max), (4, 1.0, 4.0));
    assert_eq!(Stats::of(vec![]), Stats::default());
    near(Stats::of(vec![Span(5_000_000)]).p99, 5.0);
}

#[test]
fn the_simple_run_measured() {
    let (mut instance, log) = simple();
    let requests = &mut instance.requests.raw;
    (requests[0].deadline, requests[1].deadline) = (Some(Span(81_999_999)), Some(Span(81_000_000)));
    let metrics = report::metrics(&instance, &log);
    near(metrics.makespan.seconds(), 86.0);
    // Latencies: r1 82, r2 81, r3 69.375 - 5.
    near(metrics.request_latency.mean, (82.0 + 81.0 + 64.375) / 3.0);
    near(metrics.request_latency.median, 81.0);
    near(metrics.request_latency.p90, 81.8);
    near(metrics.request_latency.p99, 81.98);
    near(metrics.waiting_time.mean, (30.0 + 33.0 + 3.5 + 20.0 + 60.375 + 40.0 + 36.0) / 7.0);
    near(metrics.execution_time.mean, (2.0 * (8.0 + 3.0 + 4.0) + 4.0) / 7.0);
    near(metrics.node_latency.mean, metrics.waiting_time.mean + metrics.execution_time.mean);
    assert_eq!((metrics.model_switches, metrics.cold_loads), (2, 3));
    near(metrics.total_switch_time.seconds(), 30.0 + 20.0 + 3.5 + 4.375 + 40.0);
    near(metrics.switch_overhead, (30.0 + 20.0 + 3.5 + 2.0 * 4.375 + 2.0 * 40.0) / (4.0 * 86.0));
    let busy = [30.0 + 16.0 + 3.5 + 3.0 + 8.375, 23.0 + 8.375, 48.0, 48.0];
    let compute = [16.0 + 3.0 + 4.0, 3.0 + 4.0, 8.0, 8.0];
    let counts = [4, 2, 2, 2];
    for (gpu, one) in metrics.gpus.iter().enumerate() {
        near(one.busy.seconds(), busy[gpu]);
        near(one.utilisation, busy[gpu] / 86.0);
        near(one.compute_utilisation, compute[gpu] / 86.0);
        assert_eq!(one.executions, counts[gpu]);
    }
    assert_eq!(
        metrics.gpus.iter().map(|gpu| (gpu.switches, gpu.cold_loads)).collect::<Vec<_>>(),
        [(2, 1), (1, 1), (0, 1), (0, 1)]
    );
    let mean = busy.iter().sum::<f64>() / 4.0 / 86.0;
    near(metrics.utilisation.mean, mean);
    near(metrics.utilisation.load_balance, mean / (60.875 / 86.0));
    near(metrics.utilisation.spread_points, (60.875 - 31.375) / 86.0 * 100.0);
    near(
        metrics.utilisation.variance,
        busy.iter().map(|busy| (busy / 86.0 - mean).powi(2)).sum::<f64>() / 4.0,
    );
    near(metrics.servers.server_efficiency, 1.0 / 3.0);
    assert_eq!((metrics.servers.intra_server_workflows, metrics.servers.inter_server_workflows), (1, 2));
    assert_eq!(metrics.servers.cross_server_communications, 2);
    assert_eq!((metrics.requests_with_deadline, metrics.deadline_misses), (2, 1));
    near(metrics.requests_per_second, 3.0 / 86.0);
    assert_eq!(metrics.models.iter().map(|model| model.executions).collect::<Vec<_>>(), [2, 2, 3]);
    let json = serde_json::to_value(&metrics).unwrap();
    assert_eq!(
        (json["makespan_seconds"].as_f64(), json["request_latency"]["max"].as_f64()),
        (Some(86.0), Some(82.0))
    );
}

#[test]
fn the_console_block_is_plain() {
    let (instance, log) = simple();
    let metrics = report::metrics(&instance, &log);
    let text = report::render_text(&metrics, Some(&summary(&instance, &log)));
    insta::assert_snapshot!(text, @r"
    Run
      Policy               by hand (online)
      Makespan             86.00 s
      Lower bound          68.80 s (gap 25.00%)
      Requests completed   3 of 3
      Nodes completed      7
      Throughput           0.035 requests/s, 0.081 nodes/s

    Times (s)
                          average    median       P90       P99       min       max
      Request latency       75.79     81.00     81.80     81.98     64.38     82.00
      Waiting time          31.84     33.00     48.15     59.15      3.50     60.38
      Node latency          36.70     40.00     52.15     63.15      6.50     64.38
      Execution time         4.86      4.00      8.00      8.00      3.00      8.00

    Request latency by workflow (s)
                           requests   average    median       P99       max
      tree                        2     81.50     81.50     81.99     82.00
      solo                        1     64.38     64.38     64.38     64.38

    GPU utilisation
      Average              54.72% (computing 13.37%)
      Spread               34.30 points, variance 0.014827
      Load balance         0.7731
      GPU 0                  70.78% (computing  26.74%)  4 executions
      GPU 1                  36.48% (computing   8.14%)  2 executions
      GPU 2                  55.81% (computing   9.30%)  2 executions
      GPU 3                  55.81% (computing   9.30%)  2 executions

    Model executions
      a                              2  (0 switches, 1 cold load)
      b                              2  (1 switch, 1 cold load)
      wide                           3  (1 switch, 1 cold load)

    Model switching
      Model switches       2
      Cold loads           3
      Total switch time    97.88 s
      Switch overhead      41.35%

    Servers
      Servers              2
      Server efficiency    33.33%
      Requests on one      1
      Requests on several  2
      Edges across         2
    ");
}

#[test]
fn many_gpus_are_abbreviated() {
    let (mut instance, log) = simple();
    instance.cluster.gpus = 100;
    let text = report::render_text(&report::metrics(&instance, &log), None);
    let listed: Vec<&str> =
        text.lines().filter(|line| line.trim_start().starts_with("GPU ")).skip(1).collect();
    assert_eq!(listed.len(), 4, "{text}");
    assert!(text.contains("GPU 0 (busiest)") && text.contains("(100 GPUs in all)"), "{text}");
}

#[test]
fn events_come_by_time() {
    let (instance, log) = simple();
    let mut bytes = Vec::new();
    report::write_events(&instance, &log, &mut bytes).unwrap();
    insta::assert_snapshot!(String::from_utf8(bytes).unwrap(), @r"
    [0.00s] Request r1 arrived (workflow tree)
    [0.00s] Loading model a on GPU(s) [0] (30.00s, cold)
    [5.00s] Request r2 arrived (workflow tree)
    [5.00s] Request r3 arrived (workflow solo)
    [30.00s] Started node write of request r1 on GPU(s) [0]
    [38.00s] Completed node write of request r1 on GPU(s) [0]
    [38.00s] Loading model b on GPU(s) [1] (20.00s, cold)
    [38.00s] Loading model wide on GPU(s) [2, 3] (40.00s, cold)
    [38.00s] Started node write of request r2 on GPU(s) [0]
    [46.00s] Completed node write of request r2 on GPU(s) [0]
    [46.00s] Switching to model b on GPU(s) [0] (3.50s, switch)
    [49.50s] Started node paint of request r2 on GPU(s) [0]
    [52.50s] Completed node paint of request r2 on GPU(s) [0]
    [58.00s] Started node paint of request r1 on GPU(s) [1]
    [61.00s] Completed node paint of request r1 on GPU(s) [1]
    [61.00s] Switching to model wide on GPU(s) [0, 1] (4.38s, switch)
    [65.38s] Started node join of request r3 on GPU(s) [0, 1]
    [69.38s] Completed node join of request r3 on GPU(s) [0, 1]
    [78.00s] Started node join of request r1 on GPU(s) [2, 3]
    [82.00s] Completed node join of request r1 on GPU(s) [2, 3]
    [82.00s] Started node join of request r2 on GPU(s) [2, 3]
    [86.00s] Completed node join of request r2 on GPU(s) [2, 3]
    ");
}

#[test]
fn names_cannot_steer_the_terminal() {
    let (mut instance, log) = simple();
    instance.requests[RequestId(0)].name = "r\n1".into();
    instance.models[ModelId(0)].name = "m\u{1b}[31mX".into();
    let mut events = Vec::new();
    report::write_events(&instance, &log, &mut events).unwrap();
    let mut summary = summary(&instance, &log);
    summary.policy = "p\u{7}".into();
    let mut damaged = log.clone();
    damaged.executions[0].end.0 += 1_000_000;
    let found = check::check_log(&instance, &damaged, None);
    let texts = [
        String::from_utf8(events).unwrap(),
        report::render_text(&report::metrics(&instance, &log), Some(&summary)),
        check::report(&found),
        found.iter().map(|one| format!("{one}\n")).collect(),
    ];
    for text in &texts {
        assert!(!text.contains(|one: char| one.is_control() && one != '\n'), "{text:?}");
    }
    assert!(texts[0].contains("Request r\\n1 arrived") && texts[0].contains("model m\\u{1b}[31mX on"));
    assert!(texts[1].contains("m\\u{1b}[31mX ") && texts[1].contains("p\\u{7} (online)"), "{}", texts[1]);
    assert!(texts[2].contains("r\\n1/write"), "{}", texts[2]);
}

#[test]
fn no_line_is_longer_than_80_columns() {
    let (mut instance, mut log) = simple();
    let long = "a-model-name-that-goes-on-and-on/".repeat(4);
    instance.models[ModelId(0)].name = long.clone();
    log.executions.last_mut().unwrap().end = at(8e9);
    let metrics = report::metrics(&instance, &log);
    let assignments = (0..4).map(|gpu| (gpu, vec![long.clone(), "b".into()])).collect();
    let info = report::RunInfo {
        policy: long.clone(),
        lower_bound: Some(metrics.makespan),
        gpu_assignments: Some(assignments),
        ..report::RunInfo::default()
    };
    let text = report::render_text(&metrics, Some(&report::summary(&instance, &metrics, info)));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(text.contains('…'), "{text}");
    assert!(text.contains("(0 switches, 1 cold load)"), "{text}");
}

#[test]
fn deployment_loads_are_told_apart() {
    let (instance, mut log) = simple();
    assert_eq!(report::metrics(&instance, &log).deployment, None);
    // The cold load of `wide` is made ahead, from the start on.
    log.executions[5].switch = Span::ZERO;
    let (start, end) = (at(0.0), at(40.0));
    log.loads = vec![Load {
        model: ModelId(2),
        gpus: Gpus::new(2, 2),
        start,
        end,
        status: Status::Completed,
        evicted: [].into(),
    }];
    assert_valid(&instance, &log);
    let metrics = report::metrics(&instance, &log);
    let deployment = metrics.deployment.unwrap();
    assert_eq!((deployment.replicas, deployment.load), (1, Span(40_000_000)));
    assert_eq!(deployment.ready_after, Span(40_000_000));
    let json = serde_json::to_value(&metrics).unwrap();
    assert_eq!(json["deployment"]["load_seconds"], 40.0);
    assert_eq!(json["deployment"]["ready_after_seconds"], 40.0);
    let info = report::RunInfo { gpu_assignments: Some([].into()), ..report::RunInfo::default() };
    let text = report::render_text(&metrics, Some(&report::summary(&instance, &metrics, info)));
    assert!(text.contains("Replicas loaded      1\n  Load time            40.00 s\n"), "{text}");
    assert!(text.contains("All loaded after     40.00 s\n"), "{text}");
}

#[test]
fn the_bound_is_said_not_to_know_of_lost_gpus() {
    let (instance, mut log) = simple();
    let note = "(the bound assumes that no GPU was lost)";
    let text = |log: &ExecutionLog| {
        report::render_text(&report::metrics(&instance, log), Some(&summary(&instance, log)))
    };
    assert!(!text(&log).contains(note));
    log.losses = vec![Loss { gpu: GpuId(3), at: at(90.0), until: None }];
    assert!(text(&log).contains(note), "{}", text(&log));
    assert!(text(&log).contains("0 (1 GPU lost)"), "{}", text(&log));
    let json = serde_json::to_value(report::metrics(&instance, &log)).unwrap();
    assert!(json["bound_note"].is_string());
}

#[test]
fn sums_of_times_stop_at_the_largest() {
    let (instance, mut log) = simple();
    let huge = Time(u64::MAX - 1);
    for (gpu, one) in log.executions.iter_mut().enumerate() {
        (one.gpus, one.switch) = (Gpus::new(gpu as u32 % 2, 1), Span(u64::MAX / 3));
        (one.start, one.end) = (huge, Time::NEVER);
    }
    let summary = summary(&instance, &log);
    assert_eq!(summary.total_switch_time, Span(u64::MAX));
    let found = check::check_log(&instance, &log, Some(&summary));
    let of = |code| found.iter().filter(|one| one.code == code).map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(of(check::ViolationCode::SumMakespan), [""; 0]);
    let switches = of(check::ViolationCode::SumSwitches);
    assert!(switches.iter().all(|one| !one.contains("total_switch_time")), "{switches:?}");
}

/// A load that fails in the moment in which it begins leaves its GPUs empty, so that the next one is a cold load.
#[test]
fn a_load_that_fails_as_it_begins_is_nothing_to_replace() {
    let (instance, _) = simple();
    let load = |model: u32, start: u64, end: u64, status| Load {
        model: ModelId(model),
        gpus: Gpus::new(0, 1),
        start: Time(start),
        end: Time(end),
        status,
        evicted: Box::default(),
    };
    let (failed, done) = (Status::Failed, Status::Completed);
    // In the order of ends, as logs have them; the last two begin in the moment in which another has failed.
    for (loads, expected) in [
        (vec![load(0, 0, 0, failed), load(1, 5, 9, done)], (0, 2)),
        (vec![load(0, 0, 4, done), load(1, 5, 5, failed), load(1, 7, 9, done)], (1, 2)),
        (vec![load(0, 0, 4, done), load(1, 5, 5, failed), load(1, 5, 9, done)], (1, 2)),
    ] {
        let log = ExecutionLog { loads, ..ExecutionLog::default() };
        let metrics = report::metrics(&instance, &log);
        assert_eq!((metrics.model_switches, metrics.cold_loads), expected, "{:?}", log.loads);
        let info = report::RunInfo { timing: gswarm_core::log_file::Timing::Measured, ..Default::default() };
        let summary = report::summary(&instance, &metrics, info);
        let codes: Vec<_> = check::check_log(&instance, &log, Some(&summary))
            .into_iter()
            .filter(|found| found.code != check::ViolationCode::NodeMissing)
            .collect();
        assert_eq!(codes, [], "{:?}", log.loads);
    }
}
