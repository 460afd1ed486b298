//! `scheduling_results.csv`: a row a task.

use super::log::TaskLog;
use super::machine::SHARE;
use super::view::Estimates;
use super::workload::Workload;
use std::io::{self, Write};

/// Writes the table. Times are seconds.
pub fn write_results(
    workload: &Workload,
    estimates: &Estimates,
    log: &TaskLog,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record([
        "task_id",
        "device",
        "gpu_fraction",
        "arrival_time",
        "ready_time",
        "start_time",
        "finish_time",
        "transfer_time",
        "predicted_cpu_seconds",
        "predicted_gpu_seconds",
        "cpu_seconds",
        "gpu_seconds",
        "flow_time",
        "energy_joules",
    ])?;
    for (((id, record), task), mean) in log.records.iter().zip(&workload.tasks).zip(&estimates.means) {
        let on_cpu = record.cpu.map_or(0.0, |part| part.end.since(part.start).seconds());
        let on_gpu = record.gpu.map_or(0.0, |part| part.end.since(part.start).seconds());
        let transfer = record.gpu.map_or(0.0, |part| part.transfer_end.since(part.transfer_start).seconds());
        let start = [record.cpu.map(|part| part.start), record.gpu.map(|part| part.start)];
        let start = start.into_iter().flatten().min().unwrap_or(record.finish);
        let device = match (record.gpu, record.cpu) {
            (Some(part), Some(_)) => format!("gpu:{}+cpu", part.gpu),
            (Some(part), None) => format!("gpu:{}", part.gpu),
            _ => "cpu".to_string(),
        };
        let joules = on_cpu * log.machine.cpu_watts[1] + on_gpu * log.machine.gpu_watts[1];
        let seconds = |value: f64| format!("{value:.6}");
        table.write_record([
            id.clone(),
            device,
            seconds(f64::from(record.share) / f64::from(SHARE)),
            seconds(task.arrival.seconds()),
            seconds(record.ready.seconds()),
            seconds(start.seconds()),
            seconds(record.finish.seconds()),
            seconds(transfer),
            seconds(mean.cpu.seconds()),
            seconds(mean.gpu.seconds()),
            seconds(on_cpu),
            seconds(on_gpu),
            seconds(record.finish.since(task.arrival).seconds()),
            format!("{joules:.3}"),
        ])?;
    }
    table.flush()
}
