//! `gswarm trace`: an execution log for trace viewers.

use crate::commands::report::inputs::{Given, Known, load};
use crate::failure::Failure;
use crate::output::{self, files::Batch, progress::Phase};
use clap::Args;
use gswarm_show::trace::write_trace;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gswarm trace results/planned_execution_log.json --out trace.json --config config.yaml --requests requests.yaml

Open the file at chrome://tracing or in Perfetto: a track for each GPU, loads and executions on it, arrows from each node
to those that wait for it, and the queue as a counter.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TraceArgs {
    /// Execution log, JSON or JSON lines
    log: PathBuf,
    /// File to write
    #[arg(long, short, value_name = "FILE", default_value = "trace.json")]
    out: PathBuf,
    #[command(flatten)]
    given: Given,
}

pub fn trace(args: &TraceArgs) -> Result<(), Failure> {
    let (mut batch, name) = Batch::beside(&args.out, "--out")?;
    let _phase = Phase::new("writing the trace", true);
    let run = load(&args.log, &args.given, &mut Known::default())?;
    run.note_misfits();
    batch.add(&name, |out| write_trace(&run.instance, &run.log, out))?;
    batch.commit()?;
    output::line(&format!("Wrote {}", args.out.display()))
}
