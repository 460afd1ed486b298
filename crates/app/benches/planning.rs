//! How fast plans are made: the first, the evaluation of one, and the search on one thread and on two.
//!
//! `cargo bench --bench planning`, or `cargo bench --bench planning -- million` for the cases whose name contains a word.
//! Each case runs in a process of its own, so that its peak memory is its own.

#[allow(dead_code)]
mod support;

use gswarm_core::bound::lower_bound;
use gswarm_core::input::{RequestSpec, Source, read_scenario};
use gswarm_core::instance::Mode;
use gswarm_core::plan::{SearchLimits, TimedPlan, first, improve};
use gswarm_core::{Instance, Time};
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Case = (&'static str, fn());

const CASES: &[Case] = &[
    ("first plan, a million nodes, 1024 GPUs", || first_plan(&support::complex_instance(1_000_000, 1024), 3)),
    ("first plan, a million nodes of the published files, 1024 GPUs", || match published(177, 1024) {
        Some(instance) => first_plan(&instance, 3),
        None => println!("skipped, the files are not there"),
    }),
    ("first plan, 5660 nodes, 32 GPUs", || first_plan(&support::complex_instance(5660, 32), 20)),
    ("first plan, published files, 32 GPUs", || match published(1, 32) {
        Some(instance) => first_plan(&instance, 20),
        None => println!("skipped, the files are not there"),
    }),
    ("bound, a million nodes, 1024 GPUs", || bound(&support::complex_instance(1_000_000, 1024), 3)),
    ("bound, 5660 nodes, 32 GPUs", || bound(&support::complex_instance(5660, 32), 20)),
    ("evaluate a plan, 5660 nodes, 32 GPUs", || evaluation(&support::complex_instance(5660, 32))),
    ("steps of search, 5660 nodes, 256 GPUs", || scaling(&support::complex_instance(5660, 256))),
];

fn main() {
    // Cargo adds `--bench`; a number alone is a case that this program calls itself for.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let Some((_, run)) =
        words.first().and_then(|word| word.parse().ok()).and_then(|case: usize| CASES.get(case))
    {
        return run();
    }
    let this = std::env::current_exe().expect("this program has a path");
    for (number, (name, _)) in CASES.iter().enumerate() {
        if words.iter().all(|word| name.contains(word.as_str())) {
            let done =
                Command::new(&this).arg(number.to_string()).output().expect("this program starts again");
            assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
            println!("{name}: {}", String::from_utf8_lossy(&done.stdout).trim_end());
        }
    }
}

/// The published `complex` files, every request so many times, as a batch.
fn published(times: usize, gpus: u32) -> Option<Instance> {
    let files = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gswarm"));
    let read = |name: &str| std::fs::read(files.join(name)).ok();
    let (config, requests) = (read("complex_config.json")?, read("complex_requests.yaml")?);
    let (config, requests) =
        (Source { name: "config", bytes: &config }, Source { name: "requests", bytes: &requests });
    let mut scenario = read_scenario(config, requests, Mode::Offline).scenario?;
    let once = scenario.requests.clone();
    for copy in 1..times {
        let renamed = once
            .iter()
            .map(|request| RequestSpec { id: format!("{}-{copy}", request.id), ..request.clone() });
        scenario.requests.extend(renamed);
    }
    Some(support::instance(scenario, gpus))
}

fn first_plan(instance: &Instance, times: u32) {
    let (took, found) = measured(times, || first(instance).expect("cells hold every model"));
    let gap = found.1.seconds() / lower_bound(instance).seconds() - 1.0;
    println!("{took}, {:.3}% over the bound", gap * 100.0);
}

fn bound(instance: &Instance, times: u32) {
    println!("{}", measured(times, || lower_bound(instance)).0);
}

fn evaluation(instance: &Instance) {
    let (plan, makespan) = first(instance).expect("cells hold every model");
    let (took, timed) = measured(200, || TimedPlan::of(instance, &plan));
    assert!(timed.makespan <= Time::ZERO + makespan);
    println!("{took}");
}

/// How much of the search a second brings on one thread and on two. The search asks whether to stop before every schedule
/// that it dispatches and every 32 that it anneals: those questions are counted.
fn scaling(instance: &Instance) {
    let asked = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
        let (begun, questions) = (Instant::now(), AtomicU64::new(0));
        let stop = || {
            questions.fetch_add(1, Ordering::Relaxed);
            begun.elapsed() >= Duration::from_secs(5)
        };
        let limits = SearchLimits { rounds: u64::MAX, stop: &stop, seed: 1, ..SearchLimits::default() };
        pool.install(|| improve(instance, &limits, &mut |_| {}));
        questions.into_inner() as f64 / begun.elapsed().as_secs_f64()
    };
    let (one, two) = (asked(1), asked(2));
    println!("{one:.0} a second on one thread, {two:.0} on two: {:.2} times as many", two / one);
}

/// The best time by the clock, the mean processor time of all threads, and the most memory that the process had.
fn measured<T>(times: u32, mut work: impl FnMut() -> T) -> (String, T) {
    let mut wall = f64::INFINITY;
    let before = support::process_cpu_time();
    let mut last = None;
    for _ in 0..times {
        drop(last.take());
        let start = Instant::now();
        last = Some(black_box(work()));
        wall = wall.min(start.elapsed().as_secs_f64());
    }
    let cpu = (support::process_cpu_time() - before).as_secs_f64() / f64::from(times);
    let memory = support::peak_mib().map_or("-".to_string(), |mib| mib.to_string());
    let text = format!("{:.2} ms by the clock, {:.2} ms CPU, peak {memory} MiB", wall * 1e3, cpu * 1e3);
    (text, last.expect("it is measured at least once"))
}
