//! A fleet whose servers fall ill and recover at random: no request fails that some server could have served within its
//! patience, and no attempt is charged for what servers did.

mod fleet;

use crate::support::*;
use fleet::{Illness, Phase, Simulated, limits};
use gswarm_core::log_file::Timing;
use gswarm_core::report::{RunInfo, metrics, summary};
use gswarm_core::run::assignments;
use gswarm_core::{Instance, ModelId};
use gswarm_exec::backend::{LoadRecorder, Managed, ServedModel};
use gswarm_exec::fleet::Member;
use proptest::prelude::*;

/// From this crash under the same call on, each counts as a failed attempt.
const BLAMELESS: u32 = 3;
const PATIENCE: Span = Span(600_000_000);
const KINDS: [PolicyKind; 3] = [PolicyKind::Baseline, PolicyKind::Adaptive, PolicyKind::Planned];

struct Outcome {
    instance: Instance,
    kind: PolicyKind,
    ended: Result<FinishedRun, LiveError>,
    servers: Vec<Arc<Simulated>>,
}

/// Runs requests on servers with these histories, one GPU each.
fn run(requests: u32, kind: PolicyKind, histories: Vec<Vec<Phase>>) -> Outcome {
    let scenario = narrow(requests, true);
    let instance = instance(&scenario, histories.len() as u32, Mode::Offline, kind);
    run_on(&scenario, instance, kind, histories)
}

fn run_on(scenario: &Scenario, instance: Instance, kind: PolicyKind, histories: Vec<Vec<Phase>>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let servers: Vec<_> = histories.into_iter().map(Simulated::new).map(Arc::new).collect();
    let ended = runtime.unwrap().block_on(async {
        let nobody: LoadRecorder = Arc::new(|_| {});
        let served: Vec<ServedModel> = instance
            .models
            .iter()
            .map(|model| ServedModel { name: model.name.clone(), memory_gb: model.memory_gb })
            .collect();
        let member = |(at, server): (usize, &Arc<Simulated>)| Member {
            name: format!("server-{at}"),
            backend: Arc::new(Managed::new(server.begins(), served.clone(), limits(), Arc::clone(&nobody)))
                as Arc<dyn Backend>,
            gpus: Gpus::new(at as u32, 1),
            reach: 1,
            models: None,
        };
        let fleet = Fleet::new(servers.iter().enumerate().map(member).collect());
        let (_folder, journal) = journal();
        let patience = Patience { for_servers: PATIENCE, ..Patience::default() };
        let problem = LiveProblem { scenario, instance: &instance };
        let live = Live::new(problem, fleet, Clock::real(), journal, patience);
        let mut policy = kind.build(&instance, &BuildContext::default());
        live.run(policy.as_mut(), &mut |_| true).await
    });
    Outcome { instance, kind, ended, servers }
}

/// The models that fit onto one GPU.
fn narrow(requests: u32, batching: bool) -> Scenario {
    let mut scenario = scenario(requests, batching);
    scenario.models.iter_mut().for_each(|model| model.gpus_required = 1);
    scenario
}

fn passes_the_check(instance: &Instance, kind: PolicyKind, finished: &FinishedRun) {
    let info = RunInfo {
        policy: kind.name().to_owned(),
        simulate: true,
        timing: Timing::Measured,
        gpu_assignments: (kind == PolicyKind::Static).then(|| assignments(instance)),
        ..RunInfo::default()
    };
    let summary = summary(instance, &metrics(instance, &finished.log), info);
    assert_eq!(check::check_log(instance, &finished.log, Some(&summary)), []);
}

impl Outcome {
    /// How often servers failed a node.
    fn faults(&self, task: TaskId) -> u32 {
        let name = self.instance.task_name(task);
        let model = self.instance.model_of(task);
        self.servers.iter().map(|server| server.faults(&name, self.model(model))).sum()
    }

    fn model(&self, model: ModelId) -> &str {
        &self.instance.models[model].name
    }

    fn all_are_served(&self) {
        let finished = self.ended.as_ref().unwrap_or_else(|error| panic!("{error}"));
        passes_the_check(&self.instance, self.kind, finished);
        for task in self.instance.task_ids() {
            let charged = finished.failures.iter().filter(|one| one.task == task).count() as u32;
            let faults = self.faults(task);
            let why = &finished.failures;
            assert!(charged <= faults.saturating_sub(BLAMELESS), "{charged} of {faults}: {why:?}");
            let attempts = finished.log.executions.iter().filter(|one| one.task == task);
            let failed = attempts.filter(|one| one.status == Status::Failed).count() as u32;
            assert!(failed <= faults.saturating_sub(BLAMELESS), "{failed} of {faults}: {why:?}");
        }
        // Who crashed servers that often may be given up; histories hardly ever hit one call so often.
        let poisonous = self
            .instance
            .task_ids()
            .any(|task| self.faults(task) >= BLAMELESS + Patience::default().max_attempts);
        assert!(poisonous || finished.outputs.len() == self.instance.tasks(), "{:?}", finished.failures);
    }
}

fn illness() -> impl Strategy<Value = Illness> {
    proptest::sample::select(Illness::ALL.to_vec())
}

/// Ill at times; at the end well, or ill for good.
fn history(recovers: bool) -> impl Strategy<Value = Vec<Phase>> {
    let bad = (0u64..90, 1u64..70, illness());
    (proptest::collection::vec(bad, 0..3), illness(), any::<bool>()).prop_map(move |(bad, last, ends_ill)| {
        let mut phases = Vec::new();
        for (well, ill, illness) in bad {
            phases.push(Phase { seconds: well, illness: None });
            phases.push(Phase { seconds: ill, illness: Some(illness) });
        }
        phases.push(Phase { seconds: u64::MAX, illness: (!recovers && ends_ill).then_some(last) });
        phases
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: generated(40), ..ProptestConfig::default() })]

    #[test]
    fn what_some_server_could_serve_within_its_patience_is_served(
        first in history(true),
        others in proptest::collection::vec(history(false), 0..3),
        requests in 1u32..16,
        kind in proptest::sample::select(KINDS.to_vec()),
    ) {
        let mut histories = vec![first];
        histories.extend(others);
        run(requests, kind, histories).all_are_served();
    }

    #[test]
    fn so_it_is_under_every_policy(
        first in history(true),
        others in proptest::collection::vec(history(false), 0..3),
        requests in 1u32..16,
        (kind, mode, batching) in proptest::sample::select(cases().collect::<Vec<_>>()),
        shares in any::<bool>(),
    ) {
        let mut histories = vec![first];
        histories.extend(others);
        let mut scenario = narrow(requests, batching);
        let residency = if shares { Residency::Memory } else { Residency::Single };
        // All three would fit beside one another: two do.
        scenario.models.iter_mut().for_each(|model| model.memory_gb = 35.0);
        let instance = instance_with(&scenario, histories.len() as u32, mode, kind, residency);
        run_on(&scenario, instance, kind, histories).all_are_served();
    }
}

/// Every illness by itself, for four minutes, with one request that waits and with many; and with another server and none.
#[test]
fn every_illness_of_minutes_is_outlived_however_many_wait() {
    for illness in Illness::ALL {
        for requests in [1, 20] {
            for others in [0, 1] {
                let ill = vec![
                    Phase { seconds: 5, illness: None },
                    Phase { seconds: 240, illness: Some(illness) },
                    Phase { seconds: u64::MAX, illness: None },
                ];
                let well = vec![Phase { seconds: u64::MAX, illness: None }];
                let mut histories = vec![ill];
                histories.extend(std::iter::repeat_n(well, others));
                let outcome = run(requests, PolicyKind::Baseline, histories);
                outcome.all_are_served();
                let finished = outcome.ended.as_ref().unwrap();
                assert!(finished.failures.is_empty(), "{illness:?}: {:?}", finished.failures);
            }
        }
    }
}

/// One patience: however many wait, they are given up after it, and are told which server was waited for.
#[test]
fn who_has_waited_too_long_is_told_for_which_server() {
    for illness in [Illness::Failing, Illness::Stranger] {
        let mut last = Vec::new();
        for requests in [1, 20] {
            let ill = vec![Phase { seconds: u64::MAX, illness: Some(illness) }];
            let outcome = run(requests, PolicyKind::Baseline, vec![ill]);
            match &outcome.ended {
                Ok(finished) => {
                    passes_the_check(&outcome.instance, outcome.kind, finished);
                    assert!(finished.outputs.is_empty());
                    let told = |one: &gswarm_exec::drive::NodeFailure| {
                        one.why.contains("no server could serve it for 600 s; waited for server-0")
                    };
                    assert!(finished.failures.iter().all(told), "{:?}", finished.failures);
                    last.push(finished.failures.iter().map(|one| one.at).max().unwrap().seconds());
                }
                Err(error) => {
                    let told = error.to_string();
                    assert!(told.contains("for 600 s; waited for server-0"), "{told}");
                    last.push(600.0);
                }
            }
        }
        assert!(last.iter().all(|at| (600.0..700.0).contains(at)), "{illness:?}: {last:?}");
    }
}

/// A server that was restarted half-way is found empty and loaded again.
#[test]
fn a_server_that_was_restarted_is_loaded_again() {
    let restarts = vec![
        Phase { seconds: 40, illness: None },
        Phase { seconds: 1, illness: Some(Illness::Down) },
        Phase { seconds: 40, illness: None },
        Phase { seconds: 1, illness: Some(Illness::Asleep) },
        Phase { seconds: u64::MAX, illness: None },
    ];
    let outcome = run(12, PolicyKind::Baseline, vec![restarts]);
    outcome.all_are_served();
    assert!(outcome.ended.unwrap().failures.is_empty());
    assert!(outcome.servers[0].loads() > 2);
}
