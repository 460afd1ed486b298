//! The Python package's library, `gswarm._gswarm`: thin calls of what the other crates have. What Python programs import is
//! `gswarm`, in `python/gswarm`, which says what all of this means.

mod apart;
mod document;
mod fault;
mod learn;
mod measured;
mod outcome;
mod policy;
mod problem;
mod run;
mod server;
mod tools;
mod view;

use pyo3::prelude::*;
use std::ffi::OsString;

/// The library's functions and classes.
#[pymodule]
mod _gswarm {
    #[pymodule_export]
    use super::learn::{Trained, train};
    #[pymodule_export]
    use super::main;
    #[pymodule_export]
    use super::measured::read_log;
    #[pymodule_export]
    use super::outcome::Outcome;
    #[pymodule_export]
    use super::policy::{Load, Start, Wake};
    #[pymodule_export]
    use super::problem::Inputs;
    #[pymodule_export]
    use super::run::{plan_for, read_spec, resume, run, run_live, run_python};
    #[pymodule_export]
    use super::server::{Operation, Server};
    #[pymodule_export]
    use super::tools::{advise_of, bounds, check, compare, generate, policies, seconds, size_of, usual};
    #[pymodule_export]
    use super::view::{Model, Task, View};
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// Runs the `gswarm` command with these arguments, the program's name first, and gives its exit code. From here on Ctrl-C is
/// the command's: call it at the end of a program, or in one of its own.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| gswarm_app::main(args))
}
