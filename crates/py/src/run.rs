//! Runs: under gswarm's own policies on a thread apart, under Python's on the caller's.

use crate::apart::{Shared, apart};
use crate::fault::{Fault, usage};
use crate::outcome::Outcome;
use crate::policy::PythonPolicy;
use crate::problem::{Given, Inputs};
use gswarm_core::engine::{Rejected, View};
use gswarm_core::input::{Diagnostic, Source};
use gswarm_core::plan::{self, PlanObjective, Planned};
use gswarm_core::policy::{ParamValues, PolicyKind, PolicySpec, UnknownPolicy};
use gswarm_core::run::RunOutcome as Ran;
use gswarm_core::sim::SimError;
use gswarm_core::{Instance, ModelId};
use gswarm_run::live::{self, Resume};
use gswarm_run::{
    Failure, Materials, Named, Observer, PlanOptions, Prepared, Problem, RunSpec, Stage, prepare,
};
use gswarm_serve::embedded::EmbeddedHost;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What Python calls the arguments of a call, where they are wrong.
pub const ARGUMENTS: &str = "<arguments>";

/// The contents of files that a specification refers to, which Python holds already: each with its name.
#[derive(Default, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Contents {
    plan: Option<Vec<u8>>,
    predictor: Option<Named>,
    calibration: Option<Named>,
}

/// A specification from the arguments of a call, as JSON. All that is wrong with it is said at once.
pub fn specification(text: &str, contents: Option<&Contents>) -> Result<RunSpec, Fault> {
    policy_of(text)?;
    let source = Source { name: ARGUMENTS, bytes: text.as_bytes() };
    let (mut spec, _) = RunSpec::read(source, Path::new("")).map_err(|faults| misused(&faults))?;
    // What is there needs no path; that it is there is part of the specification.
    if let Some(contents) = contents {
        let named = |file: &Option<Named>| file.as_ref().map(|(name, _)| PathBuf::from(name));
        spec.plan = contents.plan.as_ref().map(|_| PathBuf::from("the plan")).or(spec.plan);
        spec.times.predictor = named(&contents.predictor).or(spec.times.predictor);
        if let (Some(file), Some(calibration)) = (named(&contents.calibration), &mut spec.calibration) {
            calibration.file = file;
        }
    }
    let faults = spec.validate();
    if faults.is_empty() { Ok(spec) } else { Err(misused(&faults)) }
}

/// Refuses an unknown policy, and parameters that the policy does not take, in words that name those that do.
fn policy_of(text: &str) -> Result<(), Fault> {
    let spec: serde_json::Value = serde_json::from_str(text).map_err(|error| usage(error.to_string()))?;
    let Some(fields) = spec["policy"].as_object() else { return Ok(()) };
    let mut values: ParamValues = fields.clone().into_iter().collect();
    let name = values.remove("name").unwrap_or_default();
    let kind: PolicyKind = name.as_str().unwrap_or_default().parse().map_err(|error: UnknownPolicy| {
        Fault::Usage(error.to_string(), "gswarm.policies() says what each is for".to_owned())
    })?;
    PolicySpec::from_values(kind, &values).map(drop).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        usage(faults.join("; "))
    })
}

/// Faults of arguments: each is called by its keyword.
fn misused(faults: &[Diagnostic]) -> Fault {
    let one = |fault: &Diagnostic| {
        let name = fault.path.split('[').next().unwrap_or_default().rsplit('.').next().unwrap_or_default();
        if name.is_empty() || fault.message.contains(name) {
            fault.message.clone()
        } else {
            format!("{name}: {}", fault.message)
        }
    };
    let hint = faults.iter().find_map(|fault| fault.hint.clone());
    Fault::Usage(faults.iter().map(one).collect::<Vec<_>>().join("; "), hint.unwrap_or_default())
}

/// The problem, and what the call gave beside it.
pub fn materials(given: &Given, spec: &RunSpec, contents: Contents) -> Result<Materials, Fault> {
    let scenario = given.scenario_of(spec)?;
    let Contents { plan, predictor, calibration } = contents;
    let deployment = spec.deployment.as_ref().map(|path| {
        let bytes = gswarm_run::files::read(path)?;
        Ok::<_, gswarm_run::Failure>((path.display().to_string(), bytes))
    });
    let deployment = deployment.transpose()?;
    Ok(Materials {
        problem: Problem::Scenario(scenario),
        calibration,
        predictor,
        plan: plan.map(|bytes| ("the plan".to_owned(), bytes)),
        deployment,
    })
}

/// Tells Python how far a run is.
struct Told<'s> {
    shared: &'s Shared,
    stage: Stage,
}

impl Observer for Told<'_> {
    fn stage(&mut self, stage: Stage) {
        self.stage = stage;
        self.shared.say(stage.label(), 0, 0);
    }

    fn waiting(&mut self, what: &str) {
        self.shared.say(what, 0, 0);
    }

    fn progress(&mut self, done: usize, total: usize) {
        self.shared.say(self.stage.label(), done, total);
    }

    fn better_plan(&mut self, found: &Planned) {
        self.shared.say(&format!("planning: gap {:.2}%", found.gap() * 100.0), 0, 0);
    }

    fn better_aim(&mut self, _: &PlanObjective, found: &plan::Aimed) {
        self.shared.say(&format!("planning: gap {:.2}%", found.gap() * 100.0), 0, 0);
    }

    fn goes_on(&mut self) -> bool {
        !self.shared.stopped()
    }

    fn watch(&mut self, view: &View<'_>) -> bool {
        let total = view.instance().tasks();
        self.progress(total - view.open_tasks(), total);
        !self.shared.stopped()
    }
}

impl Told<'_> {
    fn to(shared: &Shared) -> Told<'_> {
        Told { shared, stage: Stage::Reading }
    }
}

fn prepared(given: &Given, spec: RunSpec, contents: Contents, shared: &Shared) -> Result<Prepared, Fault> {
    let materials = materials(given, &spec, contents)?;
    let mut prepared = prepare(spec, materials, &mut Told::to(shared))?;
    prepared.stop = Arc::clone(&shared.stop);
    Ok(prepared)
}

fn outcome(prepared: Prepared, outcome: Ran, planned: Option<Planned>) -> Outcome {
    let Prepared { scenario, instance, beliefs, .. } = prepared;
    Outcome { scenario, instance, outcome, planned, truth: beliefs.truth }
}

/// A run under a policy of gswarm's own, or one that follows a plan.
#[pyfunction]
pub fn run(
    py: Python<'_>,
    inputs: &Inputs,
    spec: &str,
    contents: Contents,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let (given, spec) = (inputs.given(), specification(spec, Some(&contents))?);
    apart(py, progress.as_ref(), false, move |shared| {
        let prepared = prepared(&given, spec, contents, shared)?;
        let simulated = prepared.simulate(&mut Told::to(shared))?;
        Ok(outcome(prepared, simulated.outcome, simulated.planned))
    })
}

/// A run under a policy in Python. It stays on the caller's thread: Python gets its turns, and its signals, in the policy.
#[pyfunction]
pub fn run_python(
    py: Python<'_>,
    inputs: &Inputs,
    policy: &Bound<'_, PyAny>,
    name: &str,
    spec: &str,
    contents: Contents,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let shared = Shared::default();
    let (given, spec) = (inputs.given(), specification(spec, Some(&contents))?);
    let prepared = py.detach(|| prepared(&given, spec, contents, &shared))?;
    let mut chooser = PythonPolicy::new(policy, Arc::clone(&prepared.instance), Arc::clone(&shared.stop))?;
    chooser.begin(py, policy)?;
    let mut raised = None;
    let stop = Arc::clone(&shared.stop);
    let ended = prepared.log_of(&mut chooser, &mut |done, total| {
        let told = progress
            .as_ref()
            .map_or(Ok(()), |progress| progress.call1((Stage::Running.label(), done, total)).map(drop));
        if let Err(error) = told.and_then(|()| py.check_signals()) {
            stop.store(true, Ordering::Relaxed);
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
    drop(chooser);
    let name = name.to_owned();
    Ok(py.detach(move || -> Result<Outcome, Fault> {
        let ran = prepared.assess(&name, log)?;
        Ok(outcome(prepared, ran, None))
    })?)
}

/// What came of a live run, the file of results, and the nodes that failed: request, node, attempts and why.
type Ended = (Outcome, PathBuf, Vec<(String, String, usize, String)>);

fn ended(ended: live::Ended) -> Result<Ended, Fault> {
    ended.log_holds()?;
    let failed = ended.failed.into_iter().map(|one| (one.request, one.node, one.attempts, one.why));
    Ok((outcome(ended.prepared, ended.outcome, None), ended.results, failed.collect()))
}

/// A live run, from its start. What it does is in the journal of its folder.
#[pyfunction]
pub fn run_live(
    py: Python<'_>,
    inputs: &Inputs,
    spec: &str,
    contents: Contents,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Ended> {
    let (given, spec) = (inputs.given(), specification(spec, Some(&contents))?);
    apart(py, progress.as_ref(), true, move |shared| {
        let materials = materials(&given, &spec, contents)?;
        ended(live::run(spec, materials, &EmbeddedHost, &mut Told::to(shared))?)
    })
}

/// Goes on with a live run that was interrupted.
#[pyfunction]
pub fn resume(
    py: Python<'_>,
    folder: PathBuf,
    backends: Option<PathBuf>,
    address: Option<String>,
    retry_failed: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Ended> {
    apart(py, progress.as_ref(), true, move |shared| {
        let changes = Resume { backends, address, python: None, retry_failed };
        ended(live::resume(&folder, &changes, &EmbeddedHost, &mut Told::to(shared))?)
    })
}

/// The specification in a file, as JSON, with its paths made whole.
#[pyfunction]
pub fn read_spec(file: PathBuf) -> PyResult<String> {
    let read = || -> Result<String, Fault> {
        let name = file.display().to_string();
        let bytes = gswarm_run::files::read_or(&file, "check the path")?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let (spec, _) = RunSpec::read(Source { name: &name, bytes: &bytes }, folder).map_err(Fault::Input)?;
        Ok(serde_json::to_string(&spec)?)
    };
    Ok(read()?)
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
            format!("GPU {} has no room for model `{}` next to what runs there", gpu.0, model(id))
        }
        Rejected::NoSlot { model: id, gpu } => {
            format!("GPU {} has no memory for one more execution of model `{}`", gpu.0, model(id))
        }
        other => other.to_string(),
    }
}

/// How long and for what to search for a plan.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SearchOptions {
    budget: f64,
    rounds: Option<u64>,
    /// As a fraction.
    gap: f64,
    objective: String,
    keep: bool,
}

/// A plan file.
#[pyfunction]
pub fn plan_for<'py>(
    py: Python<'py>,
    inputs: &Inputs,
    spec: &str,
    contents: Contents,
    search: SearchOptions,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Vec<u8>> {
    let (given, spec) = (inputs.given(), specification(spec, Some(&contents))?);
    let options = PlanOptions {
        budget: Duration::from_secs_f64(search.budget),
        rounds: search.rounds.unwrap_or(u64::MAX),
        gap: search.gap,
        objective: PlanObjective::parse(&search.objective).map_err(usage)?,
    };
    apart(py, progress.as_ref(), search.keep, move |shared| {
        let prepared = prepared(&given, spec, contents, shared)?;
        let found = prepared.plan(&options, &mut Told::to(shared)).planned;
        let mut bytes = Vec::new();
        prepared.write_plan(&found, &mut bytes)?;
        Ok(bytes)
    })
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        use gswarm_run::FailureKind;
        let hint = failure.advice().unwrap_or_default().to_owned();
        match failure.code {
            FailureKind::Infeasible => Fault::Infeasible(failure.reasons.clone()),
            FailureKind::Interrupted => Fault::Stopped,
            FailureKind::Internal => Fault::Internal(failure.message().to_owned()),
            _ if failure.diagnostics.iter().any(|one| !one.file.is_empty()) => {
                Fault::Input(failure.diagnostics)
            }
            _ => Fault::Usage(failure.message().to_owned(), hint),
        }
    }
}
