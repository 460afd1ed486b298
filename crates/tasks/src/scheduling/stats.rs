//! What a workload is like, in a few lines.

use super::bound;
use super::machine::Machine;
use super::workload::{RunTimes, Task, TaskKind, Workload};
use crate::profile::quantile;
use std::fmt::Write;

/// The load that tasks have come to: the time that all their work takes at best, as a share of the time in which they
/// come. `None` where they come all at once, or where their true times are not known.
pub fn load(workload: &Workload, machine: &Machine) -> Option<f64> {
    work(workload, machine).map(|(_, load)| load)
}

/// That time in seconds, and the load.
fn work(workload: &Workload, machine: &Machine) -> Option<(f64, f64)> {
    let last = workload.tasks.iter().map(|task| task.arrival).max().filter(|last| last.0 > 0)?;
    let truths: Option<Vec<RunTimes>> = workload.tasks.iter().map(|task| task.truth).collect();
    let area = bound::area(&truths?, machine.gpus).seconds();
    Some((area, area / last.seconds()))
}

/// The statistics, a line each.
pub fn describe(workload: &Workload, machine: &Machine) -> String {
    let tasks = &workload.tasks;
    let mut text = String::new();
    let _ = writeln!(text, "{} {}", tasks.len(), if tasks.len() == 1 { "task" } else { "tasks" });
    let mut row = |name: &str, unit: &str, value: &dyn Fn(&Task) -> f64| {
        let mut values: Vec<f64> = tasks.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (values.first(), values.last()) else { return };
        let (median, mean) = (quantile(&values, 0.5), values.iter().sum::<f64>() / values.len() as f64);
        let _ = writeln!(
            text,
            "  {name:<22} {low:>10.3} to {high:>10.3}, median {median:>9.3}, mean {mean:>9.3} {unit}"
        );
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
    let kinds: Vec<String> = TaskKind::ALL
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
        if let Some((area, load)) = work(workload, machine) {
            let _ = write!(
                text,
                "; load {load:.2} of {} GPUs and the CPU (all the work in {area:.1} s at best)",
                machine.gpus
            );
        }
        let _ = writeln!(text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::test_support::{machine, task, workload};

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let mut tasks = workload((0..4).map(|at| task(at * 100, 100, 50, &[])).collect());
        for (task, size) in tasks.tasks.iter_mut().zip([1.0, 2.0, 5.0, 9.0]) {
            task.size = size;
        }
        let text = describe(&tasks, &machine(1));
        let sizes = text.lines().find(|line| line.trim_start().starts_with("size")).unwrap();
        assert!(sizes.contains("median     3.500"), "{sizes}");
    }
}
