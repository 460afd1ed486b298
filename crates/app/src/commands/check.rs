//! `gswarm check`: an execution log against its inputs.

use crate::args::{ClusterArgs, InputArgs};
use crate::core_api::{self, LogFile, render_violations, violations_to_json};
use crate::failure::{Code, Failure};
use crate::job;
use crate::output::{self, files};
use clap::Args;
use gswarm_core::Instance;
use gswarm_core::instance::Mode;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gswarm check baseline_execution_log.json --config config.yaml --requests requests.yaml
  gswarm check other.jsonl --config config.yaml --requests requests.yaml --mode online --gpus 8
  gswarm check run.json --config config.yaml --requests requests.yaml --save-report report.txt

The rules of the run (mode, GPUs, switch cost) are read from the log's summary. Flags speak where it is silent.
Exit code 0: no violation; 1: violations, all of them listed.";

/// Arguments of `gswarm check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Execution log, JSON or JSON lines
    log: PathBuf,
    #[command(flatten)]
    input: InputArgs,
    /// How requests arrived, where the log does not say it
    #[arg(long, value_name = "MODE", value_parser = crate::args::mode_parser())]
    mode: Option<Mode>,
    /// Write the report to a file too
    #[arg(long, alias = "save_report", value_name = "FILE")]
    save_report: Option<PathBuf>,
    /// Print nothing but errors; the exit code tells
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Checks the log.
pub fn check(args: &CheckArgs) -> Result<(), Failure> {
    let log = LogFile::read_bytes(&files::read(&args.log)?);
    let mode = log.mode().or(args.mode).unwrap_or(Mode::Offline);
    let scenario = job::load(&args.input.config, &args.input.requests, mode, args.quiet)?;
    let (cluster, notes) = log.cluster(&args.cluster.over(&scenario.cluster));
    if !args.quiet {
        notes.iter().for_each(|note| output::note(&format!("note: {note}")));
    }
    let instance = Instance::build(&scenario, cluster, mode).map_err(|faults| job::infeasible(&faults))?;
    let violations = core_api::check(&instance, &log);
    let report = render_violations(&violations);
    if let Some(path) = &args.save_report {
        save(path, &report)?;
    }
    if args.json {
        let mut result = violations_to_json(&violations);
        result["log"] = json!(args.log);
        result["executions"] = json!(log.executions.len());
        output::line(&result.to_string())?;
    } else if !args.quiet {
        output::line(report.trim_end())?;
    }
    if violations.is_empty() {
        return Ok(());
    }
    let plural = if violations.len() == 1 { "" } else { "s" };
    Err(Failure::new(
        Code::Violations,
        format!("{}: {} violation{plural}", args.log.display(), violations.len()),
    ))
}

fn save(path: &std::path::Path, report: &str) -> Result<(), Failure> {
    let name = path.file_name().ok_or_else(|| Failure::input(format!("{} names no file", path.display())))?;
    let mut batch = files::Batch::new(path.parent().unwrap_or("".as_ref()))?;
    batch.add(&name.to_string_lossy(), |out| out.write_all(report.as_bytes()))?;
    batch.commit().map(drop)
}
