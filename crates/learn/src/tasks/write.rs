//! Workloads as files.

use super::view::Estimates;
use super::workload::{Task, Truth, Workload};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

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
fn cells(task: &Task, mean: Truth, workload: &Workload, watts: [f64; 2]) -> [Cell; 14] {
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

/// Writes CSV. Dependencies are names with semicolons between them.
pub fn write_csv(
    workload: &Workload,
    profile: &Estimates,
    watts: [f64; 2],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(COLUMNS)?;
    for (task, &mean) in workload.tasks.iter().zip(&profile.means) {
        table.write_record(cells(task, mean, workload, watts).map(|cell| match cell {
            Cell::Text(text) => text,
            Cell::Number(number) => number.to_string(),
            Cell::Nothing => String::new(),
        }))?;
    }
    table.flush()
}

/// Whether a column of Parquet holds text.
fn is_text(column: &str) -> bool {
    matches!(column, "task_id" | "dependencies" | "task_type")
}

/// Writes Parquet, with the same columns.
pub fn write_parquet(
    workload: &Workload,
    profile: &Estimates,
    watts: [f64; 2],
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    let fields: Vec<String> = COLUMNS
        .iter()
        .map(|&name| match (is_text(name), name.starts_with("true_")) {
            (true, _) => format!("required binary {name} (STRING);"),
            (false, true) => format!("optional double {name};"),
            (false, false) => format!("required double {name};"),
        })
        .collect();
    let schema = parse_message_type(&format!("message workload {{ {} }}", fields.join(" ")))?;
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let rows: Vec<[Cell; 14]> = workload
        .tasks
        .iter()
        .zip(&profile.means)
        .map(|(task, &mean)| cells(task, mean, workload, watts))
        .collect();
    let mut group = file.next_row_group()?;
    for (at, name) in COLUMNS.iter().enumerate() {
        let Some(mut column) = group.next_column()? else { break };
        let present: Vec<i16> = rows.iter().map(|row| i16::from(!matches!(row[at], Cell::Nothing))).collect();
        let levels = name.starts_with("true_").then_some(present.as_slice());
        if is_text(name) {
            let values: Vec<ByteArray> = rows
                .iter()
                .map(|row| match &row[at] {
                    Cell::Text(text) => ByteArray::from(text.as_str()),
                    _ => ByteArray::from(""),
                })
                .collect();
            column.typed::<ByteArrayType>().write_batch(&values, levels, None)?;
        } else {
            let numbers = rows.iter().filter_map(|row| match row[at] {
                Cell::Number(number) => Some(number),
                _ => None,
            });
            column.typed::<DoubleType>().write_batch(&numbers.collect::<Vec<f64>>(), levels, None)?;
        }
        column.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}
