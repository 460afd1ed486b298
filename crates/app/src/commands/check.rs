//! `gswarm check`: an execution log against its inputs.

use crate::args::{ClusterArgs, InputArgs};
use crate::beliefs::PredictorArgs;
use crate::failure::{Code, Failure};
use crate::job;
use crate::output::{self, count, files::Batch, files::read_log, progress::Phase};
use clap::Args;
use gswarm_core::check::{
    Place, Violation, ViolationCode, check_bounds, check_log, check_predicted, report as render, to_json,
};
use gswarm_core::input::{ClusterSpec, MAX_GB, Scenario, too_slow};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::log_file::{BoundFile, LogFile};
use gswarm_core::plan;
use gswarm_core::policy::follow;
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::time::MAX_SECONDS;
use gswarm_core::truth::TrueTimes;
use gswarm_core::{Instance, Time};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gswarm check baseline_execution_log.json --config config.yaml --requests requests.yaml
  gswarm check other.jsonl --config config.yaml --requests requests.yaml --mode online --gpus 8
  gswarm check run.json --config config.yaml --requests requests.yaml --save-report report.txt
  gswarm check plan.json --config config.yaml --requests requests.yaml
  gswarm check planned_execution_log.json --config config.yaml --requests requests.yaml --predictor nodes.model

The rules of the run (mode, GPUs, switch cost) are read from the log's summary. Flags speak where it is silent.
The lower bound of a log, of a plan and of `gswarm bound --out` is recomputed from its witness.
Exit code 0: no violation; 1: violations, all of them listed.";

/// Arguments of `gswarm check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Execution log, JSON or JSON lines; or a plan, or a file of bounds
    log: PathBuf,
    #[command(flatten)]
    input: InputArgs,
    /// How requests arrived, where the log does not say it
    #[arg(long, value_name = "MODE", value_parser = crate::args::mode_parser())]
    mode: Option<Mode>,
    #[command(flatten)]
    predictor: PredictorArgs,
    /// Write the report to a file too
    #[arg(long, alias = "save_report", value_name = "FILE")]
    save_report: Option<PathBuf>,
    /// Print nothing but errors; the exit code tells
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Cluster (where the log's summary does not say it)")]
    cluster: ClusterArgs,
}

/// Checks the log.
pub fn check(args: &CheckArgs) -> Result<(), Failure> {
    let shown = !args.quiet && !args.json;
    let target = args.save_report.as_ref().map(|path| Batch::beside(path, "--save-report")).transpose()?;
    let phase = Phase::new("reading the log", shown);
    let (log, bounds) = match read_log(&args.log) {
        Ok(bytes) => read(&bytes),
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
    drop(phase);
    let mode = log.mode().or(args.mode).unwrap_or(Mode::Offline);
    let load = if args.predictor.given() { job::load_predicted } else { job::load };
    let scenario = load(&args.input, mode, args.quiet, shown)?;
    let source = args.predictor.source(&scenario)?;
    if source.is_some() && log.claims.predictor.is_none() {
        return Err(Failure::input(format!(
            "--predictor: {} does not say that a predictor gave its estimates",
            args.log.display()
        ))
        .hint("leave the flag away: then its estimates are those of the inputs"));
    }
    if !args.quiet {
        notes(args, &log, &scenario.cluster).iter().for_each(|note| output::note(&format!("note: {note}")));
    }
    let phase = Phase::new("checking", shown);
    let spec = args.cluster.over(&scenario.cluster);
    let violations = violations(&log, &scenario, &spec, mode, &|instance| match &bounds {
        None => match &source {
            None => gswarm_core::check::check(instance, &log),
            Some(source) => {
                let spec = log.claims.truth.as_ref();
                let all = spec.is_some_and(|spec| spec.times == TrueTimes::Requests);
                let mut believed = instance.clone();
                source.tell(&scenario, &mut believed, all);
                check_predicted(instance, &believed, &log)
            }
        },
        Some((file, bytes)) => of_bounds(instance, file, bytes),
    });
    drop(phase);
    let report = render(&violations);
    if let Some((mut batch, name)) = target {
        batch.add(&name, |out| out.write_all(report.as_bytes()))?;
        batch.commit()?;
    }
    if args.json {
        let mut result = to_json(&violations);
        result["log"] = json!(args.log);
        result["executions"] = json!(log.executions.len());
        output::line(&result.to_string())?;
    } else if !args.quiet {
        output::line(report.trim_end())?;
    }
    if violations.is_empty() {
        return Ok(());
    }
    let found = count(violations.len() as u64, "violation");
    Err(Failure::new(Code::Violations, format!("{}: {found}", args.log.display())))
}

/// A file of bounds, and its bytes.
type Bounds = Option<(BoundFile, Vec<u8>)>;

/// The log; or, where the file is none, what it says of the problem, and the bounds in it.
fn read(bytes: &[u8]) -> (LogFile, Bounds) {
    let log = LogFile::read_bytes(bytes);
    let is_log = !log.faults.iter().any(|fault| fault.code == ViolationCode::File);
    match (!is_log).then(|| BoundFile::read_bytes(bytes)).flatten() {
        Some(file) => (file.head.clone(), Some((file, bytes.to_vec()))),
        None => (log, None),
    }
}

/// What is wrong with a file of bounds, or with a plan and its bound.
fn of_bounds(instance: &Instance, file: &BoundFile, bytes: &[u8]) -> Vec<Violation> {
    let mut found = check_bounds(instance, file);
    if file.is_plan {
        match plan::file::read(instance, bytes) {
            Ok(read) => found.extend(of_promise(instance, &read, bytes)),
            Err(faults) => {
                let violation = |fault| Violation::new(ViolationCode::Record, Place::default(), fault);
                found.extend(faults.into_iter().map(violation));
            }
        }
    }
    found
}

/// Seconds by which what a plan promises may be off: its file is written to the microsecond.
const ROUNDING: f64 = 2e-6;

/// What a plan promises and does not keep: it is followed, and the log of that is checked like any other.
fn of_promise(instance: &Instance, read: &plan::file::Read, bytes: &[u8]) -> Vec<Violation> {
    let Some(promise) = plan::file::promise(bytes) else { return Vec::new() };
    let violation = |code, message: String| Violation::new(code, Place::default(), message);
    let followed = simulate(instance, follow(instance, read).as_mut(), &SimOptions::default(), &mut |_| {});
    let log = match followed {
        Ok(log) => log,
        Err(error) => {
            return vec![violation(ViolationCode::Record, format!("the plan cannot be followed: {error}"))];
        }
    };
    let mut found = check_log(instance, &log, None);
    let end = log.executions.iter().map(|one| one.end).max().unwrap_or(Time::ZERO);
    let first = instance.requests.iter().map(|request| request.arrival).min().unwrap_or(Time::ZERO);
    let makespan = end.since(first).seconds();
    if (makespan - promise.makespan).abs() > ROUNDING || promise.makespan.is_nan() {
        let message =
            format!("makespan is {} s, and following the plan takes {makespan} s", promise.makespan);
        found.push(violation(ViolationCode::SumMakespan, message));
    }
    let at_bound = (promise.makespan - promise.lower_bound).abs() <= ROUNDING;
    let reason = match (promise.optimal, promise.proof.as_deref()) {
        (true, Some("bound")) if !at_bound => {
            "the plan is said to be as short as its bound, and is not".to_owned()
        }
        (true, Some("bound" | "search")) | (false, None) => return found,
        (optimal, proof) => format!("`optimal` is {optimal}, and `proof` is {proof:?}"),
    };
    found.push(violation(ViolationCode::SumBound, reason));
    found
}

/// What the log breaks. Where no run can have been made on the cluster that its summary speaks of, that is a violation,
/// and the rest is checked on the cluster of the configuration and the flags.
fn violations(
    log: &LogFile,
    scenario: &Scenario,
    spec: &ClusterSpec,
    mode: Mode,
    check: &dyn Fn(&Instance) -> Vec<Violation>,
) -> Vec<Violation> {
    let (claimed, _) = log.cluster(spec);
    let reason = match build(scenario, claimed.clone(), mode) {
        Ok(instance) => return check(&instance),
        Err(reason) => reason,
    };
    let message = format!("the run cannot have been made on this cluster: {reason}");
    let unusable = Violation::new(ViolationCode::SumCluster, Place::default(), message);
    let usual = Cluster::from_spec(&ClusterSpec { gpus: spec.gpus.or(Some(claimed.gpus)), ..spec.clone() });
    let own = usual.map(|usual| Cluster { residency: claimed.residency, ..usual });
    let mut found = match own.and_then(|own| build(scenario, own, mode).ok()) {
        Some(instance) => check(&instance),
        None => log.faults.clone(),
    };
    found.push(unusable);
    found
}

/// The problem on a cluster whose numbers nobody has vouched for.
pub fn build(scenario: &Scenario, cluster: Cluster, mode: Mode) -> Result<Instance, String> {
    let rate = cluster.switch.pcie_gb_per_s;
    let sizes = [("gpu_memory_gb", cluster.gpu_memory_gb), ("pcie_gb_per_s", rate)];
    for (field, value) in sizes {
        if !(value > 0.0 && value <= MAX_GB) {
            return Err(format!("{field} is {value:e}"));
        }
    }
    let overhead = cluster.switch.overhead_seconds;
    if !(0.0..=MAX_SECONDS).contains(&overhead) {
        return Err(format!("switch_overhead_seconds is {overhead:e}"));
    }
    if let Some(reason) = too_slow(&scenario.models, rate) {
        return Err(format!("pcie_gb_per_s is {rate:e}, and {reason}"));
    }
    if cluster.gpus == 0 {
        return Err("it has no GPUs".to_string());
    }
    Instance::build(scenario, cluster, mode).map_err(|faults| {
        let reasons: Vec<String> = faults.iter().map(ToString::to_string).collect();
        reasons.join("; ")
    })
}

/// Where flags and configuration say other things of the run than the log, which is believed.
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
        notes.push(format!("--mode: the run was made {}, the flag says {}", made.name(), asked.name()));
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
