//! The planner against a general solver: an extra that needs Python with OR-Tools, and says so where they are not there.

use crate::support::root;
use std::path::PathBuf;
use std::process::Command;

/// A Python that has the solver: that of `target/ortools`, or the system's.
fn python() -> Option<PathBuf> {
    let candidates = [root().join("target/ortools/bin/python"), PathBuf::from("python3")];
    candidates.into_iter().find(|python| {
        let done = Command::new(python).args(["-c", "import ortools.sat.python.cp_model"]).output();
        done.is_ok_and(|done| done.status.success())
    })
}

#[test]
fn a_general_solver_finds_nothing_shorter_than_what_is_called_optimal() {
    let Some(python) = python() else {
        return gswarm_testing::skip_on_ci_too(
            "no Python has OR-Tools; CONTRIBUTING.md says how to install it",
        );
    };
    let script = root().join("crates/core/tests/optimum/confirm.py");
    let done = Command::new(python)
        .arg(script)
        .args(["--gswarm", env!("CARGO_BIN_EXE_gswarm"), "--nodes", "20", "--seeds", "0-1"])
        .args(["--seconds", "10", "--rounds", "20"])
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    eprintln!("{out}");
    assert!(done.status.success(), "{out}\n{err}");
    assert!(out.contains("0 contradicted"), "{out}");
}
