//! CSV with a row of column names, every fault with its line.

use crate::File;
use csv::{ReaderBuilder, StringRecord};
use gswarm_core::input::document::{Path, Shown, without_mark};
use gswarm_core::input::{Code, MAX_BYTES};

/// The rows of a table, one after the other.
pub struct Rows<'a> {
    reader: csv::Reader<&'a [u8]>,
    header: Vec<String>,
    record: StringRecord,
    at: u32,
}

pub struct Row<'r> {
    header: &'r [String],
    record: &'r StringRecord,
    /// Where it starts in the text.
    pub at: u32,
}

/// The table of a file; `None` where it is none, which is reported.
pub fn open<'a>(file: &mut File<'a>) -> Option<Rows<'a>> {
    let (bytes, root) = (without_mark(file.source.bytes), Path::root());
    if bytes.len() > MAX_BYTES {
        file.faults.add(Code::TooBig, 0, &root, format_args!("the table has more than 2 GiB"));
        return None;
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        let at = error.valid_up_to() as u32;
        let hint = "convert the file, for example with `iconv -t utf-8`".to_owned();
        file.faults.add_hinted(Code::NotUtf8, at, &root, format_args!("the table is not UTF-8"), Some(hint));
        return None;
    }
    let mut reader = ReaderBuilder::new().flexible(true).has_headers(false).from_reader(bytes);
    let mut record = StringRecord::new();
    if !matches!(reader.read_record(&mut record), Ok(true)) {
        file.faults.add(Code::NoContent, 0, &root, format_args!("the table is empty"));
        return None;
    }
    let header = record.iter().map(|name| name.trim().to_owned()).collect();
    Some(Rows { reader, header, record, at: 0 })
}

impl<'a> Rows<'a> {
    /// The column of this name, whatever its case.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|column| column.eq_ignore_ascii_case(name))
    }

    /// The same; its absence is reported.
    pub fn column(&self, file: &mut File<'a>, name: &str) -> Option<usize> {
        let found = self.find(name);
        if found.is_none() {
            let listed = self.header.iter().take(20).map(|name| format!("`{}`", Shown(name)));
            let hint = format!("its columns are {}", listed.collect::<Vec<_>>().join(", "));
            let message = format_args!("there is no column `{name}`");
            file.faults.add_hinted(Code::OtherKind, 0, &Path::root(), message, Some(hint));
        }
        found
    }

    /// The next row that has as many cells as there are columns; others are reported.
    pub fn next(&mut self, file: &mut File<'a>) -> Option<Row<'_>> {
        loop {
            match self.reader.read_record(&mut self.record) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    file.faults.add(Code::NotATable, self.at, &Path::root(), format_args!("{error}"));
                    return None;
                }
            }
            // The reader's place is before the ends of lines that it has yet to skip.
            let start = self.record.position().map_or(0, csv::Position::byte) as usize;
            let rest = without_mark(file.source.bytes).get(start..).unwrap_or_default();
            let skipped = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.at = (start + skipped) as u32;
            if self.record.len() == self.header.len() {
                break;
            }
            let (cells, columns) = (self.record.len(), self.header.len());
            let message = format_args!("{cells} cells, but {columns} columns");
            file.faults.add(Code::Ragged, self.at, &Path::root(), message);
        }
        Some(Row { header: &self.header, record: &self.record, at: self.at })
    }
}

impl Row<'_> {
    /// What stands in a column.
    pub fn cell(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or_default().trim()
    }

    /// A number from 0, or above it, to `max`; anything else is reported.
    pub fn number(&self, file: &mut File<'_>, column: usize, zero: bool, max: f64) -> Option<f64> {
        let cell = self.cell(column);
        let value = cell.parse::<f64>().ok();
        let (code, reason) = match value {
            None if cell.is_empty() => (Code::Missing, "is missing"),
            None => (Code::WrongType, "is not a number"),
            Some(value) if !value.is_finite() => (Code::NotFinite, "is not a finite number"),
            Some(value) if value < 0.0 => (Code::Negative, "is below zero"),
            Some(0.0) if !zero => (Code::NotPositive, "is not above zero"),
            Some(value) if value > max => (Code::TooLarge, "is too large"),
            _ => return value,
        };
        self.report(file, column, code, reason);
        None
    }

    /// Says what is wrong with a cell.
    pub fn report(&self, file: &mut File<'_>, column: usize, code: Code, reason: &str) {
        let root = Path::root();
        let path = root.key(&self.header[column], self.at);
        let message = match self.cell(column) {
            "" => format!("`{}` {reason}", Shown(&self.header[column])),
            cell => format!("`{}` {reason}", Shown(cell)),
        };
        file.faults.add(code, self.at, &path, format_args!("{message}"));
    }
}
