//! What goes wrong and comes right again: GPUs that return, loads that fail, requests that are withdrawn or come in late.

use crate::support::{Problem, run};
use gswarm_core::engine::{Decision, Effect, Engine, Event, News, Rejected, TaskState};
use gswarm_core::instance::{Instance, NewRequest, Residency};
use gswarm_core::log::Status;
use gswarm_core::log_file::Timing;
use gswarm_core::policy::PolicyKind;
use gswarm_core::report::{RunInfo, metrics, summary};
use gswarm_core::sim::{InjectedFaults, SimOptions};
use gswarm_core::{GpuId, Gpus, RequestId, Span, TaskId, Time, WorkflowId, check};

fn at(seconds: u64) -> Time {
    Time(seconds * 1_000_000)
}

fn start(task: u32, gpu: u32) -> Decision {
    Decision::Start { task: TaskId(task), gpus: Gpus::new(gpu, 1) }
}

fn two_requests() -> Instance {
    let problem = Problem::on(2).model("m", 1, 8.0, 1.0).workflow(&[0, 0], &[(0, 1)]);
    problem.request(0, 0.0, &[10.0, 10.0]).request(0, 0.0, &[10.0, 10.0]).build()
}

#[test]
fn a_gpu_that_returns_is_empty_and_used_again() {
    let instance = two_requests();
    let lose = vec![(at(5), GpuId(0)), (at(6), GpuId(1))];
    let bring_back = vec![(at(50), GpuId(1)), (at(60), GpuId(0))];
    let faults = InjectedFaults { lose, bring_back, ..InjectedFaults::default() };
    for &kind in PolicyKind::ALL {
        let log = run(&instance, kind, &SimOptions { faults: faults.clone(), ..SimOptions::default() });
        let log = log.unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        let done = log.executions.iter().filter(|one| one.status == Status::Completed);
        assert_eq!(done.count(), 4, "{}", kind.name());
        assert_eq!(log.losses[0].until, Some(at(60)));
        assert_eq!(check::check_log(&instance, &log, None), [], "{}", kind.name());
        let early = log.executions.iter().filter(|one| one.start < at(51) && one.end > at(6)).count();
        assert_eq!(early, 0, "{}: there was no GPU", kind.name());
    }
}

#[test]
fn what_waits_for_a_load_fails_with_it_and_is_tried_again() {
    let instance = two_requests();
    let mut engine = Engine::new(&instance, 2);
    engine.handle(at(0), Event::Arrived(RequestId(0)));
    engine.handle(at(0), Event::Arrived(RequestId(1)));
    engine.apply(start(0, 0)).unwrap();
    engine.handle(at(1), Event::LoadFailed(GpuId(0)));
    assert_eq!(engine.view().state(TaskId(0)), TaskState::Ready);
    assert!(engine.view().empty().contains(GpuId(0)) && engine.view().idle().contains(GpuId(0)));
    engine.apply(start(0, 0)).unwrap();
    engine.handle(at(2), Event::LoadFailed(GpuId(0)));
    assert_eq!(engine.view().state(TaskId(0)), TaskState::GivenUp, "twice is too often");
    assert_eq!(engine.view().state(TaskId(1)), TaskState::GivenUp, "it needs the other");
    engine.apply(start(2, 1)).unwrap();
    engine.handle(at(4), Event::Loaded(GpuId(1)));
    engine.handle(at(14), Event::Finished(TaskId(2)));
    engine.apply(start(3, 1)).unwrap();
    engine.handle(at(24), Event::Finished(TaskId(3)));
    assert!(engine.is_done());
    let log = engine.into_log();
    let failed: Vec<_> = log.executions.iter().filter(|one| one.status == Status::Failed).collect();
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|one| one.start == one.end && one.switch == Span(1_000_000)));
    assert_eq!(
        check::check_log(&instance, &log, None).iter().filter(|v| v.code.code() != "C-SWITCH-LONG").count(),
        0
    );
}

#[test]
fn a_load_made_ahead_that_fails_leaves_an_empty_gpu() {
    let instance = two_requests();
    let mut engine = Engine::new(&instance, 2);
    let model = instance.model_of(TaskId(0));
    engine.apply(Decision::Load { model, gpus: Gpus::new(0, 1), ahead_of: None }).unwrap();
    engine.handle(at(1), Event::LoadFailed(GpuId(0)));
    assert!(engine.view().empty().contains(GpuId(0)) && !engine.view().holding(model).contains(GpuId(0)));
    assert_eq!(engine.into_log().loads[0].status, Status::Failed);
}

#[test]
fn a_withdrawn_request_leaves_its_gpu_to_others() {
    let instance = two_requests();
    let mut engine = Engine::new(&instance, 2);
    engine.handle(at(0), Event::Arrived(RequestId(0)));
    engine.handle(at(0), Event::Arrived(RequestId(1)));
    engine.apply(start(0, 0)).unwrap();
    engine.apply(start(2, 1)).unwrap();
    engine.handle(at(1), Event::Loaded(GpuId(1)));
    engine.take_effects();
    // One still waits for its load, the other executes.
    engine.handle(at(1), Event::Withdrawn(RequestId(0)));
    engine.handle(at(2), Event::Withdrawn(RequestId(1)));
    assert_eq!(engine.take_effects(), [Effect::AbortTask { task: TaskId(2), gpus: Gpus::new(1, 1) }]);
    assert!(engine.is_done() && engine.view().idle().contains(GpuId(1)));
    assert!(!engine.view().idle().contains(GpuId(0)), "its load goes on");
    engine.handle(at(3), Event::Loaded(GpuId(0)));
    assert!(engine.view().idle().contains(GpuId(0)));
    let log = engine.into_log();
    assert!(log.executions.iter().all(|one| one.status == Status::Cancelled));
    assert_eq!(log.loads.len(), 1, "a load that nobody bears stands for itself");
}

#[test]
fn requests_come_in_while_others_run_and_their_numbers_are_used_again() {
    let instance = Problem::on(1).model("m", 1, 8.0, 1.0).workflow(&[0, 0], &[(0, 1)]).build();
    let mut engine = Engine::for_stream(instance, 3);
    let new = |name: &str, arrival| NewRequest {
        name: name.into(),
        workflow: WorkflowId(0),
        arrival,
        priority: 0,
        deadline: None,
        executions: vec![Span(7), Span(9)],
    };
    let mut now = Time::ZERO;
    let mut free = None;
    for round in 0..5 {
        let name = format!("r{round}");
        let request = engine.admit(new(&name, now), free);
        assert_eq!(request, RequestId(0), "one number is enough for one after the other");
        engine.handle(now, Event::Arrived(request));
        for task in 0..2 {
            engine.apply(start(task, 0)).unwrap();
            for effect in engine.take_effects() {
                if let Effect::Load { gpus, .. } = effect {
                    engine.handle(now, Event::Loaded(gpus.first));
                }
            }
            now = now + engine.view().instance().execution(TaskId(task));
            engine.handle(now, Event::Finished(TaskId(task)));
        }
        assert!(engine.may_retire(request) && engine.is_done());
        free = Some(request);
        assert_eq!(engine.take_log().executions.len(), 2);
        assert_eq!(engine.view().instance().requests[request].name, name);
    }
    assert_eq!(engine.view().instance().tasks(), 2);
}

/// One that is held is nobody's to start until it is released, and holds no GPU meanwhile.
#[test]
fn a_task_that_is_held_waits_for_its_release() {
    let instance = two_requests();
    let mut engine = Engine::new(&instance, 3);
    (0..2).for_each(|request| engine.handle(at(0), Event::Arrived(RequestId(request))));
    engine.apply(start(0, 0)).unwrap();
    engine.handle(at(3), Event::Loaded(GpuId(0)));
    engine.take_news();
    engine.handle(at(4), Event::Failed(TaskId(0)));
    engine.handle(at(4), Event::Held(TaskId(0)));
    assert_eq!((engine.view().state(TaskId(0)), engine.view().failures(TaskId(0))), (TaskState::Held, 1));
    assert_eq!(engine.take_news(), [News::Freed(Gpus::new(0, 1))], "nobody is told that it is ready");
    assert!(engine.view().idle().contains(GpuId(0)));
    assert_eq!(engine.apply(start(0, 0)), Err(Rejected::NotReady { task: TaskId(0) }));
    engine.apply(start(2, 0)).unwrap();
    engine.handle(at(9), Event::Released(TaskId(0)));
    assert_eq!(engine.take_news(), [News::Ready(TaskId(0))]);
    engine.handle(at(9), Event::Released(TaskId(0)));
    engine.handle(at(9), Event::Held(TaskId(0)));
    assert_eq!(engine.view().state(TaskId(0)), TaskState::Ready, "somebody was told already");
    engine.apply(start(0, 1)).unwrap();
    engine.handle(at(12), Event::Loaded(GpuId(1)));
    engine.handle(at(13), Event::Refused(TaskId(0)));
    assert_eq!(engine.view().state(TaskId(0)), TaskState::GivenUp);
    assert_eq!(engine.view().state(TaskId(1)), TaskState::GivenUp);
    // What is held goes with its request.
    engine.handle(at(13), Event::Failed(TaskId(2)));
    engine.handle(at(13), Event::Held(TaskId(2)));
    engine.handle(at(14), Event::Withdrawn(RequestId(1)));
    assert!(engine.is_done());
    engine.handle(at(15), Event::Released(TaskId(2)));
    assert_eq!(engine.view().state(TaskId(2)), TaskState::GivenUp);
}

/// What is wrong with the log of a live run, whose times are what they are.
fn faults_of_a_live_run(instance: &Instance, engine: Engine<'_>) -> Vec<check::Violation> {
    let log = engine.into_log();
    let info = RunInfo { simulate: true, timing: Timing::Measured, ..RunInfo::default() };
    let summary = summary(instance, &metrics(instance, &log), info);
    check::check_log(instance, &log, Some(&summary))
}

/// A server may still have a model of which a load onto other GPUs has failed: then it is there at once.
#[test]
fn a_load_that_takes_no_time_is_written_down() {
    let problem = Problem::on(3).model("wide", 2, 8.0, 1.0).workflow(&[0], &[]);
    let instance = problem.request(0, 0.0, &[1.0]).request(0, 0.0, &[1.0]).request(0, 0.0, &[1.0]).build();
    let start = |task, first| Decision::Start { task: TaskId(task), gpus: Gpus::new(first, 2) };
    let mut engine = Engine::new(&instance, 3);
    (0..3).for_each(|request| engine.handle(at(0), Event::Arrived(RequestId(request))));
    engine.apply(start(0, 1)).unwrap();
    engine.handle(at(1), Event::Loaded(GpuId(1)));
    engine.handle(at(2), Event::Finished(TaskId(0)));
    engine.apply(start(1, 0)).unwrap();
    engine.handle(at(3), Event::LoadFailed(GpuId(0)));
    engine.apply(start(1, 1)).unwrap();
    engine.handle(at(3), Event::Loaded(GpuId(1)));
    engine.handle(at(4), Event::Finished(TaskId(1)));
    // The same for a load ahead of a task that starts in that moment.
    let model = instance.model_of(TaskId(2));
    engine.apply(Decision::Load { model, gpus: Gpus::new(0, 2), ahead_of: Some(TaskId(2)) }).unwrap();
    engine.handle(at(5), Event::LoadFailed(GpuId(0)));
    let ahead = Decision::Load { model, gpus: Gpus::new(1, 2), ahead_of: Some(TaskId(2)) };
    engine.apply(ahead).unwrap();
    engine.handle(at(5), Event::Loaded(GpuId(1)));
    engine.apply(start(2, 1)).unwrap();
    engine.handle(at(6), Event::Finished(TaskId(2)));
    assert_eq!(faults_of_a_live_run(&instance, engine), []);
}

/// A server may leave in the moment in which it was told to load: what made way for the load was there until then.
#[test]
fn a_gpu_may_be_lost_in_the_moment_in_which_a_load_began() {
    let mut problem = Problem::on(1).model("a", 1, 50.0, 1.0).model("b", 1, 50.0, 1.0);
    problem.cluster.residency = Residency::Memory;
    let problem = problem.workflow(&[0, 1], &[(0, 1)]).request(0, 0.0, &[1.0, 1.0]);
    let instance = problem.build();
    for is_ahead in [true, false] {
        let mut engine = Engine::new(&instance, 3);
        engine.handle(at(0), Event::Arrived(RequestId(0)));
        engine.apply(start(0, 0)).unwrap();
        engine.handle(at(1), Event::Loaded(GpuId(0)));
        engine.handle(at(2), Event::Finished(TaskId(0)));
        let load =
            Decision::Load { model: instance.model_of(TaskId(1)), gpus: Gpus::new(0, 1), ahead_of: None };
        engine.apply(if is_ahead { load } else { start(1, 0) }).unwrap();
        engine.handle(at(2), Event::Lost(GpuId(0)));
        engine.handle(at(3), Event::Returned(GpuId(0)));
        engine.apply(start(1, 0)).unwrap();
        engine.handle(at(4), Event::Loaded(GpuId(0)));
        engine.handle(at(5), Event::Finished(TaskId(1)));
        assert_eq!(faults_of_a_live_run(&instance, engine), [], "{is_ahead}");
    }
}

/// Under the real clock, several things may happen in one moment, each after decisions that followed from the one before.
#[test]
fn who_leaves_a_batch_in_the_moment_in_which_another_starts_is_not_counted() {
    let problem = Problem::on(1).model("m", 1, 8.0, 1.0).batching(&[(1, 1.0), (4, 1.5)]).workflow(&[0], &[]);
    let instance = (0..3).fold(problem, |problem, _| problem.request(0, 0.0, &[4.0])).build();
    for leaves in [
        Event::Finished(TaskId(0)),
        Event::Failed(TaskId(0)),
        Event::Withdrawn(RequestId(0)),
        Event::Failed(TaskId(1)),
        Event::Deferred(TaskId(1)),
        Event::Refused(TaskId(1)),
        Event::Withdrawn(RequestId(1)),
    ] {
        let mut engine = Engine::new(&instance, 3);
        (0..3).for_each(|request| engine.handle(at(0), Event::Arrived(RequestId(request))));
        engine.apply(start(0, 0)).unwrap();
        engine.handle(at(1), Event::Loaded(GpuId(0)));
        engine.handle(at(3), Event::Woken);
        (1..3).for_each(|task| engine.apply(start(task, 0)).unwrap());
        engine.handle(at(3), leaves);
        engine.handle(at(5), Event::Woken);
        for task in (0..3).map(TaskId) {
            if engine.view().state(task) == TaskState::Ready {
                engine.apply(start(task.0, 0)).unwrap();
            }
        }
        for task in (0..3).map(TaskId) {
            if engine.view().state(task) == TaskState::Running {
                engine.handle(at(9), Event::Finished(task));
            }
        }
        assert_eq!(faults_of_a_live_run(&instance, engine), [], "{leaves:?}");
    }
}
