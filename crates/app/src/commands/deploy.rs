//! `gswarm deploy`: makes deployments, and shows, checks and compares them.

mod shown;

use crate::args::{ClusterArgs, MeasuredArgs};
use crate::failure::Failure;
use crate::job;
use crate::output::{self, files, files::Batch, terminal::Terminal};
use clap::{Args, Subcommand};
use gswarm_core::Instance;
use gswarm_core::cost::default_execution;
use gswarm_core::deploy::Demand;
use gswarm_core::deploy::file::{DemandUnit, DeploymentFile};
use gswarm_core::input::{Scenario, Source, read_config, render};
use gswarm_core::instance::Mode;
use gswarm_core::policy::PolicyKind;
use gswarm_core::{IdVec, WorkflowId};
use gswarm_run::{Observer, RunSpec, Stage, deployment_faults, read_deployment_file};
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm deploy --gpus 16 --gpus-per-server 4 --config config.yaml --requests requests.yaml
  gswarm deploy --gpus 16 --mode online --config config.yaml --requests requests.yaml --out today.yaml
  gswarm deploy --gpus 8 --rate chat=0.5 --rate draw=0.1 --config config.yaml
  gswarm deploy show deployment.yaml
  gswarm deploy check deployment.yaml --config config.yaml --requests requests.yaml
  gswarm deploy diff today.yaml tomorrow.yaml
  gswarm run --deployment deployment.yaml --config config.yaml --requests requests.yaml

Without a subcommand: makes a deployment from requests, or from rates alone, and shows it. People may change the file by hand.
See docs/deployments.md.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct DeployArgs {
    #[command(subcommand)]
    command: Option<DeployCommand>,
    #[command(flatten)]
    make: MakeArgs,
}

/// What to do with a deployment.
#[derive(Debug, Subcommand)]
enum DeployCommand {
    /// Show who is where, and what is expected of it
    Show(ShowArgs),
    /// Check a deployment against a configuration and requests: report all faults at once
    Check(CheckArgs),
    /// Show what changes from one deployment to another
    Diff(DiffArgs),
}

#[derive(Debug, Args)]
struct MakeArgs {
    /// System configuration, JSON or YAML
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Requests, JSON or YAML: a batch, a sample or a trace of the past
    #[arg(long, value_name = "FILE", required_unless_present = "rate")]
    requests: Option<PathBuf>,
    /// Requests of a workflow in a second, in place of a file of requests; repeatable
    #[arg(long, value_name = "WORKFLOW=RATE", value_parser = rate, conflicts_with = "requests")]
    rate: Vec<(String, f64)>,
    /// How the requests arrive: all at the start, or at their timestamps
    #[arg(long, value_name = "MODE", default_value = "offline", value_parser = crate::args::mode_parser())]
    mode: Mode,
    #[command(flatten)]
    measured: MeasuredArgs,
    /// The file to write: YAML, or JSON if its name ends in .json
    #[arg(long, short, value_name = "FILE", default_value = "deployment.yaml")]
    out: PathBuf,
    /// Print the deployment as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Cluster (each overrides the configuration's `cluster`)")]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The deployment
    file: PathBuf,
    /// Print it as one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The deployment
    file: PathBuf,
    /// System configuration, JSON or YAML
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Requests, JSON or YAML: every model that they use needs a replica
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct DiffArgs {
    /// The deployment that is there
    first: PathBuf,
    /// The deployment that is wanted
    second: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// `chat=0.5`.
fn rate(text: &str) -> Result<(String, f64), String> {
    let usage = || format!("`{text}` is not a workflow and its requests a second, as in chat=0.5");
    let (workflow, rate) = text.rsplit_once('=').ok_or_else(usage)?;
    let rate: f64 = rate.parse().map_err(|_| usage())?;
    let is_rate = rate.is_finite() && rate > 0.0 && !workflow.is_empty();
    if is_rate { Ok((workflow.to_owned(), rate)) } else { Err(usage()) }
}

pub fn deploy(args: &DeployArgs) -> Result<(), Failure> {
    match &args.command {
        None => make(&args.make),
        Some(DeployCommand::Show(args)) => {
            let file = read(&args.file)?;
            if args.json { output::json(&file) } else { output::line(shown::text(&file).trim_end()) }
        }
        Some(DeployCommand::Check(args)) => check(args),
        Some(DeployCommand::Diff(args)) => {
            let (first, second) = (read(&args.first)?, read(&args.second)?);
            let changes = shown::changes(&first, &second);
            if args.json {
                output::json(&changes)
            } else {
                output::line(shown::changes_text(&changes).trim_end())
            }
        }
    }
}

fn make(args: &MakeArgs) -> Result<(), Failure> {
    let config = args.config.as_deref().unwrap_or(Path::new(""));
    let (instance, demand, unit) = match &args.requests {
        Some(requests) => from_requests(args, config, requests)?,
        None => from_rates(args, config)?,
    };
    let deployment = match args.requests {
        Some(_) => gswarm_core::run::deployment(&instance),
        None => gswarm_core::deploy::first(&instance, &demand).into(),
    };
    if !deployment.fits {
        return Err(Failure::new(
            crate::failure::FailureKind::Infeasible,
            "the models that the requests use do not fit into the memory of these GPUs at once",
        )
        .hint(
            "give more GPUs (--gpus) or more memory (--gpu-memory-gb), or run a policy that switches models",
        ));
    }
    let file = DeploymentFile::of(&instance, &demand, unit, &deployment);
    let (mut batch, name) = Batch::beside(&args.out, "--out")?;
    let is_json = args.out.extension().is_some_and(|ending| ending == "json");
    let text = match is_json {
        true => format!("{:#}\n", serde_json::to_value(&file).map_err(Failure::internal)?),
        false => serde_saphyr::to_string(&file).map_err(Failure::internal)?,
    };
    batch.add(&name, |out| out.write_all(text.as_bytes()))?;
    let written = batch.commit()?;
    if args.json {
        return output::json(&file);
    }
    output::line(shown::text(&file).trim_end())?;
    written.iter().try_for_each(|path| output::line(&format!("\nWrote {}", path.display())))
}

type Made = (Instance, Demand, DemandUnit);

fn from_requests(args: &MakeArgs, config: &Path, requests: &Path) -> Result<Made, Failure> {
    let spec = RunSpec {
        config: config.to_owned(),
        requests: requests.to_owned(),
        mode: args.mode,
        calibration: args.measured.spec(),
        batching: !args.measured.no_batching,
        ..RunSpec::default()
    };
    let mut terminal = Terminal::new("", args.json, args.json);
    terminal.stage(Stage::Reading);
    let scenario = spec.load()?.scenario(&spec, &mut terminal)?;
    let cluster = args.cluster.over(&scenario.cluster);
    let instance = job::build(&scenario, &cluster, args.mode, Some(PolicyKind::Static))?;
    let demand = Demand::of(&instance);
    let arrivals = || instance.requests.iter().map(|request| request.arrival);
    let span = arrivals().max().zip(arrivals().min()).map(|(last, first)| last.since(first).seconds());
    match span.filter(|&span| args.mode == Mode::Online && span > 0.0) {
        None => Ok((instance, demand, DemandUnit::Requests)),
        Some(span) => {
            let rates = demand.flows.iter().map(|flow| (flow.workflow, flow.requests / span));
            let demand = Demand::of_rates(&instance, rates, demand.seconds.clone());
            Ok((instance, demand, DemandUnit::PerSecond))
        }
    }
}

fn from_rates(args: &MakeArgs, config: &Path) -> Result<Made, Failure> {
    let scenario = read_scenario(config)?;
    let cluster = args.cluster.over(&scenario.cluster);
    let instance = job::build(&scenario, &cluster, Mode::Online, Some(PolicyKind::Static))?;
    let mut rates = Vec::new();
    for (name, rate) in &args.rate {
        let Some(at) = scenario.workflows.iter().position(|workflow| workflow.id == *name) else {
            let known: Vec<&str> = scenario.workflows.iter().map(|workflow| workflow.id.as_str()).collect();
            return Err(Failure::input(format!("--rate: there is no workflow `{name}`"))
                .hint(format!("there are {}", known.join(", "))));
        };
        rates.push((WorkflowId::from(at), *rate));
    }
    let mut seconds: IdVec<WorkflowId, Vec<f64>> = IdVec::new();
    for (at, workflow) in scenario.workflows.iter().enumerate() {
        let mut of_nodes = Vec::new();
        for node in &workflow.nodes {
            let model = &scenario.models[node.model.index()];
            let asked = rates.iter().any(|(asked, _)| asked.index() == at);
            let takes = default_execution(model).map(gswarm_core::Span::seconds);
            if asked && takes.is_none() {
                return Err(Failure::input(format!("model `{}` gives no execution time", model.id)).hint(
                    "add `inference_time_mean`, or `token_mean` and `tokens_per_second`; or give --requests",
                ));
            }
            if let Some(spec) = instance.models.get(node.model).filter(|spec| asked && spec.starts.is_empty())
            {
                return Err(Failure::new(
                    crate::failure::FailureKind::Infeasible,
                    format!("model `{}` needs {} consecutive GPUs", spec.name, spec.gpus),
                )
                .hint("give more GPUs (--gpus) or larger servers (--gpus-per-server)"));
            }
            of_nodes.push(takes.unwrap_or(0.0));
        }
        seconds.push(of_nodes);
    }
    let demand = Demand::of_rates(&instance, rates.into_iter(), seconds);
    Ok((instance, demand, DemandUnit::PerSecond))
}

fn read_scenario(config: &Path) -> Result<Scenario, Failure> {
    let bytes = files::read(config)?;
    let name = config.display().to_string();
    job::accept(read_config(Source { name: &name, bytes: &bytes }), false)
}

/// The deployment in a file; warnings go to standard error.
fn read(path: &Path) -> Result<DeploymentFile, Failure> {
    let bytes = files::read_or(path, "check the path; `gswarm deploy` writes deployments")?;
    let name = path.display().to_string();
    let (file, warnings) =
        read_deployment_file(Source { name: &name, bytes: &bytes }).map_err(Failure::faults)?;
    if !warnings.is_empty() {
        output::note(render(&warnings).trim_end());
    }
    Ok(file)
}

fn check(args: &CheckArgs) -> Result<(), Failure> {
    let file = read(&args.file)?;
    let scenario = match &args.requests {
        None => read_scenario(&args.config)?,
        Some(requests) => {
            let (config, requests) = (args.config.clone(), requests.clone());
            let spec = RunSpec { config, requests, ..RunSpec::default() };
            let scenario = spec.load()?.scenario(&spec, &mut Terminal::new("", false, true))?;
            std::sync::Arc::unwrap_or_clone(scenario)
        }
    };
    let cluster = file.cluster().over(&scenario.cluster);
    let instance = job::build(&scenario, &cluster, Mode::Offline, Some(PolicyKind::Static))?;
    let bytes = files::read(&args.file)?;
    let name = args.file.display().to_string();
    let source = Source { name: &name, bytes: &bytes };
    match file.resolve(&instance) {
        Ok(found) => output::line(&format!(
            "{name} is valid: {} on {}",
            output::count(found.replicas.len() as u64, "replica"),
            output::count(file.gpus.into(), "GPU")
        )),
        Err(faults) => Err(Failure::faults(deployment_faults(source, &faults))
            .hint("`gswarm help CODE` explains a code; docs/deployments.md describes the file")),
    }
}
