//! What a workload is like, in a few lines.

use super::bound;
use super::machine::Machine;
use super::workload::{Kind, Task, Workload};
use std::fmt::Write;

/// The statistics, a line each.
#[must_use]
pub fn describe(workload: &Workload, machine: &Machine) -> String {
    let tasks = &workload.tasks;
    let mut text = String::new();
    let _ = writeln!(text, "{} {}", tasks.len(), if tasks.len() == 1 { "task" } else { "tasks" });
    let mut row = |name: &str, unit: &str, value: &dyn Fn(&Task) -> f64| {
        let mut values: Vec<f64> = tasks.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values.get((share * (values.len() - 1) as f64).round() as usize).copied();
        if let (Some(low), Some(median), Some(high)) = (at(0.0), at(0.5), at(1.0)) {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let _ = writeln!(
                text,
                "  {name:<22} {low:>10.3} to {high:>10.3}, median {median:>9.3}, mean {mean:>9.3} {unit}"
            );
        }
    };
    if tasks.is_empty() {
        return text;
    }
    row("size", "", &|task| task.size);
    row("compute intensity", "", &|task| task.intensity);
    row("memory", "MB", &|task| task.memory_bytes as f64 / 1e6);
    row("dependencies", "", &|task| task.dependencies.len() as f64);
    row("duration estimate", "s", &|task| task.estimate.seconds());
    let with_truth = tasks.iter().all(|task| task.truth.is_some());
    if with_truth {
        row("true time on the CPU", "s", &|task| task.truth.map_or(0.0, |truth| truth.cpu.seconds()));
        row("true time on a GPU", "s", &|task| task.truth.map_or(0.0, |truth| truth.gpu.seconds()));
        row("CPU time / GPU time", "", &|task| {
            task.truth.map_or(0.0, |truth| truth.cpu.0 as f64 / truth.gpu.0.max(1) as f64)
        });
    }
    let kinds: Vec<String> = Kind::ALL
        .into_iter()
        .map(|kind| (kind, tasks.iter().filter(|task| task.kind == kind).count()))
        .filter(|&(_, count)| count > 0)
        .map(|(kind, count)| format!("{} {count}", kind.name()))
        .collect();
    let _ = writeln!(text, "  kinds                  {}", kinds.join(", "));
    let last = tasks.iter().map(|task| task.arrival).max().unwrap_or_default();
    if last.0 > 0 {
        let rate = tasks.len() as f64 / last.seconds();
        let _ =
            write!(text, "  arrivals               {rate:.1} a second, the last at {:.1} s", last.seconds());
        if with_truth {
            let truths: Vec<_> = tasks.iter().filter_map(|task| task.truth).collect();
            let area = bound::area(&truths, machine.gpus).seconds();
            let _ = write!(
                text,
                "; load {:.2} of {} GPUs and the CPU (all the work in {area:.1} s at best)",
                area / last.seconds(),
                machine.gpus
            );
        }
        let _ = writeln!(text);
    }
    text
}
