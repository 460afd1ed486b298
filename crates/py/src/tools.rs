//! What is asked of problems and logs beside runs: bounds, checks, comparisons, sizes, and problems made to order.

use crate::apart::apart;
use crate::fault::{Fault, usage};
use crate::outcome::{PlainViolation, plain_violation};
use crate::problem::{Inputs, mode_named};
use crate::run::specification;
use gswarm_core::bound::all_bounds;
use gswarm_core::compare::{SweepRow, fill_in_speedups};
use gswarm_core::generate::{
    Arrivals, Format, Preset, RequestOptions, requests, write_config, write_requests,
};
use gswarm_core::input::{MAX_GPUS, Source, read_config};
use gswarm_core::instance::Mode;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_core::size::{Target, Telling};
use gswarm_core::time::duration;
use gswarm_core::verify::Evidence;
use gswarm_run::advise::{AdviseSpec, advise};
use gswarm_run::size::{ask, mode_of};
use gswarm_run::sweep::{Axes, Input, Sweep};
use gswarm_run::{Materials, Named, Problem, RunSpec, Silent, build};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// The policies with their parameters, as JSON.
#[pyfunction]
pub fn policies() -> PyResult<String> {
    let all: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.description()).collect();
    Ok(serde_json::to_string(&all).map_err(Fault::from)?)
}

/// The policy that is used where none is named.
#[pyfunction]
pub fn usual(mode: &str) -> PyResult<&'static str> {
    Ok(PolicyKind::usual(mode_named(mode)?).name())
}

/// `90s`, `20min` or seconds, in seconds.
#[pyfunction]
pub fn seconds(text: &str) -> PyResult<f64> {
    Ok(duration(text).map_err(usage)?.seconds())
}

/// Every bound, the best first: seconds, argument and why.
#[pyfunction]
pub fn bounds(py: Python<'_>, inputs: &Inputs, spec: &str) -> PyResult<Vec<(f64, &'static str, String)>> {
    let (given, spec) = (inputs.given(), specification(spec, None)?);
    apart(py, None, false, move |_| {
        let scenario = given.scenario_of(&spec)?;
        let instance = build(&scenario, &spec.cluster.over(&scenario.cluster), spec.mode, None)?;
        let mut found = all_bounds(&instance);
        found.sort_by_key(|bound| std::cmp::Reverse(bound.value));
        let one = |bound: &gswarm_core::bound::Bound| {
            (bound.value.seconds(), bound.witness.name(), bound.because(&instance))
        };
        Ok(found.iter().map(one).collect())
    })
}

/// What a log, a plan or a file of bounds breaks. Where the log does not say how requests arrived, `mode` does.
#[pyfunction]
pub fn check(
    py: Python<'_>,
    inputs: &Inputs,
    log: Vec<u8>,
    spec: &str,
    predictor: Option<Named>,
) -> PyResult<Vec<PlainViolation>> {
    let (given, spec) = (inputs.given(), specification(spec, None)?);
    apart(py, None, false, move |_| {
        let evidence = Evidence::read(&log);
        let mode = evidence.log.mode().unwrap_or(spec.mode);
        let scenario = given.scenario(mode, predictor.is_some())?;
        if predictor.is_some() && evidence.log.claims.predictor.is_none() {
            return Err(usage("the run was not made with a predictor"));
        }
        let cluster = spec.cluster.over(&scenario.cluster);
        let source = predictor.map(|(name, bytes)| gswarm_run::predictor(&name, &bytes, &scenario));
        let source = source.transpose()?;
        let estimates = source.as_ref().map(|source| source.estimates());
        let found = evidence.violations(&scenario, &cluster, mode, estimates);
        Ok(found.iter().map(plain_violation).collect())
    })
}

/// What varies in a comparison.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CompareOptions {
    policies: Vec<String>,
    gpus: Vec<i64>,
    modes: Vec<String>,
    batching: Vec<bool>,
    seeds: Vec<u64>,
    rounds: u64,
}

/// A row for each run, each as JSON. All cores are used.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    inputs: &Inputs,
    spec: &str,
    options: CompareOptions,
    calibration: Option<Named>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Vec<String>> {
    let (given, spec) = (inputs.given(), specification(spec, None)?);
    let kinds: Result<Vec<PolicyKind>, _> = options.policies.iter().map(|name| name.parse()).collect();
    let kinds = kinds.map_err(|error: gswarm_core::policy::UnknownPolicy| usage(error.to_string()))?;
    let modes: Vec<Mode> = options.modes.iter().map(|name| mode_named(name)).collect::<Result<_, _>>()?;
    if let Some(wrong) = options.gpus.iter().find(|gpus| !(1..=i64::from(MAX_GPUS)).contains(*gpus)) {
        return Err(usage(format!("gpus has {wrong}; give numbers from 1 to {MAX_GPUS}")).into());
    }
    let gpus: Vec<u32> = options.gpus.iter().map(|&gpus| gpus as u32).collect();
    let policy = |kind| PolicySpec::default_of(kind).with_rounds(options.rounds);
    let axes = Axes {
        modes,
        batching: options.batching,
        gpus,
        policies: kinds.into_iter().map(policy).collect(),
        seeds: options.seeds,
    };
    apart(py, progress.as_ref(), false, move |shared| {
        let inputs = axes.modes.iter().map(|&mode| {
            let spec = RunSpec { mode, ..spec.clone() };
            let problem = Problem::Scenario(given.scenario_of(&spec)?);
            let materials = Materials { calibration: calibration.clone(), ..Materials::of(problem) };
            Ok((
                Axes { modes: vec![mode], ..axes.clone() },
                Input { name: given.name().to_owned(), spec, materials },
            ))
        });
        let mut rows = Vec::new();
        for one in inputs.collect::<Result<Vec<_>, Fault>>()? {
            let (axes, input) = one;
            let mut sweep = Sweep::new(vec![input], axes, "", &mut Silent)?;
            sweep.stop = Arc::clone(&shared.stop);
            let runs = sweep.runs();
            let kept: Mutex<Vec<SweepRow>> = Mutex::default();
            sweep.simulate(&runs, &|| shared.stopped(), &|row| {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push(SweepRow { fingerprint: String::new(), ..row });
                shared.say("comparing", kept.len(), runs.len());
                Ok(())
            })?;
            if shared.stopped() {
                return Err(Fault::Stopped);
            }
            // Runs end in any order.
            let mut kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
            kept.sort_by_key(|row| runs.iter().position(|run| run.key == row.key()));
            rows.extend(kept);
        }
        fill_in_speedups(&mut rows);
        let written: Result<_, _> = rows.iter().map(serde_json::to_string).collect();
        Ok(written?)
    })
}

/// The fewest GPUs that keep targets, with all that was tried, as JSON. The mode is that of the targets where none is given.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the keywords of one call")]
pub fn size_of(
    py: Python<'_>,
    inputs: &Inputs,
    spec: &str,
    targets: Vec<String>,
    mode: Option<String>,
    max_gpus: i64,
    calibration: Option<Named>,
    rounds: u64,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let targets: Result<Vec<Target>, String> = targets.iter().map(|one| one.parse()).collect();
    let targets = targets.map_err(usage)?;
    if targets.is_empty() {
        return Err(usage("give a target, such as makespan=\"2h\"").into());
    }
    let mode = mode.as_deref().map(mode_named).transpose()?.unwrap_or_else(|| mode_of(&targets));
    let given = inputs.given();
    let mut spec = RunSpec { mode, ..specification(spec, None)? };
    spec.policy = Some(spec.policy().with_rounds(rounds));
    let max_gpus = u32::try_from(max_gpus).ok().filter(|gpus| (1..=MAX_GPUS).contains(gpus));
    let max_gpus = max_gpus.ok_or_else(|| usage(format!("max_gpus: give a number from 1 to {MAX_GPUS}")))?;
    apart(py, progress.as_ref(), false, move |shared| {
        let problem = Problem::Scenario(given.scenario_of(&spec)?);
        let materials = Materials { calibration, ..Materials::of(problem) };
        let asked = ask(spec, &materials, targets, max_gpus, &mut Silent)?;
        let sizing = asked.answer(&mut |telling| {
            if let Telling::Trying(gpus) = telling {
                shared.say(&format!("running it on {gpus} GPUs"), 0, 0);
            }
        })?;
        Ok(serde_json::to_value(sizing.report(&asked.question()))?.to_string())
    })
}

/// GPUs, policy and placement for targets, as JSON. `question` holds the fields of an `AdviseSpec` but for the run.
#[pyfunction]
pub fn advise_of(
    py: Python<'_>,
    inputs: &Inputs,
    spec: &str,
    question: &str,
    mode: Option<String>,
    calibration: Option<Named>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let asked: AdviseSpec = serde_json::from_str(question).map_err(|error| usage(error.to_string()))?;
    if asked.targets.is_empty() {
        return Err(usage("no target is given, as in [\"p99=60s\"]").into());
    }
    if !(1..=MAX_GPUS).contains(&asked.max_gpus) {
        return Err(usage(format!("max_gpus: give a number from 1 to {MAX_GPUS}")).into());
    }
    let mode = mode.as_deref().map(mode_named).transpose()?;
    let mode = mode.unwrap_or_else(|| AdviseSpec::usual_mode(&asked.targets));
    let given = inputs.given();
    let run = RunSpec { mode, ..specification(spec, None)? };
    apart(py, progress.as_ref(), false, move |shared| {
        let problem = Problem::Scenario(given.scenario_of(&run)?);
        let materials = Materials { calibration, ..Materials::of(problem) };
        let asked = AdviseSpec { run, ..asked };
        let report = advise(&asked, &materials, &mut Silent, &mut |policy, gpus| {
            shared.say(&format!("running {policy} on {gpus} GPUs"), 0, 0);
        })?;
        Ok(serde_json::to_value(report)?.to_string())
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
        usage(format!("unknown {kind} `{name}`; use one of {}", known.join(", ")))
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
            write_config(&preset.config(), Format::Json, &mut text).map_err(Fault::from)?;
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
        write_requests(drawn, Format::Json, &mut text)?;
        Ok((config, text))
    })
}
