//! Development tasks of the repository; `cargo xtask help` lists them.
//!
//! No dependencies, so that it builds in a moment on a machine that has nothing but Rust.

mod dashboard;
mod dist;
mod drill;
mod fuzz_http;
mod python;
mod servers;
mod skips;
mod steps;
mod tools;
mod vllm;

use std::process::ExitCode;
use std::time::Instant;
use steps::{Step, Verdict};

const USAGE: &str = "\
cargo xtask test     installs what the tests need, then runs every check that a change has to pass
cargo xtask test --fast
                     formatting and the Rust tests only; downloads and installs nothing
cargo xtask bench    runs the benchmarks (arguments after it go to `cargo bench`)
cargo xtask release  builds for release and runs the first command of the README
cargo xtask dist [--only archive|wheel|image] [--profile NAME] [--out DIR]
                     makes what users install: an archive, a wheel and an OCI image, with checksums
cargo xtask servers  installs real model servers for the tests; --llamacpp also builds the server of llama.cpp (5 minutes or more)
cargo xtask servers --vllm
                     installs vLLM for the CPU (6 GB) and runs gswarm on it while it is put to sleep, frozen, hidden behind 503,
                     stopped and killed
cargo xtask python   tests the Python package alone; --install tests it as users install it, built for release
cargo xtask dashboard --types
                     regenerates the dashboard's TypeScript types from the server's OpenAPI document
cargo xtask drill [N]
                     kills batches N times (default 500), and puts the front door through N / 10 rounds of full disks, deleted
                     databases, kills and flipped bits
cargo xtask fuzz-http [N]
                     sends N generated requests (default 10,000) to the model server";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let result = match args.next().as_deref() {
        Some("test") => match &args.collect::<Vec<_>>()[..] {
            [] => test(steps::ALL),
            [flag] if flag == "--fast" => test(steps::FAST),
            _ => Err("usage: cargo xtask test [--fast]".to_owned()),
        },
        Some("dist") => dist::dist(&args.collect::<Vec<_>>()),
        Some("bench") => steps::bench(&args.collect::<Vec<_>>()),
        Some("release") => steps::release(),
        Some("servers") => servers::servers(&args.collect::<Vec<_>>()),
        Some("python") => python::python(&args.collect::<Vec<_>>()),
        Some("dashboard") => dashboard::dashboard(&args.collect::<Vec<_>>()),
        Some("drill") => drill::drill(&args.collect::<Vec<_>>()),
        Some("fuzz-http") => fuzz_http::fuzz(&args.collect::<Vec<_>>()),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(format!("there is no task `{}`\n\n{USAGE}", other.unwrap_or_default())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Every step, in order; the first that fails ends it. The last lines sum up.
fn test(steps: &[Step]) -> Result<(), String> {
    let start = Instant::now();
    let mut lines = Vec::new();
    skips::forget()?;
    for (place, Step { name, run }) in steps.iter().enumerate() {
        println!("\n==> [{}/{}] {name}", place + 1, steps.len());
        let step_start = Instant::now();
        let verdict = run().map_err(|message| format!("step `{name}` failed: {message}"))?;
        let seconds = step_start.elapsed().as_secs_f64();
        lines.push(match verdict {
            Verdict::Passed(note) if note.is_empty() => format!("  ok      {name} ({seconds:.0} s)"),
            Verdict::Passed(note) => format!("  ok      {name} ({seconds:.0} s): {note}"),
            Verdict::Skipped(why) => format!("  skipped {name}: {why}"),
        });
    }
    println!("\n==> All steps are done, in {:.0} s", start.elapsed().as_secs_f64());
    lines.iter().for_each(|line| println!("{line}"));
    skips::print()
}
