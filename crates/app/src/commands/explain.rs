//! `gswarm explain`: why a run went as it did.

use crate::commands::report::inputs::{Given, Known, load};
use crate::failure::Failure;
use crate::output::{self, explain as text, progress::Phase};
use clap::Args;
use gswarm_core::GpuId;
use gswarm_core::explain::{self, RequestStory, SlowRequest, Timeline, Unknown};
use gswarm_core::log_file::shown;
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gswarm explain run.json --config config.yaml --requests requests.yaml
  gswarm explain run.json --node req_0007/paint --config config.yaml --requests requests.yaml
  gswarm explain run.json --request req_0007 --config config.yaml --requests requests.yaml
  gswarm explain run.json --gpu 3 --config config.yaml --requests requests.yaml
  gswarm explain run.json --idle --config config.yaml --requests requests.yaml --json

Without a question it explains the slowest request, and lists the ten slowest. It reads only the log and the inputs, so
it can explain any run, also of other programs. Without --config and --requests, the files config.* and requests.*
nearest to the log are used. docs/explain.md says how to read the answers.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// Execution log, JSON or JSON lines
    log: PathBuf,
    #[command(flatten)]
    what: WhatArgs,
    /// How many gaps, or slowest requests, to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    given: Given,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct WhatArgs {
    /// Why this node started when it did
    #[arg(long, value_name = "REQUEST/NODE")]
    node: Option<String>,
    /// Where this request's time went [default: the slowest request]
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// What this GPU did, and why it was idle
    #[arg(long, value_name = "ID")]
    gpu: Option<u32>,
    /// Why GPUs were idle, over the whole run
    #[arg(long)]
    idle: bool,
}

pub fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let phase = Phase::new("reading the log", !args.json);
    let run = load(&args.log, &args.given, &mut Known::default())?;
    drop(phase);
    run.note_misfits();
    let (instance, log) = (&run.instance, &run.log);
    let phase = Phase::new("explaining", !args.json);
    let timeline = Timeline::new(instance, log);
    let answer = match &args.what {
        WhatArgs { node: Some(name), .. } => {
            let task = explain::find_task(instance, name).map_err(unknown)?;
            let story = explain::node(&timeline, task).ok_or_else(|| never_ran("node", name))?;
            rendered(args, &story, text::node)
        }
        WhatArgs { request: Some(name), .. } => {
            let id = explain::find_request(instance, name).map_err(unknown)?;
            let story = explain::request(&timeline, id).ok_or_else(|| never_ran("request", name))?;
            rendered(args, &story, text::request)
        }
        &WhatArgs { gpu: Some(gpu), .. } => {
            let last = instance.cluster.gpus - 1;
            if gpu > last {
                return Err(Failure::input(format!("there is no GPU {gpu}; the run has GPUs 0 to {last}")));
            }
            rendered(args, &explain::gpu(&timeline, GpuId(gpu), args.top), text::gpu)
        }
        WhatArgs { idle: true, .. } => rendered(args, &explain::idle(&timeline, args.top), text::idle),
        WhatArgs { .. } => {
            let all = explain::slowest(&timeline, args.top.max(1));
            let Some(first) = all.first() else {
                let message = format!("{} has no request that completed", args.log.display());
                return Err(Failure::input(message).hint("ask about a part of it: --node, --gpu or --idle"));
            };
            let id = explain::find_request(instance, &first.request).map_err(unknown)?;
            let story =
                explain::request(&timeline, id).ok_or_else(|| never_ran("request", &first.request))?;
            let told = SlowestStory { slowest: all, slowest_request: story };
            rendered(args, &told, |told| {
                format!("{}\n{}", text::request(&told.slowest_request), text::slowest(&told.slowest))
            })
        }
    };
    drop(phase);
    output::line(answer?.trim_end())
}

/// The answer where nothing is asked.
#[derive(Serialize)]
struct SlowestStory {
    slowest_request: RequestStory,
    /// Slowest first.
    slowest: Vec<SlowRequest>,
}

fn rendered<T: Serialize>(args: &ExplainArgs, story: &T, text: fn(&T) -> String) -> Result<String, Failure> {
    if !args.json {
        return Ok(text(story));
    }
    serde_json::to_string(story).map_err(Failure::internal)
}

fn unknown(fault: Unknown) -> Failure {
    let failure = Failure::input(format!("there is no {} `{}`", fault.kind, shown(&fault.name)));
    if fault.near.is_empty() {
        return failure.hint(match fault.kind {
            "node" => "write request/node, such as req_0007/paint",
            _ => "use the ids of the requests file",
        });
    }
    failure.hint(format!("did you mean {}?", shown(&fault.near.join(", "))))
}

fn never_ran(kind: &str, name: &str) -> Failure {
    Failure::input(format!("{kind} `{}` has no execution in this log", shown(name)))
}
