//! `gswarm tasks schedule`: tasks on GPUs and the CPU under a policy, or under all of them.

mod compare;

pub use compare::write as write_comparison;

use super::generate::{NO_TASKS, load_profile, profiled, refused};
use crate::beliefs::NO_PREDICTOR;
use crate::failure::{Failure, FailureKind};
use crate::output::{self, files, progress::Phase, table};
use clap::Args;
use clap::builder::TypedValueParser;
use gswarm_core::input::{Code, Diagnostic};
use gswarm_learn::Predictor;
use gswarm_tasks::check::check;
use gswarm_tasks::{
    Estimates, FEATURES, Machine, NoPrediction, PolicySettings, TaskOutcome, TaskPolicy, Workload, bound,
    misfits, predict, read_with_lines, schedule, write_results,
};
use serde::Serialize;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm tasks schedule --tasks workload.csv --gpus 4 --policy learned
  gswarm tasks schedule --tasks workload.csv --policy all
  gswarm tasks schedule --tasks workload.csv --policy learned --predictor cpu.model --predictor gpu.model
  gswarm tasks schedule --compare --seeds 1..10 --loads 0.5,0.8,0.95,1.5 --count 10000

Policies decide from predicted times: those of the predictors, else of the hardware profile or of the tasks' columns
profile_cpu_seconds and profile_gpu_seconds. Only `clairvoyant` knows the true times. --compare trains predictors on
tasks of a separate seed, unless --predictor or --bare is given. Every log is checked independently of the scheduler.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ScheduleArgs {
    /// The tasks, CSV or Parquet
    #[arg(long, value_name = "FILE", required_unless_present = "compare")]
    tasks: Option<PathBuf>,
    /// Number of GPUs, besides the CPU
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    gpus: u32,
    /// The policy; `all` compares every policy
    #[arg(long, value_name = "NAME", default_value = "learned", value_parser = policy_parser())]
    policy: Chosen,
    /// Predictor of run times: one per device, or one for both
    #[arg(long, value_name = "FILE")]
    predictor: Vec<PathBuf>,
    /// Hardware profile for estimates, memory, link and power [default: the estimates in the tasks' columns, if any,
    /// and a built-in machine]
    #[arg(long, alias = "profile", value_name = "FILE")]
    hardware: Option<PathBuf>,
    /// Weight of energy, in seconds per joule: the objective is makespan + weight * energy
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = crate::args::not_negative)]
    energy_weight: f64,
    /// Seed for randomised policies
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Folder for the results; replaces those of an earlier run
    #[arg(long, short, value_name = "DIR", default_value = "gswarm-out/tasks")]
    out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compare: compare::CompareTasksArgs,
}

#[derive(Clone, Copy, Debug)]
enum Chosen {
    One(TaskPolicy),
    All,
}

fn policy_parser() -> impl TypedValueParser<Value = Chosen> {
    let one = TaskPolicy::ALL.iter().map(|&kind| (kind.name(), Chosen::One(kind)));
    crate::args::choice(one.chain([("all", Chosen::All)]).collect())
}

pub fn run(args: &ScheduleArgs) -> Result<(), Failure> {
    let compared = args.compare.wanted()?;
    let profile = load_profile(args.hardware.as_deref())?;
    let predictors = load_predictors(&args.predictor)?;
    if compared {
        return compare::run(args, &profile, predictors);
    }
    let Some(path) = &args.tasks else { return Err(Failure::input("--tasks is needed")) };
    let name = path.display().to_string();
    let shown = !args.json;
    let reading = Phase::new("reading the tasks", shown);
    let (workload, lines) =
        read_with_lines(&name, files::read_or(path, NO_TASKS)?).map_err(|faults| refused(&faults))?;
    drop(reading);
    let machine = Machine::of(&profile, args.gpus);
    let unfit = misfits(&workload, &machine, &name, &lines);
    if !unfit.is_empty() {
        return Err(refused(&unfit));
    }
    if workload.tasks.iter().any(|task| task.truth.is_none()) {
        output::note("note: the tasks have no true run times; the estimates are used");
    }
    let bare = profiled(&workload, args.hardware.as_deref(), &profile)?;
    if args.hardware.is_some() && Estimates::of_file(&workload).is_some_and(|told| told.means != bare.means) {
        output::note(
            "note: times of --hardware differ from the columns profile_cpu_seconds and profile_gpu_seconds; --hardware is used",
        );
    }
    let predicting = Phase::new("predicting run times", shown);
    let estimates = match predictors.as_slice() {
        [] => bare,
        some => predict(&workload, &bare, some).map_err(|error| unpredicted(args, some, &error))?,
    };
    drop(predicting);
    let policies = match args.policy {
        Chosen::One(kind) => vec![kind],
        Chosen::All => TaskPolicy::ALL.to_vec(),
    };
    let settings = PolicySettings { seed: args.seed, seconds_per_joule: args.energy_weight };
    let mut outcomes = Vec::new();
    for (at, &policy) in policies.iter().enumerate() {
        let place =
            if policies.len() > 1 { format!(", {} of {}", at + 1, policies.len()) } else { String::new() };
        let _scheduling = Phase::new(format!("scheduling under {}{place}", policy.name()), shown);
        outcomes.push((policy, checked(&workload, &machine, &estimates, policy, settings)?));
    }
    let writing = Phase::new("writing the results", shown);
    let mut batch = files::Batch::new(&args.out)?;
    for (policy, outcome) in &outcomes {
        let prefix = if outcomes.len() > 1 { format!("{}_", policy.name()) } else { String::new() };
        batch.add(&format!("{prefix}scheduling_results.csv"), |out| {
            write_results(&workload, &estimates, &outcome.log, out)
        })?;
        batch.add(&format!("{prefix}task_execution_log.jsonl"), |out| outcome.log.write(out))?;
    }
    let paths = batch.commit()?;
    let truths = workload.truths(&estimates);
    let least = bound::makespan(&workload, &truths, &machine).seconds();
    drop(writing);
    report(args, &outcomes, least)?;
    if !args.json {
        output::line(&match paths.as_slice() {
            [results, log] => format!("Wrote {}, {}", results.display(), log.display()),
            _ => format!("Wrote {} into {}", output::count(paths.len() as u64, "file"), args.out.display()),
        })?;
    }
    Ok(())
}

/// A run whose own log fails the checker is a fault of this program.
pub fn checked(
    workload: &Workload,
    machine: &Machine,
    estimates: &Estimates,
    policy: TaskPolicy,
    settings: PolicySettings,
) -> Result<TaskOutcome, Failure> {
    let outcome = schedule(workload, machine, estimates, policy, settings)
        .map_err(|error| Failure::new(FailureKind::Internal, format!("{}: {error}", policy.name())))?;
    let violations = check(workload, &workload.truths(estimates), &outcome.log);
    match violations.first() {
        None => Ok(outcome),
        Some(first) => Err(Failure::new(
            FailureKind::Internal,
            format!("{}: the log breaks rules: {first}", policy.name()),
        )),
    }
}

/// The predictors of these files.
fn load_predictors(paths: &[PathBuf]) -> Result<Vec<Predictor>, Failure> {
    paths.iter().map(|path| load_predictor(path)).collect()
}

fn load_predictor(path: &Path) -> Result<Predictor, Failure> {
    let bytes = files::read_or(path, NO_PREDICTOR)?;
    Predictor::from_bytes(&path.display().to_string(), &bytes).map_err(|faults| refused(&faults))
}

/// Why a predictor does not suit the tasks: the file, and what to do.
fn unpredicted(args: &ScheduleArgs, predictors: &[Predictor], error: &NoPrediction) -> Failure {
    let names: Vec<String> = args.predictor.iter().map(|path| path.display().to_string()).collect();
    let of = match error {
        NoPrediction::Features { target, .. } => {
            let place = predictors.iter().position(|predictor| predictor.target() == target);
            place.and_then(|place| names.get(place).cloned())
        }
        _ => None,
    };
    let hint = format!(
        "train one for each device: `gswarm train --data workload.csv --target true_cpu_seconds --out cpu.model` and the same with true_gpu_seconds; they predict from {}",
        FEATURES.join(", ")
    );
    let file = of.unwrap_or_else(|| names.join(", "));
    let finding = Diagnostic::of_file(file, Code::OtherFeatures, error.to_string());
    refused(&[Diagnostic { hint: Some(hint), ..finding }])
}

/// What `--json` prints.
#[derive(Serialize)]
struct ScheduleJson {
    bound_seconds: f64,
    policies: Vec<PolicyJson>,
}

#[derive(Serialize)]
struct PolicyJson {
    policy: &'static str,
    makespan_seconds: f64,
    mean_flow_seconds: f64,
    p99_flow_seconds: f64,
    utilisation: f64,
    gpu_balance: f64,
    link_utilisation: f64,
    on_cpu_on_gpu_cut: [u32; 3],
    energy_joules: f64,
    objective_seconds: f64,
}

fn report(args: &ScheduleArgs, outcomes: &[(TaskPolicy, TaskOutcome)], bound: f64) -> Result<(), Failure> {
    if args.json {
        let entry = |(policy, outcome): &(TaskPolicy, TaskOutcome)| {
            let metrics = &outcome.metrics;
            PolicyJson {
                policy: policy.name(),
                makespan_seconds: metrics.makespan.seconds(),
                mean_flow_seconds: metrics.mean_flow.seconds(),
                p99_flow_seconds: metrics.p99_flow.seconds(),
                utilisation: metrics.utilisation,
                gpu_balance: metrics.gpu_balance,
                link_utilisation: metrics.link_utilisation,
                on_cpu_on_gpu_cut: metrics.placed,
                energy_joules: metrics.joules,
                objective_seconds: metrics.makespan.seconds() + args.energy_weight * metrics.joules,
            }
        };
        return output::json(&ScheduleJson {
            bound_seconds: bound,
            policies: outcomes.iter().map(entry).collect(),
        });
    }
    let mut header = vec![
        "policy",
        "makespan s",
        "/ bound",
        "mean flow s",
        "p99 flow s",
        "busy",
        "balance",
        "cpu/gpu/cut",
        "kJ",
    ];
    // What is weighed is what is shown.
    let priced = args.energy_weight > 0.0;
    header.extend(priced.then_some("objective s"));
    let rows = outcomes.iter().map(|(policy, outcome)| {
        let metrics = &outcome.metrics;
        let [cpu, gpu, cut] = metrics.placed;
        let objective = metrics.makespan.seconds() + args.energy_weight * metrics.joules;
        let mut row = vec![
            policy.name().to_string(),
            format!("{:.3}", metrics.makespan.seconds()),
            format!("{:.4}", metrics.makespan.seconds() / bound.max(1e-9)),
            format!("{:.4}", metrics.mean_flow.seconds()),
            format!("{:.4}", metrics.p99_flow.seconds()),
            format!("{:.1}%", 100.0 * metrics.utilisation),
            format!("{:.3}", metrics.gpu_balance),
            format!("{cpu}/{gpu}/{cut}"),
            format!("{:.2}", metrics.joules / 1e3),
        ];
        row.extend(priced.then(|| format!("{objective:.3}")));
        row
    });
    output::line(&table::table(&header, 1, rows))?;
    let last = outcomes.first().map_or(0.0, |(_, outcome)| outcome.metrics.last_arrival.seconds());
    output::line(&format!("No schedule is shorter than {bound:.3} s; the last task arrives at {last:.3} s."))
}
