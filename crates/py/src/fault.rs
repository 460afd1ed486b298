//! What goes wrong, on its way to Python: the classes are those of `gswarm.errors`.

use gswarm_core::check::{Violation, report};
use gswarm_core::input::{Diagnostic, Severity, render};
use gswarm_core::run::ProblemError;
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// Why there is no result.
#[derive(Debug)]
pub enum Fault {
    /// Faults of the inputs, all of them.
    Input(Vec<Diagnostic>),
    /// An argument that makes no sense, and what to do about it.
    Usage(String, String),
    /// Why the problem cannot be run on these GPUs.
    Infeasible(Vec<String>),
    /// A policy of the user's did what cannot be done: when, and why not.
    Policy {
        /// In seconds.
        at: f64,
        /// Why not.
        reason: String,
        /// What it decided, where it was a decision.
        decision: Option<String>,
    },
    /// A fault of gswarm.
    Internal(String),
    /// Whoever waited for it does not any more.
    Stopped,
    /// What Python code raised.
    Raised(PyErr),
}

impl Fault {
    /// A log of ours that fails the check.
    pub fn broken(violations: &[Violation]) -> Fault {
        Fault::Internal(report(violations))
    }
}

impl From<ProblemError> for Fault {
    fn from(why: ProblemError) -> Fault {
        match why {
            ProblemError::NoGpus => Fault::Usage(
                why.to_string(),
                "give gpus=N, or `cluster: {gpus: N}` in the configuration".to_owned(),
            ),
            ProblemError::TooSlow { .. } => {
                Fault::Usage(why.to_string(), "give a higher pcie_gb_per_s".to_owned())
            }
            ProblemError::Infeasible(faults) => {
                Fault::Infeasible(faults.iter().map(ToString::to_string).collect())
            }
        }
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Fault {
        Fault::Internal(error.to_string())
    }
}

/// Where memory cannot be written to.
impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Fault {
        Fault::Internal(error.to_string())
    }
}

/// Arguments that no argument parser has looked at.
pub fn usage(message: impl Into<String>) -> Fault {
    Fault::Usage(message.into(), String::new())
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> PyErr {
        Python::attach(|py| match fault {
            Fault::Input(found) => {
                let text = render(&found);
                let list: Vec<_> = found.iter().map(plain).collect();
                made(py, "InputError", (text.trim_end(), list))
            }
            Fault::Usage(message, hint) => made(py, "UsageError", (message, hint)),
            Fault::Infeasible(reasons) => made(py, "InfeasibleError", (reasons,)),
            Fault::Policy { at, reason, decision } => made(py, "PolicyError", (at, reason, decision)),
            Fault::Internal(message) => made(py, "InternalError", (message,)),
            Fault::Stopped => made(py, "InternalError", ("stopped without being asked to",)),
            Fault::Raised(raised) => raised,
        })
    }
}

fn made<'py>(py: Python<'py>, class: &str, args: impl PyCallArgs<'py>) -> PyErr {
    let class = py.import("gswarm.errors").and_then(|errors| errors.getattr(class));
    match class.and_then(|class| class.call1(args)) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// A finding as the fields of `gswarm.Diagnostic`.
pub type Plain = (String, &'static str, String, String, Option<u32>, Option<u32>, String, Option<String>);

/// Its fields.
pub fn plain(found: &Diagnostic) -> Plain {
    let severity = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    (
        found.code.to_string(),
        severity,
        found.message.clone(),
        found.file.clone(),
        found.line,
        found.column,
        found.path.clone(),
        found.hint.clone(),
    )
}
