//! `gswarm tasks schedule --compare`: all policies on the same workloads, over seeds and loads.

use super::{ScheduleArgs, unpredicted};
use crate::args::{Seeds, seeds};
use crate::commands::tasks::generate::{refused, ungenerated, unprofiled};
use crate::failure::{Failure, FailureKind};
use crate::output::progress::{Bar, Phase};
use crate::output::{self, files, table};
use clap::Args;
use gswarm_learn::{FitSettings, Predictor, PredictorKind};
use gswarm_tasks::profile::HardwareProfile;
use gswarm_tasks::{
    CompareError, CompareOptions, Estimates, TaskComparison, TaskPolicy, Workload, WorkloadError,
    WorkloadOptions, compare, generate, predict, teach,
};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What to compare.
#[derive(Debug, Args)]
pub struct CompareTasksArgs {
    /// Compare all policies on generated tasks
    #[arg(long, conflicts_with_all = ["tasks", "json", "policy", "seed"])]
    compare: bool,
    /// Seeds of the workloads [default: 1..10]
    #[arg(long, value_name = "FIRST..LAST", value_parser = seeds)]
    seeds: Option<Seeds>,
    /// Loads, as shares of the machine's capacity [default: 0.5,0.7,0.8,0.9,0.95,1.5]
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = crate::args::not_negative)]
    loads: Option<Vec<f64>>,
    /// Tasks of each workload [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: Option<u32>,
    /// Give policies the estimates of the hardware profile, without predictors
    #[arg(long, conflicts_with = "predictor")]
    bare: bool,
}

/// The loads that are compared at unless others are named.
const LOADS: [f64; 6] = [0.5, 0.7, 0.8, 0.9, 0.95, 1.5];

impl CompareTasksArgs {
    /// Whether that is what is asked for. Flags that say how to compare do nothing elsewhere.
    pub fn wanted(&self) -> Result<bool, Failure> {
        let flags = [
            ("--seeds", self.seeds.is_some()),
            ("--loads", self.loads.is_some()),
            ("--count", self.count.is_some()),
            ("--bare", self.bare),
        ];
        match flags.into_iter().find(|&(_, given)| given && !self.compare) {
            Some((flag, _)) => Err(Failure::input(format!("{flag} has no effect without --compare"))
                .hint("remove it, or use --compare in place of --tasks")),
            None => Ok(self.compare),
        }
    }
}

/// The seed of the tasks that predictors are trained on, far from any seed that a user would pick.
const HISTORY: u64 = 1 << 40;

/// Runs, prints and writes the comparison.
pub fn run(args: &ScheduleArgs, profile: &HardwareProfile, given: Vec<Predictor>) -> Result<(), Failure> {
    let mut seeds = args.compare.seeds.as_ref().map_or_else(|| (1..=10).collect(), |seeds| seeds.0.clone());
    seeds.sort_unstable();
    seeds.dedup();
    let count = args.compare.count.unwrap_or(10_000);
    if seeds.iter().any(|&seed| seed >= HISTORY) {
        return Err(Failure::input(format!("seeds are below {HISTORY}")).hint("as in --seeds 1..10"));
    }
    let workload = WorkloadOptions { tasks: count, gpus: args.gpus, ..WorkloadOptions::default() };
    let from = args.hardware.as_deref();
    let predictors =
        if args.compare.bare || !given.is_empty() { given } else { train(args, &workload, profile)? };
    if !predictors.is_empty() {
        // What predictors ask for is the same of every task: one tells whether they will do.
        let one = WorkloadOptions { tasks: 1, ..workload.clone() };
        let one = generate(&one, profile).map_err(|error| unmade(from, error))?.workload;
        let bare = Estimates::of_profile(&one, profile).map_err(|error| unprofiled(from, &error))?;
        predict(&one, &bare, &predictors).map_err(|error| unpredicted(args, &predictors, &error))?;
    }
    let bare =
        |workload: &Workload| Estimates::of_profile(workload, profile).map_err(|error| error.to_string());
    let estimate = |workload: &Workload| -> Result<Estimates, String> {
        let bare = bare(workload)?;
        if predictors.is_empty() {
            return Ok(bare);
        }
        predict(workload, &bare, &predictors).map_err(|error| error.to_string())
    };
    let options = CompareOptions {
        workload,
        loads: args.compare.loads.clone().unwrap_or_else(|| LOADS.to_vec()),
        seeds,
        policies: TaskPolicy::ALL.to_vec(),
        seconds_per_joule: args.energy_weight,
    };
    let comparing = Mutex::new(Bar::of("comparing", "runs", true));
    let done = |runs: usize, of: usize| {
        comparing.lock().unwrap_or_else(PoisonError::into_inner).update(runs, of);
    };
    let found = compare(&options, profile, &estimate, &done).map_err(|error| match error {
        CompareError::Generate(error) => unmade(from, error),
        CompareError::Predict(error) => Failure::input(error),
        error @ (CompareError::Engine { .. } | CompareError::Violations { .. }) => {
            Failure::new(FailureKind::Internal, error.to_string())
        }
    })?;
    drop(comparing);
    let mut batch = files::Batch::new(&args.out)?;
    batch.add("policy_comparison.csv", |out| write(&found, out))?;
    let paths = batch.commit()?;
    for load in found.loads() {
        let (seeds, tasks) = (options.seeds.len() as u64, u64::from(count));
        output::line(&format!(
            "Load {}, {} of {}",
            if load < 1e15 { load.to_string() } else { format!("{load:e}") },
            output::count(seeds, "seed"),
            output::count(tasks, "task")
        ))?;
        output::line(&rendered(&found, load))?;
        output::line(&verdict(&found, load))?;
    }
    output::line(&format!("Wrote {}", paths[0].display()))
}

/// Why there are no tasks to compare on; their options have other names here.
fn unmade(profile: Option<&Path>, error: WorkloadError) -> Failure {
    let called = |option| match option {
        "load" => "loads",
        "tasks" => "count",
        _ => option,
    };
    ungenerated(
        profile,
        &match error {
            WorkloadError::Option { code, option, message } => {
                WorkloadError::Option { code, option: called(option), message }
            }
            other => other,
        },
    )
}

/// Trains predictors on tasks of a seed that is not compared.
fn train(
    args: &ScheduleArgs,
    workload: &WorkloadOptions,
    profile: &HardwareProfile,
) -> Result<Vec<Predictor>, Failure> {
    let options = WorkloadOptions { tasks: 10_000, seed: HISTORY, ..workload.clone() };
    let from = args.hardware.as_deref();
    let _teaching = Phase::new("training predictors on other tasks", true);
    let history = generate(&options, profile).map_err(|error| unmade(from, error))?.workload;
    let bare = Estimates::of_profile(&history, profile).map_err(|error| unprofiled(from, &error))?;
    teach(&history, &bare, &FitSettings::new(PredictorKind::GradientBoosting))
        .map_err(|faults| refused(&faults))
}

fn rendered(found: &TaskComparison, load: f64) -> String {
    let header = [
        "policy",
        "makespan s",
        "+-",
        "/ clairvoyant",
        "/ bound",
        "/ round_robin",
        "mean flow s",
        "kJ",
        "best on",
        "us a task",
    ];
    let robin = found.summary(load, TaskPolicy::RoundRobin).map_or(f64::NAN, |one| one.makespan);
    let rows = found.policies().into_iter().filter_map(|policy| {
        let one = found.summary(load, policy)?;
        Some(vec![
            policy.name().to_string(),
            format!("{:.3}", one.makespan),
            format!("{:.3}", one.deviation),
            format!("{:.4}", one.to_clairvoyant),
            format!("{:.4}", one.to_bound),
            format!("{:.2}x", robin / one.makespan),
            format!("{:.4}", one.flow),
            format!("{:.1}", one.joules / 1e3),
            format!("{}/{}", one.best_on, one.seeds),
            format!("{:.1}", one.decision_us),
        ])
    });
    table::table(&header, 1, rows)
}

/// The winner, and whether learned policies lose to a constant rule.
fn verdict(found: &TaskComparison, load: f64) -> String {
    let of = |policy| found.summary(load, policy).map_or(f64::INFINITY, |one| one.makespan);
    let others = found.policies().into_iter().filter(|&policy| policy != TaskPolicy::Clairvoyant);
    let best = others.min_by(|&a, &b| of(a).total_cmp(&of(b)));
    let constants = [TaskPolicy::GpuOnly, TaskPolicy::CpuOnly];
    let losers = [TaskPolicy::Learned, TaskPolicy::QLearning].into_iter().filter_map(|policy| {
        let beaten = constants.into_iter().find(|&constant| of(constant) < of(policy))?;
        Some(format!(" {} loses to the constant {}.", policy.name(), beaten.name()))
    });
    let text: String = losers.collect();
    format!(
        "Shortest on average without knowing the times: {}.{text}\n",
        best.map_or("nobody", TaskPolicy::name)
    )
}

/// `policy_comparison.csv`: a row a run.
pub fn write(found: &TaskComparison, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "load,seed,policy,makespan_seconds,bound_seconds,last_arrival_seconds,mean_flow_seconds,p99_flow_seconds,\
         utilisation,gpu_balance,link_utilisation,on_cpu,on_gpu,cut,energy_joules,schedule_us_per_task"
    )?;
    for row in &found.rows {
        let metrics = &row.metrics;
        let [cpu, gpu, cut] = metrics.placed;
        writeln!(
            out,
            "{},{},{},{:.6},{:.6},{:.6},{:.6},{:.6},{:.4},{:.4},{:.4},{cpu},{gpu},{cut},{:.3},{:.2}",
            row.load,
            row.seed,
            row.policy.name(),
            metrics.makespan.seconds(),
            row.bound,
            metrics.last_arrival.seconds(),
            metrics.mean_flow.seconds(),
            metrics.p99_flow.seconds(),
            metrics.utilisation,
            metrics.gpu_balance,
            metrics.link_utilisation,
            metrics.joules,
            row.decision_us,
        )?;
    }
    Ok(())
}
