//! Skipped tests, of all languages: each adds a line to one file, which is printed at the end.

use crate::steps::Verdict;
use crate::tools::root;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

/// Tells the tests which file that is.
const SKIPPED: &str = "GSWARM_SKIPPED_TESTS";

fn file() -> PathBuf {
    root().join("target/xtask/skipped_tests.txt")
}

/// Tests that this command runs add themselves to the file.
pub fn collect(command: &mut Command) -> &mut Command {
    command.env(SKIPPED, file())
}

/// Begins with an empty file.
pub fn forget() -> Result<(), String> {
    let folder = root().join("target/xtask");
    let made = fs::create_dir_all(&folder).and_then(|()| fs::write(file(), ""));
    made.map_err(|error| format!("{}: {error}", file().display()))
}

/// How many tests were skipped, and which for which reason.
pub fn print() -> Result<(), String> {
    let text = match fs::read_to_string(file()) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.to_string()),
        other => other.unwrap_or_default(),
    };
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    // A test that misses several things says so several times.
    lines.dedup();
    let mut tests: Vec<&str> = lines.iter().filter_map(|line| line.split(": ").next()).collect();
    tests.dedup();
    println!("\n==> {} tests were skipped", tests.len());
    lines.iter().for_each(|line| println!("  {line}"));
    Ok(())
}

/// A step that cannot be done here: skipped, but under CI failed.
pub fn step(why: String) -> Result<Verdict, String> {
    let on_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    if on_ci {
        Err(format!("CI is set, so this must not be skipped: {why}"))
    } else {
        Ok(Verdict::Skipped(why))
    }
}
