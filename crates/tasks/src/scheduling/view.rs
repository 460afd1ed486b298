//! What a policy may know.

use super::machine::Machine;
use super::workload::{RunTimes, TaskKind, Workload};
use crate::profile::{DeviceKind, HardwareProfile, Law, NoLaw, Operation};
use gswarm_core::{Span, Time};
use gswarm_learn::model::Online;

/// Predicted run times of every task on each device.
#[derive(Clone, Debug)]
pub struct Estimates {
    /// What is expected.
    pub means: Vec<RunTimes>,
    /// How far off that may be; `None` where the times are known.
    pub doubt: Option<Doubt>,
}

/// How far predicted times may be off, and what tells it anew as tasks end. The CPU comes first, then GPUs.
#[derive(Clone, Debug)]
pub struct Doubt {
    /// Of each task, as the standard deviation of the logarithm of its time.
    pub spreads: Vec<[f64; 2]>,
    /// How far from its mean the truth is expected to be, in seconds.
    pub scales: Vec<[f64; 2]>,
    /// With nothing learned yet.
    pub online: [Online; 2],
}

/// What a profile of bare operations is taken to be off by: it knows nothing of the place where tasks run.
const PROFILE_SPREAD: f64 = 0.3;

impl Doubt {
    /// What is not known of times that nobody gave an interval for.
    fn of_profile(means: &[RunTimes]) -> Doubt {
        let scale = |mean: &RunTimes| [mean.cpu, mean.gpu].map(|span| PROFILE_SPREAD * span.seconds());
        Doubt {
            spreads: vec![[PROFILE_SPREAD; 2]; means.len()],
            scales: means.iter().map(scale).collect(),
            online: [Online::standard(), Online::standard()],
        }
    }
}

impl Estimates {
    /// Times that are what they are.
    pub fn certain(means: Vec<RunTimes>) -> Estimates {
        Estimates { means, doubt: None }
    }

    /// What a profile of bare operations says: the operation at the task's size, as much of it as its intensity says, and
    /// one pass over its memory.
    pub fn of_profile(workload: &Workload, profile: &HardwareProfile) -> Result<Estimates, NoLaw> {
        let needed: Vec<Operation> = TaskKind::ALL
            .into_iter()
            .filter(|&kind| workload.tasks.iter().any(|task| task.kind == kind))
            .map(TaskKind::operation)
            .collect();
        let on = |kind| -> Result<(Law, f64), NoLaw> {
            let law = Law::of(profile, kind, &needed)?;
            let bandwidth = profile.device(kind).map_or(1.0, |device| device.memory_gb_per_s.max(0.1));
            Ok((law, bandwidth * 1e9))
        };
        let (cpu, gpu) = (on(DeviceKind::Cpu)?, on(DeviceKind::Gpu)?);
        let means = workload.tasks.iter().map(|task| {
            let time = |(law, bandwidth): &(Law, f64)| {
                let seconds = task.intensity * law.seconds(task.kind.operation(), task.size)
                    + task.memory_bytes as f64 / bandwidth;
                Span(Span::from_seconds(seconds).0.max(1))
            };
            RunTimes { cpu: time(&cpu), gpu: time(&gpu) }
        });
        Ok(Estimates::off_like_a_profile(means.collect()))
    }

    /// What the file of the tasks says that a profile says; `None` where it says nothing of some task.
    pub fn of_file(workload: &Workload) -> Option<Estimates> {
        let means: Option<Vec<RunTimes>> = workload.tasks.iter().map(|task| task.profiled).collect();
        means.map(Estimates::off_like_a_profile)
    }

    fn off_like_a_profile(means: Vec<RunTimes>) -> Estimates {
        let doubt = Some(Doubt::of_profile(&means));
        Estimates { means, doubt }
    }

    /// The run times themselves, for the clairvoyant.
    pub fn of_truth(workload: &Workload, otherwise: &Estimates) -> Estimates {
        Estimates::certain(workload.truths(otherwise))
    }
}

/// A device: `0` is the CPU, the GPUs follow.
pub type DeviceIndex = usize;

pub const CPU: DeviceIndex = 0;

/// How things stand, as far as a policy may know.
pub struct View<'a> {
    /// The moment.
    pub now: Time,
    /// Where tasks run.
    pub machine: &'a Machine,
    /// Predicted run times.
    pub estimates: &'a Estimates,
    /// Memory of each task.
    pub memory: &'a [u64],
    /// Parts that were placed on each device and are not done.
    pub placed: &'a [u32],
    /// What runs on each device, and since when.
    pub running: &'a [Option<(u32, Time)>],
    /// When what runs on each device is expected to be done.
    pub running_until: &'a [Time],
    /// The expected run time of what waits there behind it.
    pub queued: &'a [Span],
    /// Devices of which any of this has changed, one after another since the run began: who remembers how many of them it
    /// has seen need not look at all devices again.
    pub changes: &'a [DeviceIndex],
    /// When the link is done with all transfers that were asked for.
    pub link_free_at: Time,
}

impl View<'_> {
    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.placed.len()
    }

    /// When a device is expected to be done with everything that was placed on it.
    pub fn free_at(&self, device: DeviceIndex) -> Time {
        self.running_until[device].max(self.now) + self.queued[device]
    }

    /// The expected run time of a whole task on a device.
    pub fn run_time(&self, task: u32, device: DeviceIndex) -> Span {
        let mean = self.estimates.means[task as usize];
        if device == CPU { mean.cpu } else { mean.gpu }
    }

    /// How long its data takes to get there.
    pub fn transfer(&self, task: u32, device: DeviceIndex) -> Span {
        if device == CPU {
            Span::ZERO
        } else {
            self.machine.transfer(self.memory[task as usize], super::machine::SHARE)
        }
    }

    /// Whether the whole task can be there.
    pub fn fits(&self, task: u32, device: DeviceIndex) -> bool {
        let memory = self.memory[task as usize];
        if device == CPU {
            self.machine.fits_cpu(memory)
        } else {
            self.machine.fits_gpu(memory, super::machine::SHARE)
        }
    }
}
