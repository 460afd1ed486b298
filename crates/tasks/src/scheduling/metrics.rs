//! What a run amounts to, from the workload and the log alone.

use super::log::TaskLog;
use super::workload::Workload;
use gswarm_core::report::Stats;
use gswarm_core::{Span, Time};
use serde::Serialize;

/// Figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskMetrics {
    /// From zero to the end of the last task.
    pub makespan: Span,
    /// When the last task came: no makespan is shorter.
    pub last_arrival: Span,
    /// From a task's arrival to its end, on average.
    pub mean_flow: Span,
    /// The same, of 99 tasks in 100 at most (linear interpolation between neighbours).
    pub p99_flow: Span,
    /// The longest.
    pub max_flow: Span,
    /// From ready to the first start of a part, on average.
    pub mean_wait: Span,
    /// Time at work of the CPU, then of each GPU.
    pub busy: Vec<Span>,
    /// Time at work as a share of the makespan, mean over the devices.
    pub utilisation: f64,
    /// Mean time at work over the largest, among the GPUs: 1 where all did the same.
    pub gpu_balance: f64,
    /// The link's time at work as a share of the makespan.
    pub link_utilisation: f64,
    /// Tasks on the CPU alone, on a GPU alone, and cut.
    pub placed: [u32; 3],
    /// Energy of all devices.
    pub joules: f64,
}

/// Measures a run.
pub fn measure(workload: &Workload, log: &TaskLog) -> TaskMetrics {
    let makespan = log.records.iter().map(|(_, record)| record.finish).max().unwrap_or_default();
    let last = workload.tasks.iter().map(|task| task.arrival).max().unwrap_or_default();
    let mut busy = vec![Span::ZERO; log.machine.gpus as usize + 1];
    let mut flows = Vec::with_capacity(log.records.len());
    let (mut waits, mut link) = (0u64, Span::ZERO);
    let mut placed = [0; 3];
    for ((_, record), task) in log.records.iter().zip(&workload.tasks) {
        flows.push(record.finish.since(task.arrival));
        let mut started = Time::NEVER;
        if let Some(part) = record.cpu {
            busy[0] += part.end.since(part.start);
            started = part.start;
        }
        if let Some(part) = record.gpu {
            if let Some(of_gpu) = busy.get_mut(part.gpu as usize + 1) {
                *of_gpu += part.end.since(part.start);
            }
            link += part.transfer_end.since(part.transfer_start);
            started = started.min(part.start);
        }
        waits += started.since(record.ready).0;
        placed[match (record.cpu, record.gpu) {
            (Some(_), Some(_)) => 2,
            (None, Some(_)) => 1,
            _ => 0,
        }] += 1;
    }
    let count = flows.len().max(1) as u64;
    let (total_flow, max_flow) = (flows.iter().copied().sum::<Span>(), flows.iter().copied().max());
    let flow = Stats::of(flows);
    let all: Span = busy.iter().copied().sum();
    let gpus: Span = busy[1..].iter().copied().sum();
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let most = busy[1..].iter().max().copied().unwrap_or_default();
    TaskMetrics {
        makespan: Span(makespan.0),
        last_arrival: Span(last.0),
        mean_flow: Span(total_flow.0 / count),
        p99_flow: Span::from_seconds(flow.p99),
        max_flow: max_flow.unwrap_or_default(),
        mean_wait: Span(waits / count),
        utilisation: share(all.seconds() / busy.len() as f64, makespan.seconds()),
        gpu_balance: share(gpus.seconds() / f64::from(log.machine.gpus.max(1)), most.seconds()),
        link_utilisation: share(link.seconds(), makespan.seconds()),
        joules: log.machine.joules(Span(makespan.0), busy[0], gpus),
        busy,
        placed,
    }
}

#[cfg(test)]
mod tests {
    use crate::scheduling::test_support::{machine, task, workload};
    use crate::scheduling::{Estimates, PolicySettings, TaskPolicy, schedule};
    use gswarm_core::Span;

    #[test]
    fn the_99th_percentile_lies_between_its_neighbours() {
        // One after the other on the CPU: the flow times are 100, 200 and so on up to 10,000 us.
        let tasks = workload((0..100).map(|_| task(0, 100, 900, &[])).collect());
        let known = Estimates::certain(tasks.tasks.iter().filter_map(|task| task.truth).collect());
        let outcome = schedule(&tasks, &machine(1), &known, TaskPolicy::CpuOnly, PolicySettings::default());
        let metrics = outcome.unwrap().metrics;
        assert_eq!((metrics.p99_flow, metrics.max_flow), (Span(9901), Span(10_000)));
        assert_eq!(metrics.mean_flow, Span(5050));
    }
}
