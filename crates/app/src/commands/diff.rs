//! `gswarm diff`: two logs side by side.

use crate::commands::report::inputs::{Given, Known, Loaded, load};
use crate::failure::Failure;
use crate::output::{self, diff as text, progress::Phase};
use clap::Args;
use gswarm_core::check::check;
use gswarm_core::diff::{Diff, RunSide, diff as differences};
use serde::Serialize;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm diff results/baseline_execution_log.json results/planned_execution_log.json \\
      --config work/config.yaml --requests work/requests.yaml
  gswarm diff monday/run.jsonl tuesday/run.jsonl --top 20
  gswarm diff a.json b.json --json

Requests and nodes are matched by their ids, so that any two runs can be compared: other policies, other GPUs, simulated
or real. Without --config and --requests, the files config.* and requests.* nearest to each log are used.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    /// The baseline run: an execution log, JSON or JSON lines
    first: PathBuf,
    /// The run to compare
    second: PathBuf,
    /// Number of requests to list as faster, and as slower
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    given: Given,
}

pub fn diff(args: &DiffArgs) -> Result<(), Failure> {
    let phase = Phase::new("reading the logs", !args.json);
    let mut known = Known::default();
    let first = load(&args.first, &args.given, &mut known)?;
    let second = load(&args.second, &args.given, &mut known)?;
    drop(phase);
    for (path, run) in [(&args.first, &first), (&args.second, &second)] {
        if let Some((count, why)) = &run.misfits {
            let found = output::count(*count as u64, "mismatch");
            let message = format!("{found} between {} and these inputs: {why}", path.display());
            return Err(
                Failure::input(message).hint("pass the inputs of the log with --config and --requests")
            );
        }
    }
    let phase = Phase::new("comparing", !args.json);
    let found = differences(side(&first), side(&second), args.top).ok_or_else(|| {
        Failure::input("the two logs have no request in common")
            .hint("both logs must come from the same --config and --requests")
    })?;
    let names = [label(&args.first, &first), label(&args.second, &second)];
    let faults = [&first, &second].map(|run| check(&run.instance, &run.file).len());
    drop(phase);
    for (path, faults) in [&args.first, &args.second].into_iter().zip(faults) {
        if faults > 0 {
            let found = output::count(faults as u64, "violation");
            output::note(&format!("note: {} has {found}: `gswarm check` lists them", path.display()));
        }
    }
    if !args.json {
        return output::line(text::diff(&found, &names).trim_end());
    }
    let [first, second] = [(&args.first, 0), (&args.second, 1)].map(|(log, at)| ComparedLog {
        log,
        label: &names[at],
        violations: faults[at],
    });
    output::json(&DiffReport { first, second, found: &found })
}

/// What `gswarm diff --json` prints.
#[derive(Serialize)]
struct DiffReport<'a> {
    first: ComparedLog<'a>,
    second: ComparedLog<'a>,
    #[serde(flatten)]
    found: &'a Diff,
}

#[derive(Serialize)]
struct ComparedLog<'a> {
    log: &'a Path,
    label: &'a str,
    violations: usize,
}

fn side(run: &Loaded) -> RunSide<'_> {
    RunSide { instance: &run.instance, log: &run.log }
}

/// Name of a run: its policy and GPUs, or its file if the log does not say.
fn label(path: &Path, run: &Loaded) -> String {
    let gpus = output::count(u64::from(run.instance.cluster.gpus), "GPU");
    match &run.file.claims.policy {
        Some(policy) => format!("{policy}, {gpus}"),
        None => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    }
}
