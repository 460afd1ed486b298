//! Traces of requests: when each came and how much was read and written, joined with a workflow.

mod azure;
mod burstgpt;
pub mod gentd26;
mod join;
mod mooncake;
mod openai_batch;
mod openai_log;
mod prefix;
mod sharegpt;

use crate::draft::Draft;
use crate::options::Moment;
use crate::{File, ImportKind, ImportOptions, table};
use gswarm_core::input::Code;
use gswarm_core::input::document::{Path, calendar};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Most tokens of one request.
const MAX_TOKENS: f64 = 1e9;
/// The end of the year 9999, in seconds since 1970.
const MAX_STAMP: f64 = 253_402_300_799.0;

pub(crate) use mooncake::lines;

/// One request of a trace.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// Microseconds.
    at: i64,
    /// An index into the trace's models.
    model: usize,
    prompt_tokens: f64,
    answer_tokens: f64,
    /// The blocks of the prompt, by what they and all before them hold.
    blocks: Vec<u64>,
    /// Tokens of the prompt that a cache has.
    cached_tokens: f64,
}

/// The requests of all files of a trace.
#[derive(Default)]
struct Trace {
    rows: Vec<Row>,
    models: Vec<String>,
    /// Whether moments are dates, and not seconds from a zero of the file.
    dated: bool,
    /// Requests that were answered with nothing.
    unanswered: usize,
    /// What else is to be said.
    notes: Vec<String>,
}

impl Trace {
    fn model(&mut self, name: &str) -> usize {
        match self.models.iter().position(|known| known == name) {
            Some(known) => known,
            None => {
                self.models.push(name.to_owned());
                self.models.len() - 1
            }
        }
    }

    /// Keeps a request; one without an answer ran no model, and is only counted.
    fn push(&mut self, at: i64, model: &str, prompt_tokens: f64, answer_tokens: f64) {
        if prompt_tokens + answer_tokens <= 0.0 || answer_tokens <= 0.0 {
            self.unanswered += 1;
            return;
        }
        let model = self.model(model);
        let (blocks, cached_tokens) = (Vec::new(), 0.0);
        self.rows.push(Row { at, model, prompt_tokens, answer_tokens, blocks, cached_tokens });
    }
}

/// Reads the files of a trace and joins them with a workflow.
pub(crate) fn read(kind: ImportKind, files: &mut [File<'_>], options: &ImportOptions, draft: &mut Draft) {
    let mut trace = Trace::default();
    for file in files.iter_mut() {
        match kind {
            ImportKind::Azure => azure::read(file, &mut trace),
            ImportKind::Burstgpt => burstgpt::read(file, &mut trace),
            ImportKind::Mooncake => mooncake::read(file, &mut trace),
            ImportKind::OpenaiBatch => openai_batch::read(file, &mut trace),
            ImportKind::Sharegpt => sharegpt::read(file, options, &mut trace),
            _ => openai_log::read(file, &mut trace),
        }
    }
    if files.iter().any(|file| file.faults.has_errors()) {
        return;
    }
    for note in std::mem::take(&mut trace.notes) {
        draft.notes.say(note);
    }
    if trace.unanswered > 0 {
        let plural = if trace.unanswered == 1 { "" } else { "s" };
        draft.notes.say(format!(
            "Omitted: {} request{plural} answered with no tokens or with an error",
            trace.unanswered
        ));
    }
    let rows = std::mem::take(&mut trace.rows);
    let Some(mut rows) = cut(&mut files[0], rows, |row| row.at, trace.dated, options, draft) else { return };
    if let Some(room) = options.prefix_cache
        && !prefix::reuse(&mut files[0], &mut rows, room, draft)
    {
        return;
    }
    join::join(&mut files[0], trace, &rows, options, draft);
}

/// The rows in the order of their moments, cut to `--from` and `--until`, and thinned out; with what there is to say of it.
pub(crate) fn cut<R>(
    file: &mut File<'_>,
    mut rows: Vec<R>,
    at: impl Fn(&R) -> i64,
    dated: bool,
    options: &ImportOptions,
    draft: &mut Draft,
) -> Option<Vec<R>> {
    let read = rows.len();
    if !rows.is_sorted_by_key(&at) {
        draft.notes.say("Rows were not in time order: they were sorted");
        rows.sort_by_key(&at);
    }
    let first = rows.first().map_or(0, &at);
    let limit = |moment: Option<Moment>, flag: &str, file: &mut File<'_>| match moment? {
        Moment::Offset(seconds) => Some(first.saturating_add((seconds * 1e6) as i64)),
        Moment::Date(date) if dated => Some(date),
        Moment::Date(_) => {
            let message = format_args!("{flag} gives a date, but this trace has relative times");
            let hint = Some("give seconds from its first row".to_owned());
            file.faults.add_hinted(Code::NoSuchPlace, 0, &Path::root(), message, hint);
            None
        }
    };
    let from = limit(options.from, "--from", file);
    let until = limit(options.until, "--until", file);
    if file.faults.has_errors() {
        return None;
    }
    rows.retain(|row| from.is_none_or(|from| at(row) >= from) && until.is_none_or(|until| at(row) < until));
    if from.is_some() || until.is_some() {
        draft.notes.say(format!("Cut by --from and --until: {} of {read} rows are left", rows.len()));
    }
    let within = rows.len();
    if options.sample < 1.0 {
        let mut draws = ChaCha8Rng::seed_from_u64(options.seed);
        rows.retain(|_| draws.random::<f64>() < options.sample);
        draft.notes.say(format!(
            "Sampled: {} of {within} rows, each kept with probability {} (seed {})",
            rows.len(),
            options.sample,
            options.seed
        ));
    }
    if rows.is_empty() {
        let message = if read == 0 { "there are no rows with an answer" } else { "the flags leave no row" };
        file.faults.add(Code::Nothing, 0, &Path::root(), format_args!("{message}"));
        return None;
    }
    if dated {
        let zero = jiff::Timestamp::from_microsecond(at(&rows[0])).map_or(String::new(), |at| at.to_string());
        draft.notes.say(format!("Time 0 of the requests is {zero}"));
    }
    if options.compress != 1.0 {
        draft
            .notes
            .say(format!("Requests arrive {} times as fast as recorded (--compress)", options.compress));
    }
    Some(rows)
}

/// Microseconds after the first row, at the pace asked for.
pub(crate) fn arrival(at: i64, first: i64, options: &ImportOptions) -> i64 {
    ((at - first) as f64 / options.compress).round() as i64
}

/// A date and time, as CSV files write it; reported where it is none.
fn moment(row: &table::Row<'_>, file: &mut File<'_>, column: usize) -> Option<i64> {
    let found = calendar(row.cell(column));
    if let Err(reason) = &found {
        row.report(file, column, Code::BadTimestamp, &format!("is not a date and time ({reason})"));
    }
    found.ok()
}
