//! `gswarm check`: an execution log against its inputs.

use crate::args::{ClusterArgs, InputArgs};
use crate::beliefs::PredictorArgs;
use crate::failure::{Failure, FailureKind};
use crate::job;
use crate::output::{self, count, files::Batch, files::read_log, progress::Phase};
use clap::Args;
use gswarm_core::check::{Violation, ViolationCode, report as render};
use gswarm_core::input::ClusterSpec;
use gswarm_core::instance::Mode;
use gswarm_core::log_file::{LogFile, shown as in_one_line};
use gswarm_core::verify::Evidence;
use gswarm_learn::expect::PredictorSource;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm check baseline_execution_log.json --config config.yaml --requests requests.yaml
  gswarm check other.jsonl --config config.yaml --requests requests.yaml --mode online --gpus 8
  gswarm check run.json --config config.yaml --requests requests.yaml --save-report report.txt
  gswarm check plan.json --config config.yaml --requests requests.yaml
  gswarm check planned_execution_log.json --config config.yaml --requests requests.yaml --predictor nodes.model

The rules of the run (mode, GPUs, switch cost) are read from the log's summary. Flags supply what it lacks.
The lower bound of a log, of a plan and of `gswarm bound --out` is recomputed from its witness.
Exit code 0: no violation; 1: violations, all of them listed.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Execution log (JSON or JSON Lines), plan, or file of bounds
    log: PathBuf,
    #[command(flatten)]
    input: InputArgs,
    /// How requests arrived, if the log does not say
    #[arg(long, value_name = "MODE", value_parser = crate::args::mode_parser())]
    mode: Option<Mode>,
    #[command(flatten)]
    predictor: PredictorArgs,
    /// Also write the report to a file
    #[arg(long, alias = "save_report", value_name = "FILE")]
    save_report: Option<PathBuf>,
    /// Print only errors; see the exit code
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Cluster (if the log's summary does not say)")]
    cluster: ClusterArgs,
}

/// What `--json` prints.
#[derive(Serialize)]
struct CheckJson<'a> {
    log: &'a Path,
    executions: usize,
    valid: bool,
    violations: &'a [Violation],
}

pub fn check(args: &CheckArgs) -> Result<(), Failure> {
    let shown = !args.quiet && !args.json;
    let target = args.save_report.as_ref().map(|path| Batch::beside(path, "--save-report")).transpose()?;
    let phase = Phase::new("reading the log", shown);
    let evidence = match read_log(&args.log) {
        Ok(bytes) => Evidence::read(&bytes),
        // The other files are looked at too, so that all that is missing is named at once.
        Err(failure) => {
            return Err(match job::load(&args.input, Mode::Offline, true, false) {
                Err(other) if !args.input.config.exists() || !args.input.requests.exists() => {
                    failure.and(other)
                }
                _ => failure,
            });
        }
    };
    let log = &evidence.log;
    drop(phase);
    let mode = log.mode().or(args.mode).unwrap_or(Mode::Offline);
    let predictor = args.predictor.predictor.clone();
    let scenario = job::load_predicted(&args.input, predictor, mode, args.quiet, shown)?;
    let source = args.predictor.source(&scenario)?;
    if source.is_some() && log.claims.predictor.is_none() {
        return Err(Failure::input(format!(
            "--predictor: {} was not made with a predictor",
            args.log.display()
        ))
        .hint("remove the flag: its estimates come from the input files"));
    }
    if !args.quiet {
        notes(args, log, &scenario.cluster).iter().for_each(|note| output::note(&format!("note: {note}")));
    }
    let phase = Phase::new("checking", shown);
    let spec = args.cluster.over(&scenario.cluster);
    let estimates = source.as_ref().map(PredictorSource::estimates);
    let violations = evidence.violations(&scenario, &spec, mode, estimates);
    drop(phase);
    let report = render(&violations);
    if let Some((mut batch, name)) = target {
        batch.add(&name, |out| out.write_all(report.as_bytes()))?;
        batch.commit()?;
    }
    if args.json {
        output::json(&CheckJson {
            log: &args.log,
            executions: log.executions.len(),
            valid: violations.is_empty(),
            violations: &violations,
        })?;
    } else if !args.quiet {
        output::line(report.trim_end())?;
    }
    if violations.is_empty() {
        return Ok(());
    }
    let found = count(violations.len() as u64, "violation");
    let failure = Failure::new(FailureKind::Violations, format!("{}: {found}", args.log.display()));
    let other_costs = violations.iter().any(|one| one.code == ViolationCode::Estimate);
    Err(match source.as_ref().zip(log.claims.predictor.as_ref()) {
        Some((given, named)) if other_costs => failure.hint(format!(
            "is {} the predictor of this run? Its log names {}",
            given.name,
            in_one_line(named)
        )),
        None if other_costs && args.input.measured.calibration.is_none() => {
            failure.hint("if the run used --calibration, check it with the same file and flags")
        }
        _ => failure,
    })
}

/// Flags and configuration that contradict the log, which takes precedence.
fn notes(args: &CheckArgs, log: &LogFile, configured: &ClusterSpec) -> Vec<String> {
    let flags = args.cluster.over(&ClusterSpec::default());
    // What a flag says, the configuration is not asked for.
    let rest = ClusterSpec {
        gpus: configured.gpus.filter(|_| flags.gpus.is_none()),
        gpus_per_server: configured.gpus_per_server.filter(|_| flags.gpus_per_server.is_none()),
        gpu_memory_gb: configured.gpu_memory_gb.filter(|_| flags.gpu_memory_gb.is_none()),
        pcie_gb_per_s: configured.pcie_gb_per_s.filter(|_| flags.pcie_gb_per_s.is_none()),
        switch_overhead_seconds: configured
            .switch_overhead_seconds
            .filter(|_| flags.switch_overhead_seconds.is_none()),
        switch_cost: configured.switch_cost.filter(|_| flags.switch_cost.is_none()),
        residency: configured.residency.filter(|_| flags.residency.is_none()),
    };
    let mut notes = Vec::new();
    if let (Some(made), Some(asked)) = (log.mode(), args.mode)
        && made != asked
    {
        notes.push(format!("--mode: the run was {}, but the flag says {}", made.name(), asked.name()));
    }
    for note in log.cluster(&flags).1 {
        match note.split_once(": ") {
            Some((field, said)) if said.contains("the configuration") => {
                let said = said.replace("the configuration", "the flag");
                notes.push(format!("--{}: {said}", field.replace('_', "-")));
            }
            _ => notes.push(note),
        }
    }
    for note in log.cluster(&rest).1 {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}
