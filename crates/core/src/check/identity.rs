//! Every node completes exactly once, and its attempts follow one another.

use super::context::{Context, TOLERANCE, s};
use crate::id::TaskId;
use crate::log::Status;
use crate::time::{Span, Time};
use crate::violation::ViolationCode as Code;

/// The executions of each task, in order of attempts.
pub(super) struct Tasks {
    starts: Vec<u32>,
    items: Vec<u32>,
    /// End of each task's completed execution.
    pub completed: Vec<Option<Time>>,
}

impl Tasks {
    /// The attempts at a task, as indexes into the executions.
    pub fn attempts(&self, task: TaskId) -> &[u32] {
        let task = task.index();
        &self.items[self.starts[task] as usize..self.starts[task + 1] as usize]
    }

    /// The execution that gave a task's result.
    pub fn result(&self, context: &Context<'_>, task: TaskId) -> Option<usize> {
        let all = self.attempts(task).iter().map(|&index| index as usize);
        all.rev().find(|&index| context.log.executions[index].status == Status::Completed)
    }
}

/// Sorts the executions by task.
pub(super) fn group(context: &Context<'_>) -> Tasks {
    let executions = &context.log.executions;
    let count = context.instance.tasks();
    let mut starts = vec![0u32; count + 1];
    executions.iter().for_each(|one| starts[one.task.index() + 1] += 1);
    (0..count).for_each(|task| starts[task + 1] += starts[task]);
    let (mut next, mut items) = (starts.clone(), vec![0u32; executions.len()]);
    let mut completed = vec![None; count];
    for (index, one) in executions.iter().enumerate() {
        let task = one.task.index();
        items[next[task] as usize] = index as u32;
        next[task] += 1;
        if one.status == Status::Completed {
            completed[task] = completed[task].max(Some(one.end));
        }
    }
    for task in 0..count {
        let attempts = &mut items[starts[task] as usize..starts[task + 1] as usize];
        if attempts.len() > 1 {
            attempts.sort_unstable_by_key(|&index| {
                let one = &executions[index as usize];
                (one.attempt, one.start, index)
            });
        }
    }
    Tasks { starts, items, completed }
}

pub(super) fn check(context: &mut Context<'_>, tasks: &Tasks) {
    for task in context.instance.task_ids() {
        attempts(context, tasks.attempts(task));
    }
    missing(context, tasks);
    lost(context);
}

fn attempts(context: &mut Context<'_>, attempts: &[u32]) {
    let log = context.log;
    let mut before: Option<usize> = None;
    for index in attempts.iter().map(|&index| index as usize) {
        let (one, last) = (&log.executions[index], before.map(|before| &log.executions[before]));
        before = Some(index);
        let Some(last) = last else {
            if one.attempt != 1 {
                context.at(Code::Attempt, index, format!("the first attempt has number {}", one.attempt));
            }
            continue;
        };
        if last.status == Status::Completed || last.attempt == one.attempt {
            let message = format!(
                "attempt {} at {} follows a {} attempt {}",
                one.attempt,
                s(one.start),
                last.status.name(),
                last.attempt
            );
            context.at(Code::NodeTwice, index, message);
        } else if one.attempt != last.attempt + 1 {
            context.at(
                Code::Attempt,
                index,
                format!("attempt {} follows attempt {}", one.attempt, last.attempt),
            );
        } else if one.start.0.saturating_add(TOLERANCE) < last.end.0 {
            let message = format!(
                "attempt {} starts at {}, before the last one ended at {}",
                one.attempt,
                s(one.start),
                s(last.end)
            );
            context.at(Code::Attempt, index, message);
        }
    }
}

/// No live run gives up sooner what waits for a server.
const SHORTEST_PATIENCE: Span = Span(1_000_000);

/// A node may be missing only where it, or something that it waits for, failed for good or has no GPUs left to run on.
fn missing(context: &mut Context<'_>, tasks: &Tasks) {
    let instance = context.instance;
    let lost_at = |gpu: usize, t: Time| context.lost[gpu].iter().any(|&(at, until)| at <= t && t < until);
    // In a live run, what waits for a server is given up where no window of its model was there for a while.
    let starts: Vec<Time> = context.lost.iter().flatten().map(|&(at, _)| at).collect();
    let usable: Vec<bool> = instance
        .models
        .iter()
        .map(|model| {
            let stranded =
                |t: Time| !model.windows().any(|window| !window.range().any(|gpu| lost_at(gpu, t)));
            let for_long = |t: Time| stranded(t) && stranded(t + SHORTEST_PATIENCE);
            let for_good = |gpu: usize| context.lost[gpu].iter().any(|&(_, until)| until == Time::NEVER);
            let is_left = model.windows().any(|window| !window.range().any(for_good));
            is_left && !(context.measured && starts.iter().any(|&t| for_long(t)))
        })
        .collect();
    let mut failed: Vec<bool> = Vec::new();
    for (_, request) in instance.requests.iter_enumerated() {
        let workflow = &instance.workflows[request.workflow];
        failed.clear();
        failed.resize(workflow.nodes.len(), false);
        for &node in &workflow.order {
            let task = TaskId(request.first_task.0 + node);
            let upstream = workflow.predecessors(node).iter().any(|&input| failed[input as usize]);
            let last =
                tasks.attempts(task).last().map(|&index| context.log.executions[index as usize].status);
            let gave_up = |status| matches!(status, Status::Failed | Status::Deferred | Status::Cancelled);
            failed[node as usize] = upstream || last.is_some_and(gave_up);
            if tasks.completed[task.index()].is_some() || failed[node as usize] {
                continue;
            }
            if !usable[instance.model_of(task).index()] {
                failed[node as usize] = true;
                continue;
            }
            let place = context.task_place(task);
            let message = if last.is_some() {
                "its last attempt was lost, and it was not retried"
            } else {
                "it has no execution, although none of its inputs failed"
            };
            context.report(Code::NodeMissing, place, message);
        }
    }
}

/// Whatever is marked lost must have lost a GPU at its end.
fn lost(context: &mut Context<'_>) {
    let log = context.log;
    let lost = context.lost.clone();
    let was_lost = |gpus: crate::id::Gpus, end: Time| {
        lost[gpus.range()].iter().flatten().any(|(at, _)| at.0.abs_diff(end.0) <= TOLERANCE)
    };
    for (index, one) in log.executions.iter().enumerate() {
        if one.status == Status::Lost && context.sound(index) && !was_lost(one.gpus, one.end) {
            let message = format!("no GPU of {} was lost at {}", one.gpus, s(one.end));
            context.at(Code::Lost, index, message);
        }
    }
    for (index, one) in log.loads.iter().enumerate() {
        if one.status == Status::Lost && context.sound.loads[index] && !was_lost(one.gpus, one.end) {
            let place = context.load_place(index);
            context.report(Code::Lost, place, format!("no GPU of {} was lost at {}", one.gpus, s(one.end)));
        }
    }
}
