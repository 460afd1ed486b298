//! How far plans are from the bound, on the published files: `cargo bench --bench gaps` for one seed and two seconds each,
//! `cargo bench --bench gaps -- full` for seeds 1 to 5 and ten seconds each, as the goals say (13 minutes).
//!
//! Further words choose cases (`-- full complex`). Every plan's log has passed the check before its gap is counted.

use std::path::{Path, PathBuf};
use std::process::Command;

/// (files, GPUs, the largest gap that is wanted, in percent).
const CASES: &[(&str, u32, f64)] = &[
    ("simple", 4, 0.05),
    ("simple", 6, 0.1),
    ("simple", 8, 0.1),
    ("simple", 10, 0.25),
    ("simple", 16, 0.2),
    ("simple", 32, 0.4),
    ("complex", 8, 0.04),
    ("complex", 12, 0.2),
    ("complex", 16, 0.08),
    ("complex", 20, 0.4),
    ("complex", 28, 1.0),
    ("complex", 32, 0.13),
    ("complex", 256, 1.0),
    ("complex", 512, 2.0),
    ("complex", 1024, 4.0),
];

struct Plan {
    gap: f64,
    makespan: f64,
    bound: f64,
    argument: String,
}

fn main() {
    // Cargo adds `--bench`.
    let mut words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let full = words.iter().position(|word| word == "full").map(|at| words.remove(at)).is_some();
    let (seeds, budget) = if full { (1..=5, "10s") } else { (1..=1, "2s") };
    let files = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gswarm"));
    if !files.exists() {
        println!("skipped, {} is not there", files.display());
        return;
    }
    println!("| case | bound, s | argument | best plan, s | worst gap, % | mean gap, % | goal, % | |");
    println!("|---|---:|---|---:|---:|---:|---:|---|");
    for &(name, gpus, goal) in CASES {
        let case = format!("{name} {gpus}");
        if !words.iter().all(|word| case.contains(word.as_str())) {
            continue;
        }
        let plans: Vec<Plan> = seeds.clone().map(|seed| plan(&files, name, gpus, seed, budget)).collect();
        let worst = plans.iter().map(|plan| plan.gap).fold(0.0, f64::max);
        let mean = plans.iter().map(|plan| plan.gap).sum::<f64>() / plans.len() as f64;
        let best = plans.iter().map(|plan| plan.makespan).fold(f64::INFINITY, f64::min);
        let verdict = if worst <= goal { "met" } else { "missed" };
        let (bound, argument) = (plans[0].bound, &plans[0].argument);
        println!(
            "| {case} | {bound:.1} | {argument} | {best:.1} | {worst:.3} | {mean:.3} | {goal} | {verdict} |"
        );
    }
}

fn plan(files: &Path, name: &str, gpus: u32, seed: u32, budget: &str) -> Plan {
    let folder = tempfile::tempdir().expect("a folder for the plan");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gswarm"));
    command.args(["plan", "--json", "--budget", budget, "--gpus", &gpus.to_string()]);
    command.args(["--seed", &seed.to_string(), "--out"]).arg(folder.path());
    command.arg("--config").arg(files.join(format!("{name}_config.json")));
    command.arg("--requests").arg(files.join(format!("{name}_requests.yaml")));
    let done = command.output().expect("gswarm starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said: serde_json::Value = serde_json::from_slice(&done.stdout).expect("it prints one JSON object");
    let number = |key: &str| said[key].as_f64().expect("it says how good the plan is");
    Plan {
        gap: number("gap_percent"),
        makespan: number("makespan"),
        bound: number("lower_bound"),
        argument: said["bound_argument"].as_str().unwrap_or_default().to_owned(),
    }
}
