//! Servers whose loads and calls fail for a while: under every policy the run comes to its end, and its log keeps the rules.

use crate::support::*;
use gswarm_core::log_file::Timing;
use gswarm_core::report::{RunInfo, metrics, summary};
use gswarm_core::run::assignments;
use gswarm_core::{Instance, Time};
use gswarm_exec::fleet::Member;
use proptest::prelude::*;

/// How a server answers while it fails.
#[derive(Clone, Copy, Debug)]
enum How {
    /// Without delay.
    AtOnce,
    /// After a second.
    Later,
    /// Its process is gone.
    Gone,
}

/// A time in which a server fails, in seconds.
#[derive(Clone, Copy, Debug)]
struct Bad {
    from: u64,
    length: u64,
    how: How,
    /// What fails: loads, or calls.
    loads: bool,
}

impl Bad {
    fn holds(&self, at: Time) -> bool {
        (self.from * 1_000_000..(self.from + self.length) * 1_000_000).contains(&at.0)
    }
}

struct Moody {
    inner: EmulatedBackend,
    clock: Clock,
    history: Vec<Bad>,
}

impl Moody {
    async fn mood(&self, loads: bool) -> Result<(), BackendError> {
        let now = self.clock.now();
        let Some(bad) = self.history.iter().find(|bad| bad.loads == loads && bad.holds(now)) else {
            return Ok(());
        };
        if !matches!(bad.how, How::AtOnce) {
            self.clock.sleep(Span(1_000_000)).await;
        }
        Err(match bad.how {
            How::Gone => BackendError::Gone("its process has ended".to_owned()),
            How::AtOnce | How::Later => BackendError::Failed("not now".to_owned()),
        })
    }
}

#[async_trait::async_trait]
impl Backend for Moody {
    async fn load(&self, replica: Replica, expected: Span) -> Result<(), BackendError> {
        self.mood(true).await?;
        self.inner.load(replica, expected).await
    }
    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        self.inner.unload(replica).await
    }
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        self.mood(false).await?;
        self.inner.call(replica, call).await
    }
    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Of which kind a run is.
#[derive(Clone, Copy, Debug)]
struct Sort {
    kind: PolicyKind,
    mode: Mode,
    batching: bool,
    residency: Residency,
}

impl Sort {
    /// Every policy in every mode that it has, without batching and with one model a GPU.
    fn plain() -> Vec<Sort> {
        let plain = cases().filter(|&(_, _, batching)| !batching);
        plain
            .map(|(kind, mode, batching)| Sort { kind, mode, batching, residency: Residency::Single })
            .collect()
    }

    /// The same with batches, with models that share GPUs, and with both.
    fn all() -> Vec<Sort> {
        let both = |(kind, mode, batching)| {
            [Residency::Single, Residency::Memory].map(|residency| Sort { kind, mode, batching, residency })
        };
        cases().flat_map(both).collect()
    }
}

/// What is wrong with a run on servers of two GPUs each, each with its history; nothing, where it is as it should be.
async fn trouble(sort: Sort, histories: &[Vec<Bad>]) -> Result<(), String> {
    let Sort { kind, mode, batching, residency } = sort;
    let scenario = scenario(9, batching);
    let instance = instance_with(&scenario, 2 * histories.len() as u32, mode, kind, residency);
    let (_folder, journal) = journal();
    let clock = Clock::virtual_clock();
    let member = |(at, history): (usize, &Vec<Bad>)| Member {
        name: format!("server {at}"),
        backend: Arc::new(Moody {
            inner: emulated_backend(&instance, &clock),
            clock: clock.clone(),
            history: history.clone(),
        }),
        gpus: Gpus::new(2 * at as u32, 2),
        reach: 2 * (histories.len() - at) as u32,
        models: None,
    };
    let fleet = Fleet::new(histories.iter().enumerate().map(member).collect());
    // More attempts than any history has failures: what fails here fails for a while only.
    let patience = Patience { max_attempts: 200, ..Patience::default() };
    let problem = LiveProblem { scenario: &scenario, instance: &instance };
    let live = Live::new(problem, fleet, clock, journal, patience);
    let mut policy = kind.build(&instance, &BuildContext::default());
    let finished = live.run(policy.as_mut(), &mut |_| true).await.map_err(|error| error.to_string())?;
    if finished.outputs.len() != instance.tasks() {
        return Err(format!("{} of {} nodes are done", finished.outputs.len(), instance.tasks()));
    }
    let broken = broken(&instance, kind, &finished);
    if broken.is_empty() {
        return Ok(());
    }
    let log = &finished.log;
    let executions: Vec<String> = log.executions.iter().map(|one| format!("{one:?}")).collect();
    let loads: Vec<String> = log.loads.iter().map(|one| format!("{one:?}")).collect();
    Err(format!("{}{}\n{}", check::report(&broken), executions.join("\n"), loads.join("\n")))
}

fn broken(instance: &Instance, kind: PolicyKind, finished: &FinishedRun) -> Vec<check::Violation> {
    let info = RunInfo {
        policy: kind.name().to_owned(),
        simulate: true,
        timing: Timing::Measured,
        gpu_assignments: (kind == PolicyKind::Static).then(|| assignments(instance)),
        ..RunInfo::default()
    };
    let summary = summary(instance, &metrics(instance, &finished.log), info);
    check::check_log(instance, &finished.log, Some(&summary))
}

/// `static` once ordered each load once, and waited for ever for one that failed.
#[tokio::test(start_paused = true)]
async fn first_loads_that_fail_are_made_again() {
    for how in [How::AtOnce, How::Later, How::Gone] {
        let history = vec![Bad { from: 0, length: 1, how, loads: true }];
        for sort in Sort::plain() {
            for servers in [1, 2] {
                let ended = trouble(sort, &vec![history.clone(); servers]).await;
                assert_eq!(ended, Ok(()), "{sort:?} {how:?} {servers}");
            }
        }
    }
}

fn bad() -> impl Strategy<Value = Bad> {
    let how = prop_oneof![Just(How::AtOnce), Just(How::Later), Just(How::Gone)];
    (0_u64..240, 1_u64..60, how, any::<bool>()).prop_map(|(from, length, how, loads)| Bad {
        from,
        length,
        how,
        loads,
    })
}

fn histories() -> impl Strategy<Value = Vec<Vec<Bad>>> {
    prop::collection::vec(prop::collection::vec(bad(), 0..4), 1..4)
}

fn ended(sort: Sort, histories: &[Vec<Bad>]) -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(trouble(sort, histories))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: generated(96), ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_for_a_while_every_policy_comes_to_its_end(case in 0_usize..1000, histories in histories()) {
        let sorts = Sort::plain();
        let sort = sorts[case % sorts.len()];
        prop_assert_eq!(ended(sort, &histories), Ok(()), "{:?}", sort);
    }

    #[test]
    fn so_it_does_with_batches_and_with_models_that_share_gpus(
        sort in prop::sample::select(Sort::all()),
        histories in histories(),
    ) {
        prop_assert_eq!(ended(sort, &histories), Ok(()), "{:?}", sort);
    }
}
