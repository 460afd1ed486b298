use crate::support::*;
use gswarm_core::explain::{self, Cause, Timeline};
use gswarm_core::input::Scenario;
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::log::ExecutionLog;
use gswarm_core::{GpuId, Span};

fn by_cause(shares: &[explain::CauseShare], cause: Cause) -> f64 {
    shares.iter().find(|one| one.cause == cause).unwrap().gpu_seconds
}

#[test]
fn every_idle_second_of_a_log_by_hand_has_its_reason() {
    // `simple`, 4 GPUs, 86 s. r1 arrives at 0, r2 and r3 (join alone, 2 GPUs) at 5.
    // GPU 0: a is loaded 0-30, write 30-38, 38-46; b 46-49.5, paint to 52.5; idle to 61; wide 61-65.375, join to 69.375; idle.
    // GPU 1: idle to 38; b is loaded 38-58, paint to 61; as GPU 0 from there.
    // GPUs 2, 3: idle to 38; wide is loaded 38-78, join to 82, join to 86.
    // Ready and not begun: r2/write 5-38, r3/join 5-61, r2/paint 46 (at once), r1/paint and r1/join 38 (at once),
    // r2/join 46-82.
    // - 0-5: nothing ready, r1's other nodes wait for write: GPUs 1-3, 15 GPU-s of inputs.
    // - 5-38: r2/write (1 GPU) fits any of GPUs 1-3: 99 GPU-s of choice.
    // - 52.5-61 on GPU 0: r3/join and r2/join are ready and need 2 GPUs of a server; GPU 1 is busy: 8.5 too narrow.
    // - 69.375-82 on GPUs 0, 1: r2/join is ready and would fit: 25.25 of choice.
    // - 82-86 on GPUs 0, 1: nothing is left to begin: 8.
    let (instance, log) = simple();
    let timeline = Timeline::new(&instance, &log);
    let story = explain::idle(&timeline, 10);
    let of = |cause| by_cause(&story.causes, cause);
    assert_eq!(of(Cause::Inputs), 15.0);
    assert_eq!(of(Cause::Choice), 99.0 + 25.25);
    assert_eq!(of(Cause::TooNarrow), 8.5);
    assert_eq!((of(Cause::Arrivals), of(Cause::Tail)), (0.0, 8.0));
    assert_eq!(story.idle_gpu_seconds, 155.75 + 0.0);
    assert_eq!(story.gap_count, 6);
    assert_eq!((story.gaps[0].gpu, story.gaps[0].length), (1, Span::from_seconds(38.0)));
    assert_eq!(story.gaps[0].cause, Cause::Choice);
    let example = story.gaps[0].example.clone().unwrap();
    assert_eq!((example.node.as_str(), example.ready, example.waited), ("r2/write", at(5.0), true));
    let narrow = story.gaps.iter().find(|gap| gap.cause == Cause::TooNarrow).unwrap();
    let example = narrow.example.clone().unwrap();
    assert_eq!((example.node.as_str(), example.gpus_needed), ("r3/join", 2));
    assert_eq!(explain::idle(&timeline, 2).gaps.len(), 2);

    let gpu = explain::gpu(&timeline, GpuId(0), 10);
    let seconds = |span: Span| span.seconds();
    assert_eq!(seconds(gpu.executing), 16.0 + 3.0 + 4.0);
    assert_eq!(seconds(gpu.switching), 30.0 + 3.5 + 4.375);
    assert_eq!(seconds(gpu.idle), 8.5 + 16.625);
    assert_eq!(gpu.executing + gpu.switching + gpu.idle, gpu.makespan);
    assert_eq!((gpu.models[0].model.as_str(), gpu.models[0].executions, gpu.models[0].loads), ("a", 2, 1));
    assert_eq!(by_cause(&gpu.causes, Cause::Choice), 12.625);
    assert_eq!(gpu.gap_count, 2);
}

#[test]
fn a_pause_between_arrivals_is_told_from_a_wait_for_inputs() {
    let scenario = Scenario::builder()
        .model("a", 1, 14.0, 30.0)
        .workflow("one")
        .node("x", "a")
        .request("r1", "one")
        .arrival(0.0)
        .times(&[10.0])
        .request("r2", "one")
        .arrival(100.0)
        .times(&[10.0])
        .build()
        .unwrap();
    let instance = Instance::build(&scenario, cluster(1, None), Mode::Online).unwrap();
    let executions = vec![ran(0, (0, 1), 0.0, 30.0, 30.0, 40.0), ran(1, (0, 1), 100.0, 0.0, 102.0, 112.0)];
    let log = ExecutionLog { executions, ..ExecutionLog::default() };
    assert_valid(&instance, &log);
    let story = explain::idle(&Timeline::new(&instance, &log), 10);
    // 40-100 nobody is there; 100-102 r2 could have started.
    assert_eq!(by_cause(&story.causes, Cause::Arrivals), 60.0);
    assert_eq!(by_cause(&story.causes, Cause::Choice), 2.0);
    assert_eq!((story.gap_count, story.gaps[0].cause), (1, Cause::Arrivals));
}

#[test]
fn a_lost_gpu_is_gone_and_not_idle() {
    let (instance, mut log) = simple();
    log.losses.push(gswarm_core::log::Loss { gpu: GpuId(0), at: at(80.0), until: None });
    let timeline = Timeline::new(&instance, &log);
    let gpu = explain::gpu(&timeline, GpuId(0), 10);
    assert_eq!(gpu.lost, Span::from_seconds(6.0));
    assert_eq!(gpu.executing + gpu.switching + gpu.idle + gpu.lost, gpu.makespan);
}
