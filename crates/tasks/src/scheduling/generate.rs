//! Workloads from a seed.
//!
//! What a task is (kind, size, intensity, memory, dependencies), when it comes and how long it really takes are drawn from
//! three streams of the seed, so that another load gives the same tasks, nearer to one another.

use super::machine::Machine;
use super::view::Estimates;
use super::workload::{RunTimes, Task, TaskKind, Workload};
use crate::profile::{HardwareProfile, NoLaw};
use gswarm_core::input::{Code, Diagnostic};
use gswarm_core::time::MAX_SECONDS;
use gswarm_core::{Span, Time};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Exp1, StandardNormal};

/// How fast tasks come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskArrivals {
    /// So many a second, on average.
    Rate(f64),
    /// As a share of what the machine can do at best: above 1 the queue only grows.
    Load(f64),
}

/// What to generate. The default is the described workload.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadOptions {
    /// How many tasks.
    pub tasks: u32,
    /// Minimum and maximum size.
    pub size: [f64; 2],
    /// Minimum and maximum compute intensity.
    pub intensity: [f64; 2],
    /// Minimum and maximum memory, in MB of a million bytes.
    pub memory_mb: [f64; 2],
    /// How fast they come.
    pub arrivals: TaskArrivals,
    /// Share of tasks that depend on others.
    pub dependent: f64,
    /// Tasks wait for one to three of so many before them.
    pub window: u32,
    /// Which kinds, and in what proportion.
    pub kinds: Vec<(TaskKind, f64)>,
    /// Scale of noise and interference; 0 for none.
    pub noise: f64,
    /// GPUs of the machine that --load refers to.
    pub gpus: u32,
    /// For every random choice.
    pub seed: u64,
}

impl Default for WorkloadOptions {
    fn default() -> WorkloadOptions {
        WorkloadOptions {
            tasks: 10_000,
            size: [100.0, 5000.0],
            intensity: [0.1, 1.0],
            memory_mb: [10.0, 500.0],
            arrivals: TaskArrivals::Rate(100.0),
            dependent: 0.3,
            window: 50,
            kinds: TaskKind::ALL.map(|kind| (kind, 1.0)).to_vec(),
            noise: 1.0,
            gpus: 4,
            seed: 0,
        }
    }
}

/// Why there is no workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// The profile does not say how long tasks take.
    #[error(transparent)]
    NoLaw(#[from] NoLaw),
    /// An option that cannot be.
    #[error("{message} ({code})")]
    Option {
        /// What kind of fault it is.
        code: Code,
        /// The option, as the command line spells it.
        option: &'static str,
        /// What is wrong.
        message: String,
    },
}

impl WorkloadError {
    /// The same as a finding: in the profile's file, or in an option.
    pub fn finding(&self, profile: &str) -> Diagnostic {
        match self {
            WorkloadError::NoLaw(fault) => fault.finding(profile),
            WorkloadError::Option { code, option, message } => {
                Diagnostic::of_file(format!("--{option}"), *code, message.as_str())
            }
        }
    }
}

/// A workload, and what it asks of the machine.
#[derive(Clone, Debug)]
pub struct TaskGeneration {
    /// The tasks.
    pub workload: Workload,
    /// Mean arrivals a second.
    pub rate: f64,
    /// That, as a share of what the machine can do at best.
    pub load: f64,
}

/// Draws a workload.
pub fn generate(
    options: &WorkloadOptions,
    profile: &HardwareProfile,
) -> Result<TaskGeneration, WorkloadError> {
    validate(options)?;
    let mut workload = Workload { tasks: draw(options) };
    let estimates = Estimates::of_profile(&workload, profile)?;
    settle_truth(&mut workload, &estimates, options);
    let machine = Machine::of(profile, options.gpus);
    within_memory(options, &machine)?;
    // One after the other on the slower device: no schedule of any policy takes longer.
    let work = workload.tasks.iter().filter_map(|task| task.truth).map(|truth| truth.cpu.max(truth.gpu));
    let work: f64 = work.map(Span::seconds).sum();
    if work > MAX_SECONDS {
        let message =
            format!("tasks of these sizes take {work:.3e} s in total; the limit is {MAX_SECONDS} s");
        return Err(WorkloadError::Option { code: Code::TooLarge, option: "sizes", message });
    }
    let truths: Vec<RunTimes> = workload.tasks.iter().filter_map(|task| task.truth).collect();
    let area = super::bound::area(&truths, machine.gpus);
    let capacity = f64::from(options.tasks) / area.seconds().max(1e-6);
    let (rate, load) = match options.arrivals {
        TaskArrivals::Rate(rate) => (rate, rate / capacity),
        TaskArrivals::Load(load) => (load * capacity, load),
    };
    let mut rng = stream(options.seed, 1);
    let mut at = 0.0;
    for task in &mut workload.tasks {
        at += rng.sample::<f64, _>(Exp1) / rate;
        if at.is_nan() || at > MAX_SECONDS {
            let (option, pace) = match options.arrivals {
                TaskArrivals::Rate(rate) => ("rate", rate),
                TaskArrivals::Load(load) => ("load", load),
            };
            let message = format!("at a {option} of {pace:e} tasks arrive after {MAX_SECONDS} s, the limit");
            return Err(WorkloadError::Option { code: Code::TooLarge, option, message });
        }
        task.arrival = Time(Span::from_seconds(at).0);
    }
    Ok(TaskGeneration { workload, rate, load })
}

fn validate(options: &WorkloadOptions) -> Result<(), WorkloadError> {
    let refuse = |code: Code, option: &'static str, text: &str| {
        Err(WorkloadError::Option { code, option, message: text.to_owned() })
    };
    for (option, name, [low, high]) in [
        ("sizes", "size", options.size),
        ("intensity", "intensity", options.intensity),
        ("memory", "memory", options.memory_mb),
    ] {
        if !(low.is_finite() && high.is_finite() && low > 0.0 && low <= high) {
            let text = format!("the {name} must be a range with a minimum above zero");
            return refuse(Code::NotPositive, option, &text);
        }
    }
    let (option, pace) = match options.arrivals {
        TaskArrivals::Rate(rate) => ("rate", rate),
        TaskArrivals::Load(load) => ("load", load),
    };
    if !(pace.is_finite() && pace > 0.0) {
        return refuse(Code::NotPositive, option, "rate and load must be above zero");
    }
    for (option, count) in [("tasks", options.tasks), ("gpus", options.gpus)] {
        if count == 0 {
            return refuse(Code::NotPositive, option, "at least one task and one GPU are needed");
        }
    }
    if !(0.0..=1.0).contains(&options.dependent) {
        return refuse(Code::TooLarge, "dependent", "the share of dependent tasks must be from 0 to 1");
    }
    if options.noise.is_nan() || !(0.0..=5.0).contains(&options.noise) {
        return refuse(Code::TooLarge, "noise", "the noise must be from 0 to 5");
    }
    let total: f64 = options.kinds.iter().map(|&(_, weight)| weight).sum();
    if !(total.is_finite() && total > 0.0) {
        return refuse(Code::Nothing, "types", "at least one kind of task needs a weight above zero");
    }
    Ok(())
}

/// A task may ask for as much memory as the largest device has, and no more: it would never run.
fn within_memory(options: &WorkloadOptions, machine: &Machine) -> Result<(), WorkloadError> {
    let most = machine.cpu_memory_bytes.max(machine.gpu_memory_bytes) as f64 / 1e6;
    let asked = options.memory_mb[1];
    if asked <= most {
        return Ok(());
    }
    let message = format!("tasks would need up to {asked:.6e} MB, but no device has more than {most} MB");
    Err(WorkloadError::Option { code: Code::TooLarge, option: "memory", message })
}

fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

fn draw(options: &WorkloadOptions) -> Vec<Task> {
    let mut rng = stream(options.seed, 0);
    let within = |rng: &mut ChaCha8Rng, [low, high]: [f64; 2]| low + (high - low) * rng.random::<f64>();
    let total: f64 = options.kinds.iter().map(|&(_, weight)| weight).sum();
    let one = |at: u32| {
        let mut left = rng.random::<f64>() * total;
        let chosen = options.kinds.iter().find(|&&(_, weight)| {
            left -= weight;
            left < 0.0
        });
        let kind = chosen.or(options.kinds.last()).map_or(TaskKind::Matmul, |&(kind, _)| kind);
        let size = within(&mut rng, options.size).round();
        // Four decimals, as the file has them: a workload that is read back is the same.
        let intensity = (within(&mut rng, options.intensity) * 1e4).round() / 1e4;
        let memory_bytes = (within(&mut rng, options.memory_mb) * 1e3).round() as u64 * 1000;
        let mut dependencies = Vec::new();
        if at > 0 && rng.random::<f64>() < options.dependent {
            let first = at.saturating_sub(options.window.max(1));
            for _ in 0..rng.random_range(1..=3) {
                dependencies.push(rng.random_range(first..at));
            }
            dependencies.sort_unstable();
            dependencies.dedup();
        }
        Task {
            id: at.to_string(),
            kind,
            size,
            intensity,
            memory_bytes,
            arrival: Time::ZERO,
            estimate: Span::ZERO,
            dependencies,
            profiled: None,
            truth: None,
        }
    };
    (0..options.tasks).map(one).collect()
}

/// What happens to tasks at the place where they run, beyond what a profile of bare operations knows. A predictor can
/// learn these from history, since they depend on features.
fn site(task: &Task) -> [f64; 2] {
    let [cpu, gpu] = match task.kind {
        TaskKind::Matmul => [1.25, 0.95],
        TaskKind::Convolution => [1.0, 1.3],
        TaskKind::Sort => [0.8, 1.15],
        TaskKind::Sparse => [1.6, 0.8],
    };
    let pressure = 1.0 + 0.3 * (task.memory_bytes as f64 / 500e6).min(2.0);
    [cpu * task.intensity.powf(-0.2) * pressure, gpu]
}

/// Run times: what the profile says, what the site makes of it, and noise and interference that no feature knows of.
fn settle_truth(workload: &mut Workload, estimates: &Estimates, options: &WorkloadOptions) {
    let mut rng = stream(options.seed, 2);
    for (task, mean) in workload.tasks.iter_mut().zip(&estimates.means) {
        let [cpu_site, gpu_site] = site(task);
        // Each task takes the same number of draws, so that one option does not shift the others' luck.
        let normal = |rng: &mut ChaCha8Rng, sigma: f64| {
            (options.noise * sigma * rng.sample::<f64, _>(StandardNormal)).exp()
        };
        let (cpu_noise, gpu_noise, guess) =
            (normal(&mut rng, 0.10), normal(&mut rng, 0.05), normal(&mut rng, 0.3));
        let disturbed = |rng: &mut ChaCha8Rng, chance: f64, most: f64| {
            let (hit, how) = (rng.random::<f64>() < chance, rng.random::<f64>());
            if hit { 1.0 + options.noise * (0.2 + (most - 0.2) * how) } else { 1.0 }
        };
        let (cpu_hit, gpu_hit) = (disturbed(&mut rng, 0.08, 1.0), disturbed(&mut rng, 0.04, 0.6));
        let at_least = |span: Span| Span(span.0.max(1));
        task.profiled = Some(*mean);
        task.truth = Some(RunTimes {
            cpu: at_least(mean.cpu.times(cpu_site * cpu_noise * cpu_hit)),
            gpu: at_least(mean.gpu.times(gpu_site * gpu_noise * gpu_hit)),
        });
        task.estimate = at_least(Span(mean.cpu.0.min(mean.gpu.0)).times(guess));
    }
}
