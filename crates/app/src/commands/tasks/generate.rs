//! `gswarm tasks generate`: a workload of tasks from a seed.

use crate::args::not_negative;
use crate::failure::Failure;
use crate::output::{self, files, progress::Phase};
use clap::Args;
use gswarm_core::input::{Diagnostic, render};
use gswarm_tasks::profile::{self, HardwareProfile, NoLaw};
use gswarm_tasks::{
    Estimates, Machine, TaskArrivals, TaskKind, Workload, WorkloadError, WorkloadOptions, describe, generate,
    write_csv, write_parquet,
};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm tasks generate --out workload.csv                    the described workload: 10,000 tasks, 100 a second
  gswarm tasks generate --load 0.8 --gpus 4 --seed 7 --out workload.parquet
  gswarm tasks generate --hardware hardware_profile.json --types matmul=2,sort=1 --out workload.csv

Run times come from the profile, with effects of data location, noise and interference (docs/tasks.md).
Columns that begin with true_ are known only after the run.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GenerateTasksArgs {
    /// Number of tasks
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    tasks: u32,
    /// Arrivals per second
    #[arg(long, value_name = "N", default_value_t = 100.0, value_parser = not_negative)]
    rate: f64,
    /// Arrivals as a share of the machine's capacity, in place of a rate
    #[arg(long, value_name = "SHARE", value_parser = not_negative, conflicts_with = "rate")]
    load: Option<f64>,
    /// Minimum and maximum size
    #[arg(long, value_name = "LOW,HIGH", default_value = "100,5000", value_parser = range)]
    sizes: [f64; 2],
    /// Minimum and maximum compute intensity
    #[arg(long, value_name = "LOW,HIGH", default_value = "0.1,1", value_parser = range)]
    intensity: [f64; 2],
    /// Minimum and maximum memory, in MB
    #[arg(long, value_name = "LOW,HIGH", default_value = "10,500", value_parser = range)]
    memory: [f64; 2],
    /// Share of tasks that depend on others
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, value_parser = not_negative)]
    dependent: f64,
    /// Weights of the task types matmul, convolution, sort and sparse [default: equal]
    #[arg(long, value_name = "TYPE=WEIGHT,...", value_delimiter = ',', value_parser = weight)]
    types: Vec<(TaskKind, f64)>,
    /// Scale of noise and interference; 0 for none
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = not_negative)]
    noise: f64,
    /// GPUs of the machine that --load refers to
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    gpus: u32,
    /// Hardware profile for run times [default: a built-in description]
    #[arg(long, alias = "profile", value_name = "FILE")]
    hardware: Option<PathBuf>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// File to write, CSV or Parquet by its extension
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

pub fn run(args: &GenerateTasksArgs) -> Result<(), Failure> {
    let parquet = match args.out.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => false,
        Some("parquet") => true,
        _ => {
            return Err(Failure::input(format!(
                "cannot tell from the name {} whether to write CSV or Parquet",
                args.out.display()
            ))
            .hint("use the extension .csv or .parquet"));
        }
    };
    crate::commands::generate::keep(&args.out, args.force)?;
    let profile = load_profile(args.hardware.as_deref())?;
    let options = WorkloadOptions {
        tasks: args.tasks,
        size: args.sizes,
        intensity: args.intensity,
        memory_mb: args.memory,
        arrivals: args.load.map_or(TaskArrivals::Rate(args.rate), TaskArrivals::Load),
        dependent: args.dependent,
        kinds: if args.types.is_empty() { WorkloadOptions::default().kinds } else { args.types.clone() },
        noise: args.noise,
        gpus: args.gpus,
        seed: args.seed,
        ..WorkloadOptions::default()
    };
    let from = args.hardware.as_deref();
    let making = Phase::new("making the tasks", true);
    let made = generate(&options, &profile).map_err(|error| ungenerated(from, &error))?;
    let machine = Machine::of(&profile, args.gpus);
    let estimates =
        Estimates::of_profile(&made.workload, &profile).map_err(|error| unprofiled(from, &error))?;
    let watts = [machine.cpu_watts[1], machine.gpu_watts[1]];
    let name = args.out.file_name().unwrap_or_default().to_string_lossy();
    let mut batch = files::Batch::new(args.out.parent().unwrap_or("".as_ref()))?.replacing(args.force);
    batch.add(&name, |out| match parquet {
        true => write_parquet(&made.workload, &estimates, watts, out),
        false => write_csv(&made.workload, &estimates, watts, out),
    })?;
    batch.commit()?;
    let described = describe(&made.workload, &machine);
    drop(making);
    output::print(&described)?;
    output::line(&format!("Wrote {}", args.out.display()))?;
    // The tasks are made for this machine: on another they have other times, memory and power.
    let same = from.map_or(String::new(), |profile| format!(" --hardware {}", profile.display()));
    output::line(&format!(
        "Next: gswarm tasks schedule --tasks {} --gpus {}{same}",
        args.out.display(),
        args.gpus
    ))
}

/// The profile of a file, or the built-in one.
pub fn load_profile(path: Option<&Path>) -> Result<HardwareProfile, Failure> {
    let Some(path) = path else { return Ok(profile::described()) };
    let bytes = files::read_or(
        path,
        "check the path; `gswarm tasks profile --out FILE` writes profiles, and without --hardware a built-in one is used",
    )?;
    let name = path.display().to_string();
    let profile = profile::read(&name, &bytes).map_err(|fault| refused(&[fault]))?;
    // Whatever tasks are made or scheduled needs both devices.
    let faults = profile::lacks(&name, &profile);
    if faults.is_empty() { Ok(profile) } else { Err(refused(&faults)) }
}

/// Hint for a missing file of tasks.
pub const NO_TASKS: &str =
    "check the path; `gswarm tasks generate --out workload.csv` writes tasks to start from";

/// Estimates without predictors: from the profile of `path`, else from the tasks' file, else from the built-in profile.
pub fn profiled(
    workload: &Workload,
    path: Option<&Path>,
    profile: &HardwareProfile,
) -> Result<Estimates, Failure> {
    match Estimates::of_file(workload) {
        Some(told) if path.is_none() => Ok(told),
        _ => Estimates::of_profile(workload, profile).map_err(|error| unprofiled(path, &error)),
    }
}

/// What a profile lacks that tasks need.
pub fn unprofiled(path: Option<&Path>, error: &NoLaw) -> Failure {
    refused(&[error.finding(&named(path))])
}

/// Why tasks could not be made.
pub fn ungenerated(path: Option<&Path>, error: &WorkloadError) -> Failure {
    refused(&[error.finding(&named(path))])
}

fn named(profile: Option<&Path>) -> String {
    profile.map_or_else(|| "the described machine".to_owned(), |path| path.display().to_string())
}

/// Faults of an input, all of them.
pub fn refused(faults: &[Diagnostic]) -> Failure {
    let count = output::count(faults.len() as u64, "fault");
    Failure::input(format!("the input has {count}\n\n{}", render(faults)))
        .hint("`gswarm help CODE` explains a code; nothing was run and no file was written")
}

fn range(text: &str) -> Result<[f64; 2], String> {
    let usage = || format!("`{text}` is not a range: write two numbers, such as 100,5000");
    let (low, high) = text.split_once(',').ok_or_else(usage)?;
    let number = |text: &str| not_negative(text.trim()).map_err(|_| usage());
    Ok([number(low)?, number(high)?])
}

fn weight(text: &str) -> Result<(TaskKind, f64), String> {
    let usage = || {
        let known: Vec<&str> = TaskKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("write a type and its weight, such as sort=2; the types are {}", known.join(", "))
    };
    let (name, weight) = text.split_once('=').unwrap_or((text, "1"));
    Ok((TaskKind::of_name(name).ok_or_else(usage)?, not_negative(weight).map_err(|_| usage())?))
}
