//! `cargo bench --bench swapper`: agents that call four models in turns, beside a swapper that follows llama-swap's rule.

#[path = "support/swapper.rs"]
mod swapper;

use gswarm_core::Span;
use swapper::{Load, Served, by_gswarm, by_swapper};

fn main() {
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    println!("| calls | | loads | mean | P99 | all done after |");
    println!("|---|---|---:|---:|---:|---:|");
    let every = |seconds: u64| Load::Turns { calls: 300, every: Span(seconds * 1_000_000) };
    let loads = [
        ("ABCABC, one every 15 s", every(15)),
        ("ABCABC, one every 8 s", every(8)),
        ("ABCABC, one every 4 s", every(4)),
        ("4 agents", Load::Agents(4)),
        ("8 agents", Load::Agents(8)),
        ("16 agents", Load::Agents(16)),
    ];
    for (name, load) in loads {
        let run = |served: Served, by: &str| {
            let Served { loads, mean, p99, took, calls } = served;
            println!("| {name}, {calls} calls | {by} | {loads} | {mean:.1} s | {p99:.1} s | {took:.0} s |");
        };
        run(paused().block_on(by_swapper(load)), "swapper");
        run(paused().block_on(by_gswarm(load)), "gswarm");
    }
}

/// A runtime whose clock stands still while anything is to be done.
fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}
