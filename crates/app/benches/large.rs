//! Runs of up to a million nodes: time, processor time and peak memory of each, in a process of its own.
//!
//! `cargo bench --bench large`, or `cargo bench --bench large -- offline` for the cases whose name contains a word.

#[allow(dead_code)]
mod support;

use gswarm_core::Instance;
use gswarm_core::check::{check, check_log};
use gswarm_core::explain::{Timeline, idle};
use gswarm_core::log::ExecutionLog;
use gswarm_core::log_file::{LogFile, Summary, write_json, write_jsonl};
use gswarm_core::policy::{BuildContext, PolicyKind};
use gswarm_core::report::{RunInfo, metrics, summary, write_events};
use gswarm_core::sim::{SimOptions, simulate};
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

const MILLION: usize = 1_000_000;
const GPUS: u32 = 1024;
/// So few that 10,000 nodes keep them busy as long, for their number, as a million do.
const FEW_GPUS: u32 = 64;

/// (name, nodes, what it does).
type Case = (&'static str, usize, fn(usize));

const CASES: &[Case] = &[
    ("baseline, 64 GPUs", 10_000, |nodes| simulation(PolicyKind::Baseline, nodes, FEW_GPUS)),
    ("baseline, 64 GPUs", 100_000, |nodes| simulation(PolicyKind::Baseline, nodes, FEW_GPUS)),
    ("baseline, 64 GPUs", MILLION, |nodes| simulation(PolicyKind::Baseline, nodes, FEW_GPUS)),
    ("baseline, 1024 GPUs", 10_000, |nodes| simulation(PolicyKind::Baseline, nodes, GPUS)),
    ("baseline, 1024 GPUs", 100_000, |nodes| simulation(PolicyKind::Baseline, nodes, GPUS)),
    ("baseline, 1024 GPUs", MILLION, |nodes| simulation(PolicyKind::Baseline, nodes, GPUS)),
    ("offline, 64 GPUs", 10_000, |nodes| simulation(PolicyKind::Offline, nodes, FEW_GPUS)),
    ("offline, 64 GPUs", 100_000, |nodes| simulation(PolicyKind::Offline, nodes, FEW_GPUS)),
    ("offline, 64 GPUs", MILLION, |nodes| simulation(PolicyKind::Offline, nodes, FEW_GPUS)),
    ("offline, 1024 GPUs", 10_000, |nodes| simulation(PolicyKind::Offline, nodes, GPUS)),
    ("offline, 1024 GPUs", 100_000, |nodes| simulation(PolicyKind::Offline, nodes, GPUS)),
    ("offline, 1024 GPUs", MILLION, |nodes| simulation(PolicyKind::Offline, nodes, GPUS)),
    ("metrics", MILLION, |nodes| {
        let (instance, log) = a_run(nodes);
        measure(nodes, || metrics(&instance, &log));
    }),
    ("check in memory", MILLION, |nodes| {
        let (instance, log) = a_run(nodes);
        measure(nodes, || assert!(check_log(&instance, &log, None).is_empty()));
    }),
    ("explain idle time", MILLION, |nodes| {
        let (instance, log) = a_run(nodes);
        measure(nodes, || idle(&Timeline::new(&instance, &log), 10));
    }),
    ("write event log", MILLION, |nodes| {
        let (instance, log) = a_run(nodes);
        measure(nodes, || write_events(&instance, &log, &mut std::io::sink()).expect("a sink takes all"));
    }),
    ("write JSON log", MILLION, |nodes| {
        let (instance, log) = a_run(nodes);
        let summary = summary_of(&instance, &log);
        measure(nodes, || text(&instance, &log, &summary, false));
    }),
    ("write JSONL log", MILLION, |nodes| {
        let (instance, log) = a_run(nodes);
        let summary = summary_of(&instance, &log);
        measure(nodes, || text(&instance, &log, &summary, true));
    }),
    ("read JSON log", MILLION, |nodes| reading(nodes, false)),
    ("read JSONL log", MILLION, |nodes| reading(nodes, true)),
    ("check from file", MILLION, |nodes| {
        let (instance, log) = a_run(nodes);
        let file = LogFile::read_bytes(&text(&instance, &log, &summary_of(&instance, &log), true));
        measure(nodes, || assert!(check(&instance, &file).is_empty()));
    }),
];

/// Each case is measured so often.
fn times(nodes: usize) -> usize {
    (3 * MILLION / nodes).clamp(3, 100)
}

fn main() {
    // Cargo adds `--bench`; a number alone is a case that this program calls itself for.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if let Some((_, nodes, run)) =
        words.first().and_then(|word| word.parse().ok()).and_then(|case: usize| CASES.get(case))
    {
        return run(*nodes);
    }
    println!(
        "{:<20} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "case", "nodes", "wall s", "CPU s", "ns/node", "peak MiB"
    );
    let this = std::env::current_exe().expect("this program has a path");
    for (number, (name, nodes, _)) in CASES.iter().enumerate() {
        if !words.iter().all(|word| name.contains(word.as_str())) {
            continue;
        }
        let done = Command::new(&this).arg(number.to_string()).output().expect("this program starts again");
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        print!("{name:<20} {nodes:>9}{}", String::from_utf8_lossy(&done.stdout));
    }
}

fn simulation(kind: PolicyKind, nodes: usize, gpus: u32) {
    let instance = support::complex_instance(nodes, gpus);
    measure(nodes, || {
        let mut policy = kind.build(&instance, &BuildContext::default());
        let log = simulate(&instance, policy.as_mut(), &SimOptions::default(), &mut |_| {}).expect("it ends");
        assert_eq!(log.executions.len(), instance.tasks());
        log
    });
}

fn a_run(nodes: usize) -> (Instance, ExecutionLog) {
    let instance = support::complex_instance(nodes, GPUS);
    let mut policy = PolicyKind::Baseline.build(&instance, &BuildContext::default());
    let log = simulate(&instance, policy.as_mut(), &SimOptions::default(), &mut |_| {}).expect("it ends");
    drop(policy);
    (instance, log)
}

fn summary_of(instance: &Instance, log: &ExecutionLog) -> Summary {
    let info = RunInfo { policy: "baseline".into(), ..RunInfo::default() };
    summary(instance, &metrics(instance, log), info)
}

fn text(instance: &Instance, log: &ExecutionLog, summary: &Summary, by_line: bool) -> Vec<u8> {
    let mut text = Vec::new();
    let write = if by_line { write_jsonl } else { write_json };
    write(instance, log, summary, &mut text).expect("memory can be written to");
    text
}

fn reading(nodes: usize, by_line: bool) {
    let (instance, log) = a_run(nodes);
    let text = text(&instance, &log, &summary_of(&instance, &log), by_line);
    drop((instance, log));
    measure(nodes, || LogFile::read_bytes(&text));
}

/// Prints the rest of a row: the best time by the clock (whatever else the machine does only adds), the mean processor time
/// (which systems tell in steps of milliseconds), and the most memory that the process had.
fn measure<T>(nodes: usize, mut work: impl FnMut() -> T) {
    let (times, mut wall, mut cpu) = (times(nodes), f64::INFINITY, 0.0);
    for _ in 0..times {
        let (start, cpu_start) = (Instant::now(), support::cpu_time());
        let result = black_box(work());
        wall = wall.min(start.elapsed().as_secs_f64());
        cpu += (support::cpu_time() - cpu_start).as_secs_f64() / times as f64;
        drop(result);
    }
    let memory = support::peak_mib().map_or("-".to_string(), |mib| mib.to_string());
    println!(" {wall:>9.3} {cpu:>9.3} {:>9.0} {memory:>9}", cpu / nodes as f64 * 1e9);
}
