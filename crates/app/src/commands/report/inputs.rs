//! Logs, and the inputs that they were made from.

use crate::args::{ClusterArgs, InputArgs};
use crate::commands::check::build;
use crate::failure::Failure;
use crate::job::Inputs;
use crate::output::files::read_log;
use gswarm_core::Instance;
use gswarm_core::check::{check, read_back};
use gswarm_core::instance::Mode;
use gswarm_core::log::ExecutionLog;
use gswarm_core::log_file::LogFile;
use std::path::{Path, PathBuf};

/// What the command line says of the inputs.
pub struct Given<'a> {
    /// `--config`.
    pub config: Option<&'a Path>,
    /// `--requests`.
    pub requests: Option<&'a Path>,
    /// `--mode`.
    pub mode: Option<Mode>,
    /// Flags of the cluster.
    pub cluster: &'a ClusterArgs,
}

/// A log in terms of its inputs.
pub struct Loaded {
    /// The problem.
    pub instance: Instance,
    /// What happened.
    pub log: ExecutionLog,
    /// The file as it was read.
    pub file: LogFile,
    /// What the independent check finds.
    pub violations: Vec<String>,
    /// The configuration's name, for people.
    pub configuration: String,
}

/// Inputs that were read, by their paths: many logs have the same.
pub type Known = Option<(PathBuf, PathBuf, Inputs)>;

/// How far above a log its inputs are looked for.
const LEVELS: usize = 3;

/// Reads a log and its inputs.
pub fn load(path: &Path, given: &Given<'_>, known: &mut Known) -> Result<Loaded, Failure> {
    let file = LogFile::read_bytes(&read_log(path)?);
    let config = found(path, given.config, "config", "--config")?;
    let requests = found(path, given.requests, "requests", "--requests")?;
    if known.as_ref().is_none_or(|(a, b, _)| (a, b) != (&config, &requests)) {
        let read = Inputs::read(&InputArgs { config: config.clone(), requests: requests.clone() })?;
        *known = Some((config.clone(), requests, read));
    }
    let Some((_, _, inputs)) = known else { return Err(Failure::input("no inputs were read")) };
    let mode = file.mode().or(given.mode).unwrap_or(Mode::Offline);
    let scenario = inputs.scenario(mode, true)?;
    let (cluster, _) = file.cluster(&given.cluster.over(&scenario.cluster));
    let instance = build(&scenario, cluster, mode).map_err(|reason| {
        Failure::input(format!("{}: not a run of these inputs: {reason}", path.display()))
            .hint("`gswarm check` says what does not fit; --config and --requests name other inputs")
    })?;
    let violations = check(&instance, &file).iter().map(ToString::to_string).collect();
    let (log, faults) = read_back(&instance, &file);
    if log.executions.is_empty() {
        let first = faults.first().map_or_else(String::new, |fault| format!(": {fault}"));
        return Err(Failure::input(format!("{} has no execution of these inputs{first}", path.display()))
            .hint("`gswarm check` says all that does not fit; --config and --requests name other inputs"));
    }
    Ok(Loaded { instance, log, file, violations, configuration: named(&config) })
}

/// A configuration's name: its file's, or its folder's where the file is called as all are.
fn named(config: &Path) -> String {
    let stem = config.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = config.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match folder {
        Some(folder) if stem == "config" => folder,
        _ => stem,
    }
}

/// The input of a log: as the flag says, or the file of that name nearest to the log.
fn found(log: &Path, given: Option<&Path>, stem: &str, flag: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = given {
        return Ok(path.to_path_buf());
    }
    // A path without a folder is in the one that the command runs in.
    let log = std::path::absolute(log).unwrap_or_else(|_| log.to_path_buf());
    for folder in log.ancestors().skip(1).take(LEVELS) {
        for ending in ["yaml", "yml", "json"] {
            let path = folder.join(format!("{stem}.{ending}"));
            if path.is_file() {
                return Ok(path);
            }
        }
    }
    Err(Failure::input(format!(
        "{}: no file {stem}.yaml or {stem}.json beside it or above it (R001)",
        log.display()
    ))
    .hint(format!("name it with {flag}")))
}

/// The logs that the arguments name: files as they are, of folders every execution log in them.
pub fn logs(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for path in given {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let before = all.len();
        collect(path, LEVELS, &mut all).map_err(|error| Failure::file("read the folder", path, &error))?;
        if all.len() == before {
            return Err(Failure::input(format!("{} has no execution log in it (R002)", path.display()))
                .hint("execution logs are called *_execution_log.json or *_execution_log.jsonl; name others one by one"));
        }
    }
    Ok(all)
}

fn collect(folder: &Path, levels: usize, all: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if levels > 0 && !name.starts_with('.') {
                collect(&path, levels - 1, all)?;
            }
        } else if ["execution_log.json", "execution_log.jsonl"].iter().any(|end| name.ends_with(end))
            && name != "task_execution_log.jsonl"
            && !name.starts_with('.')
        {
            all.push(path);
        }
    }
    Ok(())
}
