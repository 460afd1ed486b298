//! `gswarm trace`: an execution log for trace viewers.

use crate::commands::report::inputs::{Given, Known, load};
use crate::failure::Failure;
use crate::output::{self, files::Batch, progress::Phase};
use clap::Args;
use gswarm_core::spans::{SpanMaker, write_spans};
use gswarm_show::trace::write_trace;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gswarm trace results/planned_execution_log.json --out trace.json --config config.yaml --requests requests.yaml
  gswarm trace results/planned_execution_log.json --otlp --out spans.jsonl --config config.yaml --requests requests.yaml

Open the file at chrome://tracing or in Perfetto: a track for each GPU, loads and executions on it, arrows from each
node to those that depend on it, and the queue as a counter. --otlp writes OpenTelemetry spans, for Jaeger, Grafana or
Langfuse.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TraceArgs {
    /// Execution log, JSON or JSON lines
    log: PathBuf,
    /// File to write
    #[arg(long, short, value_name = "FILE", default_value = "trace.json")]
    out: PathBuf,
    /// Write OpenTelemetry spans as OTLP JSON lines instead
    #[arg(long)]
    otlp: bool,
    #[command(flatten)]
    given: Given,
}

pub fn trace(args: &TraceArgs) -> Result<(), Failure> {
    let (mut batch, name) = Batch::beside(&args.out, "--out")?;
    let _phase = Phase::new("writing the trace", true);
    let mut known = Known::default();
    let run = load(&args.log, &args.given, &mut known)?;
    run.note_misfits();
    if args.otlp {
        let maker = known.scenario().map(|scenario| SpanMaker::of(0, scenario)).unwrap_or_default();
        batch.add(&name, |out| write_spans(&run.instance, &run.log, &maker, out))?;
    } else {
        batch.add(&name, |out| write_trace(&run.instance, &run.log, out))?;
    }
    batch.commit()?;
    output::line(&format!("Wrote {}", args.out.display()))
}
