//! What is left of a run, as a problem that begins with models on its GPUs and executions under way.

use crate::properties::problem;
use crate::support::{Problem, SEED, run_all};
use gswarm_core::engine::Continuation;
use gswarm_core::engine::{Decision, TaskState, View};
use gswarm_core::instance::{Infeasible, Mode, NewRequest};
use gswarm_core::policy::{BuildContext, Policy, PolicyKind, PolicySpec};
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::what_if::{WhatIfError, WhatIfRun, what_if};
use gswarm_core::{GpuId, Gpus, Instance, ModelId, RequestId, Span, TaskId, Time, WorkflowId};
use proptest::prelude::*;

/// A policy that is looked at over its shoulder: at the last question before `until`, once it has no more to decide.
struct Watched<'i> {
    policy: Box<dyn Policy + 'i>,
    until: Time,
    gpus: u32,
    coming: Vec<NewRequest>,
    seen: Option<Seen>,
}

/// What is left, how many tasks that is, and what runs where.
type Seen = (Result<Continuation, Vec<Infeasible>>, usize, Vec<(TaskId, Gpus)>);

impl Policy for Watched<'_> {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        self.policy.ready(task, view);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        let decision = self.policy.decide(view);
        if decision.is_none() && (self.seen.is_none() || view.now() <= self.until) {
            let done = |task: &TaskId| view.state(*task) == TaskState::Done;
            let left = view.instance().tasks() - view.instance().task_ids().filter(done).count();
            let running = view.under_way().map(|one| (one.task, one.gpus)).collect();
            let now = view.now().max(self.until.min(next_end(view)));
            self.seen = Some((Instance::onward(view, now, self.gpus, &self.coming), left, running));
        }
        decision
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        self.policy.freed(gpus, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.policy.given_up(task, view);
    }
}

/// Until when nothing happens by itself.
fn next_end(view: &View<'_>) -> Time {
    let runs = view.under_way().filter_map(|one| Some(one.began? + view.instance().execution(one.task)));
    runs.chain(view.loads().map(|(.., end)| end)).min().unwrap_or(view.now())
}

fn stopped_at(instance: &Instance, kind: PolicyKind, seconds: f64, gpus: u32) -> Watched<'_> {
    stopped_with(instance, kind, seconds, gpus, Vec::new())
}

fn stopped_with(
    instance: &Instance,
    kind: PolicyKind,
    seconds: f64,
    gpus: u32,
    coming: Vec<NewRequest>,
) -> Watched<'_> {
    let spec = PolicySpec::default_of(kind).with_rounds(1);
    let until = Time(Span::from_seconds(seconds).0);
    let mut watched = Watched {
        policy: spec.build(instance, &BuildContext::seeded(SEED)),
        until,
        gpus,
        coming,
        seen: None,
    };
    simulate(instance, &mut watched, &SimOptions::default(), &mut |_| {}).unwrap();
    watched
}

fn onward(instance: &Instance, kind: PolicyKind, seconds: f64, gpus: u32) -> Continuation {
    stopped_at(instance, kind, seconds, gpus).seen.unwrap().0.unwrap()
}

fn ahead(onward: &Continuation, kind: PolicyKind) -> WhatIfRun {
    what_if(onward, &PolicySpec::default_of(kind), 0).unwrap_or_else(|why| panic!("{}: {why}", kind.name()))
}

/// One model of 10 s to load, three requests of 10 s, one GPU: after 15 s, 25 s are left and no load.
#[test]
fn what_runs_has_only_the_rest_of_its_time_left_and_its_model_is_there() {
    let mut problem = Problem::on(1).model("m", 1, 10.0, 10.0).workflow(&[0], &[]);
    for _ in 0..3 {
        problem = problem.request(0, 0.0, &[10.0]);
    }
    let instance = problem.build();
    let left = onward(&instance, PolicyKind::Baseline, 15.0, 1);
    assert_eq!((left.instance.tasks(), left.waited[RequestId(0)]), (3, Span(15_000_000)));
    assert_eq!(left.instance.start.running, [(TaskId(0), Gpus::new(0, 1))]);
    for kind in [PolicyKind::Baseline, PolicyKind::Adaptive, PolicyKind::Planned] {
        let outcome = ahead(&left, kind);
        assert_eq!((outcome.ends_in, outcome.loads), (Span(25_000_000), 0), "{}", kind.name());
        // 20, 30 and 40 s from when they came.
        assert!((outcome.latency.mean - 30.0).abs() < 1e-6, "{:?}", outcome.latency);
    }
    // In the middle of the load, what is left of it is paid for by what waits for it.
    let loading = onward(&instance, PolicyKind::Baseline, 4.0, 1);
    assert_eq!(loading.loads_under_way, 1);
    let outcome = ahead(&loading, PolicyKind::Baseline);
    assert_eq!((outcome.ends_in, outcome.loads), (Span(36_000_000), 0));
}

/// As above, with a request of 10 s that comes 20 s later: it begins when the others have ended, 5 s after it came.
#[test]
fn requests_that_are_to_come_are_simulated_with_the_rest() {
    let problem = Problem::on(1).model("m", 1, 10.0, 10.0).workflow(&[0], &[]);
    // No request of the second workflow is open: what is left knows nothing of it.
    let problem = problem.workflow(&[0, 0], &[(0, 1)]);
    let instance = (0..3).fold(problem, |problem, _| problem.request(0, 0.0, &[10.0])).build();
    let new = NewRequest {
        name: "coming".to_owned(),
        workflow: WorkflowId(1),
        arrival: Time(20_000_000),
        priority: 0,
        deadline: None,
        executions: vec![Span(4_000_000), Span(6_000_000)],
    };
    let seen = stopped_with(&instance, PolicyKind::Baseline, 15.0, 1, vec![new]).seen;
    let left = seen.unwrap().0.unwrap();
    assert_eq!((left.instance.tasks(), left.instance.mode), (5, Mode::Online));
    let outcome = ahead(&left, PolicyKind::Baseline);
    assert_eq!((outcome.ends_in, outcome.loads), (Span(35_000_000), 0));
    // 20, 30 and 40 s, and 15 s.
    assert!((outcome.latency.mean - 26.25).abs() < 1e-6, "{:?}", outcome.latency);
    // A policy for batches cannot take it.
    let refused = what_if(&left, &PolicySpec::default_of(PolicyKind::Planned), 0);
    assert!(matches!(refused, Err(WhatIfError::Mode("planned"))), "{refused:?}");
}

#[test]
fn fewer_gpus_begin_anew_what_ran_on_those_that_go_and_more_are_not_slower() {
    let mut problem =
        Problem::on(4).model("m", 1, 10.0, 10.0).model("n", 2, 20.0, 5.0).workflow(&[0, 1], &[(0, 1)]);
    for _ in 0..12 {
        problem = problem.request(0, 0.0, &[10.0, 4.0]);
    }
    let instance = problem.build();
    let fewer = onward(&instance, PolicyKind::Baseline, 15.0, 2);
    assert_eq!((fewer.begun_anew, fewer.instance.start.running.len()), (2, 2));
    let ends: Vec<Span> = [2, 4, 6, 8]
        .into_iter()
        .map(|gpus| ahead(&onward(&instance, PolicyKind::Baseline, 15.0, gpus), PolicyKind::Planned).ends_in)
        .collect();
    assert!(ends.is_sorted_by(|fewer, more| fewer >= more) && ends[3] < ends[0], "{ends:?}");
    let one = stopped_at(&instance, PolicyKind::Baseline, 15.0, 1).seen.unwrap().0;
    assert!(matches!(&one.unwrap_err()[..], [Infeasible::TooFewGpus { needs: 2, .. }]));
}

/// A model that is there is used where it is, and the checker and the bounds know of it.
#[test]
fn a_problem_may_begin_with_models_on_its_gpus() {
    let mut problem = Problem::on(2).model("m", 1, 10.0, 10.0).model("n", 1, 10.0, 10.0).workflow(&[0], &[]);
    problem = problem.workflow(&[1], &[]).request(0, 0.0, &[3.0]).request(1, 0.0, &[3.0]);
    let mut instance = problem.build();
    instance.start.resident = vec![(GpuId(0), ModelId(0)), (GpuId(1), ModelId(1))];
    for &kind in PolicyKind::ALL.iter().filter(|&&kind| kind != PolicyKind::Static) {
        let log = run_all(&instance, kind);
        if !kind.is_yardstick() {
            assert_eq!(
                log.executions.iter().map(|one| one.end).max(),
                Some(Time(3_000_000)),
                "{}",
                kind.name()
            );
        }
    }
    // Somebody who says nothing of it is found out.
    let log = run_all(&instance, PolicyKind::Baseline);
    instance.start.resident.clear();
    assert!(!gswarm_core::check::check_log(&instance, &log, None).is_empty());
}

proptest! {
    /// Whatever a run is stopped in, what is left of it is the tasks that are not done, no more and no less, and every
    /// policy finishes it, on as many GPUs as there are and on more.
    #[test]
    fn every_policy_finishes_what_is_left(problem in problem(), seconds in 0.0f64..150.0, more in 0u32..3) {
        let kind = PolicyKind::Adaptive;
        let instance = problem.build_for(kind);
        let gpus = instance.cluster.gpus + more;
        let (onward, left, running) = stopped_at(&instance, kind, seconds, gpus).seen.unwrap();
        let onward = onward.unwrap();
        prop_assert_eq!(onward.instance.tasks(), left);
        prop_assert_eq!(onward.instance.start.running.len(), running.len());
        if left == 0 {
            return Ok(());
        }
        for &kind in PolicyKind::ALL.iter().filter(|kind| kind.supports(onward.instance.mode)) {
            // It deploys on empty GPUs, and is refused where they are not: `what_if` says so.
            if kind == PolicyKind::Static && !onward.instance.start.is_empty() {
                let refused = what_if(&onward, &PolicySpec::default_of(kind), 0);
                prop_assert!(matches!(refused, Err(WhatIfError::InUse(_))), "{:?}", refused.err());
                continue;
            }
            if kind.residency(onward.instance.cluster.residency) == onward.instance.cluster.residency {
                run_all(&onward.instance, kind);
            }
        }
    }
}
