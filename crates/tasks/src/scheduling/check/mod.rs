//! Independent rules over a workload and a log of its run. Nothing here knows the engine or the policies: the arithmetic
//! of shares and transfers is written out again, from docs/tasks.md.

mod arithmetic;
mod devices;
mod order;
#[cfg(test)]
mod tests;
mod violation;

pub use violation::{TaskRule, TaskViolation};

use super::log::{TaskLog, TaskRecord};
use super::workload::{RunTimes, Task, Workload};
use rustc_hash::FxHashMap;

/// A task of the workload with its line in the log.
struct Entry<'a> {
    task: &'a Task,
    truth: RunTimes,
    record: &'a TaskRecord,
}

/// Everything that the rules look at.
struct Context<'a> {
    workload: &'a Workload,
    log: &'a TaskLog,
    /// In the order of the workload; `None` where the log has no line for the task.
    entries: Vec<Option<Entry<'a>>>,
}

/// Every way in which a log breaks the rules. `truths` are the run times of whole tasks.
pub fn check(workload: &Workload, truths: &[RunTimes], log: &TaskLog) -> Vec<TaskViolation> {
    let mut found = Vec::new();
    let context = resolve(workload, truths, log, &mut found);
    arithmetic::parts(&context, &mut found);
    arithmetic::summary(&context, &mut found);
    order::waits(&context, &mut found);
    devices::exclusive(&context, &mut found);
    devices::memory(&context, &mut found);
    found
}

/// Joins lines and tasks by name.
fn resolve<'a>(
    workload: &'a Workload,
    truths: &'a [RunTimes],
    log: &'a TaskLog,
    found: &mut Vec<TaskViolation>,
) -> Context<'a> {
    let numbers: FxHashMap<&str, usize> =
        workload.tasks.iter().enumerate().map(|(at, task)| (task.id.as_str(), at)).collect();
    let mut entries: Vec<Option<Entry<'a>>> = Vec::new();
    entries.resize_with(workload.tasks.len(), || None);
    for (name, record) in &log.records {
        let Some(&at) = numbers.get(name.as_str()) else {
            found.push(TaskViolation::new(TaskRule::Identity, name, "the workload has no such task"));
            continue;
        };
        if entries[at].is_some() {
            found.push(TaskViolation::new(TaskRule::Identity, name, "the log has it twice"));
            continue;
        }
        let Some(&truth) = truths.get(at) else { continue };
        entries[at] = Some(Entry { task: &workload.tasks[at], truth, record });
    }
    for (task, entry) in workload.tasks.iter().zip(&entries) {
        if entry.is_none() {
            found.push(TaskViolation::new(TaskRule::Identity, &task.id, "the log does not have it"));
        }
    }
    Context { workload, log, entries }
}
