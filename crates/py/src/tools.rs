//! What is asked of problems and logs beside runs: bounds, checks, comparisons, sizes, and problems made to order.

use crate::apart::{Shared, apart};
use crate::fault::{Fault, usage};
use crate::outcome::{PlainViolation, plain_violation};
use crate::problem::{ClusterOptions, Inputs, Text, mode_named};
use crate::run::source;
use gswarm_core::Instance;
use gswarm_core::bound::all_bounds;
use gswarm_core::compare::{Key, Row, fill_in_speedups};
use gswarm_core::generate::{
    Arrivals, Format, Preset, RequestOptions, requests, write_config, write_requests,
};
use gswarm_core::input::{ClusterSpec, MAX_GPUS, Source, read_config};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::policy::{PolicyKind, PolicyParams};
use gswarm_core::run::{NoProblem, Setting, assess, problem};
use gswarm_core::sim::{SimError, SimOptions, simulate};
use gswarm_core::size::{self, Measure, Question, SizeError, Target, Telling, usual_policy};
use gswarm_core::time::duration;
use gswarm_core::verify::Evidence;
use pyo3::prelude::*;
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Name, what it is for, its modes and whether it is only a yardstick, of each policy.
#[pyfunction]
pub fn policies() -> Vec<(&'static str, &'static str, Vec<&'static str>, bool)> {
    let one = |kind: &PolicyKind| {
        let modes = kind.modes().iter().map(|mode| mode.name()).collect();
        (kind.name(), kind.about(), modes, kind.is_yardstick())
    };
    PolicyKind::ALL.iter().map(one).collect()
}

/// The policy that is used where none is named.
#[pyfunction]
pub fn usual(mode: &str) -> PyResult<&'static str> {
    Ok(usual_policy(mode_named(mode)?).name())
}

/// `90s`, `20min` or seconds, in seconds.
#[pyfunction]
pub fn seconds(text: &str) -> PyResult<f64> {
    Ok(duration(text).map_err(usage)?.seconds())
}

/// Every bound, the best first: seconds, argument and why.
#[pyfunction]
pub fn bounds(
    py: Python<'_>,
    inputs: &Inputs,
    cluster: ClusterOptions,
    mode: &str,
) -> PyResult<Vec<(f64, &'static str, String)>> {
    let (text, mode) = (inputs.text(), mode_named(mode)?);
    apart(py, None, false, move |_| {
        let scenario = text.scenario(mode, false)?;
        let spec = cluster.over(&scenario.cluster)?;
        let instance = problem(&scenario, &spec, mode, None)?;
        let mut found = all_bounds(&instance);
        found.sort_by_key(|bound| std::cmp::Reverse(bound.value));
        let one = |bound: &gswarm_core::bound::Bound| {
            (bound.value.seconds(), bound.witness.name(), bound.because(&instance))
        };
        Ok(found.iter().map(one).collect())
    })
}

/// What a log, a plan or a file of bounds breaks.
#[pyfunction]
pub fn check(
    py: Python<'_>,
    inputs: &Inputs,
    log: Vec<u8>,
    cluster: ClusterOptions,
    mode: Option<String>,
    predictor: Option<(String, Vec<u8>)>,
) -> PyResult<Vec<PlainViolation>> {
    let text = inputs.text();
    let mode = mode.as_deref().map(mode_named).transpose()?;
    apart(py, None, false, move |_| {
        let evidence = Evidence::read(&log);
        let mode = evidence.log.mode().or(mode).unwrap_or(Mode::Offline);
        let scenario = text.scenario(mode, predictor.is_some())?;
        if predictor.is_some() && evidence.log.claims.predictor.is_none() {
            return Err(usage("the log does not say that a predictor gave its estimates"));
        }
        let spec = cluster.over(&scenario.cluster)?;
        let source = source(predictor, &scenario)?;
        let found = match &source {
            None => evidence.violations(&scenario, &spec, mode, None),
            Some(source) => {
                let believe = |instance: &mut Instance, all| source.tell(&scenario, instance, all);
                evidence.violations(&scenario, &spec, mode, Some(&believe))
            }
        };
        Ok(found.iter().map(plain_violation).collect())
    })
}

/// What is to be compared.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CompareOptions {
    policies: Vec<String>,
    gpus: Vec<i64>,
    modes: Vec<String>,
    seeds: Vec<u64>,
    rounds: u64,
}

/// A row for each run, each as JSON. All cores are used.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    inputs: &Inputs,
    cluster: ClusterOptions,
    options: CompareOptions,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Vec<String>> {
    let text = inputs.text();
    let kinds: Result<Vec<PolicyKind>, _> = options.policies.iter().map(|name| name.parse()).collect();
    let kinds = kinds.map_err(|error: gswarm_core::policy::UnknownPolicy| usage(error.to_string()))?;
    let modes: Vec<Mode> = options.modes.iter().map(|name| mode_named(name)).collect::<Result<_, _>>()?;
    if let Some(wrong) = options.gpus.iter().find(|gpus| !(1..=i64::from(MAX_GPUS)).contains(*gpus)) {
        return Err(usage(format!("gpus has {wrong}; give numbers from 1 to {MAX_GPUS}")).into());
    }
    apart(py, progress.as_ref(), false, move |shared| {
        let mut runs = Vec::new();
        for &mode in &modes {
            for &gpus in &options.gpus {
                for &kind in kinds.iter().filter(|kind| kind.supports(mode)) {
                    runs.extend(options.seeds.iter().map(|&seed| (mode, gpus as u32, kind, seed)));
                }
            }
        }
        let done = AtomicUsize::new(0);
        shared.say("comparing", 0, runs.len());
        let rows: Result<Vec<Row>, Fault> = runs
            .par_iter()
            .map(|&run| {
                let row = compared(&text, &cluster, run, options.rounds, shared)?;
                shared.say("comparing", done.fetch_add(1, Ordering::Relaxed) + 1, runs.len());
                Ok(row)
            })
            .collect();
        let mut rows = rows?;
        fill_in_speedups(&mut rows);
        let written: Result<_, _> = rows.iter().map(serde_json::to_string).collect();
        written.map_err(|error| Fault::Internal(error.to_string()))
    })
}

fn compared(
    text: &Text,
    cluster: &ClusterOptions,
    (mode, gpus, kind, seed): (Mode, u32, PolicyKind, u64),
    rounds: u64,
    shared: &Shared,
) -> Result<Row, Fault> {
    if shared.stopped() {
        return Err(Fault::Stopped);
    }
    let scenario = text.scenario(mode, false)?;
    let spec = ClusterSpec { gpus: Some(gpus), ..cluster.over(&scenario.cluster)? };
    let (mode_name, policy) = (mode.name().to_owned(), kind.name().to_owned());
    let key = Key {
        input: text.name().to_owned(),
        mode: mode_name,
        batching: true,
        gpus,
        policy: policy.clone(),
        seed,
    };
    let instance = match problem(&scenario, &spec, mode, Some(kind)) {
        Err(why @ NoProblem::Infeasible(_)) => return Ok(Row::infeasible(&key, "", why.to_string())),
        other => other?,
    };
    let params = PolicyParams { seed, rounds, ..PolicyParams::default() };
    let begun = Instant::now();
    let mut chooser = kind.build_until(&instance, &params, &|| shared.stopped());
    let planned = begun.elapsed().as_secs_f64();
    let options = SimOptions { stop: Some(Arc::clone(&shared.stop)), ..SimOptions::default() };
    let log = simulate(&instance, chooser.as_mut(), &options, &mut |_| {}).map_err(|error| match error {
        SimError::Stopped { .. } => Fault::Stopped,
        other => Fault::Internal(format!("under policy `{}`: {other}", kind.name())),
    })?;
    let setting = Setting { policy, seed, ..Setting::default() };
    let outcome = assess(&instance, &setting, log).map_err(|violations| Fault::broken(&violations))?;
    Ok(Row::of(&key, "", &outcome.metrics, &outcome.summary, [planned, begun.elapsed().as_secs_f64()]))
}

/// What is to be sized.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SizeOptions {
    targets: Vec<String>,
    policy: Option<String>,
    mode: Option<String>,
    max_gpus: i64,
    rounds: u64,
    seed: u64,
}

/// The fewest GPUs that keep targets, with all that was tried, as JSON.
#[pyfunction]
pub fn size_of(
    py: Python<'_>,
    inputs: &Inputs,
    cluster: ClusterOptions,
    options: SizeOptions,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let text = inputs.text();
    let targets: Result<Vec<Target>, String> = options.targets.iter().map(|one| one.parse()).collect();
    let targets = targets.map_err(usage)?;
    if targets.is_empty() {
        return Err(usage("no target is given, as in makespan=\"2h\"").into());
    }
    let batch = targets.iter().all(|target| target.measure == Measure::Makespan);
    let mode = match &options.mode {
        Some(name) => mode_named(name)?,
        None if batch => Mode::Offline,
        None => Mode::Online,
    };
    let named = options.policy.as_deref().map(str::parse::<PolicyKind>).transpose();
    let policy = named.map_err(|error| usage(error.to_string()))?.unwrap_or_else(|| usual_policy(mode));
    if !policy.supports(mode) {
        return Err(usage(format!("policy `{}` has no {} mode", policy.name(), mode.name())).into());
    }
    let max_gpus = u32::try_from(options.max_gpus).ok().filter(|gpus| (1..=MAX_GPUS).contains(gpus));
    let max_gpus = max_gpus.ok_or_else(|| usage(format!("max_gpus: give a number from 1 to {MAX_GPUS}")))?;
    apart(py, progress.as_ref(), false, move |shared| {
        let scenario = text.scenario(mode, false)?;
        let spec = ClusterSpec { gpus: Some(max_gpus), ..cluster.over(&scenario.cluster)? };
        // As in a run: what moving models would take is held against what a run can count.
        if let Err(why @ NoProblem::TooSlow { .. }) = problem(&scenario, &spec, mode, Some(policy)) {
            return Err(why.into());
        }
        let cluster = Cluster::from_spec(&spec).ok_or(NoProblem::NoGpus)?;
        let params = PolicyParams { seed: options.seed, rounds: options.rounds, ..PolicyParams::default() };
        let question = Question {
            scenario: &scenario,
            cluster: &cluster,
            mode,
            policy,
            params: &params,
            targets: &targets,
            max_gpus,
        };
        let found = size::size(&question, &mut |telling| {
            if let Telling::Trying(gpus) = telling {
                shared.say(&format!("running it on {gpus} GPUs"), 0, 0);
            }
        });
        let sizing = found.map_err(|error| match error {
            SizeError::Infeasible(_, faults) => Fault::from(NoProblem::Infeasible(faults)),
            other => Fault::Internal(other.to_string()),
        })?;
        let report = serde_json::to_value(sizing.report(&question));
        report.map(|report| report.to_string()).map_err(|error| Fault::Internal(error.to_string()))
    })
}

/// What is to be made.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct GenerateOptions {
    preset: Option<String>,
    /// In place of a preset: a configuration.
    config: Option<(String, Vec<u8>)>,
    requests: u32,
    duration: f64,
    arrivals: String,
    mix: Vec<(String, f64)>,
    seed: u64,
}

/// A configuration and requests for it, as JSON.
#[pyfunction]
pub fn generate(py: Python<'_>, options: GenerateOptions) -> PyResult<(Vec<u8>, Vec<u8>)> {
    let named = |kind: &str, name: &str, known: Vec<&str>| {
        usage(format!("there is no {kind} `{name}`; there are {}", known.join(", ")))
    };
    let arrivals =
        Arrivals::ALL.iter().copied().find(|kind| kind.name() == options.arrivals).ok_or_else(|| {
            let known = Arrivals::ALL.iter().map(|kind| kind.name()).collect();
            named("process of arrivals", &options.arrivals, known)
        })?;
    let (name, config) = match (options.config, options.preset) {
        (Some(config), None) => config,
        (None, Some(name)) => {
            let preset =
                Preset::ALL.iter().copied().find(|preset| preset.name() == name).ok_or_else(|| {
                    named("preset", &name, Preset::ALL.iter().map(|preset| preset.name()).collect())
                })?;
            let mut text = Vec::new();
            write_config(&preset.config(), Format::Json, &mut text)
                .map_err(|error| Fault::Internal(error.to_string()))?;
            (name, text)
        }
        _ => return Err(usage("give either a preset or a config").into()),
    };
    if options.requests == 0 {
        return Err(usage("requests: give a number above zero").into());
    }
    apart(py, None, false, move |_| {
        let reading = read_config(Source { name: &name, bytes: &config });
        let scenario = reading.scenario.ok_or(Fault::Input(reading.diagnostics))?;
        let wanted = RequestOptions {
            count: options.requests,
            duration: gswarm_core::Span::from_seconds(options.duration),
            arrivals,
            mix: options.mix,
            seed: options.seed,
        };
        let drawn = requests(&scenario, &wanted).map_err(|error| usage(error.to_string()))?;
        let mut text = Vec::new();
        write_requests(drawn, Format::Json, &mut text).map_err(|error| Fault::Internal(error.to_string()))?;
        Ok((config, text))
    })
}
