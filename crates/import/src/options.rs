//! What the command line adds to what the files say.

use crate::{File, table};
use gswarm_core::input::document::Faults;
use gswarm_core::input::{Code, Diagnostic, MAX_GB, Scenario, Source};

/// A moment of a trace, as `--from` and `--until` give it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// Seconds from the first row.
    Offset(f64),
    /// Microseconds since 1970.
    Date(i64),
}

/// The workflow that the rows of a trace run.
#[derive(Clone, Debug)]
pub struct TraceTarget {
    /// The configuration that it stands in.
    pub scenario: Scenario,
    /// Its id; where there is none, the whole configuration is meant.
    pub workflow: Option<String>,
    /// As the flag names it.
    pub named: String,
}

/// What the command line adds. Nodes are named by id, or by title or class.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// GB of model files, by name.
    pub sizes: Vec<(String, f64)>,
    /// Seconds of nodes.
    pub times: Vec<(String, f64)>,
    /// The case that a branch takes.
    pub choices: Vec<(String, String)>,
    /// The probability of each case of a branch, in their order; what is left is the last case's.
    pub branches: Vec<(String, Vec<f64>)>,
    /// How often an iteration runs.
    pub counts: Vec<(String, u32)>,
    /// Tools that call a model: the node and the model.
    pub calls: Vec<(String, String)>,
    /// Requests of each workflow, where files hold no requests.
    pub requests: u32,
    /// Seconds between them.
    pub every: f64,
    /// Requests a second, for files that give no times; all come at the start where it is `None`.
    pub rate: Option<f64>,
    /// Blocks of prompts that a cache of prefixes has room for; no prompt is cached where it is `None`.
    pub prefix_cache: Option<usize>,
    /// Compress time: requests arrive this many times as fast as recorded.
    pub compress: f64,
    /// Rows before it are left out.
    pub from: Option<Moment>,
    /// Rows from it on are left out.
    pub until: Option<Moment>,
    /// Share of the rows that is kept, from 0 to 1.
    pub sample: f64,
    /// For every random choice.
    pub seed: u64,
    /// What the rows of a trace run; a workflow of one node where none is given.
    pub workflow: Option<TraceTarget>,
    /// Output speed of models without one of their own.
    pub tokens_per_second: f64,
    /// Speed at which prompts are read.
    pub prompt_tokens_per_second: f64,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            sizes: Vec::new(),
            times: Vec::new(),
            choices: Vec::new(),
            branches: Vec::new(),
            counts: Vec::new(),
            calls: Vec::new(),
            requests: 1,
            every: 0.0,
            rate: None,
            prefix_cache: None,
            compress: 1.0,
            from: None,
            until: None,
            sample: 1.0,
            seed: 0,
            workflow: None,
            tokens_per_second: 50.0,
            prompt_tokens_per_second: 5_000.0,
        }
    }
}

/// Reads a table of the sizes of model files: a column `file`, and `memory_gb` or `bytes`.
pub fn sizes(source: Source<'_>) -> Result<Vec<(String, f64)>, Vec<Diagnostic>> {
    let mut file = File { source, faults: Faults::default() };
    let mut found = Vec::new();
    if let Some(mut rows) = table::open(&mut file) {
        let name = rows.column(&mut file, "file");
        let (size, unit) = match rows.find("bytes") {
            Some(bytes) => (Some(bytes), 1e-9),
            None => (rows.column(&mut file, "memory_gb"), 1.0),
        };
        while let (Some(name), Some(size), Some(row)) = (name, size, rows.next(&mut file)) {
            let gb = row.number(&mut file, size, false, MAX_GB / unit).map(|size| size * unit);
            let name = row.cell(name).to_owned();
            if let Some(gb) = gb {
                found.push((name, gb));
            }
        }
    }
    let mut diagnostics = Vec::new();
    let is_good = !file.faults.has_errors();
    file.faults.locate(
        source.name,
        gswarm_core::input::document::without_mark(source.bytes),
        &mut diagnostics,
    );
    if is_good { Ok(found) } else { Err(diagnostics) }
}

/// What a flag says of a node that goes by any of these names.
pub(crate) fn given<'o, T>(flags: &'o [(String, T)], names: &[&str]) -> Option<&'o T> {
    names.iter().find_map(|name| flags.iter().find(|(flag, _)| flag == name)).map(|(_, value)| value)
}

/// Flags that name none of `known`, as findings about the file.
pub(crate) fn report_strangers<T>(
    file: &mut File<'_>,
    flag: &str,
    flags: &[(String, T)],
    known: &dyn Fn(&str) -> bool,
    hint: &str,
) {
    use gswarm_core::input::document::{Path, Shown};
    for (name, _) in flags.iter().filter(|(name, _)| !known(name)) {
        let message = format_args!("{flag}: there is no `{}`", Shown(name));
        file.faults.add_hinted(Code::NoSuchPlace, 0, &Path::root(), message, Some(hint.to_owned()));
    }
}
