//! CSV: a row of column names, then a row for each run.

use super::faults::{RENAME, shown};
use super::{Column, Table, TableFaults, TextColumn, Values, is_duration};
use csv::{ByteRecord, ErrorKind, ReaderBuilder};
use gswarm_core::input::{Code, MAX_BYTES};

/// A column with at least this share of numbers is one of numbers, and its other cells are faults.
const MOSTLY_NUMBERS: f64 = 0.9;

/// One column while it is read: numbers as long as it may be one of numbers, and text.
struct Cells {
    name: String,
    text: TextColumn,
    numbers: usize,
    filled: usize,
}

/// Reads the table. Cells that are at fault are empty in it; columns named in `texts` hold text, whatever it looks like.
pub fn read_with(file: &str, bytes: &[u8], texts: &[&str], faults: &mut TableFaults) -> Option<Table> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    if bytes.len() > MAX_BYTES {
        faults.add(Code::TooBig, None, "", "the table has more than 2 GiB", Some("use Parquet".to_owned()));
        return None;
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() as u32;
        let hint = "convert the file, for example with `iconv -t utf-8`".to_owned();
        faults.add(Code::NotUtf8, Some(line), "", "the table is not UTF-8", Some(hint));
        return None;
    }
    let mut reader = ReaderBuilder::new().flexible(true).has_headers(false).from_reader(bytes);
    let mut record = ByteRecord::new();
    let header = match next(&mut reader, bytes, &mut record, faults) {
        Some(_) => record.clone(),
        None => {
            if faults.is_empty() {
                let hint = "the first row names the columns".to_owned();
                faults.add(Code::NoContent, None, "", "the table is empty", Some(hint));
            }
            return None;
        }
    };
    if let Some(other) = other_delimiter(&header) {
        let message = format!("the columns are separated by {other}, not by commas");
        let hint = "write the table with commas, or as Parquet".to_owned();
        faults.add(Code::NotATable, Some(1), "", message, Some(hint));
        return None;
    }
    let mut cells = columns(&header, faults);
    let mut lines: Vec<u32> = Vec::new();
    while let Some(line) = next(&mut reader, bytes, &mut record, faults) {
        if record.len() != cells.len() {
            if faults.has_room() {
                let message = match (record.len(), cells.len()) {
                    (1, columns) => format!("1 cell, but {columns} columns"),
                    (found, 1) => format!("{found} cells, but 1 column"),
                    (found, columns) => format!("{found} cells, but {columns} columns"),
                };
                let hint = "quote cells that contain a comma".to_owned();
                faults.add(Code::Ragged, Some(line), "", message, Some(hint));
            } else {
                faults.count();
            }
            continue;
        }
        lines.push(line);
        for (column, cell) in cells.iter_mut().zip(&record) {
            // The whole file is UTF-8, and cells end at ASCII characters.
            let cell = std::str::from_utf8(cell).unwrap_or_default().trim();
            column.filled += usize::from(!cell.is_empty());
            column.numbers += usize::from(!cell.is_empty() && cell.parse::<f64>().is_ok());
            column.text.push(cell);
        }
    }
    if lines.is_empty() && faults.is_empty() {
        faults.add(Code::NoContent, None, "", "the table has no rows below its column names", None);
    }
    let is_whole = faults.is_empty();
    let columns: Vec<Column> = cells
        .into_iter()
        .map(|cells| {
            let is_text = texts.contains(&cells.name.as_str());
            finish(cells, is_text, &lines, faults)
        })
        .collect();
    // Rows or columns that are not what they should be leave no table to go on with.
    is_whole.then(|| Table::new(file, columns).with_lines(lines))
}

/// The next row and its line: the reader's place is before the line ends that it has yet to skip.
fn next(
    reader: &mut csv::Reader<&[u8]>,
    bytes: &[u8],
    record: &mut ByteRecord,
    faults: &mut TableFaults,
) -> Option<u32> {
    match reader.read_byte_record(record) {
        Ok(true) => record.position().map(|at| {
            let rest = bytes.get(at.byte() as usize..).unwrap_or_default();
            let skipped = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
            at.line() as u32 + skipped.filter(|&&byte| byte == b'\n').count() as u32
        }),
        Ok(false) => None,
        Err(error) => {
            let line = match error.kind() {
                ErrorKind::Utf8 { pos: Some(at), .. } => Some(at.line() as u32),
                _ => None,
            };
            faults.add(Code::NotATable, line, "", error.to_string(), None);
            None
        }
    }
}

/// What parts the columns of a table whose first row is, by commas, one cell with several names in it.
fn other_delimiter(header: &ByteRecord) -> Option<&'static str> {
    let only = header.get(0).filter(|_| header.len() == 1)?;
    let known = [(b';', "semicolons"), (b'\t', "tabs"), (b'|', "bars")];
    known.into_iter().find(|(byte, _)| only.contains(byte)).map(|(_, name)| name)
}

fn columns(header: &ByteRecord, faults: &mut TableFaults) -> Vec<Cells> {
    let mut cells: Vec<Cells> = Vec::new();
    for (index, name) in header.iter().enumerate() {
        let name = std::str::from_utf8(name).unwrap_or_default().trim().to_owned();
        if name.is_empty() {
            faults.add(Code::BadId, Some(1), "", format!("column {} has no name", index + 1), None);
        } else if cells.iter().any(|other| other.name == name) {
            let message = format!("two columns are called `{}`", shown(&name));
            faults.add(Code::Duplicate, Some(1), &name, message, Some(RENAME.to_owned()));
        }
        cells.push(Cells { name, text: TextColumn::default(), numbers: 0, filled: 0 });
    }
    if header
        .iter()
        .any(|name| std::str::from_utf8(name).is_ok_and(|name| name.trim().parse::<f64>().is_ok()))
    {
        let hint = "the first row names the columns".to_owned();
        faults.add(Code::Missing, Some(1), "", "a column's name is a number", Some(hint));
    }
    cells
}

/// The column as numbers or as text, whichever it is.
fn finish(cells: Cells, is_text: bool, lines: &[u32], faults: &mut TableFaults) -> Column {
    let Cells { name, text, numbers, filled } = cells;
    let is_number = !is_text && filled > 0 && numbers as f64 >= MOSTLY_NUMBERS * filled as f64;
    if !is_number {
        return Column { name, values: text.finish() };
    }
    let duration = is_duration(&name);
    // Each different text is read once.
    let parsed: Vec<Result<f64, Code>> = text.names.iter().map(|cell| number(cell, duration)).collect();
    let value = |row: usize, code: u32, faults: &mut TableFaults| match parsed.get(code as usize) {
        None => f64::NAN,
        Some(&Ok(value)) => value,
        Some(&Err(fault)) => {
            if faults.has_room() {
                let cell = shown(&text.names[code as usize]);
                let (message, hint) = match fault {
                    Code::WrongType => (format!("`{cell}` is not a number"), "leave unknown values empty"),
                    Code::Negative => {
                        (format!("a time of {cell}"), "run times cannot be negative: check the unit")
                    }
                    _ => (format!("`{cell}` is not a finite number"), "leave unknown values empty"),
                };
                faults.add(fault, lines.get(row).copied(), &name, message, Some(hint.to_owned()));
            } else {
                faults.count();
            }
            f64::NAN
        }
    };
    let numbers = text.codes.iter().enumerate().map(|(row, &code)| value(row, code, faults)).collect();
    Column { name, values: Values::Numbers(numbers) }
}

fn number(cell: &str, duration: bool) -> Result<f64, Code> {
    match cell.parse::<f64>() {
        Err(_) => Err(Code::WrongType),
        Ok(value) if !value.is_finite() => Err(Code::NotFinite),
        Ok(value) if duration && value < 0.0 => Err(Code::Negative),
        Ok(value) => Ok(value),
    }
}
