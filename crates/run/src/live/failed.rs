//! Failures of a live run and their reasons, as text and as data.

use crate::failure::{Failure, FailureKind};
use crate::output::count;
use gswarm_core::{Instance, TaskId};
use gswarm_exec::drive::FinishedRun;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The most nodes that are listed; the results have them all.
const MOST_LISTED: usize = 20;

/// A node that was given up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FailedNode {
    /// Its request.
    #[serde(rename = "request_id")]
    pub request: String,
    /// The node.
    pub node: String,
    /// How often it was tried.
    pub attempts: usize,
    /// Why the last attempt failed.
    pub why: String,
}

/// The nodes that failed and were not done in the end, by request; those that wait for them are not in it.
pub(super) fn failed(instance: &Instance, finished: &FinishedRun, on_ray: bool) -> Vec<FailedNode> {
    let mut by_task: BTreeMap<TaskId, (usize, &str)> = BTreeMap::new();
    for failure in finished.failures.iter().filter(|one| !finished.outputs.contains_key(&one.task)) {
        let (attempts, why) = by_task.entry(failure.task).or_default();
        (*attempts, *why) = (*attempts + 1, &failure.why);
    }
    let described = |(task, (attempts, why)): (TaskId, (usize, &str))| FailedNode {
        request: instance.requests[instance.request_of(task)].name.clone(),
        node: instance.workflow_of(task).nodes[instance.node_of(task) as usize].clone(),
        attempts,
        // A server's limits are said in its file; a callable has none.
        why: if on_ray && why.starts_with("no answer after ") {
            format!("{why}; --call-timeout sets the time limit of a call")
        } else {
            why.to_owned()
        },
    };
    by_task.into_iter().map(described).collect()
}

/// A run that came to its end with requests that failed says so by its exit code, and lists what failed.
pub(super) fn all_completed(
    instance: &Instance,
    failed_requests: u64,
    failed: &[FailedNode],
    results: &Path,
) -> Result<(), Failure> {
    if failed_requests == 0 {
        return Ok(());
    }
    let all = count(instance.requests.len() as u64, "request");
    let mut text = format!("{failed_requests} of {all} failed");
    for FailedNode { request, node, attempts, why } in failed.iter().take(MOST_LISTED) {
        let attempts = count(*attempts as u64, "attempt");
        let _ = write!(text, "\n  - {request}: {node}: {attempts}: {}", why.replace(char::is_control, " "));
    }
    if failed.len() > MOST_LISTED {
        let more = failed.len() - MOST_LISTED;
        let _ = write!(text, "\n  and {more} more: see {}", results.display());
    }
    let folder = results.parent().unwrap_or(Path::new(".")).display();
    let hint = format!(
        "{} has the results, and the reason for each failure; `gswarm resume {folder} --retry-failed` retries the failed nodes",
        results.display()
    );
    Err(Failure::new(FailureKind::FailedRequests, text).hint(hint))
}
