//! `gswarm calibrate`: measures servers through the adapters of live runs.

#[cfg(test)]
mod accuracy;
mod conclude;
mod design;
mod measure;
mod shown;
#[cfg(test)]
mod tests;

use crate::args::ClusterArgs;
use crate::failure::{Failure, FailureKind};
use crate::job;
use crate::output::{self, files, files::Batch, progress::Line, terminal::Terminal};
use clap::Args;
use design::Design;
use gswarm_core::generate::{Format, write_config, write_scenario_requests};
use gswarm_core::input::{Scenario, Source, read_profiled, read_profiled_config};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::{ModelId, Span};
use gswarm_exec::backend::{BackendKind, BackendsFile, LoadRecorder, LoadTime, Replica, WeightTier};
use gswarm_exec::clock::Clock;
use gswarm_exec::config;
use gswarm_exec::fleet::Fleet;
use gswarm_exec::probe::Probe;
use gswarm_learn::calibration::{ApplyOptions, CALIBRATION, Calibration, SCHEMA, StartsFrom};
use gswarm_run::{apply_calibration, live, read_calibration};
use measure::{Limits, Stop};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  gswarm calibrate --backends backends.yaml --config config.yaml --requests requests.yaml --out calibration.json
  gswarm calibrate --backends backends.yaml --config config.yaml --model llm7b --batches 1,8,32,128 --budget 2min
  gswarm plan --calibration calibration.json --config config.yaml --requests other.yaml --out plan
  gswarm run --calibration calibration.json --plan plan/plan.json --config config.yaml --requests other.yaml \\
      --live --backends backends.yaml --out live
  gswarm calibrate --from calibration.json --config config.yaml --requests other.yaml \\
      --write-config measured.yaml --write-requests timed.yaml

Every model is loaded and unloaded several times and called with prompts and answers of several lengths, alone and in
batches. With --requests, the models that they use are measured at the lengths of the requests. Do not use the servers
for anything else meanwhile: their models are unloaded.
Exit code 4: some models could not be measured; the measurements of the others are written.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CalibrateArgs {
    /// The servers, JSON or YAML; see docs/backends.md
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    backends: Option<PathBuf>,
    /// System configuration, JSON or YAML
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Requests that determine the models and lengths to measure
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    /// File for the measurements
    #[arg(long, short, value_name = "FILE", default_value = "profile.json")]
    out: PathBuf,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    /// Measure only this model; repeatable
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<String>,
    /// Time per model, such as 90s or 2min; essential points are measured even if it runs out
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = gswarm_core::time::duration)]
    budget: Span,
    /// Maximum measurements per point; fewer if they agree
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: u32,
    /// Batches to measure [default: powers of two up to the configuration's `max_batch`, or to 32]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65536))]
    batches: Vec<u32>,
    /// Read the measurements from this file instead of measuring, for --write-config and --write-requests
    #[arg(long, value_name = "FILE", conflicts_with_all = ["backends", "out", "models", "batches"])]
    from: Option<PathBuf>,
    /// Write the configuration with measured costs
    #[arg(long, alias = "write_config", value_name = "FILE")]
    write_config: Option<PathBuf>,
    /// Write the requests with the time of every node
    #[arg(long, alias = "write_requests", value_name = "FILE", requires = "requests")]
    write_requests: Option<PathBuf>,
    /// In written files, every load takes as long as the first
    #[arg(long, alias = "first_loads")]
    first_loads: bool,
    /// In written files, no model batches
    #[arg(long, alias = "no_batching")]
    no_batching: bool,
    /// Print only the measurements, as one JSON object
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten, next_help_heading = "Cluster (each overrides the configuration's `cluster`)")]
    cluster: ClusterArgs,
}

/// Measures, and writes what was measured.
pub fn calibrate(args: &CalibrateArgs) -> Result<(), Failure> {
    let scenario = read(args)?;
    for path in args.write_config.iter().chain(&args.write_requests) {
        super::generate::keep(path, args.force)?;
    }
    if let Some(file) = &args.from {
        if args.write_config.is_none() && args.write_requests.is_none() {
            return Err(Failure::input("--from measures nothing, and there is nothing to write")
                .hint("add --write-config or --write-requests, or remove --from"));
        }
        let name = file.display().to_string();
        let bytes = files::read_or(file, "check the path; `gswarm calibrate` writes such files")?;
        return write(args, &read_calibration(&name, &bytes)?, scenario, file);
    }
    let batch = target(args)?;
    let (calibration, interrupted) = measured_on(args, &scenario)?;
    if interrupted && calibration.models.is_empty() {
        return Err(Failure::new(
            FailureKind::Interrupted,
            "interrupted before any model was fully measured; nothing was written",
        ));
    }
    if calibration.models.is_empty() {
        return Err(unmeasured(&calibration).hint("nothing was written"));
    }
    save(batch, &calibration)?;
    if args.json {
        output::line(&serde_json::to_string(&calibration).map_err(Failure::internal)?)?;
    } else if !args.quiet {
        shown::calibration(&calibration)?;
        output::line(&format!("Wrote {}", args.out.display()))?;
    }
    if interrupted {
        let kept = calibration.models.len() as u64;
        return Err(Failure::new(
            FailureKind::Interrupted,
            format!("interrupted; {} kept", output::count(kept, "model")),
        ));
    }
    if !calibration.failed.is_empty() {
        return Err(unmeasured(&calibration)
            .hint(format!("the measurements of the others are in {}", args.out.display())));
    }
    write(args, &calibration, scenario, &args.out)
}

/// The models that could not be measured, and why.
fn unmeasured(calibration: &Calibration) -> Failure {
    let list: Vec<String> =
        calibration.failed.iter().map(|(name, why)| format!("\n  - {name}: {why}")).collect();
    let count = output::count(list.len() as u64, "model");
    Failure::new(FailureKind::FailedRequests, format!("{count} could not be measured:{}", list.concat()))
}

fn read(args: &CalibrateArgs) -> Result<Scenario, Failure> {
    match &args.requests {
        Some(requests) => {
            let bytes = [&args.config, requests].map(|path| files::read(path));
            let (config, requests_text) = match bytes {
                [Ok(config), Ok(requests)] => (config, requests),
                [Err(config), Err(requests)] => return Err(config.and(requests)),
                [Err(failure), _] | [_, Err(failure)] => return Err(failure),
            };
            let [config_name, requests_name] =
                [&args.config, requests].map(|path| path.display().to_string());
            let config = Source { name: &config_name, bytes: &config };
            let requests = Source { name: &requests_name, bytes: &requests_text };
            // Whether requests arrive at their times changes nothing here.
            job::accept(read_profiled(config, requests, Mode::Offline), false)
        }
        None => {
            let bytes = files::read(&args.config)?;
            let name = args.config.display().to_string();
            job::accept(read_profiled_config(Source { name: &name, bytes: &bytes }), args.quiet)
        }
    }
}

/// The file is known to be writable before anything is measured.
fn target(args: &CalibrateArgs) -> Result<(Batch, String), Failure> {
    super::generate::keep(&args.out, args.force)?;
    let (batch, name) = Batch::beside(&args.out, "--out")?;
    let tried = args.out.with_file_name(format!(".{name}.{}", std::process::id()));
    std::fs::File::create_new(&tried).and_then(|_| std::fs::remove_file(&tried)).map_err(|error| {
        Failure::input(format!("--out {}: cannot be written: {error}", args.out.display()))
            .hint("nothing was measured; name a file in a writable folder")
    })?;
    Ok((batch.replacing(args.force), name))
}

fn save((mut batch, name): (Batch, String), calibration: &Calibration) -> Result<(), Failure> {
    batch.add(&name, |out| {
        serde_json::to_writer_pretty(&mut *out, calibration)?;
        std::io::Write::write_all(out, b"\n")
    })?;
    batch.commit().map(drop)
}

/// The inputs with measured costs, where they were asked for.
fn write(
    args: &CalibrateArgs,
    calibration: &Calibration,
    mut scenario: Scenario,
    file: &Path,
) -> Result<(), Failure> {
    if args.write_config.is_none() && args.write_requests.is_none() {
        return Ok(());
    }
    let loads = if args.first_loads { StartsFrom::First } else { StartsFrom::Again };
    let options = ApplyOptions { loads, batching: !args.no_batching };
    let mut terminal = Terminal::new("", args.quiet, false);
    apply_calibration(&file.display().to_string(), calibration, &mut scenario, options, &mut terminal)?;
    let format = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.and_then(Format::of_extension).unwrap_or(Format::Yaml)
    };
    if let Some(path) = &args.write_config {
        let (batch, name) = Batch::beside(path, "--write-config")?;
        let mut batch = batch.replacing(args.force);
        batch.add(&name, |out| write_config(&scenario, format(path), out))?;
        batch.commit()?;
    }
    if let Some(path) = &args.write_requests {
        let (batch, name) = Batch::beside(path, "--write-requests")?;
        let mut batch = batch.replacing(args.force);
        batch.add(&name, |out| write_scenario_requests(&scenario, format(path), out))?;
        batch.commit()?;
    }
    Ok(())
}

struct Bench<'a> {
    args: &'a CalibrateArgs,
    scenario: &'a Scenario,
    instance: &'a Instance,
    backends: &'a BackendsFile,
    fleet: Fleet,
    clock: Clock,
    /// Where the weights of each load came from, as far as servers tell.
    tiers: Arc<Mutex<Vec<WeightTier>>>,
}

/// Measures the models that are wanted; and whether somebody interrupted it.
fn measured_on(args: &CalibrateArgs, scenario: &Scenario) -> Result<(Calibration, bool), Failure> {
    let backends = args.backends.as_deref().map(live::read_backends).transpose()?;
    let backends = backends.ok_or_else(|| Failure::input("--backends names no servers"))?;
    let spec = args.cluster.over(&scenario.cluster);
    let cluster = Cluster::from_spec(&spec).ok_or_else(|| {
        Failure::input("the number of GPUs is not given")
            .hint("add --gpus N, or `cluster: {gpus: N}` to the configuration")
    })?;
    let instance = Instance::of_models(scenario, cluster).map_err(|faults| job::infeasible(&faults))?;
    let used = used(scenario);
    let wanted = wanted(args, &instance, &used)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(FailureKind::Internal, format!("cannot start: {error}")))?;
    let clock = config::clock(&backends).map_err(|faults| live::faulty(&faults))?;
    let tiers: Arc<Mutex<Vec<WeightTier>>> = Arc::default();
    let heard = Arc::clone(&tiers);
    let record: LoadRecorder = Arc::new(move |timed: &LoadTime| {
        if timed.load {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(timed.tier);
        }
    });
    let measured = runtime.block_on(async {
        let fleet =
            config::fleet(&backends, &instance, &clock, &record).map_err(|faults| live::faulty(&faults))?;
        let unserved = config::unserved(&instance, &fleet, |model| used.contains(&model));
        if !unserved.is_empty() {
            return Err(live::faulty(&unserved));
        }
        let bench = Bench { args, scenario, instance: &instance, backends: &backends, fleet, clock, tiers };
        Ok(bench.models(&wanted).await)
    });
    // Calls that were given up are not waited for.
    runtime.shutdown_background();
    measured
}

/// The models to measure: those that are named, else those that requests use, else all.
fn wanted(args: &CalibrateArgs, instance: &Instance, used: &[ModelId]) -> Result<Vec<ModelId>, Failure> {
    let known = |name: &String| instance.models.iter_enumerated().find(|(_, model)| model.name == *name);
    let unknown: Vec<&str> =
        args.models.iter().filter(|name| known(name).is_none()).map(String::as_str).collect();
    if !unknown.is_empty() {
        let there: Vec<&str> = instance.models.iter().map(|model| model.name.as_str()).collect();
        return Err(Failure::input(format!("--model: there is no model {}", unknown.join(", ")))
            .hint(format!("there are {}", there.join(", "))));
    }
    if !args.models.is_empty() {
        return Ok(args.models.iter().filter_map(known).map(|(id, _)| id).collect());
    }
    Ok(if used.is_empty() { instance.models.keys().collect() } else { used.to_vec() })
}

/// The models that requests use, in their order.
fn used(scenario: &Scenario) -> Vec<ModelId> {
    let workflows = scenario.requests.iter().map(|request| &scenario.workflows[request.workflow.index()]);
    let models: BTreeSet<ModelId> =
        workflows.flat_map(|workflow| &workflow.nodes).map(|node| node.model).collect();
    models.into_iter().collect()
}

impl Bench<'_> {
    async fn models(&self, wanted: &[ModelId]) -> (Calibration, bool) {
        let begun = Instant::now();
        let interrupted = output::interrupt::interrupted_once();
        let shown = !self.args.quiet && !self.args.json;
        let line = shown.then(Line::new);
        let say = |text: &str| line.iter().for_each(|line| line.say(text));
        let mut calibration = Calibration {
            kind: CALIBRATION.to_owned(),
            schema: SCHEMA,
            created: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            seconds: 0.0,
            models: BTreeMap::new(),
            failed: BTreeMap::new(),
        };
        for &model in wanted {
            let name = self.instance.models[model].name.clone();
            let result = match self.probe(model) {
                Ok((backend, probe)) => {
                    let design = self.design(model, &backend);
                    let limits = self.limits(&interrupted);
                    measure::model(&probe, &backend, &design, &limits, &self.tiers, &|text| {
                        say(&format!("{name}: {text}"));
                    })
                    .await
                }
                Err(why) => Err(Stop::Failed(why)),
            };
            match result {
                Ok(measured) => drop(calibration.models.insert(name, measured)),
                Err(Stop::Failed(why)) => drop(calibration.failed.insert(name, why)),
                Err(Stop::Interrupted) => break,
            }
        }
        calibration.seconds = begun.elapsed().as_secs_f64();
        (calibration, interrupted())
    }

    fn limits<'l>(&self, interrupted: &'l (dyn Fn() -> bool + Sync)) -> Limits<'l> {
        Limits {
            budget: Duration::from_secs_f64(self.args.budget.seconds()),
            repeats: self.args.repeats,
            interrupted,
        }
    }

    /// A server of a model, by name, and the model on it.
    fn probe(&self, model: ModelId) -> Result<(String, Probe), String> {
        let spec = &self.instance.models[model];
        let mut windows = spec.windows().map(|gpus| Replica { model, gpus });
        let found = windows.find_map(|replica| Some((replica, self.fleet.serves(replica)?)));
        let (replica, member) = found.ok_or_else(|| "no server serves it".to_owned())?;
        let member = &self.fleet.members()[member];
        let probe = Probe {
            backend: Arc::clone(&member.backend),
            replica,
            clock: self.clock.clone(),
            kind: self.scenario.models[model.index()].kind.clone(),
            expected_load: Span::from_seconds(spec.load_seconds),
        };
        Ok((member.name.clone(), probe))
    }

    fn design(&self, model: ModelId, backend: &str) -> Design {
        let spec = &self.scenario.models[model.index()];
        let file = self.backends.backends.iter().find(|one| one.title() == backend);
        // One that only takes its time knows no batches but those of the configuration.
        let emulated = file.is_some_and(|one| one.server.kind() == BackendKind::Emulated);
        let most = spec.batching.as_ref().map(|batching| batching.max_batch);
        let batches = match (&self.args.batches[..], most, emulated) {
            ([], most, true) => design::batches(most.unwrap_or(1)),
            ([], most, false) => design::batches(most.unwrap_or(design::USUAL_BATCH)),
            (given, _, true) => design::given(given, most.unwrap_or(1)),
            (given, _, false) => design::given(given, u32::MAX),
        };
        Design::new(self.scenario, model, batches)
    }
}
