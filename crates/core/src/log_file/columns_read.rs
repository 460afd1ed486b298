//! Reading a log's columns. What cannot be read becomes a violation.

use super::columns::{CHECKSUM, HEADER, TEXTS, TIMES, WHOLES};
use super::raw::Text;
use super::read::{Fields, Reader};
use super::{MOST_GPUS, Record};
use crate::violation::ViolationCode;
use bytes::Bytes;
use parquet::basic::Type as Physical;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a Parquet file begins with.
pub(super) const MAGIC: &[u8] = b"PAR1";

/// Rows that are read at a time: a damaged file may claim any number.
const ROWS: usize = 1 << 16;

pub(super) fn read(bytes: &[u8], reader: &mut Reader) {
    // The library panics on some files that were made to look right; a file that was damaged fails its checksum before.
    let read = catch_unwind(AssertUnwindSafe(|| read_all(bytes, reader)));
    let why = match read {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "its columns are damaged".to_owned(),
    };
    reader.fault(ViolationCode::File, 1, format!("the file is not readable as Parquet: {why}"));
}

/// Whether the file's checksum fits its bytes.
fn is_whole(bytes: &[u8], checksum: &str) -> bool {
    let parts = checksum.split_once(' ');
    let parts = parts
        .and_then(|(count, hash)| Some((count.parse::<usize>().ok()?, u32::from_str_radix(hash, 16).ok()?)));
    parts.is_some_and(|(count, hash)| bytes.get(..count).is_some_and(|bytes| crc32fast::hash(bytes) == hash))
}

fn read_all(bytes: &[u8], reader: &mut Reader) -> ParquetResult<()> {
    let file = SerializedFileReader::new(Bytes::copy_from_slice(bytes))?;
    let known = file.metadata().file_metadata().key_value_metadata();
    let value = |key: &str| known?.iter().find(|one| one.key == key)?.value.as_deref();
    if !value(CHECKSUM).is_some_and(|checksum| is_whole(bytes, checksum)) {
        let message = format!("the file is damaged: it does not match its checksum `{CHECKSUM}`");
        reader.fault(ViolationCode::File, 1, message);
        return Ok(());
    }
    let Some(header) = value(HEADER) else {
        reader.fault(ViolationCode::File, 1, format!("the Parquet file has no metadata `{HEADER}`"));
        return Ok(());
    };
    match serde_json::from_str::<Fields>(header) {
        Ok(fields) => reader.head(&fields),
        Err(error) => reader.fault(ViolationCode::File, 1, format!("the metadata `{HEADER}`: {error}")),
    }
    let mut rows = 0;
    for group in 0..file.num_row_groups() {
        let columns = Columns::read(file.get_row_group(group)?.as_ref())?;
        for row in 0..columns.rows() {
            rows += 1;
            columns.add(row, rows, reader);
        }
    }
    Ok(())
}

/// One column, with nothing where it is null.
type Values<T> = Vec<Option<T>>;

/// The columns of some rows, in the order of their names in [`super::columns`]; those that the file lacks are empty.
#[derive(Default)]
struct Columns {
    texts: [Values<ByteArray>; TEXTS.len()],
    wholes: [Values<i32>; WHOLES.len()],
    times: [Values<i64>; TIMES.len()],
}

impl Columns {
    fn read(group: &dyn RowGroupReader) -> ParquetResult<Columns> {
        let mut columns = Columns::default();
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        for (at, described) in group.metadata().schema_descr().columns().iter().enumerate() {
            let place = |names: &[&str]| names.iter().position(|&name| name == described.name());
            match described.physical_type() {
                _ if described.max_rep_level() > 0 => {}
                Physical::BYTE_ARRAY => {
                    if let Some(place) = place(&TEXTS) {
                        columns.texts[place] = values::<ByteArrayType>(group, at, rows)?;
                    }
                }
                Physical::INT32 => {
                    if let Some(place) = place(&WHOLES) {
                        columns.wholes[place] = values::<Int32Type>(group, at, rows)?;
                    }
                }
                Physical::INT64 => {
                    if let Some(place) = place(&TIMES) {
                        columns.times[place] = values::<Int64Type>(group, at, rows)?;
                    }
                }
                _ => {}
            }
        }
        Ok(columns)
    }

    /// Every row has a kind.
    fn rows(&self) -> usize {
        self.texts[0].len()
    }

    /// Adds a row to the log.
    fn add(&self, row: usize, line: u32, reader: &mut Reader) {
        let text = |column: &Values<ByteArray>| column.get(row).cloned().flatten();
        let mut name = |column| {
            let text = text(column)?;
            Some(reader.intern(Text(String::from_utf8_lossy(text.data()))))
        };
        let [kind, request, workflow, node, model, status, evicted] = &self.texts;
        let [request, workflow, node] = [request, workflow, node].map(&mut name);
        let [model, status] = [model, status].map(&mut name);
        let evicted = text(evicted).map(|list| {
            let names: Vec<String> = serde_json::from_slice(list.data()).unwrap_or_default();
            names.into_iter().map(|name| reader.intern(Text(Cow::Owned(name)))).collect()
        });
        let [gpu, count, batch_size, attempt] =
            self.wholes.each_ref().map(|column| column.get(row).copied().flatten().map(i64::from));
        if count.is_some_and(|count| !(1..=i64::from(MOST_GPUS)).contains(&count)) {
            let message = "a record cannot be read: gpu_count is not a number of GPUs";
            return reader.fault(ViolationCode::Record, line, message);
        }
        let micros = self.times.each_ref().map(|column| column.get(row).copied().flatten());
        let [_, _, _, started, ended, ..] = micros;
        let seconds = |micros: Option<i64>| micros.map(|micros| micros as f64 / 1e6);
        let [arrival, ready, switch, start, end, estimated, low, high, expected, least, most, until] =
            micros.map(seconds);
        let kind = text(kind).unwrap_or_default();
        let kind = String::from_utf8_lossy(kind.data());
        let is_loss = kind == "lost_gpu" || kind == "unload";
        let lasted = started.zip(ended).map(|(start, end)| end.wrapping_sub(start));
        let record = Record {
            line,
            request,
            workflow,
            node,
            model,
            status,
            evicted,
            gpu_ids: gpu.zip(count).map(|(first, count)| (first..first + count).collect()),
            gpu_id: gpu.filter(|_| kind != "load"),
            batch_size,
            attempt,
            arrival_time: arrival,
            ready_time: ready,
            switch_time: switch,
            start_time: start.filter(|_| !is_loss),
            end_time: end,
            execution_time: seconds(lasted).filter(|_| kind == "execution"),
            estimated_time: estimated,
            predicted_low: low,
            predicted_high: high,
            expected_time: expected,
            expected_low: least,
            expected_high: most,
            time: start.filter(|_| is_loss),
            until,
        };
        match kind.as_ref() {
            "execution" => reader.log.executions.push(record),
            "load" => reader.log.loads.push(record),
            "lost_gpu" => reader.log.lost_gpus.push(record),
            "unload" => reader.log.unloads.push(record),
            other => {
                reader.fault(ViolationCode::Record, line, format!("a record of unknown kind `{other}`"));
            }
        }
    }
}

fn values<T: DataType>(group: &dyn RowGroupReader, at: usize, rows: usize) -> ParquetResult<Values<T::T>> {
    let mut column = get_typed_column_reader::<T>(group.get_column_reader(at)?);
    let optional = group.metadata().schema_descr().column(at).max_def_level() > 0;
    let mut all = Vec::new();
    while all.len() < rows {
        let (mut found, mut there) = (Vec::new(), Vec::new());
        let (records, ..) =
            column.read_records(ROWS.min(rows - all.len()), Some(&mut there), None, &mut found)?;
        if records == 0 {
            break;
        }
        let mut found = found.into_iter();
        if optional {
            all.extend(there.into_iter().map(|level| if level > 0 { found.next() } else { None }));
        } else {
            all.extend(found.map(Some));
        }
    }
    Ok(all)
}
