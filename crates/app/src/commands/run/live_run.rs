//! A run on servers: everything is written down as it happens, and can be taken up again.

use super::{RunArgs, print};
use crate::failure::Failure;
use crate::job::{Inputs, Job};
use crate::live::ray::{Callables, Joined, RaySettings};
use crate::live::{self, Extras, LiveJob, Settings};
use crate::output::{self, files};
use gswarm_core::Instance;
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_exec::backend::BackendsFile;
use gswarm_exec::config;
use std::path::{Path, PathBuf};

/// What is run.
pub struct Problem<'a> {
    pub inputs: &'a Inputs,
    pub scenario: &'a Scenario,
    pub instance: &'a Instance,
    pub cluster: ClusterSpec,
}

/// The Ray cluster of a run.
pub struct RayPlace {
    settings: RaySettings,
    callables: Option<Callables>,
    pub joined: Joined,
}

impl RayPlace {
    /// Joins the cluster that the flags name.
    pub fn join(args: &RunArgs) -> Result<RayPlace, Failure> {
        let callables = args.models.as_deref().map(callables).transpose()?;
        if args.ray.speed.is_some() && (args.backends.is_some() || callables.is_some()) {
            return Err(Failure::input(
                "--speed is for models that are emulated because nothing else is said of them",
            )
            .hint(
                "leave it away; in a file of --backends a server of kind `emulated` has a `speed` of its own",
            ));
        }
        let settings = RaySettings::of(&args.ray, callables.as_ref());
        let joined = Joined::to(&settings, !args.quiet && !args.json)?;
        Ok(RayPlace { settings, callables, joined })
    }

    /// What serves the models that have no callable.
    fn backends(&self, args: &RunArgs) -> Result<BackendsFile, Failure> {
        match (&args.backends, &self.callables) {
            (Some(file), _) => live::read_backends_elsewhere(file),
            (None, Some(_)) => Ok(BackendsFile::default()),
            (None, None) => {
                let speed = args.ray.speed.unwrap_or(1.0);
                if !args.quiet && !args.json {
                    let times =
                        if speed == 1.0 { String::new() } else { format!(", {speed} times as fast as told") };
                    output::note(&format!(
                        "note: models are emulated{times}: neither --models nor --backends says what runs"
                    ));
                }
                Ok(config::emulated(speed))
            }
        }
    }
}

fn callables(file: &Path) -> Result<Callables, Failure> {
    let bytes = files::read(file)?;
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Callables { name, folder: whole.parent().unwrap_or(Path::new("/")).to_owned(), bytes })
}

/// The servers of a run that is not on Ray: those of a file, or this process with a folder of models.
fn servers(args: &RunArgs, scenario: &Scenario) -> Result<(BackendsFile, Option<PathBuf>), Failure> {
    match &args.backends {
        Some(file) => Ok((live::read_backends(file)?, None)),
        None => {
            let models = args.models.clone().unwrap_or_else(|| PathBuf::from("models"));
            live::embedded::find(&models, scenario)?;
            // A run is taken up again from wherever.
            Ok((BackendsFile::default(), Some(std::path::absolute(&models).unwrap_or(models))))
        }
    }
}

/// Runs it.
pub fn run_live(
    args: &RunArgs,
    problem: &Problem<'_>,
    job: &Job,
    place: Option<RayPlace>,
) -> Result<(), Failure> {
    let &Problem { inputs, scenario, instance, ref cluster } = problem;
    let (backends, models) = match &place {
        Some(place) => (place.backends(args)?, None),
        None => servers(args, scenario)?,
    };
    let settings = Settings {
        policy: args.policy().name().to_owned(),
        mode: args.mode.name().to_owned(),
        params: job.params.clone(),
        max_attempts: args.faults.max_attempts,
        learn: args.beliefs.learns(),
        predictor: job.beliefs.predictor(),
        cluster: cluster.clone(),
        backends,
        models,
        ray: place.as_ref().map(|place| place.settings.clone()),
        format: args.format,
        config_name: inputs.config.0.clone(),
        requests_name: inputs.requests.0.clone(),
    };
    live::look_at_backends(&settings, instance)?;
    if !args.quiet {
        live::warn_of_lacking_inputs(scenario);
    }
    let plan = args.plan.as_deref().map(files::read).transpose()?;
    let callables = place.as_ref().and_then(|place| place.callables.as_ref());
    if let Some(place) = &place {
        place.joined.prepare(&settings, instance, callables)?;
    }
    let extras = Extras {
        plan: plan.as_deref(),
        predictor: job.beliefs.source.as_ref().map(|source| source.bytes.as_slice()),
        callables: callables.map(|file| file.bytes.as_slice()),
    };
    let journal = live::begin(&args.out, &settings, inputs, extras)?;
    let run = LiveJob {
        scenario,
        instance,
        settings: &settings,
        job,
        plan: plan.as_deref(),
        shown: !args.quiet && !args.json,
        folder: &args.out,
        ray: place.as_ref().map(|place| &place.joined),
    };
    let saved = live::run_and_save(&run, journal, false)?;
    print(args, instance, &saved.outcome, &saved.written, &saved.failed)?;
    saved.all_completed(instance)
}
