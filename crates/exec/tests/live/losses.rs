//! Servers that go under what they do: that is done elsewhere and counts as no attempt, unless it ends every server.

use crate::support::*;
use gswarm_core::log_file::Timing;
use gswarm_core::report::{RunInfo, metrics, summary};
use gswarm_core::{Instance, RequestId};
use gswarm_exec::fleet::Member;
use tokio::sync::watch;

/// How often servers have gone under each call, and under each model's loads; all servers share it.
type Gone = Arc<Mutex<HashMap<String, u32>>>;

/// Says under what a server goes, from its name and how often that has happened.
type Fatal = fn(&str, u32) -> bool;

struct Mortal {
    inner: EmulatedBackend,
    clock: Clock,
    models: Vec<String>,
    fatal: Fatal,
    gone: Gone,
    /// Changes whenever it dies, and takes all calls with it.
    deaths: watch::Sender<u32>,
}

impl Mortal {
    async fn survives(&self, what: &str) -> Result<(), BackendError> {
        let is_fatal = {
            let mut gone = self.gone.lock().unwrap();
            let times = gone.entry(what.to_owned()).or_default();
            let is_fatal = (self.fatal)(what, *times);
            *times += u32::from(is_fatal);
            is_fatal
        };
        if !is_fatal {
            return Ok(());
        }
        self.clock.sleep(Span(500_000)).await;
        self.deaths.send_modify(|deaths| *deaths += 1);
        Err(BackendError::Gone("its process has ended".to_owned()))
    }
}

#[async_trait::async_trait]
impl Backend for Mortal {
    async fn load(&self, replica: Replica, expected: Span) -> Result<(), BackendError> {
        self.survives(&self.models[replica.model.index()]).await?;
        self.inner.load(replica, expected).await
    }
    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        self.inner.unload(replica).await
    }
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        let mut deaths = self.deaths.subscribe();
        let answer = async {
            self.survives(&call.name).await?;
            self.inner.call(replica, call).await
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            _ = deaths.changed() => Err(BackendError::Gone("its process has ended".to_owned())),
        }
    }
    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

const KINDS: [PolicyKind; 3] = [PolicyKind::Baseline, PolicyKind::Adaptive, PolicyKind::Planned];

/// A run on two servers, with as many attempts.
async fn run(kind: PolicyKind, max_attempts: u32, fatal: Fatal) -> (Instance, FinishedRun) {
    run_of(&scenario(6, false), kind, max_attempts, fatal).await
}

async fn run_of(
    scenario: &Scenario,
    kind: PolicyKind,
    max_attempts: u32,
    fatal: Fatal,
) -> (Instance, FinishedRun) {
    let instance = instance(scenario, 4, Mode::Offline, kind);
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::create(&folder.path().join("journal"), Durability::Process, &[]).unwrap();
    let (clock, gone) = (Clock::virtual_clock(), Gone::default());
    let member = |name: &str, gpus: Gpus| Member {
        name: name.to_owned(),
        backend: Arc::new(Mortal {
            inner: EmulatedBackend::new(
                clock.clone(),
                instance.models.iter().map(|model| model.slowdown.clone()).collect(),
            ),
            clock: clock.clone(),
            models: instance.models.iter().map(|model| model.name.clone()).collect(),
            fatal,
            gone: Arc::clone(&gone),
            deaths: watch::Sender::new(0),
        }),
        gpus,
        // A model may lie on both.
        reach: 4 - gpus.first.0,
        models: None,
    };
    let fleet = Fleet::new(vec![member("one", Gpus::new(0, 2)), member("other", Gpus::new(2, 2))]);
    let patience = Patience { max_attempts, ..Patience::default() };
    let problem = LiveProblem { scenario, instance: &instance };
    let live = Live::new(problem, fleet, clock.clone(), journal, patience);
    let mut policy = kind.build(&instance, &BuildContext::default());
    let finished = live.run(policy.as_mut(), &mut |_| true).await.unwrap();
    let info = RunInfo {
        policy: kind.name().to_owned(),
        simulate: true,
        timing: Timing::Measured,
        ..RunInfo::default()
    };
    let summary = summary(&instance, &metrics(&instance, &finished.log), info);
    assert_eq!(check::check_log(&instance, &finished.log, Some(&summary)), [], "{}", kind.name());
    drop(policy);
    (instance, finished)
}

fn count(finished: &FinishedRun, status: Status) -> usize {
    finished.log.executions.iter().filter(|one| one.status == status).count()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_under_a_call_or_a_load_costs_no_attempt() {
    for kind in KINDS {
        let (instance, finished) =
            run(kind, 1, |what, times| ["r1/write", "r4/judge", "painter"].contains(&what) && times < 2)
                .await;
        assert_eq!(finished.outputs.len(), instance.tasks(), "{}", kind.name());
        assert!(finished.failures.is_empty(), "{}: {:?}", kind.name(), finished.failures);
        assert!(count(&finished, Status::Lost) >= 4, "{}", kind.name());
        assert_eq!(count(&finished, Status::Failed), 0, "{}", kind.name());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_every_server_fails_its_request_alone() {
    for kind in KINDS {
        let (instance, finished) = run(kind, 2, |what, _| what == "r1/judge").await;
        assert_eq!(finished.outputs.len(), instance.tasks() - 1, "{}", kind.name());
        let whys: Vec<&str> = finished.failures.iter().map(|failure| failure.why.as_str()).collect();
        assert_eq!(whys, ["the server does not answer: its process has ended"; 2], "{}", kind.name());
        assert_eq!(count(&finished, Status::Failed), 2, "{}", kind.name());
    }
}

/// Calls of the same server are lost together, again and again: only the one that ends servers by itself is given up.
#[tokio::test(start_paused = true)]
async fn those_beside_a_call_that_ends_every_server_are_all_answered() {
    for kind in KINDS {
        for max_attempts in [1, 3] {
            let (instance, finished) =
                run_of(&scenario(24, true), kind, max_attempts, |what, _| what == "r1/write").await;
            let name = kind.name();
            let lost = finished.log.executions.iter().filter(|one| one.status == Status::Lost);
            let beside = lost.filter(|one| instance.task_name(one.task) != "r1/write").count();
            assert!(beside > 3, "{name}: {beside} were lost beside it");
            let failed = finished.failures.iter().map(|one| instance.task_name(one.task));
            let expected = vec!["r1/write"; max_attempts as usize];
            assert_eq!(failed.collect::<Vec<_>>(), expected, "{name}: {:?}", finished.failures);
            let its = instance.tasks_of(RequestId(1)).count();
            assert_eq!(finished.outputs.len(), instance.tasks() - its, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_ends_every_server_fails_those_who_need_it() {
    for kind in KINDS {
        let (instance, finished) = run(kind, 2, |what, _| what == "judge").await;
        let needs = instance
            .task_ids()
            .filter(|&task| instance.models[instance.model_of(task)].name == "judge")
            .count();
        assert!(needs > 0);
        assert_eq!(finished.outputs.len(), instance.tasks() - needs, "{}", kind.name());
        assert!(
            finished.failures.iter().all(|one| one.why.contains("could not be loaded")),
            "{}",
            kind.name()
        );
    }
}
