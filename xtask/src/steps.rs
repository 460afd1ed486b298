//! The steps of `cargo xtask test`.

use crate::tools::{capture, cargo, colour, install, root, succeed, succeed_and_tell};
use std::path::{Path, PathBuf};
use std::process::Command;

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
    Step { name: "format", run: format },
    Step { name: "lints, and packages meanwhile", run: lints_and_packages },
    Step { name: "tools", run: || install().map(Verdict::Passed) },
    Step { name: "tests", run: tests },
    Step { name: "dashboard", run: crate::dashboard::test },
    Step { name: "python, and documentation meanwhile", run: python_and_documentation },
    Step {
        name: "licences, bans and sources",
        run: || passes(&["deny", "check", "licenses", "bans", "sources"]),
    },
    Step { name: "advisories", run: advisories },
    Step { name: "first README command", run: first_command },
];

/// For people who change code: what needs Rust and nothing else.
pub const FAST: &[Step] = &[Step { name: "format", run: format }, Step { name: "tests", run: tests }];

/// Runs the benchmarks.
pub fn bench(args: &[String]) -> Result<(), String> {
    let mut command = cargo(&["bench", "--workspace"]);
    succeed(command.args(args))
}

fn passes(args: &[&str]) -> Result<Verdict, String> {
    succeed(&mut cargo(args)).map(|()| Verdict::Passed(String::new()))
}

fn format() -> Result<Verdict, String> {
    passes(&["fmt", "--all", "--check"])?;
    // A macro declares the modules of the policies, where cargo's formatter does not look.
    let mut files = Vec::new();
    sources(&root().join("crates/core/src/rules"), &mut files)?;
    let mut command = Command::new("rustfmt");
    succeed(command.args(["--check", "--edition", "2024"]).args(files).current_dir(root()))?;
    Ok(Verdict::Passed(String::new()))
}

/// Adds the Rust files below a folder.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Packages are fetched and unpacked, some gigabytes of them, while the compiler has the processors.
fn lints_and_packages() -> Result<Verdict, String> {
    let packages = || [crate::servers::install(), crate::dashboard::install(), crate::python::install()];
    let (linted, fetched) = both(lints, packages)?;
    linted?;
    let mut notes = Vec::new();
    for verdict in fetched {
        match verdict? {
            Verdict::Passed(note) if note.is_empty() => {}
            Verdict::Passed(note) | Verdict::Skipped(note) => notes.push(note),
        }
    }
    Ok(Verdict::Passed(notes.join("; ")))
}

/// Tests of clusters wait for most of their time. The library comes first: cargo builds one thing at a time.
fn python_and_documentation() -> Result<Verdict, String> {
    crate::python::library()?;
    let (tested, documented) = both(crate::python::test, documentation)?;
    documented?;
    tested
}

/// Does two things at a time.
fn both<One, Other: Send>(
    one: impl FnOnce() -> One,
    other: impl FnOnce() -> Other + Send,
) -> Result<(One, Other), String> {
    std::thread::scope(|threads| {
        let meanwhile = threads.spawn(other);
        let done = one();
        let other = meanwhile.join().map_err(|_| "what was done meanwhile panicked".to_owned())?;
        Ok((done, other))
    })
}

fn lints() -> Result<Verdict, String> {
    passes(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"])
}

const CASES: &str = "PROPTEST_RNG_SEED";

fn tests() -> Result<Verdict, String> {
    // Examples are no tests, and lints see them.
    let what = ["--workspace", "--lib", "--bins", "--tests", "--locked", "--no-fail-fast"];
    let has_nextest = capture(&mut cargo(&["nextest", "--version"]))?.0;
    // Without nextest, which `cargo xtask test` installs, cargo runs the tests itself.
    let mut command = cargo(if has_nextest { &["nextest", "run"] } else { &["test"] });
    command.args(what).args(["--color", colour()]);
    if std::env::var_os(CASES).is_none() {
        // The same random cases every time, so that a change is judged by what it changes; another number tries others.
        command.env(CASES, "1");
    }
    let told = succeed_and_tell(crate::skips::collect(&mut command))?;
    let summary = told.lines().rev().find(|line| line.contains("tests run:"));
    Ok(Verdict::Passed(summary.unwrap_or_default().trim().to_string()))
}

fn documentation() -> Result<Verdict, String> {
    passes(&["test", "--workspace", "--doc", "--locked", "--quiet"])?;
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

/// The release build, and the first command of the README with it, as it is written there.
pub fn release() -> Result<(), String> {
    let mut command = cargo(&["run", "--release", "--locked", "--quiet", "--manifest-path"]);
    command.arg(root().join("Cargo.toml"));
    sample(&mut command).map(|_| ())
}

/// What the README's first command runs, by the program that the tests have used: to build it for release would take as long
/// as all of them. The other README commands are tests.
fn first_command() -> Result<Verdict, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    sample(&mut Command::new(target.join("debug/gswarm")))
}

/// The program without arguments, in a folder of its own.
fn sample(command: &mut Command) -> Result<Verdict, String> {
    let folder = root().join("target/xtask/readme");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    succeed(command.current_dir(&folder))?;
    let logs = folder.join("gswarm-out/sample-1");
    if logs.join("baseline_execution_log.json").exists() {
        Ok(Verdict::Passed(String::new()))
    } else {
        Err("the sample left no log".to_string())
    }
}
