//! `gswarm init`: a commented configuration and requests to start from.

pub mod found;

use super::generate::keep;
use crate::failure::Failure;
use crate::output::{self, described, files::Batch};
use clap::Args;
use found::Found;
use gswarm_core::generate::Format;
use gswarm_core::schema::SchemaKind;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gswarm init                                            config.yaml and requests.yaml in this folder
  gswarm init --out work
  gswarm init --from http://127.0.0.1:8000 --out work    the models of a running server, and work/servers.yaml
  gswarm init --from models --out work                   the models of a folder (`gswarm models list`)

Asks no questions. Sizes and times of models that --from finds are guesses: `gswarm calibrate` measures them.
Existing files are kept unless --force is given.";

const CONFIG: &str = include_str!("init/config.yaml");

/// Arguments of `gswarm init`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct InitArgs {
    /// Use the models of a running server (its address) or of a folder
    #[arg(long, value_name = "URL|DIR")]
    from: Option<String>,
    /// Folder for the files
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

/// Writes the files.
pub fn init(args: &InitArgs) -> Result<(), Failure> {
    let found = args.from.as_deref().map(Found::at).transpose()?;
    let (config, requests) = match &found {
        None => (CONFIG.to_owned(), usual_requests()),
        Some(found) => (found.config(), found.requests()),
    };
    let servers = found.as_ref().and_then(Found::servers);
    let mut names = vec!["config.yaml", "requests.yaml"];
    names.extend(servers.as_ref().map(|_| "servers.yaml"));
    names.iter().try_for_each(|name| keep(&args.out.join(name), args.force))?;
    let mut batch = Batch::new(&args.out)?.replacing(args.force);
    let kinds = [SchemaKind::Config, SchemaKind::Requests];
    for (name, (kind, text)) in names.iter().zip(kinds.into_iter().zip([&config, &requests])) {
        described::add(&mut batch, name, kind, Format::Yaml, |out| out.write_all(text.as_bytes()))?;
    }
    if let Some(servers) = &servers {
        batch.add("servers.yaml", |out| out.write_all(servers.as_bytes()))?;
    }
    let paths: Vec<String> = batch.commit()?.iter().map(|path| path.display().to_string()).collect();
    described::beside(&args.out, &kinds)?;
    output::line(&format!("Wrote {}\n\nNext:", paths.join(", ")))?;
    let inputs = format!("--config {} --requests {}", paths[0], paths[1]);
    output::line(&format!("  gswarm validate {} {}", paths[0], paths[1]))?;
    match (&found, paths.get(2)) {
        (_, Some(servers)) => {
            let file = args.out.join("calibration.json");
            output::line(&format!(
                "  gswarm calibrate --backends {servers} {inputs} --out {}",
                file.display()
            ))?;
            output::line(&format!("  gswarm run --live --backends {servers} {inputs} --out results"))
        }
        (Some(found), None) => {
            output::line(&format!("  gswarm compare --mode online --gpus {} {inputs}", found.gpus()))?;
            output::line(&format!("  gswarm run --live --models {} {inputs} --out results", found.place()))
        }
        (None, None) => {
            output::line(&format!("  gswarm compare --mode online --gpus 4,8 {inputs}"))?;
            output::line(&format!("  gswarm run --mode online {inputs} --out results"))
        }
    }
}

/// Requests for the configuration that needs nothing: half a minute of traffic.
fn usual_requests() -> String {
    let mut text = String::from(
        "# Requests and their arrivals. `timestamp` is in seconds, or a date such as 2026-01-31T12:00:00Z. Optional: `priority`,\n\
         # `deadline_seconds`, and `node_execution_times` where the time of a node is known better than its model's.\n\
         requests:\n",
    );
    let workflows = ["chat", "search", "chat", "illustrate"];
    for at in 0..40 {
        let more = match at {
            0 => ", priority: 1, deadline_seconds: 30",
            4 => ", node_execution_times: {answer: 6.5}",
            _ => "",
        };
        let _ = writeln!(
            text,
            "  - {{request_id: r{at:02}, timestamp: {:.1}, workflow_id: {}, input_data: {{question: \"Question {at}\"}}{more}}}",
            f64::from(at) * 0.75,
            workflows[at as usize % workflows.len()],
        );
    }
    text
}
