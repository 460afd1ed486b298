//! `gswarm resume`: continues an interrupted live run.

use crate::failure::Failure;
use crate::output::{self, terminal::Terminal};
use clap::Args;
use gswarm_core::report::render_text;
use gswarm_run::live::{self, Resume};
use gswarm_serve::embedded::EmbeddedHost;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gswarm run --live --policy planned --gpus 8 --backends servers.yaml \\
      --config config.yaml --requests requests.yaml --out results
  gswarm resume results
  gswarm resume results --retry-failed

The journal in the folder has everything that the run needs: no other flag is needed. Finished nodes are not run again;
nodes that were interrupted are.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ResumeArgs {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Servers to use in place of those the run started with, JSON or YAML
    #[arg(long, value_name = "FILE")]
    backends: Option<PathBuf>,
    /// Current address of the Ray cluster, for runs on one
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Python interpreter with Ray and gswarm, for runs on a Ray cluster
    #[arg(long, value_name = "PROGRAM", env = "GSWARM_PYTHON")]
    python: Option<String>,
    /// Also retry nodes that failed permanently
    #[arg(long, alias = "retry_failed")]
    retry_failed: bool,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

pub fn resume(args: &ResumeArgs) -> Result<(), Failure> {
    let changes = Resume {
        backends: args.backends.clone(),
        address: args.address.clone(),
        python: args.python.clone(),
        retry_failed: args.retry_failed,
    };
    if !args.quiet {
        output::tell_warnings();
    }
    let ended = live::resume(
        &args.folder,
        &changes,
        &EmbeddedHost,
        &mut Terminal::live("resumed", args.quiet, false),
    )?;
    if !args.quiet {
        output::line(render_text(&ended.outcome.metrics, Some(&ended.outcome.summary)).trim_end())?;
        let names: Vec<String> = ended.written.iter().map(|path| path.display().to_string()).collect();
        output::line(&format!("\nWritten: {}", names.join(", ")))?;
    }
    ended.verdict()
}
