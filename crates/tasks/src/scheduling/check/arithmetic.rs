//! Shares, run times, transfers and the figures of the summary.

use super::violation::{TaskRule, TaskViolation};
use super::{Context, Entry};
use gswarm_core::{Span, Time};

const WHOLE: u64 = 1_000_000;

/// The share of an amount, to the nearest.
fn nearest(amount: u64, share: u64) -> u64 {
    ((u128::from(amount) * u128::from(share) + u128::from(WHOLE / 2)) / u128::from(WHOLE)) as u64
}

/// The share of some bytes, upwards.
pub fn bytes(amount: u64, share: u64) -> u64 {
    (u128::from(amount) * u128::from(share)).div_ceil(u128::from(WHOLE)) as u64
}

/// Each task's parts against its share.
pub fn parts(context: &Context<'_>, found: &mut Vec<TaskViolation>) {
    for entry in context.entries.iter().flatten() {
        let mut say = |rule, message: String| found.push(TaskViolation::new(rule, &entry.task.id, message));
        let (share, record) = (u64::from(entry.record.share), entry.record);
        if share > WHOLE {
            say(TaskRule::Share, format!("a share of {share} millionths exceeds 1"));
            continue;
        }
        if record.gpu.is_some() != (share > 0) || record.cpu.is_some() != (share < WHOLE) {
            say(TaskRule::Share, format!("{share} millionths on a GPU contradict the parts that it has"));
        }
        let span = |start: Time, end: Time| if end >= start { Some(end.0 - start.0) } else { None };
        if let Some(part) = record.cpu {
            let expected = nearest(entry.truth.cpu.0, WHOLE - share);
            if span(part.start, part.end) != Some(expected) {
                say(TaskRule::Duration, format!("the part on the CPU does not take {expected} us"));
            }
        }
        if let Some(part) = record.gpu {
            let expected = nearest(entry.truth.gpu.0, share);
            if span(part.start, part.end) != Some(expected) {
                say(TaskRule::Duration, format!("the part on the GPU does not take {expected} us"));
            }
            let machine = &context.log.machine;
            let load = bytes(entry.task.memory_bytes, share);
            let transfer = machine.link_latency_us + load.div_ceil(machine.link_bytes_per_us.max(1));
            if span(part.transfer_start, part.transfer_end) != Some(transfer) {
                say(TaskRule::Transfer, format!("its data does not take {transfer} us over the link"));
            }
            if part.start < part.transfer_end {
                say(TaskRule::Transfer, "it starts before its data arrives".to_string());
            }
        }
        if record.finish != ends(entry) {
            say(
                TaskRule::Finish,
                format!("it ends at {} us, but its last part at {}", record.finish.0, ends(entry).0),
            );
        }
    }
}

fn ends(entry: &Entry<'_>) -> Time {
    let ends = [entry.record.cpu.map(|part| part.end), entry.record.gpu.map(|part| part.end)];
    ends.into_iter().flatten().max().unwrap_or_default()
}

fn told(joules: f64) -> String {
    if joules.abs() < 1e15 { format!("{joules:.3}") } else { format!("{joules:e}") }
}

/// The claimed makespan and energy.
pub fn summary(context: &Context<'_>, found: &mut Vec<TaskViolation>) {
    let entries = || context.entries.iter().flatten();
    let makespan = entries().map(ends).max().unwrap_or_default();
    if context.log.makespan != makespan {
        let message = format!("the makespan is {} us, not {}", makespan.0, context.log.makespan.0);
        found.push(TaskViolation::new(TaskRule::Summary, "summary", message));
    }
    let cpu: Span =
        entries().filter_map(|entry| entry.record.cpu).map(|part| part.end.since(part.start)).sum();
    let gpu: Span =
        entries().filter_map(|entry| entry.record.gpu).map(|part| part.end.since(part.start)).sum();
    let machine = &context.log.machine;
    let all = makespan.seconds();
    let ([cpu_idle, cpu_busy], [gpu_idle, gpu_busy]) = (machine.cpu_watts, machine.gpu_watts);
    let joules = cpu_busy * cpu.seconds()
        + cpu_idle * (all - cpu.seconds()).max(0.0)
        + gpu_busy * gpu.seconds()
        + gpu_idle * (all * f64::from(machine.gpus) - gpu.seconds()).max(0.0);
    let claimed = context.log.joules;
    // What is no number is near to nothing: no log passes by an energy that cannot be.
    let alike = joules.is_finite() && (claimed - joules).abs() <= 1e-6 * joules.abs().max(1.0);
    if !alike {
        let message = format!("the energy is {} J, not {}", told(joules), told(claimed));
        found.push(TaskViolation::new(TaskRule::Summary, "summary", message));
    }
}
