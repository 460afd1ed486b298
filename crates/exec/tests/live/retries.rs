//! Calls that fail: when they are tried again, what happens meanwhile, and when they are not.

use crate::support::*;
use gswarm_core::Instance;
use gswarm_core::engine::View;
use gswarm_core::log::Execution;
use gswarm_exec::fleet::Member;

/// Says how a call ends, from its name and how often it was made before.
type Verdict = fn(&str, u32) -> Option<BackendError>;

/// Emulated servers whose calls fail after a while, where a verdict says so.
struct Faulty {
    inner: EmulatedBackend,
    clock: Clock,
    verdict: Verdict,
    /// How long it takes to fail.
    takes: Span,
    made: Mutex<HashMap<String, u32>>,
}

#[async_trait::async_trait]
impl Backend for Faulty {
    async fn load(&self, replica: Replica, expected: Span) -> Result<(), BackendError> {
        self.inner.load(replica, expected).await
    }
    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        self.inner.unload(replica).await
    }
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        let before = {
            let mut made = self.made.lock().unwrap();
            let count = made.entry(call.name.clone()).or_default();
            *count += 1;
            *count - 1
        };
        match (self.verdict)(&call.name, before) {
            Some(error) => {
                self.clock.sleep(self.takes).await;
                Err(error)
            }
            None => self.inner.call(replica, call).await,
        }
    }
    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

fn faulty(instance: &Instance, clock: &Clock, verdict: Verdict) -> Arc<dyn Backend> {
    faulty_after(instance, clock, verdict, Span(1_000_000))
}

fn faulty_after(instance: &Instance, clock: &Clock, verdict: Verdict, takes: Span) -> Arc<dyn Backend> {
    let inner = emulated_backend(instance, clock);
    Arc::new(Faulty { inner, clock: clock.clone(), verdict, takes, made: Mutex::default() })
}

fn stumbles() -> Option<BackendError> {
    Some(BackendError::Failed("it stumbled".to_owned()))
}

const PAUSE: Span = Span(3_000_000);

fn patience() -> Patience {
    Patience { backoff: PAUSE, ..Patience::default() }
}

async fn run(
    problem: LiveProblem<'_>,
    kind: PolicyKind,
    fleet: impl FnOnce(&Clock) -> Fleet,
) -> Result<FinishedRun, LiveError> {
    let (_folder, journal) = journal();
    let clock = Clock::virtual_clock();
    let live = Live::new(problem, fleet(&clock), clock, journal, patience());
    let mut policy = kind.build(problem.instance, &BuildContext::default());
    live.run(policy.as_mut(), &mut |_| true).await
}

fn problem(requests: u32, gpus: u32, kind: PolicyKind) -> (Scenario, Instance) {
    let scenario = scenario(requests, false);
    let instance = instance(&scenario, gpus, Mode::Offline, kind);
    (scenario, instance)
}

fn attempts(finished: &FinishedRun, task: TaskId) -> Vec<&Execution> {
    let mut all: Vec<_> = finished.log.executions.iter().filter(|one| one.task == task).collect();
    all.sort_by_key(|one| one.attempt);
    all
}

#[tokio::test(start_paused = true)]
async fn others_use_the_gpus_while_a_node_waits_for_its_next_try() {
    let (scenario, instance) = problem(12, 2, PolicyKind::Baseline);
    let problem = LiveProblem { scenario: &scenario, instance: &instance };
    let verdict: Verdict = |name, before| if name == "r0/write" && before < 2 { stumbles() } else { None };
    let fleet = |clock: &Clock| Fleet::of(faulty(&instance, clock, verdict), 2);
    let finished = run(problem, PolicyKind::Baseline, fleet).await.unwrap();
    assert_eq!(check::check_log(&instance, &finished.log, None), []);
    assert_eq!(finished.outputs.len(), instance.tasks());
    let tries = attempts(&finished, TaskId(0));
    let statuses: Vec<Status> = tries.iter().map(|one| one.status).collect();
    assert_eq!(statuses, [Status::Failed, Status::Failed, Status::Completed]);
    // A pause is no part of an execution, and each is twice as long as the one before.
    for (failed, pause) in [(0, PAUSE), (1, Span(PAUSE.0 * 2))] {
        assert_eq!(tries[failed].end - tries[failed].start, Span(1_000_000), "{tries:?}");
        assert_eq!(tries[failed + 1].ready, tries[failed].end + pause, "{tries:?}");
    }
    let pause = (tries[0].end, tries[1].ready);
    let meanwhile = finished.log.executions.iter().filter(|one| {
        let shares = one.gpus.iter().any(|gpu| tries[0].gpus.contains(gpu));
        shares && one.task != TaskId(0) && one.start < pause.1 && one.end > pause.0
    });
    assert!(meanwhile.count() > 0, "its GPU stood idle: {:#?}", finished.log.executions);
}

#[tokio::test(start_paused = true)]
async fn every_policy_comes_to_its_end_when_every_third_node_fails_at_first() {
    let verdict: Verdict = |name, before| {
        let picked = name.bytes().map(u32::from).sum::<u32>() % 3 == 0;
        if picked && before < 1 + name.len() as u32 % 2 { stumbles() } else { None }
    };
    for &kind in PolicyKind::ALL {
        let (scenario, instance) = problem(12, 4, kind);
        let problem = LiveProblem { scenario: &scenario, instance: &instance };
        let fleet = |clock: &Clock| Fleet::of(faulty(&instance, clock, verdict), 4);
        let finished =
            run(problem, kind, fleet).await.unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        assert_eq!(check::check_log(&instance, &finished.log, None), [], "{}", kind.name());
        assert_eq!(finished.outputs.len(), instance.tasks(), "{}", kind.name());
        assert!(finished.failures.len() > 5, "{}", kind.name());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_not_tried_again_and_fails_alone() {
    let verdict: Verdict = |name, _| match name {
        "r1/write" => Some(BackendError::Refused("no such thing".to_owned())),
        // Servers say this too of what they may have room for later, or have lost.
        "r3/write" => Some(BackendError::Refused("CUDA out of memory".to_owned())),
        "r4/write" => Some(BackendError::Refused("the model is not loaded".to_owned())),
        _ => None,
    };
    let (scenario, instance) = problem(12, 2, PolicyKind::Baseline);
    let problem = LiveProblem { scenario: &scenario, instance: &instance };
    let fleet = |clock: &Clock| Fleet::of(faulty(&instance, clock, verdict), 2);
    let finished = run(problem, PolicyKind::Baseline, fleet).await.unwrap();
    assert_eq!(check::check_log(&instance, &finished.log, None), []);
    let of = |request: u32| {
        let all = finished.failures.iter();
        all.filter(|one| instance.request_of(one.task).0 == request).count()
    };
    assert_eq!((of(1), of(3), of(4)), (1, 3, 3), "{:?}", finished.failures);
    assert_eq!(finished.outputs.len(), instance.tasks() - 12, "three pictures are lost, and nothing else");
}

async fn piece(
    problem: LiveProblem<'_>,
    path: &Path,
    verdict: Verdict,
    stop: impl Fn(&View<'_>) -> bool + Send + Sync,
) -> Result<FinishedRun, LiveError> {
    let first = !path.exists();
    let open = if first {
        Journal::create(path, Durability::Process, &[])
    } else {
        Journal::open(path, Durability::Process)
    };
    let clock = Clock::virtual_clock();
    let fleet = Fleet::of(faulty(problem.instance, &clock, verdict), 2);
    let mut live = Live::new(problem, fleet, clock, open.unwrap(), patience());
    let mut policy = PolicyKind::Baseline.build(problem.instance, &BuildContext::default());
    if !first {
        live.restore(policy.as_mut()).unwrap();
    }
    live.run(policy.as_mut(), &mut |view| !stop(view)).await
}

/// Failures that were seen before the end of a process count in the next one, and a pause that it cut short is over.
#[tokio::test(start_paused = true)]
async fn a_run_that_ends_in_a_pause_goes_on_with_the_attempts_that_are_left() {
    let (scenario, instance) = problem(6, 2, PolicyKind::Baseline);
    let problem = LiveProblem { scenario: &scenario, instance: &instance };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let verdict: Verdict = |name, _| if name == "r0/write" { stumbles() } else { None };
    for failures in 1..3 {
        let ended = piece(problem, &path, verdict, |view| view.failures(TaskId(0)) == failures).await;
        assert!(matches!(ended, Err(LiveError::Interrupted { .. })), "{ended:?}");
    }
    let finished = piece(problem, &path, verdict, |_| false).await.unwrap();
    assert_eq!(check::check_log(&instance, &finished.log, None), []);
    let tries = attempts(&finished, TaskId(0));
    let failed = tries.iter().filter(|one| one.status == Status::Failed).count();
    assert_eq!((failed, finished.failures.len()), (3, 3), "{tries:?}");
    assert_eq!(finished.outputs.len(), instance.tasks() - 4);
    let again = piece(problem, &path, verdict, |_| false).await.unwrap();
    assert_eq!((again.log, again.failures), (finished.log, finished.failures), "nothing changes any more");
}

/// A server that answers, and fails whatever it is asked, would take one node after the other if it were let. However few they
/// are, all are done by the other server: what has failed twice is not tried a last time where it did.
#[tokio::test(start_paused = true)]
async fn what_a_server_fails_again_and_again_is_done_by_another() {
    for kind in [PolicyKind::Baseline, PolicyKind::Adaptive] {
        for requests in [1, 2, 5, 60] {
            let (scenario, instance) = problem(requests, 4, kind);
            let problem = LiveProblem { scenario: &scenario, instance: &instance };
            let fleet = |clock: &Clock| {
                let member = |name: &str, gpus: Gpus, verdict: Verdict| Member {
                    name: name.to_owned(),
                    backend: faulty(&instance, clock, verdict),
                    gpus,
                    reach: gpus.count,
                    models: None,
                };
                Fleet::new(vec![
                    member("broken", Gpus::new(0, 2), |_, _| stumbles()),
                    member("whole", Gpus::new(2, 2), |_, _| None),
                ])
            };
            let finished = run(problem, kind, fleet).await.unwrap();
            assert_eq!(check::check_log(&instance, &finished.log, None), []);
            let losses = &finished.log.losses;
            assert!(!losses.is_empty() && losses.iter().all(|loss| loss.gpu.0 < 2), "{losses:?}");
            assert_eq!(finished.outputs.len(), instance.tasks(), "{} with {requests} requests", kind.name());
        }
    }
}

/// A server is left alone in the very moment in which a load on it ends: with calls that fail at once, and loads that all take
/// as long as one another, that is so again and again.
#[tokio::test(start_paused = true)]
async fn loads_that_end_when_their_server_is_left_alone_are_no_surprise() {
    for (gpus, takes) in [(2, 0), (3, 0), (4, 0), (6, 0), (2, 1_000_000), (4, 500_000)] {
        for &kind in PolicyKind::ALL {
            let (mut scenario, _) = problem(40, gpus, kind);
            scenario.models.iter_mut().for_each(|model| model.load_time_seconds = 1.0);
            let instance = instance(&scenario, gpus, Mode::Offline, kind);
            let problem = LiveProblem { scenario: &scenario, instance: &instance };
            let fleet = |clock: &Clock| {
                Fleet::of(faulty_after(&instance, clock, |_, _| stumbles(), Span(takes)), gpus)
            };
            let finished =
                run(problem, kind, fleet).await.unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
            assert_eq!(check::check_log(&instance, &finished.log, None), [], "{} on {gpus}", kind.name());
            assert!(finished.outputs.is_empty() && !finished.log.losses.is_empty(), "{}", kind.name());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_gives_up_what_is_refused_and_tries_again_what_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let verdict: Verdict = |name, before| match name {
        "bad/write" => Some(BackendError::Refused("no such thing".to_owned())),
        "shaky/write" if before < 2 => stumbles(),
        _ => None,
    };
    let fleet = |instance: &Instance, clock: &Clock| Fleet::of(faulty(instance, clock, verdict), 4);
    let running = crate::service::begin(folder.path(), fleet, ServiceLimits::default());
    for name in ["bad", "shaky", "good"] {
        running.submit(name, "picture").await.unwrap();
    }
    for (name, status, failures) in
        [("bad", "failed", 1), ("shaky", "completed", 2), ("good", "completed", 0)]
    {
        let result = running.result(name).await;
        assert_eq!(result["status"], status, "{result}");
        assert_eq!(result["failures"].as_array().unwrap().len(), failures, "{result}");
    }
    running.stop().await;
}
