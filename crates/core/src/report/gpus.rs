//! How busy each GPU was.

use super::loads::Loaded;
use super::stats::as_seconds;
use crate::id::Gpus;
use crate::instance::Instance;
use crate::log::{ExecutionLog, Status};
use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// One GPU over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuMetrics {
    /// Its id.
    pub gpu: u32,
    /// Executing or loading; what overlaps counts once.
    #[serde(rename = "busy_seconds", with = "as_seconds")]
    pub busy: Span,
    /// Executing.
    #[serde(rename = "compute_seconds", with = "as_seconds")]
    pub compute: Span,
    /// Busy / makespan.
    pub utilisation: f64,
    /// Executing / makespan.
    pub compute_utilisation: f64,
    /// Completed executions that it took part in.
    pub executions: u64,
    /// Loads onto it that were model switches.
    pub switches: u64,
    /// Loads onto it that were cold.
    pub cold_loads: u64,
}

/// The GPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Mean over the GPUs.
    pub mean: f64,
    /// Of the busiest.
    pub max: f64,
    /// Of the idlest.
    pub min: f64,
    /// Mean of the compute utilisation.
    pub mean_compute: f64,
    /// Busiest minus idlest, in percentage points.
    pub spread_points: f64,
    /// Of the shares (0 to 1), over all GPUs.
    pub variance: f64,
    /// Mean / largest; 1 where no GPU was busy.
    pub load_balance: f64,
}

pub(super) fn gpus(
    instance: &Instance,
    log: &ExecutionLog,
    loads: &[Loaded],
    makespan: Span,
) -> Vec<GpuMetrics> {
    let count = instance.cluster.gpus as usize;
    let mut all: Vec<GpuMetrics> =
        (0..instance.cluster.gpus).map(|gpu| GpuMetrics { gpu, ..GpuMetrics::default() }).collect();
    let known = |gpus: &Gpus| gpus.range().end <= count;
    for one in log.executions.iter().filter(|one| one.status == Status::Completed && known(&one.gpus)) {
        all[one.gpus.range()].iter_mut().for_each(|gpu| gpu.executions += 1);
    }
    for load in loads.iter().filter(|load| known(&load.gpus)) {
        for gpu in &mut all[load.gpus.range()] {
            *if load.switch { &mut gpu.switches } else { &mut gpu.cold_loads } += 1;
        }
    }
    let executing = log.executions.iter().map(|one| (one.gpus, (one.start, one.end, true)));
    let loading = loads.iter().map(|load| (load.gpus, (load.start, load.end, false)));
    let mut lines: Vec<Vec<(Time, Time, bool)>> = vec![Vec::new(); count];
    for (gpus, interval) in executing.chain(loading).filter(|(gpus, _)| known(gpus)) {
        lines[gpus.range()].iter_mut().for_each(|line| line.push(interval));
    }
    for (gpu, mut line) in all.iter_mut().zip(lines) {
        line.sort_unstable();
        gpu.busy = union(line.iter().copied());
        gpu.compute = union(line.iter().copied().filter(|&(_, _, executing)| executing));
        gpu.utilisation = share(gpu.busy, makespan);
        gpu.compute_utilisation = share(gpu.compute, makespan);
    }
    all
}

/// Length of the union of intervals that come by start.
fn union(intervals: impl Iterator<Item = (Time, Time, bool)>) -> Span {
    let (mut total, mut until) = (Span::ZERO, Time::ZERO);
    for (start, end, _) in intervals {
        total += end.since(start.max(until));
        until = until.max(end);
    }
    total
}

pub(super) fn share(part: Span, whole: Span) -> f64 {
    if whole.0 == 0 { 0.0 } else { part.0 as f64 / whole.0 as f64 }
}

impl Utilisation {
    pub(super) fn of(gpus: &[GpuMetrics]) -> Utilisation {
        let count = gpus.len().max(1) as f64;
        let shares = || gpus.iter().map(|gpu| gpu.utilisation);
        let mean = shares().sum::<f64>() / count;
        let max = shares().fold(0.0, f64::max);
        let min = shares().fold(max, f64::min);
        Utilisation {
            mean,
            max,
            min,
            mean_compute: gpus.iter().map(|gpu| gpu.compute_utilisation).sum::<f64>() / count,
            spread_points: (max - min) * 100.0,
            variance: shares().map(|share| (share - mean).powi(2)).sum::<f64>() / count,
            load_balance: if max > 0.0 { mean / max } else { 1.0 },
        }
    }
}
