//! The engine itself: answers that follow from the rules by hand, and decisions that it refuses.

use crate::support::{Problem, makespan, run, run_all};
use gswarm_core::cost::SwitchRule;
use gswarm_core::engine::{Decision, Effect, Engine, Event, Rejected};
use gswarm_core::instance::Residency;
use gswarm_core::log::Status;
use gswarm_core::policy::PolicyKind;
use gswarm_core::sim::{InjectedFaults, SimOptions};
use gswarm_core::{GpuId, Gpus, ModelId, RequestId, Span, TaskId, Time, report};

fn seconds(value: f64) -> Span {
    Span::from_seconds(value)
}

#[test]
fn a_chain_takes_its_load_and_its_times() {
    let problem = Problem::on(1).model("m", 1, 8.0, 5.0).workflow(&[0, 0, 0], &[(0, 1), (1, 2)]);
    let instance = problem.request(0, 0.0, &[1.0, 2.0, 3.0]).build();
    for &kind in PolicyKind::ALL {
        assert_eq!(makespan(&run_all(&instance, kind)), seconds(11.0), "{}", kind.name());
    }
}

#[test]
fn a_switch_costs_both_sizes_and_the_overhead() {
    let problem = Problem::on(1).model("a", 1, 8.0, 5.0).model("b", 1, 24.0, 9.0);
    let instance = problem.workflow(&[0, 1], &[(0, 1)]).request(0, 0.0, &[1.0, 1.0]).build();
    let log = run_all(&instance, PolicyKind::Baseline);
    // 5 s load, 1 s, (8 + 24) / 16 + 2 = 4 s switch, 1 s.
    assert_eq!(log.executions[1].switch, seconds(4.0));
    assert_eq!(makespan(&log), seconds(11.0));
}

#[rstest::rstest]
#[case::transfer(SwitchRule::Transfer, 50.0)]
#[case::load_time(SwitchRule::LoadTime, 51.0)]
fn a_model_that_has_executed_nothing_makes_no_load_cheaper(#[case] rule: SwitchRule, #[case] costs: f64) {
    let mut problem = Problem::on(1).model("small", 1, 16.0, 1.0).model("large", 1, 32.0, 50.0);
    problem.cluster.switch.rule = rule;
    let problem = problem.workflow(&[0], &[]).workflow(&[1], &[]);
    let instance = problem.request(0, 0.0, &[10.0]).request(1, 0.0, &[10.0]).build();
    let (small, large, gpus) = (ModelId(0), ModelId(1), Gpus::new(0, 1));
    let mut engine = Engine::new(&instance, 1);
    (0..2).for_each(|request| engine.handle(Time::ZERO, Event::Arrived(RequestId(request))));
    engine.apply(Decision::Load { model: small, gpus, ahead_of: None }).unwrap();
    engine.handle(Time(1_000_000), Event::Loaded(GpuId(0)));
    assert_eq!(engine.view().load_cost(large, gpus), Some(seconds(costs)));
    engine.apply(Decision::Start { task: TaskId(0), gpus }).unwrap();
    engine.handle(Time(11_000_000), Event::Finished(TaskId(0)));
    // Now it is an ordinary switch: (16 + 32) / 16 + 2 s, or 50 s and 16 / 16 s to take the old one off.
    let switch = if rule == SwitchRule::Transfer { 5.0 } else { 51.0 };
    assert_eq!(engine.view().load_cost(large, gpus), Some(seconds(switch)));
}

#[test]
fn a_wide_model_pays_the_dearest_of_its_gpus() {
    let problem = Problem::on(2).model("small", 1, 16.0, 1.0).model("wide", 2, 32.0, 50.0);
    let problem = problem.workflow(&[0], &[]).workflow(&[1], &[]);
    let instance = problem.request(0, 0.0, &[10.0]).request(1, 0.0, &[10.0]).build();
    let log = run_all(&instance, PolicyKind::Baseline);
    // GPU 0 holds `small` (5 s to switch), GPU 1 is empty (50 s to load); both start together.
    let wide = log.executions.iter().find(|execution| execution.gpus.count == 2).unwrap();
    assert_eq!((wide.switch, wide.start), (seconds(50.0), Time(61_000_000)));
}

#[test]
fn a_fork_joins_when_its_last_branch_is_done() {
    let problem =
        Problem::on(3).model("m", 1, 8.0, 1.0).workflow(&[0, 0, 0, 0], &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    let instance = problem.request(0, 0.0, &[2.0, 5.0, 3.0, 1.0]).build();
    let log = run_all(&instance, PolicyKind::Baseline);
    // 1 + 2, then 5 s on the GPU that is there and 1 + 3 s on a fresh one, then 1 s.
    assert_eq!(makespan(&log), seconds(9.0));
}

#[test]
fn a_batch_slows_all_its_members_down_while_they_share() {
    let problem = Problem::on(1).model("m", 1, 8.0, 2.0).batching(&[(1, 1.0), (2, 1.5)]);
    let instance = problem.workflow(&[0], &[]).request(0, 0.0, &[2.0]).request(0, 0.0, &[4.0]).build();
    let log = run_all(&instance, PolicyKind::Baseline);
    // Both run at 1/1.5 until the first has done its 2 s (at 2 + 3), then the second has 2 s left alone.
    assert_eq!(log.executions[0].end, Time(5_000_000));
    assert_eq!(log.executions[1].end, Time(7_000_000));
    assert_eq!((log.executions[0].batch, log.executions[1].batch), (2, 2));
    assert_eq!((log.executions[0].switch, log.executions[1].switch), (seconds(2.0), Span::ZERO));
}

#[test]
fn models_share_a_gpu_where_memory_allows_and_leave_by_last_use() {
    let mut problem =
        Problem::on(1).model("a", 1, 30.0, 1.0).model("b", 1, 30.0, 1.0).model("c", 1, 30.0, 1.0);
    problem.cluster.residency = Residency::Memory;
    let problem = problem.workflow(&[0, 1, 0, 2, 1], &[(0, 1), (1, 2), (2, 3), (3, 4)]);
    let instance = problem.request(0, 0.0, &[1.0; 5]).build();
    let log = run_all(&instance, PolicyKind::Baseline);
    let switches: Vec<f64> = log.executions.iter().map(|execution| execution.switch.seconds()).collect();
    // a and b fit side by side; c evicts b, which was used least recently; b evicts a.
    let swap = 60.0 / 16.0 + 2.0;
    assert_eq!(switches, [1.0, 1.0, 0.0, swap, swap]);
    assert_eq!(*log.executions[3].evicted, [ModelId(1)]);
    assert_eq!(*log.executions[4].evicted, [ModelId(0)]);
}

#[test]
fn a_failed_node_is_tried_again_and_given_up_after_the_last_attempt() {
    let problem = Problem::on(2).model("m", 1, 8.0, 1.0).workflow(&[0, 0], &[(0, 1)]);
    let instance = problem.request(0, 0.0, &[1.0, 1.0]).build();
    let faults = InjectedFaults { fail_rate: 1.0, ..InjectedFaults::default() };
    for &kind in PolicyKind::ALL {
        let log =
            run(&instance, kind, &SimOptions { faults: faults.clone(), ..SimOptions::default() }).unwrap();
        let attempts: Vec<u32> = log.executions.iter().map(|execution| execution.attempt).collect();
        assert_eq!(attempts, [1, 2, 3], "{}", kind.name());
        assert!(log.executions.iter().all(|execution| execution.status == Status::Failed));
    }
}

#[test]
fn work_on_a_lost_gpu_moves_to_another() {
    let problem = Problem::on(2).model("m", 1, 8.0, 1.0).workflow(&[0], &[]);
    let instance = problem.request(0, 0.0, &[10.0]).request(0, 0.0, &[10.0]).build();
    let faults = InjectedFaults { lose: vec![(Time(5_000_000), GpuId(0))], ..InjectedFaults::default() };
    for &kind in PolicyKind::ALL {
        let log =
            run(&instance, kind, &SimOptions { faults: faults.clone(), ..SimOptions::default() }).unwrap();
        let done = log.executions.iter().filter(|execution| execution.status == Status::Completed);
        assert_eq!(done.clone().count(), 2, "{}", kind.name());
        assert!(done.into_iter().all(|execution| execution.gpus == Gpus::new(1, 1)), "{}", kind.name());
    }
}

/// Round numbers are what people type: the load and the GPU end at the same microsecond.
#[test]
fn a_gpu_lost_at_the_end_of_a_load_cuts_it_short() {
    let problem = Problem::on(4).model("wide", 2, 79.0, 30.0).workflow(&[0, 0], &[(0, 1)]);
    let instance = problem.request(0, 0.0, &[20.0, 20.0]).build();
    for (gpu, at) in [(0, 30), (1, 30), (1, 50), (2, 30)] {
        let faults =
            InjectedFaults { lose: vec![(Time(at * 1_000_000), GpuId(gpu))], ..InjectedFaults::default() };
        for &kind in PolicyKind::ALL {
            let log = run(&instance, kind, &SimOptions { faults: faults.clone(), ..SimOptions::default() })
                .unwrap();
            assert!(
                log.executions.iter().filter(|execution| execution.status == Status::Completed).count() == 2
            );
        }
    }
}

#[test]
fn what_lost_gpus_make_impossible_is_given_up_and_the_rest_is_done() {
    // The first request cannot end once GPU 1 is gone; the second can, and so can a branch of the third.
    let problem = Problem::on(2)
        .model("wide", 2, 8.0, 1.0)
        .model("small", 1, 4.0, 1.0)
        .workflow(&[0, 1], &[(0, 1)])
        .workflow(&[1], &[])
        .workflow(&[1, 0, 1], &[(0, 1), (0, 2)]);
    let problem =
        problem.request(0, 0.0, &[10.0, 5.0]).request(1, 0.0, &[7.0]).request(2, 0.0, &[4.0, 3.0, 2.0]);
    let faults = InjectedFaults { lose: vec![(Time(500_000), GpuId(1))], ..InjectedFaults::default() };
    for &kind in PolicyKind::ALL {
        let instance = problem.build();
        let log = run(&instance, kind, &SimOptions { faults: faults.clone(), ..SimOptions::default() });
        let log = log.unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        let left = report::unfinished(&instance, &log);
        let tasks: Vec<_> = left.iter().flat_map(|one| &one.tasks).map(|task| task.0).collect();
        assert_eq!(tasks, [0, 1, 4], "{}", kind.name());
        assert!(left.iter().all(|one| one.no_gpus_for == Some(ModelId(0))), "{}", kind.name());
    }
}

#[test]
fn events_of_one_instant_are_handled_in_a_fixed_order() {
    let mut events = vec![
        Event::Woken,
        Event::Arrived(RequestId(0)),
        Event::Lost(GpuId(0)),
        Event::Loaded(GpuId(1)),
        Event::Released(TaskId(3)),
        Event::Held(TaskId(3)),
        Event::Refused(TaskId(4)),
        Event::Failed(TaskId(0)),
        Event::Finished(TaskId(2)),
        Event::Finished(TaskId(1)),
    ];
    events.sort();
    assert_eq!(
        events,
        [
            Event::Finished(TaskId(1)),
            Event::Finished(TaskId(2)),
            Event::Failed(TaskId(0)),
            Event::Refused(TaskId(4)),
            Event::Held(TaskId(3)),
            Event::Lost(GpuId(0)),
            Event::Loaded(GpuId(1)),
            Event::Released(TaskId(3)),
            Event::Arrived(RequestId(0)),
            Event::Woken,
        ]
    );
}

#[test]
fn illegal_decisions_are_refused_and_change_nothing() {
    let problem = Problem::on(4).model("m", 1, 8.0, 1.0).model("wide", 2, 8.0, 1.0);
    let mut problem = problem.workflow(&[0, 1], &[(0, 1)]).workflow(&[1], &[]);
    problem.cluster.gpus_per_server = Some(2);
    let instance = problem.request(0, 0.0, &[1.0, 1.0]).request(1, 0.0, &[1.0]).build();
    let mut engine = Engine::new(&instance, 3);
    let start = |task: u32, first: u32, count: u32| Decision::Start {
        task: TaskId(task),
        gpus: Gpus::new(first, count),
    };
    assert_eq!(engine.apply(start(0, 0, 1)), Err(Rejected::NotReady { task: TaskId(0) }), "not arrived");
    engine.handle(Time::ZERO, Event::Arrived(RequestId(0)));
    engine.handle(Time::ZERO, Event::Arrived(RequestId(1)));
    let window = |first, count, model| Rejected::IllegalWindow {
        model: ModelId(model),
        gpus: Gpus::new(first, count),
    };
    assert_eq!(engine.apply(start(1, 0, 2)), Err(Rejected::NotReady { task: TaskId(1) }), "inputs missing");
    assert_eq!(engine.apply(start(9, 0, 2)), Err(Rejected::NotReady { task: TaskId(9) }), "no such task");
    assert_eq!(engine.apply(start(0, 0, 2)), Err(window(0, 2, 0)), "too many GPUs");
    assert_eq!(engine.apply(start(2, 1, 2)), Err(window(1, 2, 1)), "across servers");
    assert_eq!(engine.apply(start(2, 4, 2)), Err(window(4, 2, 1)), "no such GPU");
    assert_eq!(engine.apply(start(0, 0, 1)), Ok(()));
    assert_eq!(engine.apply(start(2, 0, 2)), Err(Rejected::Busy { gpu: GpuId(0) }));
    assert_eq!(engine.apply(start(0, 1, 1)), Err(Rejected::NotReady { task: TaskId(0) }), "already running");
    let load = Decision::Load { model: ModelId(1), gpus: Gpus::new(2, 2), ahead_of: None };
    assert_eq!(engine.apply(load), Ok(()));
    assert_eq!(engine.apply(load), Err(Rejected::Loading { gpu: GpuId(2) }));
    let past = Decision::Wake { at: Time::ZERO };
    assert_eq!(engine.apply(past), Err(Rejected::WakeInThePast { at: Time::ZERO, now: Time::ZERO }));
    let effects = engine.take_effects();
    assert_eq!(effects.len(), 2, "only what was accepted has effects: {effects:?}");
    assert!(effects.iter().all(|effect| matches!(effect, Effect::Load { .. })));
    engine.handle(Time(1_000_000), Event::Loaded(GpuId(2)));
    assert_eq!(engine.apply(load), Err(Rejected::AlreadyThere { model: ModelId(1), gpus: Gpus::new(2, 2) }));
    engine.handle(Time(1_000_000), Event::Lost(GpuId(3)));
    assert_eq!(engine.apply(start(2, 2, 2)), Err(Rejected::GpuLost { gpu: GpuId(3) }));
}

/// One GPU of 80 GB: `a` takes 30 GB and 10 GB an execution, `b` 35 GB. Beside `b` there is room for one of `a`.
#[test]
fn executions_take_memory_beside_the_models() {
    let mut problem = Problem::on(1).model("a", 1, 30.0, 1.0).batching(&[(1, 1.0), (8, 1.0)]).slot(10.0);
    problem = problem.model("b", 1, 35.0, 1.0).workflow(&[0], &[]).workflow(&[1], &[]);
    problem.cluster.residency = Residency::Memory;
    for _ in 0..6 {
        problem = problem.request(0, 0.0, &[5.0]);
    }
    let instance = problem.request(1, 0.0, &[5.0]).build();
    let (gpu, model) = (GpuId(0), ModelId(0));
    let start = |task| Decision::Start { task: TaskId(task), gpus: Gpus::new(0, 1) };
    let load_b = Decision::Load { model: ModelId(1), gpus: Gpus::new(0, 1), ahead_of: None };
    let mut engine = Engine::new(&instance, 1);
    instance.requests.keys().for_each(|request| engine.handle(Time::ZERO, Event::Arrived(request)));
    engine.apply(start(0)).unwrap();
    engine.handle(Time(1_000_000), Event::Loaded(gpu));
    engine.apply(start(1)).unwrap();
    assert_eq!(engine.apply(load_b), Err(Rejected::NoRoom { model: ModelId(1), gpu }), "two run already");
    (2..5).for_each(|task| engine.apply(start(task)).unwrap());
    assert_eq!(engine.apply(start(5)), Err(Rejected::BatchFull { task: TaskId(5), gpus: Gpus::new(0, 1) }));
    (1..5).for_each(|task| engine.handle(Time(6_000_000), Event::Finished(TaskId(task))));
    assert!(engine.view().joinable(model).contains(gpu));
    engine.apply(load_b).unwrap();
    assert!(!engine.view().joinable(model).contains(gpu), "what comes counts as what is there");
    assert_eq!(engine.apply(start(5)), Err(Rejected::NoSlot { model, gpu }));
    engine.handle(Time(7_000_000), Event::Loaded(gpu));
    assert_eq!(engine.apply(start(5)), Err(Rejected::NoSlot { model, gpu }));
}
