//! Parquet: flat columns of numbers, truth values and text.

use super::faults::RENAME;
use super::{Column, Table, TableFaults, TextColumn, Values, is_duration, short};
use bytes::Bytes;
use gswarm_core::input::{Code, Diagnostic};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

enum Cells {
    Unknown(usize),
    Numbers(Vec<f64>),
    Texts(TextColumn),
    /// Of a type that nothing is learned from; it was reported.
    Refused,
}

/// Reads the table, or says all that is wrong with it. Columns named in `texts` hold text, whole numbers to the last digit.
pub fn read(file: &str, bytes: Vec<u8>, texts: &[&str]) -> Result<Table, Vec<Diagnostic>> {
    let mut faults = TableFaults::new(file);
    let columns = match cells(bytes, texts, &mut faults) {
        Ok(columns) => columns,
        Err(error) => {
            let hint = "write the file again".to_owned();
            faults.add(Code::NotATable, None, "", format!("not readable as Parquet: {error}"), Some(hint));
            return Err(faults.into_diagnostics());
        }
    };
    let columns: Vec<Column> = columns
        .into_iter()
        .map(|(name, cells)| {
            let values = match cells {
                Cells::Unknown(rows) => Values::Numbers(vec![f64::NAN; rows]),
                Cells::Numbers(numbers) => Values::Numbers(numbers),
                Cells::Texts(text) => text.finish(),
                Cells::Refused => Values::Numbers(Vec::new()),
            };
            Column { name, values }
        })
        .collect();
    if faults.is_empty() && columns.first().is_none_or(|column| column.values.len() == 0) {
        faults.add(Code::NoContent, None, "", "the table has no rows", None);
    }
    if faults.is_empty() { Ok(Table::new(file, columns)) } else { Err(faults.into_diagnostics()) }
}

fn cells(
    bytes: Vec<u8>,
    texts: &[&str],
    faults: &mut TableFaults,
) -> Result<Vec<(String, Cells)>, ParquetError> {
    let reader = SerializedFileReader::new(Bytes::from(bytes))?;
    let schema = reader.metadata().file_metadata().schema();
    let names: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let mut columns: Vec<(String, Cells)> = Vec::new();
    for name in names {
        if columns.iter().any(|(other, _)| *other == name) {
            let message = format!("two columns are called `{name}`");
            faults.add(Code::Duplicate, None, &name, message, Some(RENAME.to_owned()));
        }
        columns.push((name, Cells::Unknown(0)));
    }
    for (row, record) in reader.get_row_iter(None)?.enumerate() {
        for ((name, cells), (_, field)) in columns.iter_mut().zip(record?.get_column_iter()) {
            let written = texts.contains(&name.as_str()).then(|| whole(field)).flatten();
            match written {
                Some(written) => push(cells, &Field::Str(written), name, row, faults),
                None => push(cells, field, name, row, faults),
            }
        }
    }
    Ok(columns)
}

/// Adds one cell to its column, whose kind the first cell that is not empty decides.
fn push(cells: &mut Cells, field: &Field, name: &str, row: usize, faults: &mut TableFaults) {
    let cell = match value(field) {
        Some(cell) => cell,
        None => {
            if !matches!(cells, Cells::Refused) {
                let hint = "columns hold numbers, truth values or text".to_owned();
                faults.add(Code::WrongType, None, name, "a column of another type", Some(hint));
            }
            *cells = Cells::Refused;
            return;
        }
    };
    if let Cells::Unknown(empty) = cells {
        match cell {
            Cell::Empty => *empty += 1,
            Cell::Number(_) => *cells = Cells::Numbers(vec![f64::NAN; *empty]),
            Cell::Text(_) => {
                let mut text = TextColumn::default();
                (0..*empty).for_each(|_| text.push(""));
                *cells = Cells::Texts(text);
            }
        }
    }
    match (cells, cell) {
        (Cells::Numbers(numbers), Cell::Number(number)) => {
            let fault = if !number.is_finite() {
                Some((Code::NotFinite, "write null for unknown values"))
            } else if number < 0.0 && is_duration(name) {
                Some((Code::Negative, "run times cannot be negative: check the unit"))
            } else {
                None
            };
            if let Some((code, hint)) = fault {
                let path = format!("{name}[{row}]");
                faults.add(code, None, &path, format!("a value of {}", short(number)), Some(hint.to_owned()));
            }
            numbers.push(number);
        }
        (Cells::Numbers(numbers), _) => numbers.push(f64::NAN),
        (Cells::Texts(text), Cell::Text(cell)) => text.push(cell),
        (Cells::Texts(text), _) => text.push(""),
        (Cells::Unknown(_) | Cells::Refused, _) => {}
    }
}

/// A whole number as text.
fn whole(field: &Field) -> Option<String> {
    Some(match field {
        Field::Byte(value) => value.to_string(),
        Field::Short(value) => value.to_string(),
        Field::Int(value) => value.to_string(),
        Field::Long(value) => value.to_string(),
        Field::UByte(value) => value.to_string(),
        Field::UShort(value) => value.to_string(),
        Field::UInt(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        Field::Float(value) => value.to_string(),
        Field::Double(value) => value.to_string(),
        _ => return None,
    })
}

enum Cell<'c> {
    Empty,
    Number(f64),
    Text(&'c str),
}

fn value(field: &Field) -> Option<Cell<'_>> {
    Some(match field {
        Field::Null => Cell::Empty,
        Field::Bool(value) => Cell::Number(f64::from(u8::from(*value))),
        Field::Byte(value) => Cell::Number(f64::from(*value)),
        Field::Short(value) => Cell::Number(f64::from(*value)),
        Field::Int(value) => Cell::Number(f64::from(*value)),
        Field::Long(value) | Field::TimestampMillis(value) | Field::TimestampMicros(value) => {
            Cell::Number(*value as f64)
        }
        Field::UByte(value) => Cell::Number(f64::from(*value)),
        Field::UShort(value) => Cell::Number(f64::from(*value)),
        Field::UInt(value) => Cell::Number(f64::from(*value)),
        Field::ULong(value) => Cell::Number(*value as f64),
        Field::Float(value) => Cell::Number(f64::from(*value)),
        Field::Double(value) => Cell::Number(*value),
        Field::Str(value) => Cell::Text(value),
        _ => return None,
    })
}
