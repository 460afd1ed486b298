//! From a specification and its files to a problem that can be simulated, planned or run.

use crate::deployment::{read_deployment, read_deployment_file};
use crate::failure::{Failure, FailureKind};
use crate::materials::{Materials, Problem};
use crate::observe::{Observer, Stage};
use crate::spec::RunSpec;
use gswarm_core::belief::Learner;
use gswarm_core::bound::{Bound, best_bound};
use gswarm_core::check::report as render_violations;
use gswarm_core::input::{ClusterSpec, Diagnostic, Scenario, Source};
use gswarm_core::instance::{Infeasible, Instance, Mode, Residency};
use gswarm_core::log::ExecutionLog;
use gswarm_core::log_file::shown;
use gswarm_core::plan::{self, Aimed, PlanObjective, Planned, SearchLimits, file::PlanRead};
use gswarm_core::policy::{BuildContext, Policy, PolicyKind, PolicySpec, carry_out, follow_as, search};
use gswarm_core::report::RunInfo;
use gswarm_core::run::{ProblemError, RunOutcome, assess, problem};
use gswarm_core::sim::{InjectedFaults, SimError, SimOptions, simulate_learning};
use gswarm_core::truth::Noise;
use gswarm_core::{GpuId, Span, Time};
use gswarm_learn::expect::{Beliefs, Expectations, PredictorSource};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A run that is ready to be simulated or to go live.
#[derive(Debug)]
pub struct Prepared {
    /// What was asked for.
    pub spec: RunSpec,
    /// What it refers to.
    pub materials: Materials,
    /// What the inputs say.
    pub scenario: Arc<Scenario>,
    /// The problem.
    pub instance: Arc<Instance>,
    /// The cluster in full: the configuration's, overridden by the specification's.
    pub cluster: ClusterSpec,
    /// What is believed about run times, and what is true.
    pub beliefs: Beliefs,
    /// The plan to follow.
    pub plan: Option<PlanRead>,
    /// Ends the run early once it is `true`.
    pub stop: Arc<AtomicBool>,
    /// The problem's best bound by its estimates, once it has been computed.
    pub(crate) bound: Arc<OnceLock<Bound>>,
}

/// Prepares a run: validates the specification, reads the inputs and builds the problem.
///
/// # Errors
/// All that is wrong with the specification; or all that is wrong with the inputs; or why they do not fit together.
pub fn prepare(
    spec: RunSpec,
    materials: Materials,
    observer: &mut dyn Observer,
) -> Result<Prepared, Failure> {
    prepare_on(spec, materials, observer, |cluster, _| Ok(cluster))
}

/// The same on a cluster that somebody else completes, such as Ray.
pub(crate) fn prepare_on(
    spec: RunSpec,
    materials: Materials,
    observer: &mut dyn Observer,
    complete: impl FnOnce(ClusterSpec, &Scenario) -> Result<ClusterSpec, Failure>,
) -> Result<Prepared, Failure> {
    let faults = spec.validate();
    if !faults.is_empty() {
        return Err(Failure::faults(faults));
    }
    observer.stage(Stage::Reading);
    let scenario = materials.scenario(&spec, observer)?;
    let configured = planned_on(&spec, &materials).over(&scenario.cluster);
    let cluster = complete(spec.cluster.over(&configured), &scenario)?;
    observer.stage(Stage::Preparing);
    let policy = spec.policy().kind();
    let source =
        materials.predictor.as_ref().map(|(name, bytes)| predictor(name, bytes, &scenario)).transpose()?;
    let mut instance = build_predicted(&scenario, &cluster, spec.mode, Some(policy), source.as_ref())?;
    let beliefs = beliefs(&spec, source, &scenario, &mut instance)?;
    if let Some((name, bytes)) = &materials.deployment {
        instance.deployment = Some(Arc::new(read_deployment(&instance, name, bytes)?));
    }
    let plan = match &materials.plan {
        Some((name, bytes)) => Some(read_plan(&instance, name, bytes)?),
        None => None,
    };
    let prepared = Prepared {
        spec,
        materials,
        scenario,
        instance: Arc::new(instance),
        cluster,
        beliefs,
        plan,
        stop: Arc::default(),
        bound: Arc::default(),
    };
    prepared.lost_gpus_exist()?;
    prepared.remarks().iter().for_each(|text| observer.remark(&format!("note: {text}")));
    prepared.notes().iter().for_each(|text| observer.note(&format!("note: {text}")));
    Ok(prepared)
}

/// The cluster that a plan or a deployment was made for, where the specification names none.
fn planned_on(spec: &RunSpec, materials: &Materials) -> ClusterSpec {
    if let Some((name, bytes)) = materials.deployment.as_ref().filter(|_| spec.cluster.gpus.is_none()) {
        let read = read_deployment_file(Source { name, bytes });
        return read.map_or_else(|_| ClusterSpec::default(), |(file, _)| file.cluster());
    }
    let plan = materials.plan.as_ref().filter(|_| spec.cluster.gpus.is_none());
    let made_for = plan.and_then(|(_, bytes)| plan::file::spec(bytes));
    let made_for = made_for.and_then(|value| serde_json::from_value::<RunSpec>(value).ok());
    made_for.map(|spec| spec.cluster).unwrap_or_default()
}

/// The problem that `policy` is to solve.
///
/// # Errors
/// Why the scenario gives none on this cluster.
pub fn build(
    scenario: &Scenario,
    cluster: &ClusterSpec,
    mode: Mode,
    policy: Option<PolicyKind>,
) -> Result<Instance, Failure> {
    build_predicted(scenario, cluster, mode, policy, None)
}

/// The same where a predictor may say how long nodes take.
fn build_predicted(
    scenario: &Scenario,
    cluster: &ClusterSpec,
    mode: Mode,
    policy: Option<PolicyKind>,
    source: Option<&PredictorSource>,
) -> Result<Instance, Failure> {
    let estimates = source.map_or(&[][..], PredictorSource::estimates);
    problem(scenario, cluster, mode, policy, estimates).map_err(|why| match why {
        ProblemError::NoGpus => {
            Failure::input(why.to_string()).hint("add --gpus N, or `cluster: {gpus: N}` to the configuration")
        }
        ProblemError::TooSlow { .. } => Failure::input(why.to_string()).hint("give a higher --pcie-gb-per-s"),
        ProblemError::Infeasible(faults) => infeasible(&faults),
    })
}

/// Says why a problem cannot be run.
#[must_use]
pub fn infeasible(faults: &[Infeasible]) -> Failure {
    let mut failure =
        Failure::new(FailureKind::Infeasible, ProblemError::Infeasible(faults.to_vec()).to_string()).hint(
            "give more GPUs (--gpus), larger servers (--gpus-per-server) or more memory (--gpu-memory-gb)",
        );
    failure.reasons = faults.iter().map(ToString::to_string).collect();
    failure
}

fn beliefs(
    spec: &RunSpec,
    source: Option<PredictorSource>,
    scenario: &Scenario,
    instance: &mut Instance,
) -> Result<Beliefs, Failure> {
    let times = &spec.times;
    let expected = Expectations {
        // A live run measures what times are.
        noise: times.noise.or(spec.live.is_some().then_some(Noise::None)),
        drift: times.drift.clone(),
        truth: times.truth,
        learn: times.learn,
        means_only: times.means_only,
    };
    expected.apply(source, scenario, instance, spec.seed).map_err(|unknown| {
        let known: Vec<&str> = instance.models.iter().map(|model| model.name.as_str()).collect();
        Failure::input(format!("drift: {unknown}")).hint(format!("there are {}", known.join(", ")))
    })
}

/// A predictor, and what it says of a scenario. Logs name its file without the folder; messages name the whole path.
///
/// # Errors
/// Why it is no predictor for these requests.
pub fn predictor(name: &str, bytes: &[u8], scenario: &Scenario) -> Result<PredictorSource, Failure> {
    let short = Path::new(name).file_name().map_or(name.into(), |file| file.to_string_lossy());
    PredictorSource::read(short.into_owned(), bytes.to_vec(), scenario).map_err(
        |mut faults: Vec<Diagnostic>| {
            faults.iter_mut().for_each(|fault| fault.file = name.to_owned());
            Failure::faults(faults).hint("`gswarm train` makes predictors; see docs/learning.md")
        },
    )
}

/// Reads a plan for this problem; all that is wrong with it is reported at once.
///
/// # Errors
/// Why the plan does not fit.
pub fn read_plan(instance: &Instance, name: &str, bytes: &[u8]) -> Result<PlanRead, Failure> {
    plan::file::read(instance, bytes).map_err(|faults| {
        let list: Vec<String> = faults.iter().map(|fault| format!("\n  - {}", shown(fault))).collect();
        Failure::input(format!("{name} does not match these inputs:{}", list.concat()))
            .hint("run `gswarm plan` again for this configuration, these requests and this number of GPUs")
    })
}

impl Prepared {
    /// A run of a problem that was built before, with nothing beside it.
    #[must_use]
    pub fn of(spec: RunSpec, instance: Instance) -> Prepared {
        Prepared {
            cluster: spec.cluster.clone(),
            spec,
            materials: Materials::of(Problem::Scenario(Arc::default())),
            scenario: Arc::default(),
            instance: Arc::new(instance),
            beliefs: Beliefs::default(),
            plan: None,
            stop: Arc::default(),
            bound: Arc::default(),
        }
    }

    /// Writes a plan for this run, with its specification.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write_plan(&self, planned: &Planned, out: &mut impl std::io::Write) -> std::io::Result<()> {
        plan::file::write_with(&self.instance, planned, Some(self.spec.to_value()?), out)
    }

    /// Frees the inputs, which a simulation no longer needs.
    #[must_use]
    pub fn without_inputs(mut self) -> Prepared {
        self.scenario = Arc::default();
        self.materials = Materials::of(Problem::Scenario(Arc::default()));
        self
    }

    fn lost_gpus_exist(&self) -> Result<(), Failure> {
        let gpus = self.instance.cluster.gpus;
        match self.spec.faults.lose_gpus.iter().find(|lost| lost.gpu >= gpus) {
            Some(lost) => Err(Failure::input(format!(
                "lose_gpus names GPU {}, but the GPUs are 0 to {}",
                lost.gpu,
                gpus - 1
            ))),
            None => Ok(()),
        }
    }

    /// What was asked for and has no effect.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let policy = self.spec.policy().kind();
        if self.cluster.residency == Some(Residency::Single)
            && policy.residency(Residency::Single) != Residency::Single
        {
            remarks.push(format!(
                "policy `{}` keeps several models on a GPU if memory allows; residency `single` is ignored",
                policy.name()
            ));
        }
        let losses = &self.spec.faults.lose_gpus;
        for (at, lost) in losses.iter().enumerate() {
            if losses[..at].iter().filter(|other| other.gpu == lost.gpu).count() == 1 {
                remarks.push(format!("GPU {} is lost more than once; the earliest time counts", lost.gpu));
            }
        }
        remarks
    }

    /// What was said about run times and has no effect.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(name) = &self.beliefs.unused {
            notes.push(format!(
                "`predictor` {name} is not used, because the requests give every node a time (`truth: requests` tests a predictor)"
            ));
        }
        if self.spec.times.noise.is_none() && self.noise().is_some() {
            notes.push(
                "run times vary by `inference_time_std` and `token_std` of the configuration; \
                 noise `none` uses the means"
                    .to_owned(),
            );
        }
        notes.extend(self.idle_means_only().map(str::to_owned));
        notes
    }

    /// What true times are drawn by.
    fn noise(&self) -> Option<Noise> {
        self.beliefs.spec.as_ref().and_then(|spec| spec.noise)
    }

    /// Says that there is no spread for `means_only` to keep from the policies.
    fn idle_means_only(&self) -> Option<&'static str> {
        if !self.spec.times.means_only {
            return None;
        }
        if self.noise().is_none_or(|noise| noise.is_silent(&self.instance)) {
            return Some(
                "`means_only` has no effect: it hides the spread of noise from policies, and there is no noise",
            );
        }
        let instance = &self.instance;
        let predicted = instance.task_ids().all(|task| instance.interval(task).is_some());
        predicted.then_some("`means_only` has no effect: the predictor gives every node its own interval")
    }

    fn sim_options(&self) -> SimOptions {
        let faults = &self.spec.faults;
        let lose =
            faults.lose_gpus.iter().map(|lost| (Time::ZERO + Span::from_seconds(lost.at), GpuId(lost.gpu)));
        SimOptions {
            max_attempts: faults.max_attempts,
            faults: InjectedFaults {
                fail_rate: faults.fail_rate,
                seed: self.spec.seed,
                lose: lose.collect(),
                ..InjectedFaults::default()
            },
            truth: self.beliefs.truth.clone(),
            stop: Some(Arc::clone(&self.stop)),
        }
    }

    /// Simulates the run under its policy or its plan, checks the log and bounds it.
    ///
    /// # Errors
    /// A fault of gswarm, or that the run was stopped.
    pub fn simulate(&self, observer: &mut dyn Observer) -> Result<Simulated, Failure> {
        observer.stage(Stage::Planning);
        let (mut policy, planned) = self.policy(false, observer);
        let outcome = self.simulate_with(policy.as_mut(), observer)?;
        drop(policy);
        Ok(Simulated { outcome, planned })
    }

    /// The same under a policy that is ready to run; the specification's gives its name.
    ///
    /// # Errors
    /// A fault of the policy, or that the run was stopped.
    pub fn simulate_with(
        &self,
        policy: &mut dyn Policy,
        observer: &mut dyn Observer,
    ) -> Result<RunOutcome, Failure> {
        observer.stage(Stage::Running);
        let log =
            self.log_of(policy, &mut |done, total| observer.progress(done, total)).map_err(|error| {
                match error {
                    SimError::Stopped { .. } => Failure::new(FailureKind::Interrupted, "interrupted"),
                    other => self.fault_of_policy(&other.to_string()),
                }
            })?;
        observer.stage(Stage::Checking);
        self.assess(self.spec.policy().kind().name(), log)
    }

    /// What happens under a policy: the log, unchecked.
    ///
    /// # Errors
    /// Why the simulation did not come to its end.
    pub fn log_of(
        &self,
        policy: &mut dyn Policy,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<ExecutionLog, SimError> {
        let mut learner = self.beliefs.learner(&self.instance);
        let learner = learner.as_mut().map(|learner| learner.as_mut() as &mut dyn Learner);
        simulate_learning(&self.instance, policy, learner, &self.sim_options(), &mut |at| {
            progress(at.done, at.total)
        })
    }

    /// Measures, bounds and checks a log of this run.
    ///
    /// # Errors
    /// What the log breaks.
    pub fn assess(&self, policy: &str, log: ExecutionLog) -> Result<RunOutcome, Failure> {
        let info = RunInfo {
            policy: policy.to_owned(),
            seed: Some(self.spec.seed),
            truth: self.beliefs.spec.clone(),
            predictor: self.beliefs.predictor(),
            ..RunInfo::default()
        };
        assess(&self.instance, info, &self.beliefs.truth, &self.bound, log)
            .map_err(|violations| self.fault_of_policy(&render_violations(&violations)))
    }

    fn fault_of_policy(&self, what: &str) -> Failure {
        let name = self.spec.policy().kind().name();
        Failure::new(FailureKind::Internal, format!("internal error under policy `{name}`: {what}")).hint(
            "this is a bug in gswarm, not in your input, and no file was written; please report it with both input files",
        )
    }

    /// The policy, ready to run, and the plan that it follows where it searched for one. `live` follows plans strictly where
    /// nobody has learned how long things take: estimates may be off by any factor, and a model that is fetched to save a
    /// second of them may take longer to come.
    pub(crate) fn policy(
        &self,
        live: bool,
        observer: &mut dyn Observer,
    ) -> (Box<dyn Policy + '_>, Option<Planned>) {
        let instance = self.instance.as_ref();
        let strict_plan = live && !self.beliefs.learn && self.beliefs.source.is_none();
        if let Some(plan) = &self.plan {
            return (follow_as(instance, plan, strict_plan), None);
        }
        let spec = self.spec.policy();
        let begun = Instant::now();
        // No limit by default: a plan that depends on the clock would differ from machine to machine.
        let budget = spec.budget().map(|budget| Duration::from_secs_f64(budget.seconds()));
        let stopped =
            || self.stop.load(Ordering::Relaxed) || budget.is_some_and(|budget| begun.elapsed() >= budget);
        let bound = (spec.kind() == PolicyKind::Planned).then(|| self.bound());
        let context = BuildContext { seed: self.spec.seed, strict_plan, stop: &stopped, bound };
        if let PolicySpec::Planned(params) = &spec
            && !strict_plan
            && instance.start.is_empty()
        {
            let found = search(instance, params, &context, &mut |found| observer.better_plan(found));
            return (carry_out(instance, &found), Some(found));
        }
        (spec.build(instance, &context), None)
    }

    /// The best bound on the makespan by the estimates, computed once.
    fn bound(&self) -> &Bound {
        self.bound.get_or_init(|| best_bound(&self.instance))
    }

    /// Searches for a plan for an objective.
    pub fn plan(&self, search: &PlanOptions, observer: &mut dyn Observer) -> PlanSearch {
        observer.stage(Stage::Planning);
        let begun = Instant::now();
        let stop = || self.stop.load(Ordering::Relaxed) || begun.elapsed() >= search.budget;
        let bound = Some(self.bound());
        let limits = SearchLimits {
            rounds: search.rounds,
            stop: &stop,
            gap: search.gap,
            seed: self.spec.seed,
            bound,
            ..SearchLimits::default()
        };
        if search.objective.is_makespan() {
            let planned = plan::improve(&self.instance, &limits, &mut |found| observer.better_plan(found));
            return PlanSearch { planned, aimed: None };
        }
        let tell = &mut |found: &Aimed| observer.better_aim(&search.objective, found);
        let aimed = plan::aim(&self.instance, &search.objective, &limits, tell);
        PlanSearch { planned: aimed.planned.clone(), aimed: Some(aimed) }
    }
}

/// The result of a simulated run.
#[derive(Debug)]
pub struct Simulated {
    /// The log, measured and checked.
    pub outcome: RunOutcome,
    /// The plan that was searched for and followed, where that was the policy.
    pub planned: Option<Planned>,
}

/// How long and for what to search for a plan.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// The most time.
    pub budget: Duration,
    /// The most rounds.
    pub rounds: u64,
    /// Ends the search once the plan is as close to the bound as this, as a fraction.
    pub gap: f64,
    /// What to plan for.
    pub objective: PlanObjective,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct PlanSearch {
    /// The plan.
    pub planned: Planned,
    /// How good it is at the objective, where that is not the makespan.
    pub aimed: Option<Aimed>,
}
