//! A run as OpenTelemetry spans, for `--otlp`: into a file, or to a collector.

use crate::commands::model_server::runtime;
use crate::failure::{Failure, FailureKind};
use crate::output::files::Batch;
use gswarm_core::Instance;
use gswarm_core::log::ExecutionLog;
use gswarm_core::spans::{SpanMaker, write_spans};
use gswarm_exec::telemetry::{SpanTarget, post};
use std::time::{SystemTime, UNIX_EPOCH};

/// The same maker for a run that has just ended, whose times are real ones.
pub fn just_now(maker: SpanMaker, log: &ExecutionLog) -> SpanMaker {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let last = log.executions.iter().map(|one| one.end.0).max().unwrap_or(0);
    let run = u64::try_from(now).unwrap_or(0);
    SpanMaker { run, epoch: run.saturating_sub(last), ..maker }
}

/// Writes or sends the spans of a run.
pub fn tell(target: &str, maker: &SpanMaker, instance: &Instance, log: &ExecutionLog) -> Result<(), Failure> {
    match SpanTarget::of(target) {
        SpanTarget::File(path) => {
            let (mut batch, name) = Batch::beside(&path, "--otlp")?;
            batch.add(&name, |out| write_spans(instance, log, maker, out))?;
            batch.commit().map(drop)
        }
        SpanTarget::Http(url) => {
            let mut lines = Vec::new();
            let written = write_spans(instance, log, maker, &mut lines);
            written.map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
            let sent = runtime(true)?.block_on(post(&url, &lines));
            sent.map_err(|why| {
                Failure::input(format!("--otlp: {why}")).hint("the logs of the run are complete")
            })
        }
    }
}
