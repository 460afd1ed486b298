//! `gswarm run`: requests under one policy, simulated or live.

mod flags;
mod spans;

use crate::args::{ClusterArgs, MeasuredArgs};
use crate::beliefs::BeliefArgs;
use crate::failure::{Failure, FailureKind};
use crate::output::{self, files, files::Batch, terminal::Terminal, unfinished};
use crate::policy_flags::PolicyFlags;
use clap::Args;
use flags::{FaultArgs, LiveArgs};
use gswarm_core::check::Violation;
use gswarm_core::explain::{self, SlowRequest, Timeline};
use gswarm_core::input::Source;
use gswarm_core::instance::Mode;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_core::report::{Metrics, render_text, write_events};
use gswarm_core::run::RunOutcome;
use gswarm_core::spans::SpanMaker;
use gswarm_core::{Instance, Span};
use gswarm_run::live::{self, FailedNode};
use gswarm_run::{LogFormat, Observer, RunSpec, Stage, prepare};
use gswarm_serve::embedded::EmbeddedHost;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm run --policy baseline --gpus 8 --config config.yaml --requests requests.yaml
  gswarm run --policy adaptive --mode online --gpus 16 --gpus-per-server 8 \\
      --config config.yaml --requests requests.yaml --out results
  gswarm run --policy adaptive --mode online --gpus 16 --objective p99 --max-collate-wait 600 \\
      --config config.yaml --requests requests.yaml
  gswarm run --policy lru --gpus 8 --fail-rate 0.01 --lose-gpu 3@600 --seed 7 \\
      --config config.yaml --requests requests.yaml --json
  gswarm run --policy lru --gpus 8 --config config.yaml --requests requests.yaml --print-spec > run.yaml
  gswarm run --spec run.yaml --seed 8
  gswarm run --engine ray --address auto --models my_models.py \\
      --config config.yaml --requests requests.yaml --out results

Writes <policy>_scheduler.log (what happened when) and <policy>_execution_log.json (every execution) into --out.
Logs of the same policy in that folder are replaced. A live run needs a folder without a journal.
The same inputs, flags and seed give the same files, byte for byte. `gswarm policies` lists the policies.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Run the specification in this file, JSON or YAML; flags override it. See docs/run-spec.md
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Print the specification of these flags as YAML, without running it
    #[arg(long, alias = "print_spec")]
    print_spec: bool,
    /// The policy; see `gswarm policies` [default: planned, or adaptive with --mode online]
    #[arg(long = "policy", short = 'p', short_alias = 'c', value_name = "NAME", value_parser = policy_parser())]
    chosen: Option<PolicyKind>,
    /// Follow a plan of `gswarm plan` in place of a policy
    #[arg(long, value_name = "FILE", conflicts_with = "chosen")]
    plan: Option<PathBuf>,
    /// With `static`: keep models where this deployment of `gswarm deploy` puts them
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    deployment: Option<PathBuf>,
    /// System configuration, JSON or YAML
    #[arg(long, value_name = "FILE", required_unless_present = "spec")]
    config: Option<PathBuf>,
    /// Requests, JSON or YAML
    #[arg(long, value_name = "FILE", required_unless_present = "spec")]
    requests: Option<PathBuf>,
    #[command(flatten)]
    measured: MeasuredArgs,
    /// When requests arrive: all at the start, or at their timestamps [default: offline]
    #[arg(long, value_name = "MODE", value_parser = crate::args::mode_parser())]
    mode: Option<Mode>,
    #[command(flatten)]
    live: LiveArgs,
    /// Seed of every random choice [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Folder for the logs; replaces logs of the same policy [default: .]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Format of the execution log [default: auto]
    #[arg(long, value_name = "FORM", value_parser = format_parser())]
    format: Option<LogFormat>,
    /// Write OpenTelemetry spans to a file, or send them to a collector (http://localhost:4318), as OTLP JSON
    #[arg(long, value_name = "URL|FILE")]
    otlp: Option<String>,
    /// Print nothing but errors
    #[arg(long, short, conflicts_with_all = ["json", "verbose"])]
    quiet: bool,
    /// Print only the metrics, as one JSON object
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
    /// Print every event
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten, next_help_heading = "Cluster (each overrides the configuration's `cluster`)")]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    faults: FaultArgs,
    #[command(flatten)]
    beliefs: BeliefArgs,
    #[command(flatten)]
    params: PolicyFlags,
}

/// `json`, `jsonl`, `parquet` or `auto`.
fn format_parser() -> impl clap::builder::TypedValueParser<Value = LogFormat> {
    crate::args::choice(vec![
        ("json", LogFormat::Json),
        ("jsonl", LogFormat::Jsonl),
        ("parquet", LogFormat::Parquet),
        ("auto", LogFormat::Auto),
    ])
}

pub fn policy_parser() -> impl clap::builder::TypedValueParser<Value = PolicyKind> {
    crate::args::choice(PolicyKind::ALL.iter().map(|&kind| (kind.name(), kind)).collect())
}

impl RunArgs {
    /// The specification: that of `--spec`, with the flags that were given over it.
    fn spec(&self) -> Result<RunSpec, Failure> {
        let mut spec = match &self.spec {
            Some(file) => read_spec(file, self.quiet)?,
            None => RunSpec::default(),
        };
        set(&mut spec.config, &self.config);
        set(&mut spec.requests, &self.requests);
        set(&mut spec.mode, &self.mode);
        set(&mut spec.seed, &self.seed);
        set(&mut spec.output.folder, &self.out);
        set(&mut spec.output.format, &self.format);
        spec.plan = self.plan.clone().or(spec.plan);
        spec.deployment = self.deployment.clone().or(spec.deployment);
        if self.plan.is_some() {
            spec.policy = None;
        }
        if let Some(calibration) = self.measured.spec() {
            spec.calibration = Some(calibration);
            spec.batching = !self.measured.no_batching;
        }
        spec.cluster = self.cluster.over(&spec.cluster);
        self.beliefs.apply(&mut spec.times);
        self.faults.apply(&mut spec.faults);
        self.live.apply(&mut spec)?;
        if self.plan.is_some() || (spec.plan.is_some() && self.chosen.is_none()) {
            self.params.none_beside_a_plan()?;
            return Ok(spec);
        }
        let named = spec.policy.take();
        let usual = || match spec.deployment {
            Some(_) => PolicyKind::Static,
            None => PolicyKind::usual(spec.mode),
        };
        let kind = self.chosen.or(named.as_ref().map(PolicySpec::kind)).unwrap_or_else(usual);
        let base = named.filter(|named| named.kind() == kind).map(|named| named.params());
        spec.policy = Some(self.params.over(kind, base.unwrap_or_default())?);
        if self.chosen.is_some() {
            spec.plan = None;
        }
        Ok(spec)
    }
}

/// Puts a flag that was given in its place.
pub fn set<T: Clone>(place: &mut T, given: &Option<T>) {
    if let Some(given) = given {
        place.clone_from(given);
    }
}

fn read_spec(file: &Path, quiet: bool) -> Result<RunSpec, Failure> {
    let hint = "check the path; `gswarm run ... --print-spec` prints a specification to start from";
    let (bytes, name) = (files::read_or(file, hint)?, file.display().to_string());
    let folder = file.parent().unwrap_or(Path::new(""));
    let read = RunSpec::read(Source { name: &name, bytes: &bytes }, folder);
    let (spec, warnings) = read.map_err(|faults| {
        Failure::faults(faults).hint("docs/run-spec.md describes every field; nothing was run")
    })?;
    if !warnings.is_empty() && !quiet {
        output::note(gswarm_core::input::render(&warnings).trim_end());
    }
    Ok(spec)
}

pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let spec = args.spec()?;
    let faults = spec.validate();
    if !faults.is_empty() {
        return Err(flags::failure(faults, args.spec.as_deref()));
    }
    if args.print_spec {
        let text = spec.to_yaml().map_err(|error| Failure::new(FailureKind::Internal, error))?;
        return output::print(&text);
    }
    if spec.live.is_none() {
        live::is_not_in_use(&spec.output.folder)?;
    }
    let begin = if spec.live.is_some() { Terminal::live } else { Terminal::new };
    let mut terminal = begin(spec.policy().kind().name(), args.quiet, args.json).verbose(args.verbose);
    terminal.stage(Stage::Reading);
    let materials = spec.load()?;
    if spec.live.is_some() {
        if !args.quiet && !args.json {
            output::tell_warnings();
        }
        let ended = live::run(spec, materials, &EmbeddedHost, &mut terminal)?;
        drop(terminal);
        if let Some(target) = &args.otlp {
            let maker = spans::just_now(SpanMaker::of(0, &ended.prepared.scenario), &ended.outcome.log);
            spans::tell(target, &maker, &ended.prepared.instance, &ended.outcome.log)?;
        }
        let (prepared, live) = (&ended.prepared, Some((&*ended.failed, &*ended.violations)));
        print(args, &prepared.spec, &prepared.instance, &ended.outcome, &ended.written, live)?;
        return ended.verdict();
    }
    let prepared = prepare(spec, materials, &mut terminal)?;
    let maker = SpanMaker::of(0, &prepared.scenario);
    let prepared = prepared.without_inputs();
    let outcome = prepared.simulate(&mut terminal)?.outcome;
    terminal.stage(Stage::Writing);
    let mut batch = Batch::new(&prepared.spec.output.folder)?;
    gswarm_run::output::save(&mut batch, &prepared.instance, &outcome, prepared.spec.output.format)?;
    let written = batch.commit()?;
    if let Some(target) = &args.otlp {
        spans::tell(target, &maker, &prepared.instance, &outcome.log)?;
    }
    drop(terminal);
    print(args, &prepared.spec, &prepared.instance, &outcome, &written, None)?;
    unfinished::none(&prepared.instance, &outcome.log, prepared.spec.faults.max_attempts)
}

/// What went wrong in a live run: the nodes that were given up, and the rules that its log breaks.
type Troubles<'t> = (&'t [FailedNode], &'t [Violation]);

fn print(
    args: &RunArgs,
    spec: &RunSpec,
    instance: &Instance,
    outcome: &RunOutcome,
    written: &[PathBuf],
    live: Option<Troubles<'_>>,
) -> Result<(), Failure> {
    if args.quiet {
        return Ok(());
    }
    if args.json {
        return output::json(&report(spec, instance, outcome, written, live));
    }
    // A live run has told it while it ran.
    if args.verbose && live.is_none() {
        output::stream(|mut out| write_events(instance, &outcome.log, &mut out))?;
        output::line("")?;
    }
    output::line(render_text(&outcome.metrics, Some(&outcome.summary)).trim_end())?;
    output::line(&format!("\n{}", output::explain::slowest(&slow(instance, outcome)).trim_end()))?;
    let names: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
    output::line(&format!("\nLogs: {}", names.join(", ")))
}

/// The slowest requests, for the report of a run.
fn slow(instance: &Instance, outcome: &RunOutcome) -> Vec<SlowRequest> {
    explain::slowest(&Timeline::new(instance, &outcome.log), explain::SLOWEST)
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
    /// The slowest requests, slowest first.
    #[serde(default)]
    slowest: Vec<SlowRequest>,
    /// Nodes without a result, as `request/node`.
    not_done: Vec<String>,
    /// The files that were written.
    files: Vec<PathBuf>,
    /// Nodes that were given up; only a live run knows why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<Vec<FailedNode>>,
    /// The rules that the log of a live run breaks: none, unless gswarm is at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    violations: Option<Vec<String>>,
}

fn report(
    spec: &RunSpec,
    instance: &Instance,
    outcome: &RunOutcome,
    written: &[PathBuf],
    live: Option<Troubles<'_>>,
) -> RunReport {
    RunReport {
        metrics: outcome.metrics.clone(),
        policy: outcome.summary.policy.clone(),
        mode: spec.mode.name().to_owned(),
        gpu_count: instance.cluster.gpus,
        seed: spec.seed,
        predictor: outcome.summary.predictor.clone(),
        learn: outcome.summary.learn,
        lower_bound: outcome.summary.lower_bound.map(Span::seconds),
        gap_percent: outcome.summary.gap_percent(),
        slowest: slow(instance, outcome),
        not_done: unfinished::names(instance, &outcome.log),
        files: written.to_vec(),
        failed: live.map(|(failed, _)| failed.to_vec()),
        violations: live.map(|(_, violations)| violations.iter().map(ToString::to_string).collect()),
    }
}
