//! Runs: under gswarm's own policies on a thread apart, under Python's on the caller's.

use crate::apart::{Shared, apart};
use crate::fault::{Fault, usage};
use crate::outcome::Outcome;
use crate::policy::PythonPolicy;
use crate::problem::{ClusterOptions, Given, Inputs, mode_named};
use gswarm_core::belief::{Estimate, Learner};
use gswarm_core::engine::Rejected;
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_core::instance::Mode;
use gswarm_core::log::ExecutionLog;
use gswarm_core::log_file::shown;
use gswarm_core::plan::{self, Limits, Planned};
use gswarm_core::policy::{Objective, Policy, PolicyKind, PolicyParams, carry_out, follow};
use gswarm_core::run::{Setting, assess, problem};
use gswarm_core::sim::{Faults, Progress, SimError, SimOptions, simulate_learning};
use gswarm_core::time::MAX_SECONDS;
use gswarm_core::truth::{Drift, Noise, TrueTimes};
use gswarm_core::{GpuId, Instance, ModelId, Span, Time};
use gswarm_learn::expect::{Beliefs, Source, Wanted};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is said of a run beside its problem, policy and cluster.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RunOptions {
    mode: String,
    seed: u64,
    /// Seconds of search, for `planned`.
    budget: Option<f64>,
    /// Rounds of search, for `planned`.
    rounds: Option<u64>,
    /// A plan file to follow.
    plan: Option<Vec<u8>>,
    /// A predictor: its name and its file.
    predictor: Option<(String, Vec<u8>)>,
    noise: Option<String>,
    drift: Vec<String>,
    truth: Option<String>,
    learn: bool,
    means_only: bool,
    fail_rate: f64,
    max_attempts: u32,
    lose_gpus: Vec<(u32, f64)>,
    objective: Option<String>,
    max_collate_wait: Option<f64>,
    alpha: Option<f64>,
    beta: Option<f64>,
    gamma: Option<f64>,
    delta: Option<f64>,
    lookahead: Option<u32>,
}

/// What a predictor's file says of a scenario.
pub fn source(given: Option<(String, Vec<u8>)>, scenario: &Scenario) -> Result<Option<Source>, Fault> {
    given.map(|(name, bytes)| Source::read(name, bytes, scenario).map_err(Fault::Input)).transpose()
}

/// What it says of each task; nothing where there is none.
pub fn estimates(source: Option<&Source>) -> &[Estimate] {
    source.map_or(&[], Source::estimates)
}

impl RunOptions {
    /// All numbers that make no sense.
    fn check(&self) -> Result<(), Fault> {
        let at_least_zero = |value: f64| value.is_finite() && value >= 0.0;
        let seconds = |value: f64| (0.0..=MAX_SECONDS).contains(&value);
        let weights = [
            ("alpha", self.alpha),
            ("beta", self.beta),
            ("gamma", self.gamma),
            ("delta", self.delta),
            ("max_collate_wait", self.max_collate_wait),
        ];
        let mut wrong: Vec<String> = weights
            .iter()
            .filter(|(_, value)| value.is_some_and(|value| !at_least_zero(value)))
            .map(|(name, _)| format!("{name}: give a number of zero or more"))
            .collect();
        if !(0.0..=1.0).contains(&self.fail_rate) {
            wrong.push("fail_rate: give a share from 0 to 1".to_owned());
        }
        if !(1..=100).contains(&self.max_attempts) {
            wrong.push("max_attempts: give a number from 1 to 100".to_owned());
        }
        if self.lose_gpus.iter().any(|&(_, at)| !seconds(at)) {
            wrong.push(format!("lose_gpus: give moments in seconds, from 0 to {MAX_SECONDS}"));
        }
        if wrong.is_empty() { Ok(()) } else { Err(usage(wrong.join("; "))) }
    }

    fn params(&self) -> Result<PolicyParams, Fault> {
        let usual = PolicyParams::default();
        let objective = match &self.objective {
            None => Objective::default(),
            Some(name) => {
                Objective::ALL.iter().copied().find(|objective| objective.name() == name).ok_or_else(
                    || usage(format!("objective is `{name}`; there are mean, p99 and balanced")),
                )?
            }
        };
        Ok(PolicyParams {
            seed: self.seed,
            objective,
            max_collate_wait: self.max_collate_wait.map(Span::from_seconds),
            alpha: self.alpha.unwrap_or(usual.alpha),
            beta: self.beta.unwrap_or(usual.beta),
            gamma: self.gamma.unwrap_or(usual.gamma),
            delta: self.delta.unwrap_or(usual.delta),
            lookahead: self.lookahead.unwrap_or(usual.lookahead),
            rounds: self.rounds.unwrap_or(usual.rounds),
            ..usual
        })
    }

    fn wanted(&self) -> Result<Wanted, Fault> {
        let truth = match self.truth.as_deref() {
            None => None,
            Some("estimates") => Some(TrueTimes::Estimates),
            Some("requests") => Some(TrueTimes::Requests),
            Some(other) => {
                return Err(usage(format!("truth is `{other}`; there are estimates and requests")));
            }
        };
        let noise = self.noise.as_deref().map(str::parse::<Noise>).transpose();
        let drift: Result<Vec<Drift>, String> = self.drift.iter().map(|one| one.parse()).collect();
        Ok(Wanted {
            noise: noise.map_err(|wrong| usage(format!("noise: {wrong}")))?,
            drift: drift.map_err(|wrong| usage(format!("drift: {wrong}")))?,
            truth,
            learn: self.learn,
            means_only: self.means_only,
        })
    }

    fn sim(&self, gpus: u32, shared: &Shared) -> Result<SimOptions, Fault> {
        if let Some((gpu, _)) = self.lose_gpus.iter().find(|(gpu, _)| *gpu >= gpus) {
            let last = gpus - 1;
            return Err(usage(format!("lose_gpus names GPU {gpu}, and there are GPUs 0 to {last}")));
        }
        let moment = |&(gpu, at): &(u32, f64)| (Time::ZERO + Span::from_seconds(at), GpuId(gpu));
        let lose = self.lose_gpus.iter().map(moment).collect();
        let faults = Faults { fail_rate: self.fail_rate, seed: self.seed, lose, ..Faults::default() };
        let stop = Some(Arc::clone(&shared.stop));
        Ok(SimOptions { max_attempts: self.max_attempts, faults, stop, ..SimOptions::default() })
    }

    /// Whether nodes may be without a time: a predictor gives them one, and nothing else is asked what is true.
    fn times_all(&self) -> bool {
        self.predictor.is_some() && self.truth.as_deref() != Some("requests")
    }
}

/// A problem that is ready to be run.
struct Prepared {
    scenario: Arc<Scenario>,
    instance: Arc<Instance>,
    beliefs: Beliefs,
    sim: SimOptions,
    params: PolicyParams,
}

fn prepare(
    given: &Given,
    policy: Option<PolicyKind>,
    cluster: &ClusterOptions,
    options: &RunOptions,
    shared: &Shared,
) -> Result<Prepared, Fault> {
    options.check()?;
    let mode = mode_named(&options.mode)?;
    if let Some(kind) = policy.filter(|kind| !kind.supports(mode)) {
        return Err(usage(format!("policy `{}` has no {} mode", kind.name(), mode.name())));
    }
    let (wanted, params) = (options.wanted()?, options.params()?);
    let scenario = given.scenario(mode, options.times_all())?;
    let spec: ClusterSpec = cluster.over(&scenario.cluster)?;
    let source = source(options.predictor.clone(), &scenario)?;
    let mut instance = problem(&scenario, &spec, mode, policy, estimates(source.as_ref()))?;
    let beliefs = wanted.apply(source, &scenario, &mut instance, options.seed).map_err(usage)?;
    let sim = SimOptions { truth: beliefs.truth.clone(), ..options.sim(instance.cluster.gpus, shared)? };
    Ok(Prepared { scenario, instance: Arc::new(instance), beliefs, sim, params })
}

impl Prepared {
    fn simulate(
        &self,
        policy: &mut dyn Policy,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ExecutionLog, SimError> {
        let mut learner = self.beliefs.learner(&self.instance);
        let learner = learner.as_mut().map(|learner| learner.as_mut() as &mut dyn Learner);
        simulate_learning(&self.instance, policy, learner, &self.sim, progress)
    }

    fn outcome(self, name: &str, log: ExecutionLog, planned: Option<Planned>) -> Result<Outcome, Fault> {
        let setting = Setting {
            policy: name.to_owned(),
            seed: self.params.seed,
            truth: self.beliefs.truth.clone(),
            truth_spec: self.beliefs.spec.clone(),
            predictor: self.beliefs.predictor(),
        };
        let outcome =
            assess(&self.instance, &setting, log).map_err(|violations| Fault::broken(&violations))?;
        let Prepared { scenario, instance, .. } = self;
        Ok(Outcome { scenario, instance, outcome, planned, truth: setting.truth })
    }
}

/// A run under a policy of gswarm's own, by name; or one that follows a plan.
#[pyfunction]
pub fn run(
    py: Python<'_>,
    inputs: &Inputs,
    policy: &str,
    cluster: ClusterOptions,
    options: RunOptions,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let kind: PolicyKind = policy.parse().map_err(|error: gswarm_core::policy::UnknownPolicy| {
        Fault::Usage(error.to_string(), "gswarm.policies() says what each is for")
    })?;
    let given = inputs.given();
    apart(py, progress.as_ref(), false, move |shared| {
        shared.say("preparing", 0, 0);
        let prepared = prepare(&given, Some(kind), &cluster, &options, shared)?;
        let (instance, mut planned) = (Arc::clone(&prepared.instance), None);
        let mut chooser: Box<dyn Policy + '_> = match &options.plan {
            Some(bytes) => {
                let read = plan::file::read(&instance, bytes).map_err(|faults| misfit(&faults))?;
                follow(&instance, &read)
            }
            None if kind == PolicyKind::Planned => {
                let found = search(&instance, &prepared.params, options.budget, options.rounds, shared);
                let chooser = carry_out(&instance, &found);
                planned = Some(found);
                chooser
            }
            None => {
                let stop = || shared.stopped();
                kind.build_until(&instance, &prepared.params, &stop)
            }
        };
        let mut tell = |at: Progress| shared.say("running", at.done, at.total);
        let log = prepared.simulate(chooser.as_mut(), &mut tell).map_err(|error| match error {
            SimError::Stopped { .. } => Fault::Stopped,
            other => Fault::Internal(format!("under policy `{}`: {other}", kind.name())),
        })?;
        drop(chooser);
        shared.say("checking", 0, 0);
        prepared.outcome(kind.name(), log, planned)
    })
}

/// Why a plan is none for a problem.
pub fn misfit(faults: &[String]) -> Fault {
    let list: Vec<String> = faults.iter().map(|fault| shown(fault).into_owned()).collect();
    Fault::Usage(
        format!("the plan does not fit this problem: {}", list.join("; ")),
        "make it anew with gswarm.plan for this problem and this number of GPUs",
    )
}

/// The best plan within a time, or within a number of rounds. Without either, as many rounds as `gswarm run` makes.
fn search(
    instance: &Instance,
    params: &PolicyParams,
    budget: Option<f64>,
    rounds: Option<u64>,
    shared: &Shared,
) -> Planned {
    let begun = Instant::now();
    let budget = budget.map(Duration::from_secs_f64);
    let stop = || shared.stopped() || budget.is_some_and(|budget| begun.elapsed() >= budget);
    // Whoever gives time alone wants all of it used.
    let rounds = if budget.is_some() { rounds.unwrap_or(u64::MAX) } else { params.rounds };
    let limits = Limits { rounds, stop: &stop, gap: 0.0, seed: params.seed };
    shared.say("planning", 0, 0);
    plan::improve(instance, &limits, &mut |found| {
        shared.say(&format!("planning: gap {:.2}%", found.gap() * 100.0), 0, 0);
    })
}

/// A run under a policy in Python. It stays on the caller's thread: Python gets its turns, and its signals, in the policy.
#[pyfunction]
pub fn run_python(
    py: Python<'_>,
    inputs: &Inputs,
    policy: &Bound<'_, PyAny>,
    name: &str,
    cluster: ClusterOptions,
    options: RunOptions,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let shared = Shared::default();
    let given = inputs.given();
    let prepared = py.detach(|| prepare(&given, None, &cluster, &options, &shared))?;
    let mut chooser = PythonPolicy::new(policy, Arc::clone(&prepared.instance), Arc::clone(&shared.stop))?;
    chooser.begin(py, policy)?;
    let mut raised = None;
    let stop = Arc::clone(&shared.stop);
    let ended = prepared.simulate(&mut chooser, &mut |at| {
        let told = progress
            .as_ref()
            .map_or(Ok(()), |progress| progress.call1(("running", at.done, at.total)).map(drop));
        if let Err(error) = told.and_then(|()| py.check_signals()) {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            raised = Some(error);
        }
    });
    if let Some(error) = raised {
        return Err(error);
    }
    if let Some(fault) = chooser.fault.take() {
        return Err(fault.into());
    }
    let log = ended.map_err(|error| match error {
        SimError::Rejected { at, why } => {
            let reason = in_names(&prepared.instance, why);
            Fault::Policy { at: at.seconds(), reason, decision: chooser.last_decision(py) }
        }
        SimError::Stalled { at, .. } => {
            Fault::Policy { at: at.seconds(), reason: error.to_string(), decision: None }
        }
        SimError::Stopped { .. } => Fault::Stopped,
    })?;
    let name = name.to_owned();
    Ok(py.detach(move || prepared.outcome(&name, log, None))?)
}

/// Why a decision is refused, in the names that a policy in Python sees.
fn in_names(instance: &Instance, why: Rejected) -> String {
    let model = |model: ModelId| &instance.models[model].name;
    match why {
        Rejected::NotReady { task } => format!("task {} is not ready", instance.task_name(task)),
        Rejected::IllegalWindow { model: id, gpus } => {
            format!("model `{}` cannot be put on GPUs {gpus}", model(id))
        }
        Rejected::BatchFull { task, gpus } => {
            format!("the batch on GPUs {gpus} is full, task {} cannot join", instance.task_name(task))
        }
        Rejected::AlreadyThere { model: id, gpus } => {
            format!("model `{}` is already on GPUs {gpus}", model(id))
        }
        Rejected::NoRoom { model: id, gpu } => {
            format!("GPU {} has no room for model `{}` beside what runs there", gpu.0, model(id))
        }
        Rejected::NoSlot { model: id, gpu } => {
            format!("GPU {} has no memory for one more execution of model `{}`", gpu.0, model(id))
        }
        other => other.to_string(),
    }
}

/// What is said of a search for a plan.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct PlanOptions {
    seed: u64,
    budget: f64,
    rounds: Option<u64>,
    /// As a fraction.
    gap: f64,
    objective: String,
    predictor: Option<(String, Vec<u8>)>,
    keep: bool,
}

/// A plan file.
#[pyfunction]
pub fn plan_for<'py>(
    py: Python<'py>,
    inputs: &Inputs,
    cluster: ClusterOptions,
    options: PlanOptions,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Vec<u8>> {
    let given = inputs.given();
    let objective = plan::Objective::parse(&options.objective).map_err(usage)?;
    apart(py, progress.as_ref(), options.keep, move |shared| {
        let scenario = given.scenario(Mode::Offline, options.predictor.is_some())?;
        let spec = cluster.over(&scenario.cluster)?;
        let source = source(options.predictor, &scenario)?;
        let planned = Some(PolicyKind::Planned);
        let mut instance = problem(&scenario, &spec, Mode::Offline, planned, estimates(source.as_ref()))?;
        source.iter().for_each(|source| source.tell(&scenario, &mut instance, false));
        let (begun, budget) = (Instant::now(), Duration::from_secs_f64(options.budget));
        let stop = || shared.stopped() || begun.elapsed() >= budget;
        let rounds = options.rounds.unwrap_or(u64::MAX);
        let limits = Limits { rounds, stop: &stop, gap: options.gap, seed: options.seed };
        shared.say("planning", 0, 0);
        let say = |gap: f64| shared.say(&format!("planning: gap {:.2}%", gap * 100.0), 0, 0);
        let planned = if objective.is_makespan() {
            plan::improve(&instance, &limits, &mut |found| say(found.gap()))
        } else {
            plan::aim(&instance, &objective, &limits, &mut |found| say(found.gap())).planned
        };
        let mut bytes = Vec::new();
        plan::file::write(&instance, &planned, &mut bytes)
            .map_err(|error| Fault::Internal(error.to_string()))?;
        Ok(bytes)
    })
}
