//! What a run left undone, for people.

use super::count;
use crate::failure::{Failure, FailureKind};
use gswarm_core::log::ExecutionLog;
use gswarm_core::report::{Unfinished, unfinished};
use gswarm_core::{Instance, TaskId};

/// The most requests that are listed; the log has them all.
const MOST_LISTED: usize = 10;

/// Every node without a result, as `request/node`.
pub fn names(instance: &Instance, log: &ExecutionLog) -> Vec<String> {
    let tasks = unfinished(instance, log).into_iter().flat_map(|one| one.tasks);
    tasks.map(|task| instance.task_name(task)).collect()
}

/// A failure where requests were not finished: too few GPUs left, or too many attempts failed.
pub fn none(instance: &Instance, log: &ExecutionLog, max_attempts: u32) -> Result<(), Failure> {
    let left = unfinished(instance, log);
    if left.is_empty() {
        return Ok(());
    }
    let all = count(instance.requests.len() as u64, "request");
    let stranded = left.iter().filter(|one| one.no_gpus_for.is_some()).count();
    if stranded == 0 {
        let attempts = count(max_attempts.into(), "attempt");
        let failed = left.len();
        let text = format!("{failed} of {all} failed after {attempts} at a node{}", listed(instance, &left));
        return Err(Failure::new(FailureKind::FailedRequests, text)
            .hint("the log shows when; --max-attempts allows more attempts"));
    }
    let gone = log.losses.iter().filter(|loss| loss.until.is_none()).count() as u64;
    let remaining = count(u64::from(instance.cluster.gpus) - gone, "GPU");
    let text = format!("{} of {all} not finished: too few GPUs left ({remaining})", left.len());
    let text = text + &listed(instance, &left);
    Err(Failure::new(FailureKind::Infeasible, text)
        .hint("the logs have the finished work; to finish the rest, lose fewer GPUs or start with more"))
}

/// A line for each, as far as somebody wants to read them.
fn listed(instance: &Instance, left: &[Unfinished]) -> String {
    let lines = left.iter().take(MOST_LISTED).map(|one| format!("\n  - {}", described(instance, one)));
    let mut text: String = lines.collect();
    if left.len() > MOST_LISTED {
        text.push_str(&format!("\n  and {} more", left.len() - MOST_LISTED));
    }
    text
}

fn described(instance: &Instance, one: &Unfinished) -> String {
    let node =
        |task: &TaskId| format!("`{}`", instance.workflow_of(*task).nodes[instance.node_of(*task) as usize]);
    let nodes: Vec<String> = one.tasks.iter().map(node).collect();
    let why = match one.no_gpus_for.map(|model| &instance.models[model]) {
        Some(model) => format!(": `{}` needs {}", model.name, gpus_of(model.gpus)),
        None => ": the last permitted attempt failed".to_owned(),
    };
    format!("{} lacks {}{why}", instance.requests[one.request].name, nodes.join(", "))
}

fn gpus_of(wide: u32) -> String {
    if wide == 1 { "a GPU".to_owned() } else { format!("{wide} consecutive GPUs") }
}
