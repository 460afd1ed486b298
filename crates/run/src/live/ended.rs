//! The end of a live run: its log is checked and written, and the run is judged.

use super::failed::{self, FailedNode, failed};
use super::results;
use crate::failure::{Failure, FailureKind};
use crate::files;
use crate::observe::{Observer, Stage};
use crate::output;
use crate::prepare::Prepared;
use gswarm_core::check::{Violation, check_log, report as render_violations};
use gswarm_core::run::RunOutcome;
use gswarm_exec::drive::FinishedRun;
use std::path::{Path, PathBuf};

/// The prefix of logs that fail their check: they are kept as evidence, under names that cannot be mistaken for valid
/// logs.
pub const REJECTED: &str = "rejected_";

fn is_rejected(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(REJECTED))
}

/// What a live run left.
pub struct Ended {
    /// The run as it was prepared.
    pub prepared: Prepared,
    /// The log, measured.
    pub outcome: RunOutcome,
    /// The files that were written.
    pub written: Vec<PathBuf>,
    /// The nodes that were given up.
    pub failed: Vec<FailedNode>,
    /// The file of results.
    pub results: PathBuf,
    /// Violations in its log. A log with violations is written under names that begin with [`REJECTED`].
    pub violations: Vec<Violation>,
}

impl Ended {
    /// How the run is to be judged: its log keeps the rules, and all requests completed.
    ///
    /// # Errors
    /// Violations of the log, which are bugs in gswarm, and failed requests.
    pub fn verdict(&self) -> Result<(), Failure> {
        let failed_requests = self.outcome.metrics.failed_requests;
        let completed =
            failed::all_completed(&self.prepared.instance, failed_requests, &self.failed, &self.results);
        match (self.log_holds(), completed) {
            (Err(broken), Err(failed)) => Err(broken.and(failed)),
            (broken, failed) => broken.and(failed),
        }
    }

    /// Whether the log passes the check. All its times come from the clock of this process, never from a server, so a
    /// violation is a bug in gswarm.
    ///
    /// # Errors
    /// The rules that the log breaks.
    pub fn log_holds(&self) -> Result<(), Failure> {
        if self.violations.is_empty() {
            return Ok(());
        }
        let found = render_violations(&self.violations);
        let message = format!("internal error: the log of this run fails its check:\n{}", found.trim_end());
        let log = self.written.iter().rfind(|path| is_rejected(path));
        let log = log.map_or_else(String::new, |path| format!(" with {}", path.display()));
        Err(Failure::new(FailureKind::Internal, message).hint(format!(
            "this is a bug in gswarm, not in your input or servers; the results are kept, and so is the log: \
             please report it{log}"
        )))
    }
}

/// Checks the log, and writes it and what came of each request beside the journal.
pub(super) fn conclude(
    prepared: Prepared,
    outcome: RunOutcome,
    finished: &FinishedRun,
    on_ray: bool,
    observer: &mut dyn Observer,
) -> Result<Ended, Failure> {
    let folder = prepared.spec.output.folder.clone();
    observer.stage(Stage::Checking);
    let violations = check_log(&prepared.instance, &outcome.log, Some(&outcome.summary));
    observer.stage(Stage::Writing);
    let mut batch = files::Batch::new(&folder)?;
    let prefix = if violations.is_empty() { "" } else { REJECTED };
    output::save_as(prefix, &mut batch, &prepared.instance, &outcome, prepared.spec.output.format)?;
    let results = format!("{}_results.jsonl", outcome.summary.policy);
    batch.add_private(&results, |mut out| results::write(&prepared.instance, finished, &mut out))?;
    let written = batch.commit()?;
    let failed = failed(&prepared.instance, finished, on_ray);
    Ok(Ended { prepared, outcome, written, failed, results: folder.join(results), violations })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Silent;
    use crate::prepare::prepare;
    use crate::spec::RunSpec;
    use gswarm_core::Time;

    fn concluded(folder: &Path, damage: impl FnOnce(&mut RunOutcome)) -> Ended {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/text_to_image");
        let mut spec = RunSpec {
            config: example.join("config.yaml"),
            requests: example.join("requests.yaml"),
            ..RunSpec::default()
        };
        spec.cluster.gpus = Some(4);
        spec.times.noise = Some("none".parse().unwrap());
        spec.output.folder = folder.to_owned();
        let materials = spec.load().unwrap();
        let prepared = prepare(spec, materials, &mut Silent).unwrap();
        let mut outcome = prepared.simulate(&mut Silent).unwrap().outcome;
        damage(&mut outcome);
        let outputs = prepared.instance.task_ids().map(|task| (task, serde_json::Map::new())).collect();
        let finished = FinishedRun { log: outcome.log.clone(), outputs, failures: Vec::new() };
        conclude(prepared, outcome, &finished, false, &mut Silent).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_log_that_keeps_the_rules_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let ended = concluded(folder.path(), |_| {});
        assert_eq!(ended.violations, []);
        assert!(ended.verdict().is_ok());
        assert_eq!(
            names(folder.path()),
            ["planned_execution_log.json", "planned_results.jsonl", "planned_scheduler.log"]
        );
    }

    /// It was once a warning, and the run a success.
    #[test]
    fn a_log_that_breaks_a_rule_is_an_internal_error_and_is_kept_as_evidence() {
        let folder = tempfile::tempdir().unwrap();
        let ended = concluded(folder.path(), |outcome| {
            let first = &mut outcome.log.executions[0];
            first.start = Time(first.ready.0.saturating_sub(1_000_000));
            first.end = Time(first.end.0 + 500_000_000);
        });
        let failure = ended.verdict().unwrap_err();
        assert_eq!(failure.code, FailureKind::Internal);
        assert!(
            failure.message().contains("fails its check") && failure.message().contains("C-"),
            "{failure}"
        );
        assert!(failure.advice().unwrap().contains("rejected_planned_execution_log.json"), "{failure}");
        assert_eq!(
            names(folder.path()),
            [
                "planned_results.jsonl",
                "rejected_planned_execution_log.json",
                "rejected_planned_scheduler.log"
            ]
        );
    }
}
