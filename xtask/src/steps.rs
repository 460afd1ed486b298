//! The steps of `cargo xtask test`.

use crate::tools::{capture, cargo, colour, install, root, succeed, succeed_and_tell};

/// How a step ended, where it did not fail.
pub enum Verdict {
    /// With something worth saying, or nothing.
    Passed(String),
    /// And why.
    Skipped(String),
}

/// One step.
pub struct Step {
    /// For people.
    pub name: &'static str,
    /// What it does.
    pub run: fn() -> Result<Verdict, String>,
}

/// All of them, the quick ones first.
pub const ALL: &[Step] = &[
    Step { name: "format", run: || passes(&["fmt", "--all", "--check"]) },
    Step { name: "lints", run: lints },
    Step { name: "tools", run: || install().map(Verdict::Passed) },
    Step { name: "real servers", run: crate::servers::install },
    Step { name: "browser", run: crate::dashboard::install },
    Step { name: "tests", run: tests },
    Step { name: "dashboard", run: crate::dashboard::test },
    Step { name: "python", run: crate::python::test },
    Step {
        name: "documentation tests",
        run: || passes(&["test", "--workspace", "--doc", "--locked", "--quiet"]),
    },
    Step { name: "documentation", run: documentation },
    Step {
        name: "licences, bans and sources",
        run: || passes(&["deny", "check", "licenses", "bans", "sources"]),
    },
    Step { name: "advisories", run: advisories },
    Step { name: "first README command", run: first_command },
];

/// Runs the benchmarks.
pub fn bench(args: &[String]) -> Result<(), String> {
    let mut command = cargo(&["bench", "--workspace"]);
    succeed(command.args(args))
}

fn passes(args: &[&str]) -> Result<Verdict, String> {
    succeed(&mut cargo(args)).map(|()| Verdict::Passed(String::new()))
}

fn lints() -> Result<Verdict, String> {
    passes(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"])
}

const CASES: &str = "PROPTEST_RNG_SEED";

fn tests() -> Result<Verdict, String> {
    let args = ["nextest", "run", "--workspace", "--locked", "--no-fail-fast", "--color", colour()];
    let mut command = cargo(&args);
    if std::env::var_os(CASES).is_none() {
        // The same random cases every time, so that a change is judged by what it changes; another number tries others.
        command.env(CASES, "1");
    }
    let told = succeed_and_tell(&mut command)?;
    let summary = told.lines().rev().find(|line| line.contains("tests run:"));
    Ok(Verdict::Passed(summary.unwrap_or_default().trim().to_string()))
}

fn documentation() -> Result<Verdict, String> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
    succeed(command.env("RUSTDOCFLAGS", "-D warnings")).map(|()| Verdict::Passed(String::new()))
}

/// Known weaknesses of dependencies. The list lives in a git repository that not every machine can reach.
fn advisories() -> Result<Verdict, String> {
    let (passed, told) = capture(&mut cargo(&["deny", "check", "advisories"]))?;
    let unreachable =
        ["failed to fetch advisory database", "unable to fetch", "failed to load advisory database"];
    if passed {
        Ok(Verdict::Passed(String::new()))
    } else if unreachable.iter().any(|reason| told.contains(reason)) {
        println!("the advisory database cannot be reached from here: skipped");
        Ok(Verdict::Skipped("the advisory database cannot be reached from here".to_string()))
    } else {
        eprintln!("{told}");
        Err("a dependency has a known weakness, or the check could not be made".to_string())
    }
}

/// `cargo run --release`, as the README has it, in a folder of its own. The other README commands are tests.
fn first_command() -> Result<Verdict, String> {
    let folder = root().join("target/xtask/readme");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let manifest = root().join("Cargo.toml");
    let mut command = cargo(&["run", "--release", "--locked", "--quiet", "--manifest-path"]);
    succeed(command.arg(manifest).current_dir(&folder))?;
    let logs = folder.join("gswarm-out/sample-1");
    if logs.join("baseline_execution_log.json").exists() {
        Ok(Verdict::Passed(String::new()))
    } else {
        Err("the sample left no log".to_string())
    }
}
