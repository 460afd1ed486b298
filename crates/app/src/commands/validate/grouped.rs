//! Groups faults: the same fault in many places is one finding.

use gswarm_core::input::{Diagnostic, Severity};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;

/// How many lines are named of a finding that occurs in many places.
const NAMED: usize = 6;

/// A finding, with all its places.
#[derive(Debug, Serialize)]
pub struct Group {
    /// `error` or `warning`.
    pub severity: &'static str,
    code: &'static str,
    message: String,
    hint: Option<String>,
    places: Vec<Place>,
}

#[derive(Debug, Serialize)]
struct Place {
    file: String,
    line: Option<u32>,
    column: Option<u32>,
    path: String,
}

/// Findings of the same code and message together, errors first, each where it first occurs.
pub fn grouped(found: &[Diagnostic]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    for one in found {
        let code = one.code.code();
        let at = *known.entry((code, &one.message)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Group {
                severity: one.severity.name(),
                code,
                message: one.message.clone(),
                hint: one.hint.clone(),
                places: Vec::new(),
            });
        }
        let place =
            Place { file: one.file.clone(), line: one.line, column: one.column, path: one.path.clone() };
        groups[at].places.push(place);
    }
    groups.sort_by_key(|group| group.severity != Severity::Error.name());
    groups
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity, self.code, self.message)?;
        let Some((first, others)) = self.places.split_first() else { return Ok(()) };
        write!(f, "\n  --> {}", first.file)?;
        if let (Some(line), Some(column)) = (first.line, first.column) {
            write!(f, ":{line}:{column}")?;
        }
        if !first.path.is_empty() {
            write!(f, " ({})", first.path)?;
        }
        if !others.is_empty() {
            let lines: Vec<String> = others
                .iter()
                .filter_map(|place| place.line)
                .take(NAMED)
                .map(|line| line.to_string())
                .collect();
            let more = if others.len() > lines.len() && !lines.is_empty() { ", ..." } else { "" };
            let lines =
                if lines.is_empty() { String::new() } else { format!(": lines {}{more}", lines.join(", ")) };
            let noun = if others.len() == 1 { "place" } else { "places" };
            write!(f, "\n  and in {} more {noun}{lines}", others.len())?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}
