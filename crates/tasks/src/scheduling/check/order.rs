//! Arrivals and dependencies.

use super::Context;
use super::violation::{TaskRule, TaskViolation};
use gswarm_core::Time;

/// Nothing begins before its time.
pub fn waits(context: &Context<'_>, found: &mut Vec<TaskViolation>) {
    for (at, entry) in context.entries.iter().enumerate() {
        let Some(entry) = entry else { continue };
        let mut since = entry.task.arrival;
        let mut because = "it comes".to_string();
        for &earlier in &context.workload.tasks[at].dependencies {
            // A task that the log lacks has been named already.
            if let Some(before) = &context.entries[earlier as usize]
                && before.record.finish > since
            {
                since = before.record.finish;
                because = format!("task {} is done", before.task.id);
            }
        }
        let record = entry.record;
        let begins =
            [record.cpu.map(|part| part.start), record.gpu.map(|part| part.start.min(part.transfer_start))];
        let begin = begins.into_iter().flatten().min().unwrap_or(Time::NEVER);
        if begin < since {
            found.push(TaskViolation::new(
                TaskRule::Early,
                &entry.task.id,
                format!("it begins before {because}"),
            ));
        }
        if record.ready != since {
            let message = format!("it is ready at {} us, when {because}, not at {}", since.0, record.ready.0);
            found.push(TaskViolation::new(TaskRule::Early, &entry.task.id, message));
        }
    }
}
