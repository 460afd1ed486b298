//! Runs on real servers: the journal that they leave, and how they are resumed.

mod begun;
mod ended;
mod failed;
mod lacking;
mod loads;
mod ray;
mod results;

pub use begun::{Begun, Resume, begun, resume};
pub use ended::{Ended, REJECTED};
pub use failed::FailedNode;
pub use ray::Callables;

use crate::failure::{Failure, FailureKind};
use crate::files;
use crate::materials::{Materials, Problem as Inputs};
use crate::observe::{Observer, Stage};
use crate::output::count;
use crate::prepare::{Prepared, prepare_on};
use crate::spec::{LiveSpec, RunSpec};
use ended::conclude;
use gswarm_core::engine::View;
use gswarm_core::generate::{Format, write_config, write_scenario_requests};
use gswarm_core::input::{Scenario, Source, render};
use gswarm_core::instance::Instance;
use gswarm_core::log_file::Timing;
use gswarm_core::policy::PolicyKind;
use gswarm_core::report::{RunInfo, metrics, summary};
use gswarm_core::run::{RunOutcome, assignments};
use gswarm_core::{ModelId, Span};
use gswarm_exec::backend::{BackendsFile, BackendsReading, Finding, LoadRecorder, read_backends_here};
use gswarm_exec::clock::Clock;
use gswarm_exec::config;
use gswarm_exec::drive::{FinishedRun, Live, LiveError, LiveProblem, Patience};
use gswarm_exec::fleet::Fleet;
use gswarm_exec::journal::{Durability, Journal, JournalError};
use gswarm_exec::preflight::preflight;
use ray::Joined;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The journal's name in the folder of a run.
pub const JOURNAL: &str = "journal.db";

/// Models that this process serves itself, for live runs that name no servers.
pub trait EmbeddedModels: Sync {
    /// Checks that a folder has every model of a scenario.
    ///
    /// # Errors
    /// All models that are missing or damaged.
    fn check(&self, folder: &Path, scenario: &Scenario) -> Result<(), Failure>;

    /// Serves the models. `record` is told what loads take.
    ///
    /// # Errors
    /// Why they cannot be served.
    fn serve(
        &self,
        folder: &Path,
        scenario: &Scenario,
        instance: &Instance,
        record: &LoadRecorder,
    ) -> Result<Fleet, Failure>;
}

enum Place {
    /// Servers that a file lists.
    Servers(BackendsFile),
    /// This process, from a folder of models.
    Embedded(PathBuf),
    /// A Ray cluster, which places these servers, or callables.
    Ray { joined: Box<Joined>, backends: BackendsFile, callables: Option<Callables> },
}

/// Runs a specification live, from its start. Its folder must have no journal.
///
/// # Errors
/// Why the run could not begin or ended early. A run with failed requests is no error: see [`Ended::verdict`].
pub fn run(
    mut spec: RunSpec,
    materials: Materials,
    embedded: &dyn EmbeddedModels,
    observer: &mut dyn Observer,
) -> Result<Ended, Failure> {
    let faults = spec.validate();
    if !faults.is_empty() {
        return Err(Failure::faults(faults));
    }
    let live = spec.live.get_or_insert_default();
    let joined = match &mut live.ray {
        Some(ray) => {
            ray.namespace.get_or_insert_with(ray::namespace);
            Some(Joined::to(ray, observer)?)
        }
        None => {
            let models = live.models.get_or_insert_with(|| PathBuf::from("models"));
            // A run is resumed from wherever.
            *models = std::path::absolute(&*models).unwrap_or_else(|_| models.clone());
            None
        }
    };
    let mut prepared = prepare_on(spec, materials, observer, |cluster, scenario| match &joined {
        Some(joined) => joined.cluster(cluster, scenario),
        None => Ok(cluster),
    })?;
    prepared.spec.cluster = prepared.cluster.clone();
    let live = prepared.spec.live.clone().unwrap_or_default();
    let place = match joined {
        Some(joined) => on_ray(joined, &live, observer)?,
        None => match &live.backends {
            Some(file) => Place::Servers(read_backends(file)?),
            None => {
                let models = live.models.clone().unwrap_or_default();
                embedded.check(&models, &prepared.scenario)?;
                Place::Embedded(models)
            }
        },
    };
    fits(&place, &prepared.instance)?;
    looked_at(&place, &prepared, observer)?;
    lacking::warn_of_lacking_inputs(&prepared.scenario, observer);
    if let Place::Ray { joined, backends, callables } = &place {
        joined.prepare(backends, &prepared.instance, callables.as_ref(), observer)?;
    }
    let journal = begin(&prepared, &place)?;
    carry_out(prepared, place, journal, Begins::Anew, embedded, observer)
}

/// What runs on a Ray cluster: callables, servers that a file lists, or models that only take their time.
fn on_ray(joined: Joined, live: &LiveSpec, observer: &mut dyn Observer) -> Result<Place, Failure> {
    let callables = live.models.as_deref().map(Callables::read).transpose()?;
    let backends = match (&live.backends, &callables) {
        (Some(file), _) => read_backends_elsewhere(file)?,
        (None, Some(_)) => BackendsFile::default(),
        (None, None) => {
            let speed = live.ray.as_ref().and_then(|ray| ray.speed).unwrap_or(1.0);
            let times = if speed == 1.0 { String::new() } else { format!(", at {speed} times real speed") };
            observer.note(&format!(
                "note: models are emulated{times}, because neither models nor backends are given"
            ));
            config::emulated(speed)
        }
    };
    Ok(Place::Ray { joined: Box::new(joined), backends, callables })
}

/// Says at once all that is wrong with the servers of a run, before anything is begun.
fn fits(place: &Place, instance: &Instance) -> Result<(), Failure> {
    let nobody: LoadRecorder = Arc::new(|_| {});
    match place {
        Place::Servers(backends) => {
            let clock = config::clock(backends).map_err(|faults| faulty(&faults))?;
            config::fleet(backends, instance, &clock, &nobody).map_err(|faults| faulty(&faults))?;
        }
        // On Ray, programs are started and servers are reached from elsewhere.
        Place::Ray { backends, .. } => {
            config::clock(backends).map_err(|faults| faulty(&faults))?;
        }
        Place::Embedded(_) => {}
    }
    Ok(())
}

/// Looks at the servers before anything is begun.
fn looked_at(place: &Place, prepared: &Prepared, observer: &mut dyn Observer) -> Result<(), Failure> {
    let Place::Servers(backends) = place else { return Ok(()) };
    let (instance, nobody): (_, LoadRecorder) = (&prepared.instance, Arc::new(|_| {}));
    let clock = config::clock(backends).map_err(|faults| faulty(&faults))?;
    let used: BTreeSet<ModelId> = instance.task_ids().map(|task| instance.model_of(task)).collect();
    let patience = Span::from_seconds(prepared.spec.faults.server_patience);
    let found = runtime()?.block_on(async {
        let fleet = config::fleet(backends, instance, &clock, &nobody).map_err(|faults| faulty(&faults))?;
        let mut is_told = false;
        let waiting = |what: &str| {
            if !std::mem::replace(&mut is_told, true) {
                observer.note(what);
            }
            observer.waiting(what);
            observer.goes_on()
        };
        preflight(&fleet, instance, |model| used.contains(&model), patience, waiting)
            .await
            .map_err(|findings| unwell(&findings))
    })?;
    found.iter().for_each(|one| observer.note(&format!("warning: {}", told(one))));
    Ok(())
}

/// What is wrong with servers that were looked at before a run, for people.
#[must_use]
pub fn unwell(findings: &[Finding]) -> Failure {
    let list: Vec<String> = findings.iter().map(|one| format!("\n  - {}", told(one))).collect();
    let code = findings.first().map_or("CODE", |one| one.code.code());
    Failure::input(format!("the servers cannot be used:{}", list.concat()))
        .hint(format!("`gswarm help {code}` says more; nothing was started"))
}

/// What was found of a server, in a line.
#[must_use]
pub fn told(one: &Finding) -> String {
    format!("{}: {}; {}", one.code, one.what, one.fix)
}

/// All that is wrong with the servers, for people.
#[must_use]
pub fn faulty(faults: &[String]) -> Failure {
    let list: Vec<String> = faults.iter().map(|fault| format!("\n  - {fault}")).collect();
    Failure::input(format!("the backends do not match these inputs:{}", list.concat()))
}

/// Begins a journal with everything that the run needs to be resumed.
fn begin(prepared: &Prepared, place: &Place) -> Result<Journal, Failure> {
    let folder = &prepared.spec.output.folder;
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::new(FailureKind::Input, format!("cannot make the folder {}: {error}", folder.display()))
    })?;
    let internal = |error: String| Failure::new(FailureKind::Internal, error);
    let spec = serde_json::to_vec(&prepared.spec).map_err(|error| internal(error.to_string()))?;
    let Materials { problem, calibration, predictor, plan, deployment } = &prepared.materials;
    let (config, requests) = match problem {
        Inputs::Text { config, requests } => (config.1.clone(), requests.1.clone()),
        Inputs::Scenario(scenario) => {
            let (mut config, mut requests) = (Vec::new(), Vec::new());
            write_config(scenario, Format::Json, &mut config)
                .and_then(|()| write_scenario_requests(scenario, Format::Json, &mut requests))
                .map_err(|error: io::Error| internal(error.to_string()))?;
            (config, requests)
        }
    };
    let (backends, callables) = match place {
        Place::Servers(backends) => (Some(backends), None),
        Place::Ray { backends, callables, .. } => (Some(backends), callables.as_ref()),
        Place::Embedded(_) => (None, None),
    };
    let backends =
        backends.map(serde_json::to_vec).transpose().map_err(|error| internal(error.to_string()))?;
    let mut meta: Vec<(&str, &[u8])> = vec![("spec", &spec), ("config", &config), ("requests", &requests)];
    let files =
        [("calibration", calibration), ("predictor", predictor), ("plan", plan), ("deployment", deployment)];
    meta.extend(files.into_iter().filter_map(|(name, file)| Some((name, file.as_ref()?.1.as_slice()))));
    meta.extend(backends.as_deref().map(|bytes| ("backends", bytes)));
    meta.extend(callables.map(|file| ("callables", file.bytes.as_slice())));
    Journal::create(&folder.join(JOURNAL), Durability::Process, &meta).map_err(|error| match error {
        JournalError::Taken => {
            let shown = folder.display();
            Failure::input(format!("{shown} has the journal of an earlier run")).hint(format!(
                "`gswarm resume {shown}` continues it; choose another folder with --out to start again"
            ))
        }
        other => journal_failure(folder, &other),
    })
}

/// Refuses a folder with a live run in progress: new files there would be mistaken for its logs.
///
/// # Errors
/// That a run is under way.
pub fn is_not_in_use(folder: &Path) -> Result<(), Failure> {
    if Journal::is_in_use(&folder.join(JOURNAL)) {
        return Err(Failure::input(format!("a live run is in progress in {}", folder.display()))
            .hint("choose another folder with --out, or wait until that run has ended"));
    }
    Ok(())
}

/// What went wrong with a journal, for people.
#[must_use]
pub fn journal_failure(folder: &Path, error: &JournalError) -> Failure {
    let failure = Failure::input(format!("{}: {error}", folder.join(JOURNAL).display()));
    match error {
        JournalError::InUse => failure.hint("wait until the other run has ended, or use another folder"),
        JournalError::Empty => {
            failure.hint(
                "if you copied or moved the file, copy its -wal file too: it holds recent writes. Otherwise start the run again",
            )
        }
        JournalError::Damaged(_) | JournalError::Sqlite(_) => failure.hint(
            "is the disk full, or did another program change the file? Resume an earlier copy, or start again in another folder",
        ),
        JournalError::Version(_) => {
            failure.hint("resume the run with the version that started it, or start again in another folder")
        }
        _ => failure,
    }
}

/// How a run begins.
#[derive(Clone, Copy)]
enum Begins {
    /// From its first request.
    Anew,
    /// From where its journal ends.
    Again { retry_failed: bool },
}

/// Runs, and concludes the run.
fn carry_out(
    prepared: Prepared,
    place: Place,
    journal: Journal,
    begins: Begins,
    embedded: &dyn EmbeddedModels,
    observer: &mut dyn Observer,
) -> Result<Ended, Failure> {
    let folder = prepared.spec.output.folder.clone();
    let (outcome, finished) = execute(&prepared, &place, journal, begins, embedded, observer)
        .map_err(|failure| failure.in_folder(&folder))?;
    conclude(prepared, outcome, &finished, matches!(place, Place::Ray { .. }), observer)
}

/// Runs on the servers, from the start or from where the journal ends.
fn execute(
    prepared: &Prepared,
    place: &Place,
    journal: Journal,
    begins: Begins,
    embedded: &dyn EmbeddedModels,
    observer: &mut dyn Observer,
) -> Result<(RunOutcome, FinishedRun), Failure> {
    let Prepared { spec, scenario, instance, beliefs, .. } = prepared;
    observer.stage(Stage::Planning);
    let (mut policy, _) = prepared.policy(true, observer);
    observer.stage(Stage::Running);
    let own = match place {
        Place::Ray { .. } => None,
        _ => Some(runtime()?),
    };
    let here = match (place, &own) {
        (Place::Ray { joined, .. }, _) => joined.runtime(),
        (_, Some(own)) => own,
        _ => return Err(Failure::new(FailureKind::Internal, "there is no server to run on")),
    };
    let folder = &spec.output.folder;
    let record = loads::record(folder, instance);
    let finished = here.block_on(async {
        let mut patience = Patience {
            max_attempts: spec.faults.max_attempts,
            for_servers: Span::from_seconds(spec.faults.server_patience),
            ..Patience::default()
        };
        let (clock, fleet) = match place {
            Place::Servers(backends) => {
                let clock = config::clock(backends).map_err(|faults| faulty(&faults))?;
                let fleet = config::fleet(&backends.logging_to(folder), instance, &clock, &record);
                (clock, fleet.map_err(|faults| faulty(&faults))?)
            }
            Place::Embedded(models) => (Clock::real(), embedded.serve(models, scenario, instance, &record)?),
            Place::Ray { joined, backends, .. } => {
                let clock = config::clock(backends).map_err(|faults| faulty(&faults))?;
                // What Ray needs to carry a call, or to start a process, is no shorter where models are emulated fast.
                for limit in [&mut patience.call_grace, &mut patience.load_grace, &mut patience.for_servers] {
                    *limit = clock.of_wall(*limit);
                }
                let limit = spec.live.as_ref().and_then(|live| live.ray.as_ref()?.call_timeout);
                patience.call_limit = limit.map(|seconds| clock.of_wall(Span::from_seconds(seconds)));
                (clock, joined.fleet(instance, &record))
            }
        };
        let mut run = Live::new(LiveProblem { scenario, instance }, fleet, clock, journal, patience);
        if let Some(learner) = beliefs.learner(instance) {
            run.learn_with(learner);
        }
        if let Begins::Again { retry_failed } = begins {
            if retry_failed {
                run.retry_failed();
            }
            run.restore(policy.as_mut()).map_err(|error| match error {
                LiveError::Journal(error @ JournalError::Damaged(_)) => journal_failure(folder, &error),
                other => ended_early(other),
            })?;
        }
        run.run(policy.as_mut(), &mut |view: &View<'_>| observer.watch(view)).await.map_err(ended_early)
    })?;
    match (place, own) {
        (Place::Ray { joined, .. }, _) => joined.finish(instance, &finished, folder, observer),
        // Calls that were given up are not waited for.
        (_, own) => own.into_iter().for_each(Runtime::shutdown_background),
    }
    let measured = metrics(instance, &finished.log);
    let info = RunInfo {
        policy: spec.policy().kind().name().to_owned(),
        simulate: true,
        timing: Timing::Measured,
        predictor: beliefs.predictor(),
        learn: beliefs.learn,
        seed: Some(spec.seed),
        gpu_assignments: (spec.policy().kind() == PolicyKind::Static).then(|| assignments(instance)),
        ..RunInfo::default()
    };
    let summary = summary(instance, &measured, info);
    let log = finished.log.clone();
    Ok((RunOutcome { log, metrics: measured, summary }, finished))
}

/// What live runs happen on.
fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::new(FailureKind::Internal, format!("cannot start: {error}")))
}

fn ended_early(error: LiveError) -> Failure {
    match error {
        LiveError::Interrupted { left } => Failure::new(
            FailureKind::Interrupted,
            format!("interrupted; {} are not done", count(left as u64, "node")),
        )
        .hint("`gswarm resume FOLDER` continues where it stopped"),
        LiveError::Rejected { .. } => Failure::new(FailureKind::Internal, error.to_string()),
        LiveError::Journal(error) => Failure::input(error.to_string())
            .hint("is the disk full? Free some space and run `gswarm resume FOLDER`: finished work is kept"),
        other => Failure::new(FailureKind::FailedRequests, other.to_string())
            .hint("finished work is kept: run `gswarm resume FOLDER` when the servers are back"),
    }
}

/// Reads the file that lists the servers.
///
/// # Errors
/// All that is wrong with it.
pub fn read_backends(file: &Path) -> Result<BackendsFile, Failure> {
    backends_of(file, read_backends_here)
}

/// The same where programs are started on other machines.
fn read_backends_elsewhere(file: &Path) -> Result<BackendsFile, Failure> {
    backends_of(file, gswarm_exec::backend::read_backends)
}

fn backends_of(file: &Path, read: fn(Source<'_>) -> BackendsReading) -> Result<BackendsFile, Failure> {
    let bytes =
        files::read_or(file, "check the path; docs/backends.md has an example of each kind of server")?;
    let name = file.display().to_string();
    let reading = read(Source { name: &name, bytes: &bytes });
    reading.file.ok_or_else(|| {
        Failure::input(render(&reading.diagnostics))
            .hint("docs/backends.md describes every field")
            .about(reading.diagnostics)
    })
}
