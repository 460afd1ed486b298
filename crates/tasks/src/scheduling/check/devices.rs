//! Devices, the link and memory: what is used by one at a time, and what is used up.

use super::arithmetic::bytes;
use super::violation::{TaskRule, TaskViolation};
use super::{Context, Entry};
use gswarm_core::Time;

type Use<'a> = (Time, Time, &'a str);

/// One part at a time on a device, one transfer at a time on the link.
pub fn exclusive(context: &Context<'_>, found: &mut Vec<TaskViolation>) {
    let gpus = context.log.machine.gpus as usize;
    let mut devices: Vec<Vec<Use<'_>>> = vec![Vec::new(); gpus + 1];
    let mut link: Vec<Use<'_>> = Vec::new();
    for entry in context.entries.iter().flatten() {
        let id = entry.task.id.as_str();
        if let Some(part) = entry.record.cpu {
            devices[0].push((part.start, part.end, id));
        }
        if let Some(part) = entry.record.gpu {
            match devices.get_mut(part.gpu as usize + 1) {
                Some(of_gpu) => of_gpu.push((part.start, part.end, id)),
                None => found.push(TaskViolation::new(
                    TaskRule::DeviceIndex,
                    id,
                    format!("there is no GPU {}", part.gpu),
                )),
            }
            link.push((part.transfer_start, part.transfer_end, id));
        }
    }
    for (at, uses) in devices.into_iter().enumerate() {
        let name = if at == 0 { "the CPU".to_string() } else { format!("GPU {}", at - 1) };
        overlaps(uses, TaskRule::Overlap, &name, found);
    }
    overlaps(link, TaskRule::Link, "the link", found);
}

fn overlaps(mut uses: Vec<Use<'_>>, rule: TaskRule, name: &str, found: &mut Vec<TaskViolation>) {
    uses.sort_unstable();
    let mut latest: Option<Use<'_>> = None;
    for one in uses {
        if one.0 >= one.1 {
            // What takes no time is in nobody's way; what ends before it starts is a matter of T04.
            continue;
        }
        if let Some(before) = latest
            && one.0 < before.1
        {
            found.push(TaskViolation::new(rule, name, format!("tasks {} and {} at once", before.2, one.2)));
        }
        if latest.is_none_or(|before| one.1 > before.1) {
            latest = Some(one);
        }
    }
}

/// Memory over time, on each GPU and on the host.
pub fn memory(context: &Context<'_>, found: &mut Vec<TaskViolation>) {
    let machine = &context.log.machine;
    let entries = || context.entries.iter().flatten();
    let held = |entry: &Entry<'_>, share: u64| bytes(entry.task.memory_bytes, share);
    for gpu in 0..machine.gpus {
        let uses = entries().filter_map(|entry| {
            let part = entry.record.gpu.filter(|part| part.gpu == gpu)?;
            Some((part.transfer_start, part.end, held(entry, u64::from(entry.record.share))))
        });
        over(uses.collect(), machine.gpu_memory_bytes, &format!("GPU {gpu}"), found);
    }
    let uses = entries().filter_map(|entry| {
        let part = entry.record.cpu?;
        Some((part.start, part.end, held(entry, 1_000_000u64.saturating_sub(u64::from(entry.record.share)))))
    });
    over(uses.collect(), machine.cpu_memory_bytes, "the CPU", found);
}

fn over(uses: Vec<(Time, Time, u64)>, capacity: u64, name: &str, found: &mut Vec<TaskViolation>) {
    // What is given back at a moment can be taken at that moment.
    let mut changes: Vec<(Time, bool, u64)> = Vec::with_capacity(2 * uses.len());
    for (from, to, bytes) in uses.into_iter().filter(|(from, to, _)| from < to) {
        changes.push((from, true, bytes));
        changes.push((to, false, bytes));
    }
    changes.sort_unstable();
    let mut now = 0u64;
    for (at, taken, bytes) in changes {
        now = if taken { now.saturating_add(bytes) } else { now.saturating_sub(bytes) };
        if taken && now > capacity {
            found.push(TaskViolation::new(
                TaskRule::Memory,
                name,
                format!("{now} of {capacity} bytes at {} us", at.0),
            ));
        }
    }
}
