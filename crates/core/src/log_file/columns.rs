//! The form of a log with columns: Parquet. It is smaller than JSON Lines by an order of magnitude, and as much faster to write
//! and read.
//!
//! Executions, loads and lost GPUs are rows of one table, told apart by `kind`. What a row does not have is null. Times are
//! whole microseconds. The header line of JSON Lines is in the file's metadata.

use super::SCHEMA;
use super::summary::{Claims, Summary};
use crate::instance::Instance;
use crate::log::{Execution, ExecutionLog, Load, Loss, Unload};
use crc32fast::Hasher;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::io::{self, Write};
use std::sync::Arc;

/// The name of the header in the file's metadata.
pub(super) const HEADER: &str = "gswarm";

/// The name of the checksum there: how many bytes of the file it is about, and their CRC-32.
pub(super) const CHECKSUM: &str = "gswarm_crc32";

/// Rows that are held in memory at a time.
const ROWS: usize = 1 << 18;

pub(super) const TEXTS: [&str; 7] =
    ["kind", "request_id", "workflow_id", "node_id", "model_name", "status", "evicted"];
pub(super) const WHOLES: [&str; 4] = ["gpu_id", "gpu_count", "batch_size", "attempt"];
pub(super) const TIMES: [&str; 12] = [
    "arrival_us",
    "ready_us",
    "switch_us",
    "start_us",
    "end_us",
    "estimated_us",
    "predicted_low_us",
    "predicted_high_us",
    "expected_us",
    "expected_low_us",
    "expected_high_us",
    "until_us",
];

/// Writes a log as columns.
pub fn write_parquet(
    instance: &Instance,
    log: &ExecutionLog,
    summary: &Summary,
    out: &mut (dyn Write + Send),
) -> io::Result<()> {
    let texts = TEXTS.iter().map(|name| format!("optional binary {name} (STRING);"));
    let wholes = WHOLES.iter().map(|name| format!("optional int32 {name};"));
    let times = TIMES.iter().map(|name| format!("optional int64 {name};"));
    let fields: String = texts.chain(wholes).chain(times).collect();
    let schema = parse_message_type(&format!("message log {{ {fields} }}"))?;
    let header = serde_json::json!({"kind": "header", "schema": SCHEMA, "summary": Claims::from(summary)});
    let properties = TIMES.iter().fold(WriterProperties::builder(), packed);
    let properties = packed(properties, &"request_id")
        .set_column_encoding(ColumnPath::from("request_id"), Encoding::DELTA_BYTE_ARRAY)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_key_value_metadata(Some(vec![KeyValue::new(HEADER.to_owned(), header.to_string())]))
        .build();
    let hashed = Hashed { out, hash: Hasher::new(), bytes: 0 };
    let mut file = SerializedFileWriter::new(hashed, Arc::new(schema), Arc::new(properties))?;
    let names = Names::of(instance);
    for executions in log.executions.chunks(ROWS) {
        names.executions(instance, executions, Group(file.next_row_group()?))?;
    }
    for loads in log.loads.chunks(ROWS) {
        names.loads(loads, Group(file.next_row_group()?))?;
    }
    for losses in log.losses.chunks(ROWS) {
        write_losses(losses, Group(file.next_row_group()?))?;
    }
    for unloads in log.unloads.chunks(ROWS) {
        names.unloads(unloads, Group(file.next_row_group()?))?;
    }
    file.flush()?;
    let Hashed { hash, bytes, .. } = file.inner();
    let checksum = format!("{bytes} {:08x}", hash.clone().finalize());
    file.append_key_value_metadata(KeyValue::new(CHECKSUM.to_owned(), checksum));
    file.close()?;
    Ok(())
}

/// What is written, with its checksum: readers of Parquet take its pages on trust.
struct Hashed<'a> {
    out: &'a mut (dyn Write + Send),
    hash: Hasher,
    bytes: u64,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whole numbers that differ little from row to row take next to no room as differences.
fn packed(properties: WriterPropertiesBuilder, name: &&str) -> WriterPropertiesBuilder {
    let column = ColumnPath::from(*name);
    properties
        .set_column_dictionary_enabled(column.clone(), false)
        .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
}

/// Names of models, workflows and nodes, made once.
struct Names {
    models: Vec<ByteArray>,
    workflows: Vec<ByteArray>,
    nodes: Vec<Vec<ByteArray>>,
}

fn bytes_of(text: &str) -> ByteArray {
    ByteArray::from(text)
}

impl Names {
    fn of(instance: &Instance) -> Names {
        let nodes =
            |workflow: &crate::instance::Workflow| workflow.nodes.iter().map(|node| bytes_of(node)).collect();
        Names {
            models: instance.models.iter().map(|model| bytes_of(&model.name)).collect(),
            workflows: instance.workflows.iter().map(|workflow| bytes_of(&workflow.name)).collect(),
            nodes: instance.workflows.iter().map(nodes).collect(),
        }
    }

    fn executions<W: Write + Send>(
        &self,
        instance: &Instance,
        rows: &[Execution],
        mut group: Group<'_, W>,
    ) -> ParquetResult<()> {
        let request = |row: &Execution| &instance.requests[instance.request_of(row.task)];
        let workflow = |row: &Execution| request(row).workflow.index();
        let node = |row: &Execution| instance.node_of(row.task) as usize;
        let expected = |part: fn(&crate::estimate::Estimate) -> u64| {
            move |row: &Execution| row.expected.as_ref().map(|expected| part(expected) as i64)
        };
        let evicted = |row: &Execution| self.evicted(&row.evicted);
        group.same("execution", rows.len())?;
        group.texts(rows, |row| Some(bytes_of(&request(row).name)))?;
        group.texts(rows, |row| Some(self.workflows[workflow(row)].clone()))?;
        group.texts(rows, |row| Some(self.nodes[workflow(row)][node(row)].clone()))?;
        group.texts(rows, |row| Some(self.models[instance.model_of(row.task).index()].clone()))?;
        group.texts(rows, |row| Some(bytes_of(row.status.name())))?;
        group.texts(rows, evicted)?;
        group.wholes(rows, |row| Some(row.gpus.first.0 as i32))?;
        group.wholes(rows, |row| Some(row.gpus.count as i32))?;
        group.wholes(rows, |row| Some(row.batch as i32))?;
        group.wholes(rows, |row| Some(row.attempt as i32))?;
        group.times(rows, |row| Some(request(row).arrival.0 as i64))?;
        group.times(rows, |row| Some(row.ready.0 as i64))?;
        group.times(rows, |row| Some(row.switch.0 as i64))?;
        group.times(rows, |row| Some(row.start.0 as i64))?;
        group.times(rows, |row| Some(row.end.0 as i64))?;
        group.times(rows, |row| Some(instance.execution(row.task).0 as i64))?;
        group.times(rows, |row| instance.interval(row.task).map(|(low, _)| low.0 as i64))?;
        group.times(rows, |row| instance.interval(row.task).map(|(_, high)| high.0 as i64))?;
        group.times(rows, expected(|expected| expected.mean.0))?;
        group.times(rows, expected(|expected| expected.low.0))?;
        group.times(rows, expected(|expected| expected.high.0))?;
        group.times(rows, |_| None)?;
        group.close()
    }

    fn loads<W: Write + Send>(&self, rows: &[Load], mut group: Group<'_, W>) -> ParquetResult<()> {
        group.same("load", rows.len())?;
        for _ in ["request_id", "workflow_id", "node_id"] {
            group.texts(rows, |_| None)?;
        }
        group.texts(rows, |row| Some(self.models[row.model.index()].clone()))?;
        group.texts(rows, |row| Some(bytes_of(row.status.name())))?;
        group.texts(rows, |row| self.evicted(&row.evicted))?;
        group.wholes(rows, |row| Some(row.gpus.first.0 as i32))?;
        group.wholes(rows, |row| Some(row.gpus.count as i32))?;
        for _ in ["batch_size", "attempt"] {
            group.wholes(rows, |_| None)?;
        }
        for name in TIMES {
            match name {
                "start_us" => group.times(rows, |row| Some(row.start.0 as i64))?,
                "end_us" => group.times(rows, |row| Some(row.end.0 as i64))?,
                _ => group.times(rows, |_| None)?,
            }
        }
        group.close()
    }

    fn unloads<W: Write + Send>(&self, rows: &[Unload], mut group: Group<'_, W>) -> ParquetResult<()> {
        group.same("unload", rows.len())?;
        for name in &TEXTS[1..] {
            let model =
                |row: &Unload| (*name == "model_name").then(|| self.models[row.model.index()].clone());
            group.texts(rows, model)?;
        }
        group.wholes(rows, |row| Some(row.gpu.0 as i32))?;
        for _ in &WHOLES[1..] {
            group.wholes(rows, |_| None)?;
        }
        for name in TIMES {
            group.times(rows, |row| (name == "start_us").then_some(row.at.0 as i64))?;
        }
        group.close()
    }

    /// The models as a JSON list: names may hold any character.
    fn evicted(&self, models: &[crate::id::ModelId]) -> Option<ByteArray> {
        let names: Vec<String> = models
            .iter()
            .map(|model| String::from_utf8_lossy(self.models[model.index()].data()).into())
            .collect();
        (!names.is_empty()).then(|| bytes_of(&serde_json::Value::from(names).to_string()))
    }
}

fn write_losses<W: Write + Send>(rows: &[Loss], mut group: Group<'_, W>) -> ParquetResult<()> {
    group.same("lost_gpu", rows.len())?;
    for _ in &TEXTS[1..] {
        group.texts(rows, |_| None)?;
    }
    group.wholes(rows, |row| Some(row.gpu.0 as i32))?;
    for _ in &WHOLES[1..] {
        group.wholes(rows, |_| None)?;
    }
    for name in TIMES {
        match name {
            "start_us" => group.times(rows, |row| Some(row.at.0 as i64))?,
            "until_us" => group.times(rows, |row| row.until.map(|until| until.0 as i64))?,
            _ => group.times(rows, |_| None)?,
        }
    }
    group.close()
}

/// Columns of some rows, written in the order of the schema.
struct Group<'a, W: Write + Send>(SerializedRowGroupWriter<'a, W>);

impl<W: Write + Send> Group<'_, W> {
    fn same(&mut self, text: &str, rows: usize) -> ParquetResult<()> {
        self.column::<ByteArrayType>(vec![bytes_of(text); rows], &vec![1; rows])
    }

    fn texts<R>(&mut self, rows: &[R], of: impl Fn(&R) -> Option<ByteArray>) -> ParquetResult<()> {
        self.optional::<ByteArrayType, R>(rows, of)
    }

    fn wholes<R>(&mut self, rows: &[R], of: impl Fn(&R) -> Option<i32>) -> ParquetResult<()> {
        self.optional::<Int32Type, R>(rows, of)
    }

    fn times<R>(&mut self, rows: &[R], of: impl Fn(&R) -> Option<i64>) -> ParquetResult<()> {
        self.optional::<Int64Type, R>(rows, of)
    }

    fn optional<T: DataType, R>(&mut self, rows: &[R], of: impl Fn(&R) -> Option<T::T>) -> ParquetResult<()> {
        let (mut values, mut there) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for row in rows {
            let value = of(row);
            there.push(i16::from(value.is_some()));
            values.extend(value);
        }
        self.column::<T>(values, &there)
    }

    fn column<T: DataType>(&mut self, values: Vec<T::T>, there: &[i16]) -> ParquetResult<()> {
        let missing = || ParquetError::General("the schema has too few columns".to_owned());
        let mut column = self.0.next_column()?.ok_or_else(missing)?;
        column.typed::<T>().write_batch(&values, Some(there), None)?;
        column.close()
    }

    fn close(self) -> ParquetResult<()> {
        self.0.close().map(drop)
    }
}
