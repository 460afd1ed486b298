//! Reads the start of a run from its journal, and resumes it.

use super::ray::{Callables, Joined};
use super::{
    Begins, EmbeddedModels, Ended, JOURNAL, Place, carry_out, journal_failure, read_backends,
    read_backends_elsewhere,
};
use crate::failure::{Failure, FailureKind};
use crate::materials::{Materials, Problem};
use crate::observe::{Observer, Silent};
use crate::prepare::{Prepared, prepare};
use crate::spec::RunSpec;
use gswarm_exec::backend::BackendsFile;
use gswarm_exec::journal::{Durability, Journal, JournalError};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A run as its journal has it.
pub struct Begun {
    /// The run.
    pub prepared: Prepared,
    /// The servers, where it is not this process that serves the models.
    pub backends: Option<BackendsFile>,
}

/// Prepares a run again from what its journal began with, which `meta` fetches. A run could begin with it: where it cannot be
/// prepared, the journal is damaged.
///
/// # Errors
/// How the journal is damaged, or that another version of gswarm wrote it.
pub fn begun(path: &Path, meta: impl Fn(&str) -> Result<Option<Vec<u8>>, Failure>) -> Result<Begun, Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let damaged = |why: String| journal_failure(folder, &JournalError::Damaged(why));
    let part = |name: &str| meta(name)?.ok_or_else(|| damaged(format!("`{name}` is missing")));
    // What a run begins with is written at once: a part that is missing was never there.
    let of_another_version = |why: String| journal_failure(folder, &JournalError::Version(why));
    let spec = meta("spec")?.ok_or_else(|| of_another_version("it has no run specification".to_owned()))?;
    let spec: Value = serde_json::from_slice(&spec).map_err(|error| damaged(format!("`spec`: {error}")))?;
    let mut spec: RunSpec = serde_json::from_value(spec)
        .map_err(|error| of_another_version(format!("its specification cannot be read: {error}")))?;
    // The folder may have been moved.
    spec.output.folder = folder.to_owned();
    let shown = |path: &PathBuf| path.display().to_string();
    let beside =
        |name: &str, path: Option<&PathBuf>| path.map(|path| Ok((shown(path), part(name)?))).transpose();
    let materials = Materials {
        problem: Problem::Text {
            config: (shown(&spec.config), part("config")?),
            requests: (shown(&spec.requests), part("requests")?),
        },
        calibration: beside("calibration", spec.calibration.as_ref().map(|one| &one.file))?,
        predictor: beside("predictor", spec.times.predictor.as_ref())?,
        plan: beside("plan", spec.plan.as_ref())?,
        deployment: beside("deployment", spec.deployment.as_ref())?,
    };
    let prepared = prepare(spec, materials, &mut Silent).map_err(|failure| match failure.code {
        FailureKind::Internal => failure,
        _ => damaged(format!("the run's settings are invalid: {}", failure.message())),
    })?;
    let backends = meta("backends")?.map(|bytes| serde_json::from_slice(&bytes));
    let backends = backends.transpose().map_err(|error| damaged(format!("`backends`: {error}")))?;
    Ok(Begun { prepared, backends })
}

/// What may change when a run is resumed.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// Other servers.
    pub backends: Option<PathBuf>,
    /// Where the Ray cluster is now.
    pub address: Option<String>,
    /// The Python that has Ray and gswarm.
    pub python: Option<String>,
    /// Whether requests that failed are tried again.
    pub retry_failed: bool,
}

/// Continues an interrupted live run.
///
/// # Errors
/// Why it cannot continue, or ended early again.
pub fn resume(
    folder: &Path,
    changes: &Resume,
    embedded: &dyn EmbeddedModels,
    observer: &mut dyn Observer,
) -> Result<Ended, Failure> {
    let path = folder.join(JOURNAL);
    if !path.is_file() {
        return Err(Failure::input(format!("{} has no journal of a live run", folder.display()))
            .hint("pass the folder that was given to --out"));
    }
    let failed = |error| journal_failure(folder, &error);
    let journal = Journal::open(&path, Durability::Process).map_err(failed)?;
    let Begun { mut prepared, backends } = begun(&path, |name| journal.meta(name).map_err(failed))?;
    let mut live = prepared.spec.live.clone().unwrap_or_default();
    if changes.address.is_some() && live.ray.is_none() {
        return Err(Failure::input("--address is for runs on a Ray cluster, but this run does not use Ray"));
    }
    let place = match &mut live.ray {
        Some(ray) => {
            ray.address = changes.address.clone().unwrap_or_else(|| ray.address.clone());
            ray.python = changes.python.clone().unwrap_or_else(|| ray.python.clone());
            let bytes = journal.meta("callables").map_err(failed)?;
            let callables = live.models.as_deref().zip(bytes);
            let callables = callables.map(|(file, bytes)| Callables::from(file, bytes)).transpose()?;
            let backends = match &changes.backends {
                Some(file) => read_backends_elsewhere(file)?,
                None => backends.unwrap_or_default(),
            };
            let joined = Joined::to(ray, observer)?;
            joined.prepare(&backends, &prepared.instance, callables.as_ref(), observer)?;
            Place::Ray { joined: Box::new(joined), backends, callables }
        }
        None => match (&changes.backends, backends) {
            (Some(file), _) => Place::Servers(read_backends(file)?),
            (None, Some(backends)) => Place::Servers(backends),
            (None, None) => {
                let models = live.models.clone().unwrap_or_default();
                embedded.check(&models, &prepared.scenario)?;
                Place::Embedded(models)
            }
        },
    };
    prepared.spec.live = Some(live);
    carry_out(
        prepared,
        place,
        journal,
        Begins::Again { retry_failed: changes.retry_failed },
        embedded,
        observer,
    )
}
