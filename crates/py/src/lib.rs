//! The Python package's library, `gswarm._gswarm`: thin calls of what the other crates have. What Python programs import is
//! `gswarm`, in `python/gswarm`.

mod server;

use pyo3::prelude::*;
use std::ffi::OsString;

/// The library's functions and classes.
#[pymodule]
mod _gswarm {
    #[pymodule_export]
    use super::main;
    #[pymodule_export]
    use super::server::{Operation, Server};
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
