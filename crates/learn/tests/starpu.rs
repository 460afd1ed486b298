//! `earliest_finish` against StarPU's dmda on the same tasks. Debian's `libstarpu-dev` is not needed for anything else:
//! where it is not installed the test says so and passes.

use gswarm_learn::profile::described;
use gswarm_learn::tasks::{Arrivals, Estimates, Machine, Options, PolicyKind, Settings, generate, schedule};
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

#[test]
fn earliest_finish_is_what_dmda_does() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build(folder.path()) else {
        eprintln!("skipped: StarPU is not installed (Debian: libstarpu-dev)");
        return;
    };
    let profile = described();
    // Independent tasks that are all there at once and have no data: what is left is the rule.
    let options = Options {
        tasks: 1000,
        dependent: 0.0,
        arrivals: Arrivals::Load(1.0),
        seed: 3,
        gpus: GPUS,
        ..Options::default()
    };
    let mut workload = generate(&options, &profile).unwrap().workload;
    for task in &mut workload.tasks {
        task.arrival = gswarm_core::Time::ZERO;
        task.memory_bytes = 0;
    }
    let machine = Machine { link_latency_us: 0, ..Machine::of(&profile, GPUS) };
    let known = Estimates::certain(workload.tasks.iter().filter_map(|task| task.truth).collect());
    let ours =
        schedule(&workload, &machine, &known, PolicyKind::EarliestFinish, Settings::default()).unwrap();

    // Workers in the order of our devices: the CPU, then the GPUs.
    let mut input = format!("{} {}\n", GPUS + 1, known.means.len());
    for mean in &known.means {
        let _ = writeln!(input, "{} {}", mean.cpu.0, vec![mean.gpu.0.to_string(); GPUS as usize].join(" "));
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
        eprintln!("skipped: StarPU does not start {} workers on this machine", GPUS + 1);
        return;
    }
    assert!(done.status.success(), "{:?}", done.status);
    let mut busy = vec![0u64; GPUS as usize + 1];
    for (line, mean) in String::from_utf8_lossy(&done.stdout).lines().zip(&known.means) {
        let worker: usize = line.parse().unwrap();
        busy[worker] += if worker == 0 { mean.cpu.0 } else { mean.gpu.0 };
    }
    let (theirs, ours) = (*busy.iter().max().unwrap() as f64, ours.metrics.makespan.0 as f64);
    eprintln!("dmda {:.6} s, earliest_finish {:.6} s", theirs / 1e6, ours / 1e6);
    assert!((ours / theirs - 1.0).abs() < 0.001, "dmda {theirs}, earliest_finish {ours}");
}
