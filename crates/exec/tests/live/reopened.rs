//! A run that has ended with failed requests is taken up again, and what failed is tried once more.

use crate::support::*;
use gswarm_core::log_file::Timing;
use gswarm_core::report::{RunInfo, metrics, summary};

/// Emulated servers that refuse or fail some nodes for good, while they are `broken`.
struct Half {
    inner: EmulatedBackend,
    broken: bool,
}

#[async_trait::async_trait]
impl Backend for Half {
    async fn load(&self, replica: Replica, expected: Span) -> Result<(), BackendError> {
        self.inner.load(replica, expected).await
    }
    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        self.inner.unload(replica).await
    }
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        match &*call.name {
            "r0/write" if self.broken => Err(BackendError::Refused("not this".to_owned())),
            "r1/paint" | "r4/judge" if self.broken => Err(BackendError::Failed("not now".to_owned())),
            _ => self.inner.call(replica, call).await,
        }
    }
    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Takes a run up, or begins it.
async fn goes_on(kind: PolicyKind, path: &Path, broken: bool, retries: Option<bool>) -> FinishedRun {
    let scenario = scenario(6, false);
    let instance = instance(&scenario, 4, Mode::Online, kind);
    let clock = Clock::virtual_clock();
    let journal = match retries {
        None => Journal::create(path, Durability::Process, &[]),
        Some(_) => Journal::open(path, Durability::Process),
    };
    let inner = emulated_backend(&instance, &clock);
    let fleet = Fleet::of(Arc::new(Half { inner, broken }), instance.cluster.gpus);
    let problem = LiveProblem { scenario: &scenario, instance: &instance };
    let mut live = Live::new(problem, fleet, clock, journal.unwrap(), Patience::default());
    let mut policy = kind.build(&instance, &BuildContext::default());
    if let Some(retries) = retries {
        if retries {
            live.retry_failed();
        }
        live.restore(policy.as_mut()).unwrap();
    }
    let finished = live.run(policy.as_mut(), &mut |_| true).await.unwrap();
    // What calls take is measured: some of these fail in no time.
    let info = RunInfo { simulate: true, timing: Timing::Measured, ..RunInfo::default() };
    let summary = summary(&instance, &metrics(&instance, &finished.log), info);
    assert_eq!(check::check_log(&instance, &finished.log, Some(&summary)), [], "{}", kind.name());
    finished
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_tried_again_and_nothing_else_is() {
    for kind in PolicyKind::ALL.iter().copied().filter(|kind| kind.supports(Mode::Online)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let first = goes_on(kind, &path, true, None).await;
        // r0/write with three after it, r1/paint with one, and r4/judge: seven of the nodes of four pictures and two texts.
        assert_eq!(first.outputs.len(), 18 - 7, "{}", kind.name());
        let unchanged = goes_on(kind, &path, false, Some(false)).await;
        assert_eq!(unchanged.log, first.log, "{}", kind.name());
        // Half of it fails again, and the next time nothing does.
        let again = goes_on(kind, &path, true, Some(true)).await;
        assert_eq!(again.outputs, first.outputs, "{}", kind.name());
        assert!(again.log.executions.len() > first.log.executions.len(), "{}", kind.name());
        let last = goes_on(kind, &path, false, Some(true)).await;
        assert_eq!(last.outputs.len(), 18, "{}", kind.name());
        for (task, output) in &first.outputs {
            assert_eq!(last.outputs.get(task), Some(output), "{}", kind.name());
            let times = last.log.executions.iter().filter(|one| one.task == *task);
            assert_eq!(times.filter(|one| one.status == Status::Completed).count(), 1, "{}", kind.name());
        }
    }
}
