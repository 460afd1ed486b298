//! `gswarm import`: converts existing workloads into a configuration and requests.

use super::generate::keep;
use crate::failure::Failure;
use crate::job;
use crate::output::{self, count, described, files};
use clap::Args;
use clap::builder::TypedValueParser;
use gswarm_core::generate::{Format, write_config, write_scenario_requests};
use gswarm_core::input::document::calendar;
use gswarm_core::input::{MAX_GB, Scenario, Source, read_config, render};
use gswarm_core::schema::SchemaKind;
use gswarm_core::time::MAX_SECONDS;
use gswarm_import::{ImportKind, ImportOptions, Imported, Moment, TraceTarget, import as read, sizes};
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Kinds:
  comfyui     workflows, in the format of the editor or of the API; subgraphs are expanded
  dify        apps (DSL): branches need --choose or --branch, iterations --count
  wfcommons   WfFormat 1.4 and 1.5
  azure, mooncake, burstgpt, gentd26, openai-log
              traces: arrivals and tokens, joined with --workflow or with a workflow of one node
  gswarm-log  execution logs, of gswarm or of the published programs

Examples:
  gswarm import comfyui flux.json --requests 20 --every 5s --out work
  gswarm import dify app.yml --choose 'Is it long?=true' --branch 1721118545228=0.3 --count Chapters=12 --out work
  gswarm import wfcommons montage.json --out work
  gswarm import azure AzureLLMInferenceTrace_code.csv --from 10min --until 20min --sample 10% --out work
  gswarm import mooncake trace.jsonl --compress 10 --workflow config.yaml#chat --out work
  gswarm import gentd26 requests.csv basemodel_load_ms.csv --compress 20 --out work
  gswarm import gswarm-log baseline_execution_log.json --workflow config.yaml --out work

import.md in the folder lists every assumption about what the files do not say. What gswarm cannot express is an
error.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// What the files are
    #[arg(value_name = "KIND", value_parser = kind_parser())]
    kind: ImportKind,
    /// The files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Folder for config, requests and import.md
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
    /// Format of configuration and requests
    #[arg(long, value_name = "FORM", default_value = "yaml", value_parser = format_parser())]
    format: Format,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    workflows: WorkflowArgs,
    #[command(flatten)]
    traces: TraceArgs,
}

/// What workflow files lack.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workflows (comfyui, dify, wfcommons)")]
struct WorkflowArgs {
    /// Requests of each workflow
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,
    /// Time between requests: seconds, or 90s, 20min
    #[arg(long, value_name = "TIME", default_value = "0", allow_hyphen_values = true, value_parser = duration)]
    every: f64,
    /// Time of a node, by its id, title or class; repeatable
    #[arg(long = "time", value_name = "NODE=SECONDS", value_parser = node_seconds)]
    times: Vec<(String, f64)>,
    /// Sizes of model files: CSV with the columns `file` and `memory_gb` or `bytes`
    #[arg(long, value_name = "FILE")]
    sizes: Option<PathBuf>,
    /// The case that a branch takes (dify); repeatable
    #[arg(long = "choose", value_name = "NODE=CASE", value_parser = pair)]
    choices: Vec<(String, String)>,
    /// The probabilities of the cases of a branch, in order (dify); repeatable
    #[arg(long = "branch", value_name = "NODE=P[,P...]", value_parser = shares)]
    branches: Vec<(String, Shares)>,
    /// How often an iteration or loop runs (dify); repeatable
    #[arg(long = "count", value_name = "NODE=N", value_parser = node_count)]
    counts: Vec<(String, u32)>,
    /// A tool that calls a model (dify); repeatable
    #[arg(long = "call", value_name = "NODE=MODEL", value_parser = pair)]
    calls: Vec<(String, String)>,
}

/// How to convert a trace.
#[derive(Debug, Args)]
#[command(next_help_heading = "Traces")]
struct TraceArgs {
    /// Workflow that each row runs; for a log, its configuration
    #[arg(long, value_name = "FILE#ID")]
    workflow: Option<String>,
    /// Compress time: requests arrive this many times as fast as recorded
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, allow_negative_numbers = true, value_parser = factor)]
    compress: f64,
    /// Requests per second, at random times, for datasets without times (sharegpt) [default: all arrive at the start]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = factor)]
    rate: Option<f64>,
    /// Simulate a prefix cache of this many blocks of 512 tokens (mooncake)
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u64).range(1..))]
    prefix_cache: Option<u64>,
    /// Skip rows before this: a time after the first row, such as 90s or 2h, or a date
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Moment>,
    /// Skip rows from this time on
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Moment>,
    /// Share of the rows to keep, such as 10% or 0.1
    #[arg(long, value_name = "SHARE", default_value = "100%", allow_negative_numbers = true, value_parser = share)]
    sample: f64,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// Output speed of models without one of their own
    #[arg(long, value_name = "N", default_value_t = 50.0, allow_negative_numbers = true, value_parser = factor)]
    tokens_per_second: f64,
    /// Speed at which prompts are read
    #[arg(long, value_name = "N", default_value_t = 5000.0, allow_negative_numbers = true, value_parser = factor)]
    prompt_tokens_per_second: f64,
}

/// Probabilities of the cases of a branch.
#[derive(Clone, Debug)]
struct Shares(Vec<f64>);

/// Reads the files and writes the result.
pub fn import(args: &ImportArgs) -> Result<(), Failure> {
    let ending = if args.format == Format::Json { "json" } else { "yaml" };
    let names = [format!("config.{ending}"), format!("requests.{ending}"), "import.md".to_owned()];
    for name in &names {
        keep(&args.out.join(name), args.force)?;
    }
    let mut texts = Vec::new();
    for path in &args.files {
        texts.push((path.display().to_string(), files::read(path)?));
    }
    let sources: Vec<Source<'_>> = texts.iter().map(|(name, bytes)| Source { name, bytes }).collect();
    let made = read(args.kind, &sources, &options(args)?).map_err(|found| {
        Failure::input(format!("{} cannot be imported\n{}", listed(&args.files), render(&found)))
    })?;
    let mut batch = files::Batch::new(&args.out)?.replacing(args.force);
    let (scenario, format) = (&made.scenario, args.format);
    let kinds = [SchemaKind::Config, SchemaKind::Requests];
    described::add(&mut batch, &names[0], kinds[0], format, |out| write_config(scenario, format, out))?;
    described::add(&mut batch, &names[1], kinds[1], format, |out| {
        write_scenario_requests(scenario, format, out)
    })?;
    batch.add(&names[2], |out| out.write_all(page(args, &made).as_bytes()))?;
    let paths = batch.commit()?;
    described::beside(&args.out, &kinds)?;
    tell(args, &made, &paths)
}

fn options(args: &ImportArgs) -> Result<ImportOptions, Failure> {
    let (workflows, traces) = (&args.workflows, &args.traces);
    Ok(ImportOptions {
        sizes: match &workflows.sizes {
            Some(path) => {
                let (name, bytes) = (path.display().to_string(), files::read(path)?);
                sizes(Source { name: &name, bytes: &bytes }).map_err(|found| {
                    Failure::input(format!("--sizes {name} cannot be read\n{}", render(&found)))
                })?
            }
            None => Vec::new(),
        },
        times: workflows.times.clone(),
        choices: workflows.choices.clone(),
        branches: workflows.branches.iter().map(|(name, shares)| (name.clone(), shares.0.clone())).collect(),
        counts: workflows.counts.clone(),
        calls: workflows.calls.clone(),
        requests: workflows.requests,
        every: workflows.every,
        rate: traces.rate,
        prefix_cache: traces.prefix_cache.map(|blocks| usize::try_from(blocks).unwrap_or(usize::MAX)),
        compress: traces.compress,
        from: traces.from,
        until: traces.until,
        sample: traces.sample,
        seed: traces.seed,
        workflow: traces.workflow.as_deref().map(target).transpose()?,
        tokens_per_second: traces.tokens_per_second,
        prompt_tokens_per_second: traces.prompt_tokens_per_second,
    })
}

/// `FILE#ID`, or a file whose name has a `#` in it.
fn target(named: &str) -> Result<TraceTarget, Failure> {
    let (path, workflow) = match named.rsplit_once('#') {
        Some((path, id)) if !Path::new(named).exists() => (path, Some(id.to_owned())),
        _ => (named, None),
    };
    let bytes = files::read(Path::new(path))?;
    let scenario: Scenario = job::accept(read_config(Source { name: path, bytes: &bytes }), false)?;
    Ok(TraceTarget { scenario, workflow, named: named.to_owned() })
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn sizes_of(made: &Imported) -> String {
    let Scenario { models, workflows, requests, .. } = &made.scenario;
    format!(
        "{} of {}, with {}",
        count(requests.len() as u64, "request"),
        count(workflows.len() as u64, "workflow"),
        count(models.len() as u64, "model")
    )
}

/// What `import.md` says.
fn page(args: &ImportArgs, made: &Imported) -> String {
    let mut text = format!("# Imported: {} ({})\n\n", listed(&args.files), args.kind.name());
    text.push_str(&format!("{}.\n\n## What was assumed\n\n", sizes_of(made)));
    made.assumptions.iter().for_each(|assumption| text.push_str(&format!("- {assumption}.\n")));
    text
}

fn tell(args: &ImportArgs, made: &Imported, paths: &[PathBuf]) -> Result<(), Failure> {
    output::line(&format!("{} from {}", sizes_of(made), listed(&args.files)))?;
    output::line("\nAssumed:")?;
    for assumption in &made.assumptions {
        let text = output::wrapped(assumption, 4, output::width());
        output::line(&format!("  - {}", text.trim_start()))?;
    }
    let [config, requests, page] = [0, 1, 2].map(|at| paths[at].display().to_string());
    output::line(&format!("\nWrote {config}, {requests} and {page}"))?;
    let inputs = format!("--config {config} --requests {requests}");
    if args.kind == ImportKind::GswarmLog {
        return output::line(&format!("Next: gswarm check {} {inputs}", listed(&args.files)));
    }
    let gpus = made.scenario.models.iter().map(|model| model.gpus_required).max().unwrap_or(1).max(4);
    let (policy, mode) = if args.kind.is_trace() { ("adaptive", " --mode online") } else { ("planned", "") };
    output::line(&format!("Next: gswarm run --policy {policy} --gpus {gpus}{mode} {inputs}"))
}

fn kind_parser() -> impl TypedValueParser<Value = ImportKind> {
    crate::args::choice(ImportKind::ALL.iter().map(|&kind| (kind.name(), kind)).collect())
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    crate::args::choice(vec![("yaml", Format::Yaml), ("json", Format::Json)])
}

/// `NODE=VALUE`, split at the last `=`: titles may contain one.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("`{text}` is not of the form NODE=VALUE")),
    }
}

fn node_seconds(text: &str) -> Result<(String, f64), String> {
    let (name, value) = pair(text)?;
    let seconds = duration(&value)?;
    if seconds > 0.0 { Ok((name, seconds)) } else { Err("give a time above zero".to_owned()) }
}

fn node_count(text: &str) -> Result<(String, u32), String> {
    let (name, value) = pair(text)?;
    match value.parse::<u32>() {
        Ok(count) if count <= 10_000 => Ok((name, count)),
        _ => Err(format!("`{value}` is not a whole number from 0 to 10000")),
    }
}

fn shares(text: &str) -> Result<(String, Shares), String> {
    let (name, value) = pair(text)?;
    Ok((name, Shares(value.split(',').map(probability).collect::<Result<_, _>>()?)))
}

/// `30%` or `0.3`.
fn probability(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    match number.trim().parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&(value / unit)) => Ok(value / unit),
        _ => Err(format!("`{text}` is not a share: write 30% or 0.3")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    probability(text)
        .and_then(|share| if share > 0.0 { Ok(share) } else { Err("give a share above zero".to_owned()) })
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (1e-6..=MAX_GB).contains(&value) => Ok(value),
        _ => Err(format!("give a number above zero and at most {MAX_GB}")),
    }
}

fn duration(text: &str) -> Result<f64, String> {
    let seconds = match text.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => text
            .parse::<jiff::SignedDuration>()
            .map_err(|_| "give seconds, or a time such as 90s, 20min or 2h".to_owned())?
            .as_secs_f64(),
    };
    if seconds.is_finite() && (0.0..=MAX_SECONDS).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("give a time from 0 to {MAX_SECONDS} seconds"))
    }
}

fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(seconds) = duration(text) {
        return Ok(Moment::Offset(seconds));
    }
    calendar(text)
        .map(Moment::Date)
        .map_err(|_| "give a time after the first row, such as 90s, or a date".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        assert_eq!(pair("a=b=c"), Ok(("a=b".to_owned(), "c".to_owned())));
        assert!(pair("a").is_err() && pair("=b").is_err() && pair("a=").is_err());
        assert_eq!(probability("30%"), Ok(0.3));
        assert!(probability("130%").is_err() && share("0").is_err() && probability("x").is_err());
        assert_eq!(moment("2h"), Ok(Moment::Offset(7200.0)));
        assert_eq!(moment("1970-01-01T00:00:01"), Ok(Moment::Date(1_000_000)));
        assert!(moment("soon").is_err() && node_count("a=-1").is_err() && node_seconds("a=0").is_err());
        assert!(factor("0").is_err() && factor("nan").is_err() && factor("10") == Ok(10.0));
    }
}
