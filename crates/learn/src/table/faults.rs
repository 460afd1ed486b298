//! What is wrong with a table, as far as it is worth keeping.

use gswarm_core::input::{Code, Diagnostic};

/// What to do about two columns of one name.
pub(super) const RENAME: &str = "rename or remove one of the two";

/// How many faults of one file are kept; the others are counted.
const MAX_KEPT: usize = 10_000;

/// The faults of one file, in the order in which they were found.
pub struct TableFaults {
    file: String,
    kept: Vec<Diagnostic>,
    found: usize,
}

impl TableFaults {
    /// None yet.
    pub fn new(file: &str) -> TableFaults {
        TableFaults { file: file.to_owned(), kept: Vec::new(), found: 0 }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.found == 0
    }

    /// Whether another fault would be kept; the message of one that would not need not be written.
    pub fn has_room(&self) -> bool {
        self.found < MAX_KEPT
    }

    /// One more that is not kept.
    pub fn count(&mut self) {
        self.found += 1;
    }

    /// Those that somebody else has found.
    pub fn take_all(&mut self, found: Vec<Diagnostic>) {
        self.found += found.len();
        self.kept.extend(found);
    }

    /// Whether this cell was found to be at fault.
    pub fn has(&self, line: Option<u32>, path: &str) -> bool {
        self.kept.iter().any(|fault| fault.line == line && fault.path == path)
    }

    /// One more: where it is (`path` is a column's name, mostly), what it is, and what to do.
    pub fn add(
        &mut self,
        code: Code,
        line: Option<u32>,
        path: &str,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        self.found += 1;
        if self.found > MAX_KEPT {
            return;
        }
        self.kept.push(Diagnostic {
            line,
            path: path.to_owned(),
            hint,
            ..Diagnostic::of_file(self.file.as_str(), code, message)
        });
    }

    /// All of them, by line; then how many were left out.
    pub fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        self.kept.sort_by_key(|fault| fault.line.unwrap_or(0));
        let more = self.found.saturating_sub(MAX_KEPT);
        if more > 0 {
            let plural = if more == 1 { "" } else { "s" };
            let message = format!("{more} more error{plural} in this file not shown");
            self.kept.push(Diagnostic::of_file(self.file, Code::LeftOut, message));
        }
        self.kept
    }
}

/// "did you mean", where one of `known` resembles `name`.
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<String> {
    let alike = |known: &str| {
        let (name, known) = (name.to_lowercase(), known.to_lowercase());
        let is_part = name.len() > 2 && known.len() > 2 && (known.contains(&name) || name.contains(&known));
        strsim::jaro_winkler(&name, &known).max(if is_part { 0.9 } else { 0.0 })
    };
    let best = known
        .map(|known| (alike(known), known))
        .filter(|&(score, _)| score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("did you mean `{}`?", shown(best.1)))
}

/// A number in a message: those with many zeros are written with a power of ten.
pub fn short(number: f64) -> String {
    let size = number.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-6) { format!("{number:e}") } else { number.to_string() }
}

/// A piece of the input in a message: on one line, and not too long.
pub fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let cut: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() { format!("{cut}...") } else { cut }
}
