//! What no schedule can go below.

use super::machine::Machine;
use super::workload::{RunTimes, Workload};
use gswarm_core::{Span, Time};

/// The time in which the CPU and `gpus` GPUs can do this much work if it could be cut anywhere and nothing ever waited:
/// the tasks with most to gain go to the GPUs, until both sides take equally long.
pub fn area(tasks: &[RunTimes], gpus: u32) -> Span {
    if gpus == 0 {
        return tasks.iter().map(|task| task.cpu).sum();
    }
    let mut order: Vec<&RunTimes> = tasks.iter().collect();
    order.sort_by(|a, b| {
        (u128::from(b.cpu.0) * u128::from(a.gpu.0)).cmp(&(u128::from(a.cpu.0) * u128::from(b.gpu.0)))
    });
    let gpus = f64::from(gpus);
    let mut on_cpu: f64 = order.iter().map(|task| task.cpu.0 as f64).sum();
    let mut on_gpus = 0.0;
    for task in order {
        let (cpu, gpu) = (task.cpu.0 as f64, task.gpu.0 as f64);
        if (on_gpus + gpu) / gpus >= on_cpu - cpu {
            // The last one is cut so that both sides end together.
            let share = ((on_cpu - on_gpus / gpus) / (gpu / gpus + cpu)).clamp(0.0, 1.0);
            let even = (on_gpus + share * gpu) / gpus;
            // Rounded down: it is a bound.
            return Span(even.max(on_cpu - share * cpu).floor() as u64);
        }
        on_gpus += gpu;
        on_cpu -= cpu;
    }
    Span((on_gpus / gpus).floor() as u64)
}

/// A makespan that no schedule of this workload goes below: the work that comes late, after its first arrival; and the
/// longest chain of tasks that wait for one another, each cut over a GPU and the CPU at best.
pub fn makespan(workload: &Workload, truths: &[RunTimes], machine: &Machine) -> Span {
    let chain = chain(workload, truths, machine);
    let mut arrivals: Vec<Time> = workload.tasks.iter().map(|task| task.arrival).collect();
    arrivals.sort_unstable();
    let mut best = chain;
    const MOMENTS: usize = 40;
    for step in 0..MOMENTS {
        let Some(&from) = arrivals.get(step * arrivals.len() / MOMENTS) else { break };
        let later: Vec<RunTimes> = workload
            .tasks
            .iter()
            .zip(truths)
            .filter(|(task, _)| task.arrival >= from)
            .map(|(_, &truth)| truth)
            .collect();
        best = best.max(Span(from.0 + area(&later, machine.gpus).0));
    }
    best
}

fn chain(workload: &Workload, truths: &[RunTimes], machine: &Machine) -> Span {
    let mut done = vec![0u64; truths.len()];
    for at in workload.topological().unwrap_or_default() {
        let (task, truth) = (&workload.tasks[at as usize], truths[at as usize]);
        let start = task.dependencies.iter().map(|&earlier| done[earlier as usize]).max().unwrap_or(0);
        done[at as usize] = start.max(task.arrival.0) + shortest(truth, machine.gpus);
    }
    Span(done.into_iter().max().unwrap_or(0))
}

/// A task cut over a GPU and the CPU, its transfer left out; two microseconds are what rounding may take away.
fn shortest(truth: RunTimes, gpus: u32) -> u64 {
    if gpus == 0 {
        return truth.cpu.0;
    }
    let (cpu, gpu) = (truth.cpu.0 as f64, truth.gpu.0 as f64);
    ((cpu * gpu / (cpu + gpu)).floor() as u64).saturating_sub(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(cpu: u64, gpu: u64) -> RunTimes {
        RunTimes { cpu: Span(cpu), gpu: Span(gpu) }
    }

    #[test]
    fn the_area_is_what_it_is_by_hand() {
        // One task, one GPU: 100 on the CPU, 25 on the GPU; four fifths on the GPU take 20.
        assert_eq!(area(&[task(100, 25)], 1), Span(20));
        assert_eq!(area(&[task(100, 25)], 0), Span(100));
        // Two that only one device is good for.
        assert_eq!(area(&[task(1000, 10), task(10, 1000)], 1), Span(10));
        assert_eq!(area(&[], 4), Span(0));
    }
}
