//! The rows of a comparison, stored as they come, so that an interrupted comparison can continue.

use crate::failure::Failure;
use crate::output::{self, files};
use gswarm_core::compare::{RunKey, SweepRow, fill_in_speedups};
use gswarm_learn::{Column, Table, Values};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

const FILE: &str = "rows.jsonl";
/// Where a comparison is kept unless `--out` names a folder.
const FOLDER: &str = "comparison";

/// What has been run so far.
pub struct Rows {
    path: PathBuf,
    file: File,
    known: BTreeMap<RunKey, SweepRow>,
}

/// The first of the folders `comparison`, `comparison-2` ... that has no rows of other inputs.
pub fn folder_for(fingerprint: &str) -> Result<PathBuf, Failure> {
    for number in 1_u32.. {
        let folder =
            PathBuf::from(if number == 1 { FOLDER.to_owned() } else { format!("{FOLDER}-{number}") });
        let path = folder.join(FILE);
        let has_others = || -> Result<bool, Failure> {
            Ok(whole_rows(&files::read(&path)?).any(|(_, row)| row.fingerprint != fingerprint))
        };
        if !path.exists() || !has_others()? {
            return Ok(folder);
        }
    }
    unreachable!("there are fewer folders than numbers")
}

impl Rows {
    /// Rows of an earlier start in this folder, and the file for further ones.
    pub fn open(folder: &Path, fingerprint: &str) -> Result<Rows, Failure> {
        let path = folder.join(FILE);
        let (mut known, mut whole) = (BTreeMap::new(), Vec::new());
        if path.exists() {
            let bytes = files::read(&path)?;
            for (line, row) in whole_rows(&bytes) {
                if row.fingerprint != fingerprint {
                    let message = format!("{} belongs to other inputs or another cluster", path.display());
                    return Err(
                        Failure::input(message).hint("choose another folder with --out, or remove this one")
                    );
                }
                whole.extend([line, b"\n"].concat());
                known.insert(row.key(), row);
            }
        }
        let mut batch = files::Batch::new(folder)?;
        batch.add(FILE, |out| out.write_all(&whole))?;
        batch.commit()?;
        let file = files::to_be_added_to(&path);
        let file = file.map_err(|error| Failure::file("write to", &path, &error))?;
        Ok(Rows { path, file, known })
    }

    /// Whether a run has been made.
    pub fn has(&self, key: &RunKey) -> bool {
        self.known.contains_key(key)
    }

    /// Keeps a row, on disk too.
    pub fn keep(&mut self, row: SweepRow) -> Result<(), Failure> {
        let written = self.file.write_all(line(&row).as_bytes()).and_then(|()| self.file.flush());
        written.map_err(|error| Failure::file("write to", &self.path, &error))?;
        self.known.insert(row.key(), row);
        Ok(())
    }

    /// The rows of these runs, in their order.
    pub fn of(&self, keys: &[RunKey]) -> Vec<SweepRow> {
        keys.iter().filter_map(|key| self.known.get(key)).cloned().collect()
    }
}

/// The rows of a file with their lines. An incomplete line was left by an interruption.
fn whole_rows(bytes: &[u8]) -> impl Iterator<Item = (&[u8], SweepRow)> {
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.filter_map(|line| Some((line, serde_json::from_slice::<SweepRow>(line).ok()?)))
}

/// The rows of a comparison's folder, if it is one, with the speedups filled in. Problems stand together, in the order in
/// which they came.
pub fn read(folder: &Path) -> Result<Option<Vec<SweepRow>>, Failure> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = files::read(&path)?;
    let mut known: BTreeMap<RunKey, SweepRow> = BTreeMap::new();
    for (_, row) in whole_rows(&bytes) {
        known.insert(row.key(), row);
    }
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count();
    let whole = whole_rows(&bytes).count();
    if whole < lines && whole > 0 {
        let left = output::count((lines - whole) as u64, "line");
        output::note(&format!("note: {left} of {} cannot be read and is omitted", path.display()));
    }
    if known.is_empty() {
        let message = format!("{} has no row of a comparison in it (R005)", path.display());
        return Err(Failure::input(message).hint("`gswarm compare` writes such a file"));
    }
    let mut rows: Vec<SweepRow> = known.into_values().collect();
    fill_in_speedups(&mut rows);
    Ok(Some(rows))
}

fn line(row: &SweepRow) -> String {
    // A flat structure of texts and numbers can always be written.
    serde_json::to_string(row).map_or_else(|_| String::new(), |text| text + "\n")
}

/// Writes the rows as CSV and Parquet; says where.
pub fn write(folder: &Path, rows: &[SweepRow]) -> Result<Vec<PathBuf>, Failure> {
    let table = table(rows);
    let mut batch = files::Batch::new(folder)?;
    batch.add("comparison.csv", |out| table.write_csv(out))?;
    let mut parquet = Vec::new();
    table.write_parquet(&mut parquet).map_err(|error| Failure::file("write", folder, &error))?;
    batch.add("comparison.parquet", |out| out.write_all(&parquet))?;
    let mut paths = vec![folder.join(FILE)];
    paths.extend(batch.commit()?);
    Ok(paths)
}

/// The rows as columns, by the names that they have in JSON.
fn table(rows: &[SweepRow]) -> Table {
    let objects: Vec<Value> = rows.iter().map(|row| serde_json::to_value(row).unwrap_or_default()).collect();
    // In JSON objects names are in alphabetical order; people look for what a row is about first.
    let first = ["input", "mode", "batching", "gpus", "policy", "seed", "infeasible"];
    let mut names: Vec<String> = first.iter().map(|&name| name.to_owned()).collect();
    let all = objects.first().and_then(Value::as_object).into_iter().flat_map(|object| object.keys());
    // A cell holds a text or a number: lists are in `rows.jsonl` only.
    let is_list = |name: &str| objects.iter().any(|object| object[name].is_array());
    names.extend(all.filter(|name| !first.contains(&name.as_str()) && !is_list(name)).cloned());
    let columns = names.into_iter().map(|name| {
        let cells: Vec<&Value> = objects.iter().map(|object| &object[&name]).collect();
        let is_text = cells.iter().any(|cell| cell.is_string() || cell.is_boolean()) || name == "infeasible";
        let values = if is_text {
            let texts: Vec<String> = cells.iter().map(|cell| text(cell)).collect();
            texts.iter().map(String::as_str).collect()
        } else {
            Values::Numbers(cells.iter().map(|cell| cell.as_f64().unwrap_or(f64::NAN)).collect())
        };
        Column { name, values }
    });
    Table::new("comparison", columns.collect())
}

fn text(cell: &Value) -> String {
    match cell {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
