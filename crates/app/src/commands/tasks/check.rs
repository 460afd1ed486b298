//! `gswarm tasks check`: a log of `tasks schedule` against its tasks.

use super::generate::{NO_TASKS, load_profile, profiled, refused};
use crate::failure::{Failure, FailureKind};
use crate::output::{self, count, files, progress::Phase};
use clap::Args;
use gswarm_tasks::check::{TaskViolation, check};
use gswarm_tasks::{TaskLog, read};
use serde::Serialize;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm tasks check gswarm-out/tasks/task_execution_log.jsonl --tasks workload.csv

Exit code 0: no violation; 1: violations, all of them listed; 2: no log, or no tasks, that could be read.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckTasksArgs {
    /// The log
    log: PathBuf,
    /// The tasks that were scheduled, CSV or Parquet
    #[arg(long, value_name = "FILE")]
    tasks: PathBuf,
    /// Hardware profile of the run, if it had one and the tasks have no true times
    #[arg(long, alias = "profile", value_name = "FILE")]
    hardware: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct CheckTasksJson<'a> {
    log: &'a Path,
    tasks: usize,
    violations: &'a [TaskViolation],
}

pub fn run(args: &CheckTasksArgs) -> Result<(), Failure> {
    let reading = Phase::new("reading the log and the tasks", !args.json);
    let bytes = files::read_log(&args.log)?;
    let workload = read(&args.tasks.display().to_string(), files::read_or(&args.tasks, NO_TASKS)?)
        .map_err(|faults| refused(&faults))?;
    let log = TaskLog::read(&args.log.display().to_string(), &bytes).map_err(|fault| refused(&[fault]))?;
    drop(reading);
    let checking = Phase::new("checking", !args.json);
    let profile = load_profile(args.hardware.as_deref())?;
    let estimates = profiled(&workload, args.hardware.as_deref(), &profile)?;
    let violations = check(&workload, &workload.truths(&estimates), &log);
    drop(checking);
    if args.json {
        output::json(&CheckTasksJson { log: &args.log, tasks: log.records.len(), violations: &violations })?;
    } else if violations.is_empty() {
        output::line(&format!(
            "{}: {}, no violation",
            args.log.display(),
            count(log.records.len() as u64, "task")
        ))?;
    } else {
        for violation in violations.iter().take(50) {
            output::line(&violation.to_string())?;
        }
    }
    if violations.is_empty() {
        return Ok(());
    }
    let found = count(violations.len() as u64, "violation");
    Err(Failure::new(FailureKind::Violations, format!("{}: {found}", args.log.display())))
}
