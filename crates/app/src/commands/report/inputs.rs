//! Logs and their inputs.

use crate::args::{ClusterArgs, InputArgs, MeasuredArgs};
use crate::failure::Failure;
use crate::job;
use crate::output::{count, files::read_log, note};
use clap::Args;
use gswarm_core::Instance;
use gswarm_core::check::read_back;
use gswarm_core::input::Scenario;
use gswarm_core::instance::Mode;
use gswarm_core::log::ExecutionLog;
use gswarm_core::log_file::LogFile;
use gswarm_core::verify::build;
use std::path::{Path, PathBuf};

/// The inputs on the command line.
#[derive(Debug, Args)]
pub struct Given {
    /// System configuration; by default the file `config.*` beside a log or above it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Requests; by default the file `requests.*` beside a log or above it
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    #[command(flatten)]
    pub measured: MeasuredArgs,
    /// How requests arrived, if a log does not say
    #[arg(long, value_name = "MODE", value_parser = crate::args::mode_parser())]
    mode: Option<Mode>,
    #[command(flatten, next_help_heading = "Cluster (if a log's summary does not say)")]
    cluster: ClusterArgs,
}

/// A log in terms of its inputs.
pub struct Loaded {
    /// The problem.
    pub instance: Instance,
    /// What happened.
    pub log: ExecutionLog,
    /// The file as it was read.
    pub file: LogFile,
    /// The configuration's name, for people.
    pub configuration: String,
    /// Records and fields of the log that are not of these inputs, the first in words.
    pub misfits: Option<(usize, String)>,
}

impl Loaded {
    /// Says that parts of the log are not of these inputs, if so.
    pub fn note_misfits(&self) {
        if let Some((found, first)) = &self.misfits {
            let found = count(*found as u64, "mismatch");
            note(&format!("note: {found} between the log and these inputs, the first: {first}"));
        }
    }
}

/// Cache of the last inputs: many logs share them.
#[derive(Default)]
pub struct Known(Option<(PathBuf, PathBuf, Mode, Scenario)>);

impl Known {
    pub fn scenario(&self) -> Option<&Scenario> {
        self.0.as_ref().map(|known| &known.3)
    }

    fn fetch(
        &mut self,
        config: &Path,
        requests: &Path,
        measured: &MeasuredArgs,
        mode: Mode,
    ) -> Result<&Scenario, Failure> {
        let same = |known: &(PathBuf, PathBuf, Mode, Scenario)| {
            (known.0.as_path(), known.1.as_path(), known.2) == (config, requests, mode)
        };
        let kept = self.0.take().filter(same);
        let known = match kept {
            Some(known) => known,
            None => {
                let (config, requests) = (config.to_path_buf(), requests.to_path_buf());
                let input = InputArgs { config, requests, measured: measured.clone() };
                let scenario = job::load(&input, mode, true, false)?;
                (input.config, input.requests, mode, scenario)
            }
        };
        Ok(&self.0.insert(known).3)
    }
}

/// How far above a log its inputs are looked for.
const LEVELS: usize = 3;

/// Reads a log and its inputs, both at once: of a million executions, either takes seconds.
pub fn load(path: &Path, given: &Given, known: &mut Known) -> Result<Loaded, Failure> {
    let bytes = read_log(path)?;
    let config = found(path, given.config.as_deref(), "config", "--config")?;
    let requests = found(path, given.requests.as_deref(), "requests", "--requests")?;
    let guess = likely_mode(&bytes).or(given.mode).unwrap_or(Mode::Offline);
    let (file, read) = rayon::join(
        || LogFile::read_bytes(&bytes),
        || known.fetch(&config, &requests, &given.measured, guess).map(drop),
    );
    read?;
    drop(bytes);
    let mode = file.mode().or(given.mode).unwrap_or(Mode::Offline);
    let scenario = known.fetch(&config, &requests, &given.measured, mode)?;
    let (cluster, _) = file.cluster(&given.cluster.over(&scenario.cluster));
    let instance = build(scenario, cluster, mode).map_err(|reason| {
        Failure::input(format!("{} does not match these inputs: {reason}", path.display()))
            .hint("`gswarm check` lists the differences; --config and --requests name other inputs")
    })?;
    let (log, faults) = read_back(&instance, &file);
    if log.executions.is_empty() {
        let first = faults.first().map_or_else(String::new, |fault| format!(": {fault}"));
        return Err(Failure::input(format!(
            "{} has no execution that matches these inputs{first}",
            path.display()
        ))
        .hint("`gswarm check` lists the differences; --config and --requests name other inputs"));
    }
    let misfits = faults.first().map(|first| (faults.len(), first.to_string()));
    Ok(Loaded { instance, log, file, configuration: named(&config), misfits })
}

/// The mode in the head of a log, before all of it is read; the full log takes precedence.
fn likely_mode(bytes: &[u8]) -> Option<Mode> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let (_, after) = head.split_once("\"mode\"")?;
    let value = after.trim_start_matches([':', ' ']);
    [Mode::Offline, Mode::Online].into_iter().find(|mode| value.starts_with(&format!("\"{}\"", mode.name())))
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
        "{}: no {stem}.yaml or {stem}.json in its folder or the two above (R001)",
        log.display()
    ))
    .hint(format!("pass the file with {flag}")))
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
                .hint("execution logs are called *_execution_log.json, .jsonl or .parquet; name others one by one"));
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
        } else if ["execution_log.json", "execution_log.jsonl", "execution_log.parquet"]
            .iter()
            .any(|end| name.ends_with(end))
            && name != "task_execution_log.jsonl"
            && !name.starts_with('.')
        {
            all.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_log_tells_the_mode() {
        let of = |text: &str| likely_mode(text.as_bytes());
        assert_eq!(of("{\"summary\": {\"mode\": \"online\""), Some(Mode::Online));
        assert_eq!(of("{\"mode\":\"offline\"}"), Some(Mode::Offline));
        assert_eq!((of("{}"), of("\"mode\": 3"), of("")), (None, None, None));
    }

    #[test]
    fn a_configuration_is_called_as_its_folder_where_its_file_says_nothing() {
        assert_eq!(named(Path::new("work/config.yaml")), "work");
        assert_eq!(named(Path::new("work/simple_config.json")), "simple_config");
        assert_eq!(named(Path::new("config.yaml")), "config");
    }
}
