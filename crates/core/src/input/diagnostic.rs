//! Diagnostics about input files.

use super::code::{Code, Severity};
use std::fmt::{self, Write};

/// One finding in an input file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind of fault it is.
    pub code: Code,
    /// Whether the input is unusable for it.
    pub severity: Severity,
    /// The file, as it was named by the caller.
    pub file: String,
    /// From 1; `None` where the fault has no place in the text.
    pub line: Option<u32>,
    /// In characters, from 1.
    pub column: Option<u32>,
    /// Where in the data, such as `requests[3].node_execution_times.paint`; empty for the whole file.
    pub path: String,
    /// What is wrong, in this very case.
    pub message: String,
    /// What to do, or what was probably meant.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// About a file as a whole, with nothing to advise. Who knows more puts it in its place.
    #[must_use]
    pub fn of_file(file: impl Into<String>, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: code.severity(),
            file: file.into(),
            line: None,
            column: None,
            path: String::new(),
            message: message.into(),
            hint: None,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity.name(), self.code, self.message)?;
        write!(f, "\n  --> {}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        if !self.path.is_empty() {
            write!(f, " ({})", self.path)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

/// How many findings [`render`] writes out.
pub const SHOWN: usize = 50;

/// The findings as text for people: the first fifty, then how many more there are. Errors come before warnings.
#[must_use]
pub fn render(diagnostics: &[Diagnostic]) -> String {
    let of = |severity| diagnostics.iter().filter(move |d| d.severity == severity);
    let mut text = String::new();
    for diagnostic in of(Severity::Error).chain(of(Severity::Warning)).take(SHOWN) {
        let _ = writeln!(text, "{diagnostic}");
    }
    let more = diagnostics.len().saturating_sub(SHOWN);
    if more > 0 {
        let count = |severity, noun: &str| match of(severity).count() {
            1 => format!("1 {noun}"),
            count => format!("{count} {noun}s"),
        };
        let (errors, warnings) = (count(Severity::Error, "error"), count(Severity::Warning, "warning"));
        let at_least = if of(Severity::Warning).any(|d| d.code == Code::LeftOut) { "at least " } else { "" };
        let _ = writeln!(text, "... and {more} more (total: {at_least}{errors}, {warnings})");
    }
    text
}
