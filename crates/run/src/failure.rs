//! Why a run did not happen or did not succeed, and the exit code that says so.

use gswarm_core::input::{Diagnostic, render};
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// The exit codes, other than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A check found violations.
    Violations = 1,
    /// Bad input or usage.
    Input = 2,
    /// The problem cannot be run on these GPUs.
    Infeasible = 3,
    /// The run came to its end, and requests failed in it.
    FailedRequests = 4,
    /// A fault of this program.
    Internal = 70,
    /// Somebody pressed Ctrl-C, and what was done until then is kept.
    Interrupted = 130,
}

/// The message for the user, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: FailureKind,
    message: String,
    hint: Option<String>,
    /// The faults of an input, where the failure is about one.
    pub diagnostics: Vec<Diagnostic>,
    /// Why a problem cannot be run on its GPUs, where that is the failure.
    pub reasons: Vec<String>,
}

impl Failure {
    /// Bad input or usage.
    pub fn input(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Input, message)
    }

    /// A bug in gswarm, such as a value that cannot be written as JSON.
    pub fn internal(error: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Internal, format!("internal error: {error}"))
    }

    /// Any other.
    pub fn new(code: FailureKind, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), hint: None, diagnostics: Vec::new(), reasons: Vec::new() }
    }

    /// Faults of an input, all of them.
    #[must_use]
    pub fn faults(diagnostics: Vec<Diagnostic>) -> Failure {
        Failure { diagnostics: diagnostics.clone(), ..Failure::input(render(&diagnostics)) }
    }

    /// The same failure, which is about these faults of an input.
    #[must_use]
    pub fn about(mut self, diagnostics: Vec<Diagnostic>) -> Failure {
        self.diagnostics = diagnostics;
        self
    }

    /// A file that could not be read or written.
    #[must_use]
    pub fn file(what: &str, path: &Path, error: &std::io::Error) -> Failure {
        // The number that the system adds tells people nothing that its words do not.
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or(&text);
        let failure = Failure::input(format!("cannot {what} {}: {reason}", path.display()));
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                failure.hint("free some space and run the command again")
            }
            _ => failure,
        }
    }

    /// The same, with the folder that the hint speaks of.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Failure {
        self.hint = self.hint.map(|hint| hint.replace("FOLDER", &folder.display().to_string()));
        self
    }

    /// Both failures at once, with the hints of both.
    #[must_use]
    pub fn and(mut self, other: Failure) -> Failure {
        self.message = format!("{}\n{}", self.message, other.message);
        self.hint = match (self.hint, other.hint) {
            (Some(one), Some(other)) if one != other => Some(format!("{one}\n  hint: {other}")),
            (one, other) => one.or(other),
        };
        self.diagnostics.extend(other.diagnostics);
        self
    }

    /// What is wrong, without the hint.
    #[must_use]
    pub fn message(&self) -> &str {
        self.message.trim_end()
    }

    /// What to do next, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.trim_end())?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_what_to_do() {
        let told =
            Failure::file("write to", Path::new("rows.jsonl"), &ErrorKind::StorageFull.into()).to_string();
        assert!(told.contains("cannot write to rows.jsonl") && told.contains("free some space"), "{told}");
        let told = Failure::file("read", Path::new("c.yaml"), &ErrorKind::NotFound.into()).to_string();
        assert!(!told.contains("free some space"), "{told}");
    }
}
