//! Workloads as files.

use super::view::Estimates;
use super::workload::{RunTimes, Task, Workload};
use gswarm_learn::table::{Column, Table, Values};
use std::io::{self, Write};

/// The columns of the description, then ours. What begins with `profile_` is what the hardware profile says. What begins with `true_` is known after the run alone: it is what a
/// predictor is trained to tell, and never a feature.
pub const COLUMNS: [&str; 14] = [
    "task_id",
    "size",
    "compute_intensity",
    "memory_required",
    "arrival_time",
    "duration_estimate",
    "dependencies",
    "task_type",
    "profile_cpu_seconds",
    "profile_gpu_seconds",
    "true_cpu_seconds",
    "true_gpu_seconds",
    "true_cpu_joules",
    "true_gpu_joules",
];

/// A value of one cell.
enum Cell {
    Text(String),
    Number(f64),
    Nothing,
}

/// The cells of a task; `watts` of the CPU and a GPU at work turn true times into true energies.
fn cells(task: &Task, mean: RunTimes, workload: &Workload, watts: [f64; 2]) -> [Cell; 14] {
    let dependencies: Vec<&str> =
        task.dependencies.iter().map(|&at| workload.tasks[at as usize].id.as_str()).collect();
    let truth = |value: Option<f64>| value.map_or(Cell::Nothing, Cell::Number);
    let (cpu, gpu) =
        (task.truth.map(|truth| truth.cpu.seconds()), task.truth.map(|truth| truth.gpu.seconds()));
    [
        Cell::Text(task.id.clone()),
        Cell::Number(task.size),
        Cell::Number(task.intensity),
        Cell::Number(task.memory_bytes as f64 / 1e6),
        Cell::Number(task.arrival.seconds()),
        Cell::Number(task.estimate.seconds()),
        Cell::Text(dependencies.join(";")),
        Cell::Text(task.kind.name().to_string()),
        Cell::Number(mean.cpu.seconds()),
        Cell::Number(mean.gpu.seconds()),
        truth(cpu),
        truth(gpu),
        truth(cpu.map(|seconds| (seconds * watts[0] * 1e3).round() / 1e3)),
        truth(gpu.map(|seconds| (seconds * watts[1] * 1e3).round() / 1e3)),
    ]
}

/// The workload as a table. Dependencies are names with semicolons between them.
fn table(workload: &Workload, profile: &Estimates, watts: [f64; 2]) -> Table {
    let pairs = workload.tasks.iter().zip(&profile.means);
    let rows: Vec<[Cell; 14]> = pairs.map(|(task, &mean)| cells(task, mean, workload, watts)).collect();
    let column = |(at, name): (usize, &&str)| {
        let values = match rows.first().map(|row| &row[at]) {
            Some(Cell::Text(_)) => rows
                .iter()
                .map(|row| if let Cell::Text(text) = &row[at] { text.as_str() } else { "" })
                .collect(),
            _ => Values::Numbers(
                rows.iter()
                    .map(|row| if let Cell::Number(number) = row[at] { number } else { f64::NAN })
                    .collect(),
            ),
        };
        Column { name: (*name).to_owned(), values }
    };
    Table::new("workload", COLUMNS.iter().enumerate().map(column).collect())
}

/// Writes CSV.
pub fn write_csv(
    workload: &Workload,
    profile: &Estimates,
    watts: [f64; 2],
    out: &mut dyn Write,
) -> io::Result<()> {
    table(workload, profile, watts).write_csv(out)
}

/// Writes Parquet, with the same columns.
pub fn write_parquet(
    workload: &Workload,
    profile: &Estimates,
    watts: [f64; 2],
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    table(workload, profile, watts).write_parquet(out)
}
