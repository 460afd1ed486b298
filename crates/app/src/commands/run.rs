//! `gswarm run`: requests under one policy.

use crate::args::{ClusterArgs, InputArgs, not_negative};
use crate::beliefs::{BeliefArgs, Beliefs, not_asked};
use crate::commands::policies;
use crate::failure::Failure;
use crate::job::{self, Inputs, Job, LogFormat, Outcome};
use crate::live::ray::RayArgs;
use crate::live::{self, FailedNode};
use crate::output::{self, files::Batch, progress::Phase, unfinished};
use clap::Args;
use clap::builder::TypedValueParser;
use gswarm_core::instance::{Mode, Residency};
use gswarm_core::policy::{Objective, PolicyKind, PolicyParams, follow};
use gswarm_core::report::{Metrics, render_text, write_events};
use gswarm_core::sim::{Faults, SimOptions};
use gswarm_core::size::usual_policy;
use gswarm_core::time::MAX_SECONDS;
use gswarm_core::{GpuId, Instance, Span, Time};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

mod live_run;

const EXAMPLES: &str = "\
Examples:
  gswarm run --policy baseline --gpus 8 --config config.yaml --requests requests.yaml
  gswarm run --policy adaptive --mode online --gpus 16 --gpus-per-server 8 \\
      --config config.yaml --requests requests.yaml --out results
  gswarm run --policy adaptive --mode online --gpus 16 --objective p99 --max-collate-wait 600 \\
      --config config.yaml --requests requests.yaml
  gswarm run --policy lru --gpus 8 --fail-rate 0.01 --lose-gpu 3@600 --seed 7 \\
      --config config.yaml --requests requests.yaml --json
  gswarm run --engine ray --address auto --models my_models.py \
      --config config.yaml --requests requests.yaml --out results

Writes <policy>_scheduler.log (what happened when) and <policy>_execution_log.json (every execution) into --out.
Logs of the same policy that are there already are replaced: give each run a folder of its own to keep both. A live run
(--simulate true) begins in a folder without a journal.
Same inputs, flags and seed: same files, byte for byte. `gswarm policies` lists the policies.";

/// Arguments of `gswarm run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Who chooses what runs where; see `gswarm policies` [default: planned, or adaptive with --mode online]
    #[arg(long = "policy", short, value_name = "NAME", value_parser = policy_parser())]
    chosen: Option<PolicyKind>,
    /// Follow a plan that `gswarm plan` wrote, in place of a policy
    #[arg(long, value_name = "FILE", conflicts_with = "chosen")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    /// When requests arrive: all at the start, or at their timestamps
    #[arg(long, value_name = "MODE", default_value = "offline", value_parser = crate::args::mode_parser())]
    mode: Mode,
    /// `false`: estimate by simulation. `true`: run live, on the servers that --backends names, or on models of --models,
    /// or on a Ray cluster
    #[arg(long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
          action = clap::ArgAction::Set)]
    simulate: bool,
    /// The servers of a live run, JSON or YAML; see docs/live.md
    #[arg(long, value_name = "FILE")]
    backends: Option<PathBuf>,
    /// Folder of models that a live run serves itself where --backends names no servers; see docs/models.md [default:
    /// models]. With --engine ray a file with a callable for each model; see docs/ray.md
    #[arg(long, value_name = "DIR|FILE")]
    models: Option<PathBuf>,
    /// For every random choice
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Folder for the two log files; those of an earlier run of the same policy in it are replaced
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Form of the execution log
    #[arg(long, value_enum, default_value_t = LogFormat::Auto)]
    format: LogFormat,
    /// Print nothing but errors
    #[arg(long, short, conflicts_with_all = ["json", "verbose"])]
    quiet: bool,
    /// Print the metrics as one JSON object, and nothing else
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
    /// Print every event
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten, next_help_heading = "Cluster (each wins over the configuration's `cluster`)")]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    ray: RayArgs,
    #[command(flatten)]
    faults: FaultArgs,
    #[command(flatten)]
    beliefs: BeliefArgs,
    #[command(flatten)]
    weights: WeightArgs,
    #[command(flatten)]
    adaptive: AdaptiveArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Faults to simulate")]
struct FaultArgs {
    /// Chance that an execution fails
    #[arg(long, alias = "fail_rate", value_name = "0..1", allow_negative_numbers = true, default_value_t = 0.0, value_parser = share)]
    fail_rate: f64,
    /// Attempts at a node before its request is given up
    #[arg(long, alias = "max_attempts", value_name = "N", default_value_t = SimOptions::default().max_attempts,
          allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100))]
    max_attempts: u32,
    /// Lose a GPU at a moment, as in 3@600; may be given several times
    #[arg(long = "lose-gpu", alias = "lose_gpu", value_name = "ID@SECONDS", allow_hyphen_values = true, value_parser = loss)]
    lose_gpu: Vec<(Time, GpuId)>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Weights of the `online` policy")]
struct WeightArgs {
    /// Weight of waiting [default: 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = not_negative)]
    alpha: Option<f64>,
    /// Weight of switching models [default: 1.5]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = not_negative)]
    beta: Option<f64>,
    /// Weight of what a switch does to later tasks [default: 0.3]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = not_negative)]
    gamma: Option<f64>,
    /// Weight of load imbalance [default: 0.5]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = not_negative)]
    delta: Option<f64>,
    /// How many later tasks are looked at [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    lookahead: Option<u32>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The `adaptive` policy")]
struct AdaptiveArgs {
    /// The latency to keep low: mean, p99 or balanced (both, and few loads) [default: balanced]
    #[arg(long, value_name = "NAME", value_parser = objective_parser())]
    objective: Option<Objective>,
    /// The longest that a node may wait because nodes are collated by model; kept where the GPUs can keep it at all
    #[arg(long, alias = "max_collate_wait", value_name = "SECONDS", allow_negative_numbers = true, value_parser = not_negative)]
    max_collate_wait: Option<f64>,
}

impl AdaptiveArgs {
    /// The flags that were given.
    fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("--objective", self.objective.is_some()),
            ("--max-collate-wait", self.max_collate_wait.is_some()),
        ];
        flags.into_iter().filter_map(|(flag, given)| given.then_some(flag)).collect()
    }
}

impl WeightArgs {
    fn params(&self, seed: u64, adaptive: &AdaptiveArgs) -> PolicyParams {
        let usual = PolicyParams::default();
        PolicyParams {
            strict_plan: false,
            seed,
            objective: adaptive.objective.unwrap_or_default(),
            max_collate_wait: adaptive.max_collate_wait.map(Span::from_seconds),
            alpha: self.alpha.unwrap_or(usual.alpha),
            beta: self.beta.unwrap_or(usual.beta),
            gamma: self.gamma.unwrap_or(usual.gamma),
            delta: self.delta.unwrap_or(usual.delta),
            lookahead: self.lookahead.unwrap_or(usual.lookahead),
            rounds: usual.rounds,
        }
    }

    /// The flags that were given.
    fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("--alpha", self.alpha.is_some()),
            ("--beta", self.beta.is_some()),
            ("--gamma", self.gamma.is_some()),
            ("--delta", self.delta.is_some()),
            ("--lookahead", self.lookahead.is_some()),
        ];
        flags.into_iter().filter_map(|(flag, given)| given.then_some(flag)).collect()
    }
}

impl RunArgs {
    /// The policy that was named, or the usual one. A plan is carried out under its own name.
    fn policy(&self) -> PolicyKind {
        let usual = || if self.plan.is_some() { PolicyKind::Planned } else { usual_policy(self.mode) };
        self.chosen.unwrap_or_else(usual)
    }

    /// Whether this is a live run, and no estimate.
    fn is_live(&self) -> bool {
        self.simulate || self.ray.is_ray()
    }
}

/// Runs the requests.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    if !args.policy().supports(args.mode) {
        let (name, mode) = (args.policy().name(), args.mode);
        return Err(Failure::input(format!("policy `{name}` has no {} mode", mode.name()))
            .hint(format!("those that have it: {}", policies::names(mode))));
    }
    flags_are_used(args)?;
    args.ray.are_used()?;
    if args.backends.is_some() && !args.is_live() {
        return Err(Failure::input("--backends is for live runs, and this is an estimate")
            .hint("add --simulate true to run on these servers, or leave --backends away"));
    }
    if args.is_live() && (args.faults.fail_rate > 0.0 || !args.faults.lose_gpu.is_empty()) {
        return Err(Failure::input("--fail-rate and --lose-gpu are for estimates, and this is a live run")
            .hint("leave them away: what fails in a live run fails by itself"));
    }
    if let Some(flag) = args.beliefs.for_estimates().filter(|_| args.is_live()) {
        return Err(Failure::input(format!("{flag} is for estimates, and this is a live run"))
            .hint("leave it away: in a live run times are what they are"));
    }
    if !args.is_live() {
        live::is_not_in_use(&args.out)?;
    }
    let shown = !args.quiet && !args.json;
    let reading = Phase::new("reading the inputs", shown);
    let inputs = Inputs::read(&args.input)?;
    let scenario = if args.beliefs.times_all() {
        inputs.predicted_scenario(args.mode, args.quiet)?
    } else {
        inputs.scenario(args.mode, args.quiet)?
    };
    drop(reading);
    // Only a journal keeps the text.
    let inputs = args.is_live().then_some(inputs);
    let mut cluster = args.cluster.over(&scenario.cluster);
    let place = if args.ray.is_ray() { Some(live_run::RayPlace::join(args)?) } else { None };
    if let Some(place) = &place {
        cluster = place.joined.cluster(cluster, &scenario)?;
    }
    let preparing = Phase::new("preparing", shown);
    let mut instance = job::build(&scenario, &cluster, args.mode, args.policy())?;
    let beliefs = args.beliefs.apply(&scenario, &mut instance, args.seed)?;
    drop(preparing);
    if let Some(name) = beliefs.unused.as_ref().filter(|_| !args.quiet) {
        output::note(&format!("{} (--truth requests tries one out)", not_asked(name)));
    }
    if let Some(note) = args.beliefs.idle_means_only(&instance).filter(|_| !args.quiet) {
        output::note(note);
    }
    if shown {
        notes(args, scenario.cluster.residency)
            .iter()
            .for_each(|note| output::note(&format!("note: {note}")));
    }
    let job = job_of(args, &instance, beliefs)?;
    if let Some(inputs) = &inputs {
        let problem = live_run::Problem { inputs, scenario: &scenario, instance: &instance, cluster };
        return live_run::run_live(args, &problem, &job, place);
    }
    drop(scenario);
    let outcome = match &args.plan {
        None => job::execute(&instance, &job, shown)?,
        Some(file) => {
            let plan = job::read_plan(&instance, file)?;
            job::execute_with(&instance, &job, follow(&instance, &plan).as_mut(), shown)?
        }
    };
    let writing = Phase::new("writing", shown);
    let mut batch = Batch::new(&args.out)?;
    job::save(&mut batch, &instance, &job, &outcome, args.format)?;
    let written = batch.commit()?;
    drop(writing);
    print(args, &instance, &outcome, &written, &[])?;
    unfinished::none(&instance, &outcome.log, args.faults.max_attempts)
}

/// Refuses flags of one policy in a run of another: who gives them expects them to do something.
fn flags_are_used(args: &RunArgs) -> Result<(), Failure> {
    let flags = [(PolicyKind::Online, args.weights.given()), (PolicyKind::Adaptive, args.adaptive.given())];
    let unused = |(user, given): &(PolicyKind, Vec<&str>)| !given.is_empty() && args.policy() != *user;
    let failures = flags.iter().filter(|&of| unused(of)).map(|(user, given)| match &args.plan {
        None => unused_flags(given, args.policy(), *user),
        Some(_) => Failure::input(format!("{} does nothing in a run that follows a plan", given.join(", ")))
            .hint(format!("leave it away, or run --policy {} in place of --plan", user.name())),
    });
    failures.reduce(Failure::and).map_or(Ok(()), Err)
}

/// Flags that a policy has no use for, and the one that has.
pub fn unused_flags(given: &[&str], policy: PolicyKind, user: PolicyKind) -> Failure {
    Failure::input(format!("policy `{}` does not take {}", policy.name(), given.join(", "))).hint(format!(
        "`{}` does: run --policy {}, or leave the {} away",
        user.name(),
        user.name(),
        if given.len() == 1 { "flag" } else { "flags" }
    ))
}

/// What was asked for and has no effect.
fn notes(args: &RunArgs, configured: Option<Residency>) -> Vec<String> {
    let mut notes = Vec::new();
    let policy = args.policy();
    if args.cluster.machines.residency.or(configured) == Some(Residency::Single)
        && policy.residency(Residency::Single) != Residency::Single
    {
        notes.push(format!(
            "policy `{}` keeps several models on a GPU where memory allows; residency `single` is not used",
            policy.name()
        ));
    }
    let losses = &args.faults.lose_gpu;
    for (at, (_, gpu)) in losses.iter().enumerate() {
        if losses[..at].iter().filter(|(_, other)| other == gpu).count() == 1 {
            notes.push(format!(
                "--lose-gpu names GPU {} more than once; it is lost at the first moment",
                gpu.0
            ));
        }
    }
    notes
}

fn job_of(args: &RunArgs, instance: &Instance, beliefs: Beliefs) -> Result<Job, Failure> {
    let gpus = instance.cluster.gpus;
    if let Some((_, gpu)) = args.faults.lose_gpu.iter().find(|(_, gpu)| gpu.0 >= gpus) {
        return Err(Failure::input(format!(
            "--lose-gpu names GPU {}, and there are GPUs 0 to {}",
            gpu.0,
            gpus - 1
        )));
    }
    let faults = Faults {
        fail_rate: args.faults.fail_rate,
        seed: args.seed,
        lose: args.faults.lose_gpu.clone(),
        ..Faults::default()
    };
    Ok(Job {
        policy: args.policy(),
        params: args.weights.params(args.seed, &args.adaptive),
        sim: SimOptions { max_attempts: args.faults.max_attempts, faults, ..SimOptions::default() },
        beliefs,
    })
}

fn print(
    args: &RunArgs,
    instance: &Instance,
    outcome: &Outcome,
    written: &[PathBuf],
    failed: &[FailedNode],
) -> Result<(), Failure> {
    if args.quiet {
        return Ok(());
    }
    if args.json {
        return output::json(&report(args, instance, outcome, written, failed));
    }
    if args.verbose {
        output::stream(|mut out| write_events(instance, &outcome.log, &mut out))?;
        output::line("")?;
    }
    output::line(render_text(&outcome.metrics, Some(&outcome.summary)).trim_end())?;
    let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
    output::line(&format!("\nLogs: {}", names.join(", ")))
}

/// What `gswarm run --json` prints: the metrics, with what they are the metrics of.
#[derive(Serialize, Deserialize)]
pub struct RunReport {
    #[serde(flatten)]
    metrics: Metrics,
    policy: String,
    mode: String,
    gpu_count: u32,
    seed: u64,
    predictor: Option<String>,
    learn: bool,
    lower_bound: Option<f64>,
    gap_percent: Option<f64>,
    /// Nodes without a result, as `request/node`.
    not_done: Vec<String>,
    /// The files that were written.
    files: Vec<PathBuf>,
    /// Nodes that were given up; only a live run knows why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Vec<FailedNode>>,
}

fn report(
    args: &RunArgs,
    instance: &Instance,
    outcome: &Outcome,
    written: &[PathBuf],
    failed: &[FailedNode],
) -> RunReport {
    RunReport {
        metrics: outcome.metrics.clone(),
        policy: args.policy().name().to_owned(),
        mode: args.mode.name().to_owned(),
        gpu_count: instance.cluster.gpus,
        seed: args.seed,
        predictor: outcome.summary.predictor.clone(),
        learn: outcome.summary.learn,
        lower_bound: outcome.summary.lower_bound.map(Span::seconds),
        gap_percent: outcome.summary.gap_percent(),
        not_done: unfinished::names(instance, &outcome.log),
        files: written.to_vec(),
        failed: args.is_live().then(|| failed.to_vec()),
    }
}

pub fn policy_parser() -> impl TypedValueParser<Value = PolicyKind> {
    crate::args::choice(PolicyKind::ALL.iter().map(|&kind| (kind.name(), kind)).collect())
}

/// `mean`, `p99` or `balanced`.
pub fn objective_parser() -> impl TypedValueParser<Value = Objective> {
    crate::args::choice(Objective::ALL.iter().map(|&one| (one.name(), one)).collect())
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("give a number from 0 to 1".to_string()),
    }
}

fn loss(text: &str) -> Result<(Time, GpuId), String> {
    let usage = || "give a GPU and the seconds at which it is lost, as in 3@600".to_string();
    let (gpu, seconds) = text.split_once('@').ok_or_else(usage)?;
    let gpu = gpu.parse::<u32>().map_err(|_| usage())?;
    let seconds = not_negative(seconds).map_err(|_| usage())?;
    if seconds > MAX_SECONDS {
        return Err(format!("a moment after {MAX_SECONDS} seconds lies beyond any run"));
    }
    Ok((Time::ZERO + Span::from_seconds(seconds), GpuId(gpu)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_the_defaults() {
        use clap::CommandFactory;
        let mut command = crate::args::Cli::command();
        let help = command.find_subcommand_mut("run").unwrap().render_help().to_string();
        let usual = PolicyParams::default();
        for value in [usual.alpha, usual.beta, usual.gamma, usual.delta, f64::from(usual.lookahead)] {
            assert!(help.contains(&format!("[default: {value}]")), "{value}\n{help}");
        }
        assert!(help.contains(&format!("[default: {}]", usual.objective.name())), "{help}");
    }

    #[test]
    fn losses_are_read() {
        assert_eq!(loss("3@1.5"), Ok((Time(1_500_000), GpuId(3))));
        for bad in ["3", "@1", "3@", "x@1", "3@-1", "3@nan", "3@1e300"] {
            assert!(loss(bad).is_err(), "{bad}");
        }
    }
}
