//! The logs of a run as files.

use crate::failure::Failure;
use crate::files::Batch;
use crate::spec::LogFormat;
use gswarm_core::Instance;
use gswarm_core::log_file::{write_json, write_jsonl};
use gswarm_core::report::write_events;
use gswarm_core::run::RunOutcome;

/// Above this many executions, a log of no stated form is written line by line.
const LONG_LOG: usize = 100_000;

impl LogFormat {
    fn by_line(self, executions: usize) -> bool {
        match self {
            LogFormat::Json => false,
            LogFormat::Jsonl => true,
            LogFormat::Auto => executions > LONG_LOG,
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
    let name = &outcome.summary.policy;
    batch.add(&format!("{name}_scheduler.log"), |out| write_events(instance, &outcome.log, out))?;
    // The other form of the log would speak of an earlier run.
    if format.by_line(outcome.log.executions.len()) {
        batch.supersede(&format!("{name}_execution_log.json"));
        batch.add(&format!("{name}_execution_log.jsonl"), |out| {
            write_jsonl(instance, &outcome.log, &outcome.summary, out)
        })
    } else {
        batch.supersede(&format!("{name}_execution_log.jsonl"));
        batch.add(&format!("{name}_execution_log.json"), |out| {
            write_json(instance, &outcome.log, &outcome.summary, out)
        })
    }
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
        assert!(!LogFormat::Auto.by_line(LONG_LOG));
        assert!(LogFormat::Auto.by_line(LONG_LOG + 1));
        assert!(!LogFormat::Json.by_line(usize::MAX));
        assert!(LogFormat::Jsonl.by_line(0));
    }
}
