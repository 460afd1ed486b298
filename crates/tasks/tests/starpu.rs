//! `earliest_finish` against StarPU's dmda on the same tasks. Debian's `libstarpu-dev` is needed for nothing else: the tests
//! are skipped where it is not installed, on CI too.

use gswarm_core::{Span, Time};
use gswarm_tasks::profile::described;
use gswarm_tasks::{
    Estimates, Machine, PolicySettings, RunTimes, TaskArrivals, TaskOutcome, TaskPolicy, Workload,
    WorkloadOptions, generate, schedule,
};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const GPUS: u32 = 3;

/// The program, built beside the test's other files; `None` where it cannot be.
fn build(folder: &Path) -> Option<std::path::PathBuf> {
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "starpu-1.3"]).output().ok()?;
    if !flags.status.success() {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/starpu/dmda.c");
    let program = folder.join("dmda");
    let built = Command::new("cc")
        .args(["-O1", "-o"])
        .arg(&program)
        .arg(source)
        .args(String::from_utf8_lossy(&flags.stdout).split_whitespace())
        .status()
        .ok()?;
    built.success().then_some(program)
}

/// The worker of each task and how many had begun before it; `None`, and a word about it, where StarPU does not run here.
fn dmda(workload: &Workload) -> Option<Vec<(usize, usize)>> {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path()) else {
        gswarm_testing::skip_on_ci_too("StarPU is not installed (Debian: libstarpu-dev)");
        return None;
    };
    // Workers in the order of our devices: the CPU, then the GPUs.
    let mut input = format!("{} {}\n", GPUS + 1, workload.tasks.len());
    for task in &workload.tasks {
        let truth = task.truth.unwrap();
        let others: Vec<String> = task.dependencies.iter().map(ToString::to_string).collect();
        let on_gpus = vec![truth.gpu.0.to_string(); GPUS as usize].join(" ");
        let _ = writeln!(input, "{} {on_gpus} {} {}", truth.cpu.0, others.len(), others.join(" "));
    }
    let mut child = Command::new(program)
        .env("STARPU_HOME", folder.path())
        .env("STARPU_SILENT", "1")
        .env("STARPU_NCPU", (GPUS + 1).to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    if done.status.code() == Some(5) {
        let why = format!("StarPU does not start {} workers on this machine", GPUS + 1);
        gswarm_testing::skip_on_ci_too(&why);
        return None;
    }
    assert!(done.status.success(), "{:?}", done.status);
    let number = |text: Option<&str>| text.unwrap().parse::<usize>().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let placed = text.lines().map(|line| {
        let mut words = line.split(' ');
        (number(words.next()), number(words.next()))
    });
    Some(placed.collect())
}

/// Tasks that are all there at once and have no data: what is left is the rule.
fn workload(options: &WorkloadOptions) -> (Workload, Machine) {
    let profile = described();
    let mut workload = generate(options, &profile).unwrap().workload;
    for task in &mut workload.tasks {
        task.arrival = Time::ZERO;
        task.memory_bytes = 0;
    }
    (workload, Machine { link_latency_us: 0, ..Machine::of(&profile, GPUS) })
}

fn truths(workload: &Workload) -> Vec<RunTimes> {
    workload.tasks.iter().filter_map(|task| task.truth).collect()
}

/// Under `earliest_finish`, which expects `times` and meets those of the workload.
fn ours(workload: &Workload, machine: &Machine, times: &[RunTimes]) -> TaskOutcome {
    let expected = Estimates::certain(times.to_vec());
    schedule(workload, machine, &expected, TaskPolicy::EarliestFinish, PolicySettings::default()).unwrap()
}

/// When all is done if each worker takes its tasks in the order in which it began them.
fn replay(workload: &Workload, placed: &[(usize, usize)]) -> u64 {
    let mut order: Vec<usize> = (0..placed.len()).collect();
    order.sort_unstable_by_key(|&task| placed[task].1);
    let (mut free, mut ends) = (vec![0; GPUS as usize + 1], vec![0; placed.len()]);
    for task in order {
        let (worker, truth) = (placed[task].0, workload.tasks[task].truth.unwrap());
        let inputs = workload.tasks[task].dependencies.iter().map(|&earlier| ends[earlier as usize]).max();
        let takes = if worker == 0 { truth.cpu.0 } else { truth.gpu.0 };
        ends[task] = inputs.unwrap_or(0).max(free[worker]) + takes;
        free[worker] = ends[task];
    }
    ends.into_iter().max().unwrap_or(0)
}

#[test]
fn earliest_finish_is_what_dmda_does() {
    let options = WorkloadOptions {
        tasks: 1000,
        dependent: 0.0,
        arrivals: TaskArrivals::Load(1.0),
        seed: 3,
        gpus: GPUS,
        ..WorkloadOptions::default()
    };
    let (workload, machine) = workload(&options);
    let Some(placed) = dmda(&workload) else { return };
    let mut busy = vec![0u64; GPUS as usize + 1];
    for (&(worker, _), truth) in placed.iter().zip(truths(&workload)) {
        busy[worker] += if worker == 0 { truth.cpu.0 } else { truth.gpu.0 };
    }
    let ours = ours(&workload, &machine, &truths(&workload)).metrics.makespan.0 as f64;
    let theirs = *busy.iter().max().unwrap() as f64;
    eprintln!("dmda {:.6} s, earliest_finish {:.6} s", theirs / 1e6, ours / 1e6);
    assert!((ours / theirs - 1.0).abs() < 0.001, "dmda {theirs}, earliest_finish {ours}");
}

/// With dependencies StarPU decides by the clock, and its threads are late now and then. So the tasks are some on which
/// `earliest_finish` decides the same however late each of them ends, up to a limit; and the schedules are compared as if
/// none had been.
#[test]
fn earliest_finish_is_what_dmda_does_with_dependencies() {
    const LATE: u64 = 12_000;
    let Some((workload, ours)) = (0..2000).find_map(|seed| steady(seed, LATE)) else {
        panic!("no tasks were found on which lateness decides nothing");
    };
    let waiting = workload.tasks.iter().filter(|task| !task.dependencies.is_empty()).count();
    assert!(waiting >= 10, "{waiting} tasks wait for others");
    let Some(placed) = dmda(&workload) else { return };
    let (theirs, ours) = (replay(&workload, &placed) as f64, ours as f64);
    eprintln!("dmda {:.6} s, earliest_finish {:.6} s, {waiting} tasks wait", theirs / 1e6, ours / 1e6);
    assert!((ours / theirs - 1.0).abs() < 0.001, "dmda {theirs}, earliest_finish {ours}");
}

/// Thirty tasks of some three seconds in all, and their makespan, if lateness decides nothing.
fn steady(seed: u64, late: u64) -> Option<(Workload, u64)> {
    let options = WorkloadOptions {
        tasks: 30,
        dependent: 0.6,
        window: 12,
        arrivals: TaskArrivals::Load(1.0),
        seed,
        gpus: GPUS,
        ..WorkloadOptions::default()
    };
    let (mut workload, machine) = workload(&options);
    let plain = ours(&workload, &machine, &truths(&workload)).metrics.makespan;
    let factor = 3e6 / plain.0 as f64;
    for task in &mut workload.tasks {
        let longer = |span: Span| Span(span.times(factor).0.max(5_000));
        task.truth = task.truth.map(|truth| RunTimes { cpu: longer(truth.cpu), gpu: longer(truth.gpu) });
    }
    let times = truths(&workload);
    let exact = ours(&workload, &machine, &times);
    // GPUs are alike: what counts is which tasks are on the CPU, and how long all takes.
    let on_cpu = |outcome: &TaskOutcome| -> Vec<bool> {
        outcome.log.records.iter().map(|(_, record)| record.cpu.is_some()).collect()
    };
    let mut late_workload = workload.clone();
    for round in 0..40_u64 {
        for (at, task) in late_workload.tasks.iter_mut().enumerate() {
            let by = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(round as u32 + 7) % late;
            let RunTimes { cpu, gpu } = times[at];
            task.truth = Some(RunTimes { cpu: cpu + Span(by), gpu: gpu + Span(by) });
        }
        let outcome = ours(&late_workload, &machine, &times);
        let placed = outcome.log.records.iter().map(|(_, record)| {
            let start =
                record.gpu.map_or(record.cpu.map_or(Time::ZERO, |part| part.start), |part| part.start);
            (record.gpu.map_or(0, |part| part.gpu as usize + 1), start.0 as usize)
        });
        let same = replay(&workload, &placed.collect::<Vec<_>>()) == exact.metrics.makespan.0;
        if !same || on_cpu(&outcome) != on_cpu(&exact) {
            return None;
        }
    }
    Some((workload, exact.metrics.makespan.0))
}
