//! The logs of a run as files.

use crate::failure::Failure;
use crate::files::Batch;
use crate::spec::LogFormat;
use gswarm_core::Instance;
use gswarm_core::log_file::{write_json, write_jsonl, write_parquet};
use gswarm_core::report::write_events;
use gswarm_core::run::RunOutcome;

/// Above this many executions, a log of no stated form is written line by line.
const LONG_LOG: usize = 100_000;

impl LogFormat {
    /// The form of a log with so many executions: its file's ending.
    fn ending(self, executions: usize) -> &'static str {
        match self {
            LogFormat::Parquet => "parquet",
            LogFormat::Jsonl => "jsonl",
            LogFormat::Auto if executions > LONG_LOG => "jsonl",
            LogFormat::Json | LogFormat::Auto => "json",
        }
    }
}

/// Writes the two logs of a run, named after its policy; they take their names when `batch` is committed.
///
/// # Errors
/// Why a file cannot be written.
pub fn save(
    batch: &mut Batch,
    instance: &Instance,
    outcome: &RunOutcome,
    format: LogFormat,
) -> Result<(), Failure> {
    save_as("", batch, instance, outcome, format)
}

/// The same, with names that begin with `prefix`.
pub(crate) fn save_as(
    prefix: &str,
    batch: &mut Batch,
    instance: &Instance,
    outcome: &RunOutcome,
    format: LogFormat,
) -> Result<(), Failure> {
    let RunOutcome { log, summary, .. } = outcome;
    let policy = format!("{prefix}{}", summary.policy);
    batch.add(&format!("{policy}_scheduler.log"), |out| write_events(instance, log, out))?;
    let ending = format.ending(log.executions.len());
    // Another form of the log would speak of an earlier run.
    for other in ["json", "jsonl", "parquet"].into_iter().filter(|&other| other != ending) {
        batch.supersede(&format!("{policy}_execution_log.{other}"));
    }
    batch.add(&format!("{policy}_execution_log.{ending}"), |out| match ending {
        "parquet" => write_parquet(instance, log, summary, out),
        "jsonl" => write_jsonl(instance, log, summary, out),
        _ => write_json(instance, log, summary, out),
    })
}

/// `1 request`, `2 requests`.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    let ending = match (number, noun.ends_with("tch")) {
        (1, _) => "",
        (_, true) => "es",
        _ => "s",
    };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_logs_are_written_line_by_line() {
        assert_eq!(LogFormat::Auto.ending(LONG_LOG), "json");
        assert_eq!(LogFormat::Auto.ending(LONG_LOG + 1), "jsonl");
        assert_eq!(LogFormat::Json.ending(usize::MAX), "json");
        assert_eq!(LogFormat::Jsonl.ending(0), "jsonl");
        assert_eq!(LogFormat::Parquet.ending(0), "parquet");
    }
}
