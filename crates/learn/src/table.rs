//! Tables of rows to learn from: named columns of numbers and of text, read from CSV and Parquet.

mod csv;
mod faults;
mod parquet;
mod write;

pub use faults::{TableFaults, nearest, short, shown};

use gswarm_core::input::{Code, Diagnostic};
use std::collections::HashMap;
use std::path::Path;

/// The code of a text that is absent.
pub const NO_TEXT: u32 = u32::MAX;

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Numbers; NaN where the cell is empty, and nowhere else.
    Numbers(Vec<f64>),
    /// Text: for each row an index into `names`, or [`NO_TEXT`] where the cell is empty.
    Texts {
        /// One a row.
        codes: Vec<u32>,
        /// The different texts, in the order in which they first appear.
        names: Vec<String>,
    },
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Numbers(numbers) => numbers.len(),
            Values::Texts { codes, .. } => codes.len(),
        }
    }
}

/// A column of texts.
impl<'t> FromIterator<&'t str> for Values {
    fn from_iter<I: IntoIterator<Item = &'t str>>(texts: I) -> Values {
        let mut column = TextColumn::default();
        texts.into_iter().for_each(|text| column.push(text));
        column.finish()
    }
}

/// A named column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// As the first row of the file spells it.
    pub name: String,
    /// One value a row.
    pub values: Values,
}

/// Named columns of equal length, each name once.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    file: String,
    columns: Vec<Column>,
    rows: usize,
    /// The line of each row in its file; empty where there are no lines.
    lines: Vec<u32>,
}

impl Table {
    /// A table from columns that were made elsewhere; `file` is how diagnostics name it.
    ///
    /// # Panics
    /// If columns differ in length or share a name: that is a fault of the caller, not of any input.
    pub fn new(file: &str, columns: Vec<Column>) -> Table {
        let rows = columns.first().map_or(0, |column| column.values.len());
        for (index, column) in columns.iter().enumerate() {
            assert_eq!(column.values.len(), rows, "column `{}` has another length", column.name);
            let again = columns[..index].iter().any(|other| other.name == column.name);
            assert!(!again, "two columns are called `{}`", column.name);
        }
        Table { file: file.to_owned(), columns, rows, lines: Vec::new() }
    }

    /// Reads CSV or Parquet, whichever the bytes are. Every fault is reported at once.
    pub fn read(name: &str, bytes: Vec<u8>) -> Result<Table, Vec<Diagnostic>> {
        let mut faults = TableFaults::new(name);
        match Table::read_with(name, bytes, &[], &mut faults) {
            Some(table) if faults.is_empty() => Ok(table),
            _ => Err(faults.into_diagnostics()),
        }
    }

    /// The same for those who have more to find fault with: cells that are at fault are empty in the table. Columns
    /// named in `texts` hold text even where all of it looks like numbers: `7` and `07` are two ids.
    pub fn read_with(name: &str, bytes: Vec<u8>, texts: &[&str], faults: &mut TableFaults) -> Option<Table> {
        if !bytes.starts_with(b"PAR1") {
            if Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
                let hint = "write the file again; CSV files need the extension .csv".to_owned();
                faults.add(
                    Code::NotATable,
                    None,
                    "",
                    "this is not a Parquet file, despite its name",
                    Some(hint),
                );
                return None;
            }
            return csv::read_with(name, &bytes, texts, faults);
        }
        match parquet::read(name, bytes, texts) {
            Ok(table) => Some(table),
            Err(found) => {
                faults.take_all(found);
                None
            }
        }
    }

    /// Reads a file; one that cannot be read at all is a fault as well.
    pub fn read_file(path: &Path) -> Result<Table, Vec<Diagnostic>> {
        let name = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => Table::read(&name, bytes),
            Err(error) => {
                let mut faults = TableFaults::new(&name);
                faults.add(Code::NotATable, None, "", format!("cannot read the file: {error}"), None);
                Err(faults.into_diagnostics())
            }
        }
    }

    /// As diagnostics name it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The columns, in the order of the file.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The line of a row in its file.
    pub fn line(&self, row: usize) -> Option<u32> {
        self.lines.get(row).copied()
    }

    /// The same with the line of each row in its file.
    pub(crate) fn with_lines(self, lines: Vec<u32>) -> Table {
        Table { lines, ..self }
    }

    /// The rows of these numbers, in their order. Columns of text keep all their texts, so that codes stay the same.
    pub fn select(&self, rows: &[usize]) -> Table {
        let columns = self.columns.iter().map(|column| {
            let values = match &column.values {
                Values::Numbers(numbers) => Values::Numbers(rows.iter().map(|&row| numbers[row]).collect()),
                Values::Texts { codes, names } => Values::Texts {
                    codes: rows.iter().map(|&row| codes[row]).collect(),
                    names: names.clone(),
                },
            };
            Column { name: column.name.clone(), values }
        });
        let lines = if self.lines.is_empty() {
            Vec::new()
        } else {
            rows.iter().map(|&row| self.lines[row]).collect()
        };
        Table { file: self.file.clone(), columns: columns.collect(), rows: rows.len(), lines }
    }
}

/// Gives the texts of a column their codes.
#[derive(Default)]
struct TextColumn {
    codes: Vec<u32>,
    names: Vec<String>,
    known: HashMap<String, u32>,
}

impl TextColumn {
    fn push(&mut self, text: &str) {
        if text.is_empty() {
            return self.codes.push(NO_TEXT);
        }
        let code = match self.known.get(text) {
            Some(&code) => code,
            None => {
                let code = self.names.len() as u32;
                self.known.insert(text.to_owned(), code);
                self.names.push(text.to_owned());
                code
            }
        };
        self.codes.push(code);
    }

    fn finish(self) -> Values {
        Values::Texts { codes: self.codes, names: self.names }
    }
}

/// Whether a column of this name holds lengths of time, which are never below zero.
pub fn is_duration(name: &str) -> bool {
    let name = name.to_lowercase();
    ["_seconds", "_ms", "_us", "_time", "duration", "latency", "runtime"]
        .iter()
        .any(|end| name.ends_with(end))
        || name.starts_with("duration")
}
