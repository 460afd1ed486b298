//! Faults as they are found: an offset in the text and a path in the data, made readable only when they are shown.

use super::code::{Code, Severity};
use super::diagnostic::Diagnostic;
use std::fmt::{self, Write};

/// How many errors of one file are kept, and how many warnings.
const MAX_KEPT: usize = 10_000;
/// How many faults of one file get a "did you mean": comparing names is slow next to everything else.
const MAX_HINTS: u32 = 100;
/// How many names a mistaken one is compared with.
const MAX_CANDIDATES: usize = 2_000;
/// Longest piece of the input that a message repeats, in characters.
const MAX_SHOWN: usize = 60;

/// Where in the data something is: a chain on the stack, turned into text only for a fault.
#[derive(Clone, Copy)]
pub struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
    /// Where its key stands, or itself in a list.
    pub at: u32,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    /// The whole file.
    #[must_use]
    pub fn root() -> Path<'p> {
        Path { parent: None, step: Step::Root, at: 0 }
    }

    /// What this key of it says; the key stands at `at`.
    #[must_use]
    pub fn key(&'p self, name: &'p str, at: u32) -> Path<'p> {
        Path { parent: Some(self), step: Step::Key(name), at }
    }

    /// This item of its list, which stands at `at`.
    #[must_use]
    pub fn index(&'p self, index: usize, at: u32) -> Path<'p> {
        Path { parent: Some(self), step: Step::Index(index), at }
    }

    /// The last key, for messages.
    #[must_use]
    pub fn name(&self) -> &'p str {
        match self.step {
            Step::Key(name) => name,
            _ => "",
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_first = self.parent.is_none_or(|parent| matches!(parent.step, Step::Root));
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        let simple = |name: &str| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/'));
        match self.step {
            Step::Root => Ok(()),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(name) if !simple(name) || name.is_empty() => write!(f, "[\"{}\"]", Shown(name)),
            Step::Key(name) if is_first => write!(f, "{}", Shown(name)),
            Step::Key(name) => write!(f, ".{}", Shown(name)),
        }
    }
}

/// A piece of the input in a message: on one line, and not too long.
pub struct Shown<'a>(
    /// The piece.
    pub &'a str,
);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.0.chars();
        for shown in chars.by_ref().take(MAX_SHOWN) {
            if shown.is_control() { write!(f, "{}", shown.escape_debug())? } else { f.write_char(shown)? }
        }
        if chars.next().is_some() { f.write_str("...") } else { Ok(()) }
    }
}

#[derive(Clone, Debug)]
struct Fault {
    code: Code,
    at: u32,
    path: String,
    message: String,
    hint: Option<String>,
}

/// The faults of one file.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    kept: Vec<Fault>,
    errors: usize,
    warnings: usize,
    hints: u32,
}

impl Faults {
    /// Whether there is any error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// All errors, also those that are not kept.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// One more: what is wrong `at` this byte, where in the data, in words.
    pub fn add(&mut self, code: Code, at: u32, path: &Path<'_>, message: fmt::Arguments<'_>) {
        self.add_hinted(code, at, path, message, None);
    }

    /// The same, with what might be meant instead.
    pub fn add_hinted(
        &mut self,
        code: Code,
        at: u32,
        path: &Path<'_>,
        message: fmt::Arguments<'_>,
        hint: Option<String>,
    ) {
        let found = match code.severity() {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *found += 1;
        if *found <= MAX_KEPT {
            self.kept.push(Fault { code, at, path: path.to_string(), message: message.to_string(), hint });
        }
    }

    /// "did you mean", where one of `known` resembles `name`.
    pub fn nearest<'n>(&mut self, name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
        if self.hints >= MAX_HINTS || name.len() > 100 {
            return None;
        }
        self.hints += 1;
        let near = known.into_iter().take(MAX_CANDIDATES).filter(|known| known.len() <= 100);
        let scored = near.map(|known| (likeness(name, known), known));
        let best = scored
            .filter(|&(score, _)| score > 0.75)
            .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))?;
        Some(format!("did you mean `{}`?", Shown(best.1)))
    }

    /// The faults with lines and columns, in the order of the text, at the end of `out`.
    pub fn locate(mut self, file: &str, bytes: &[u8], out: &mut Vec<Diagnostic>) {
        self.kept.sort_by_key(|fault| fault.at);
        let (mut line, mut column, mut seen) = (1, 1, 0);
        let places = self.kept.iter().map(|fault| {
            let at = (fault.at as usize).clamp(seen, bytes.len().max(seen));
            for &byte in &bytes[seen..at] {
                if byte == b'\n' {
                    (line, column) = (line + 1, 1);
                } else {
                    // Bytes that go on with a character are not counted.
                    column += u32::from(byte & 0xC0 != 0x80);
                }
            }
            seen = at;
            (line, column)
        });
        let places: Vec<(u32, u32)> = places.collect();
        let first = out.len();
        self.unlocated(file, out);
        for (found, (line, column)) in out[first..].iter_mut().zip(places) {
            (found.line, found.column) = (Some(line), Some(column));
        }
    }

    /// The faults of what is no text, in the order in which they were found, at the end of `out`.
    pub fn unlocated(self, file: &str, out: &mut Vec<Diagnostic>) {
        for Fault { code, path, message, hint, .. } in self.kept {
            out.push(Diagnostic { path, hint, ..Diagnostic::of_file(file, code, message) });
        }
        let left_out = [(self.errors, "error"), (self.warnings, "warning")].map(|(found, noun)| {
            let more = found.saturating_sub(MAX_KEPT);
            (more > 0).then(|| format!("{more} more {noun}{}", if more == 1 { "" } else { "s" }))
        });
        let left_out: Vec<String> = left_out.into_iter().flatten().collect();
        if !left_out.is_empty() {
            let message = format!("{} in this file not shown", left_out.join(" and "));
            out.push(Diagnostic::of_file(file, Code::LeftOut, message));
        }
    }
}

/// From 0 to 1. Names that differ in case, or in `-` for `_`, are almost the same.
fn likeness(name: &str, known: &str) -> f64 {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    if plain(name) == plain(known) {
        return 0.999;
    }
    strsim::jaro_winkler(name, known).min(0.9) * 0.5
        + strsim::normalized_damerau_levenshtein(name, known) * 0.5
}
