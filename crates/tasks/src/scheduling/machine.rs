//! Where tasks run, in whole numbers: the only place where shares, bytes and rates become times.

use crate::profile::{DeviceKind, HardwareProfile};
use gswarm_core::Span;
use serde::{Deserialize, Serialize};

/// The whole of a task. Shares are counted in millionths, so that a log holds them exactly.
pub const SHARE: u32 = 1_000_000;

/// A CPU, some GPUs that are alike, and the link that all of them get their data over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Number of GPUs.
    pub gpus: u32,
    /// Memory of each.
    pub gpu_memory_bytes: u64,
    /// Memory of the host.
    pub cpu_memory_bytes: u64,
    /// Of the link, whichever GPU the data is for.
    pub link_bytes_per_us: u64,
    /// Of each transfer.
    pub link_latency_us: u64,
    /// Power of the CPU with nothing to do and at work.
    pub cpu_watts: [f64; 2],
    /// The same of each GPU.
    pub gpu_watts: [f64; 2],
}

impl Machine {
    /// The machine of a profile with so many of its GPUs. Where the profile has no GPU, those of the described machine.
    pub fn of(profile: &HardwareProfile, gpus: u32) -> Machine {
        let described = crate::profile::described();
        let device = |kind| profile.device(kind).or(described.device(kind));
        let link = profile.links.first().or(described.links.first());
        let bytes = |kind| device(kind).map_or(0, |device| (device.memory_mb * 1e6) as u64);
        let watts = |kind| device(kind).map_or([0.0; 2], |device| [device.idle_watts, device.busy_watts]);
        Machine {
            gpus,
            gpu_memory_bytes: bytes(DeviceKind::Gpu),
            cpu_memory_bytes: bytes(DeviceKind::Cpu),
            link_bytes_per_us: link.map_or(1, |link| (link.to_pinned_gb_per_s * 1e3).round().max(1.0) as u64),
            link_latency_us: link.map_or(0, |link| (link.latency_seconds * 1e6).round() as u64),
            cpu_watts: watts(DeviceKind::Cpu),
            gpu_watts: watts(DeviceKind::Gpu),
        }
    }

    /// Bytes of a share.
    pub fn bytes(memory: u64, share: u32) -> u64 {
        (u128::from(memory) * u128::from(share)).div_ceil(u128::from(SHARE)) as u64
    }

    /// How long the data of a share takes over the link.
    pub fn transfer(&self, memory: u64, share: u32) -> Span {
        Span(self.link_latency_us + Machine::bytes(memory, share).div_ceil(self.link_bytes_per_us))
    }

    /// The run time of a share of a task.
    pub fn part(whole: Span, share: u32) -> Span {
        let half = u128::from(SHARE) / 2;
        Span(((u128::from(whole.0) * u128::from(share) + half) / u128::from(SHARE)) as u64)
    }

    /// Whether a task, or a share of it, can be on a GPU at all.
    pub fn fits_gpu(&self, memory: u64, share: u32) -> bool {
        self.gpus > 0 && Machine::bytes(memory, share) <= self.gpu_memory_bytes
    }

    /// Whether it can be on the host.
    pub fn fits_cpu(&self, memory: u64) -> bool {
        memory <= self.cpu_memory_bytes
    }

    /// Energy of a run in joules: work at the power of work, the rest of the time at that of idleness.
    pub fn joules(&self, makespan: Span, cpu_busy: Span, gpu_busy: Span) -> f64 {
        let one = |[idle, busy]: [f64; 2], all: Span, at_work: Span| {
            idle * (all.seconds() - at_work.seconds()).max(0.0) + busy * at_work.seconds()
        };
        let gpus = Span(makespan.0.saturating_mul(u64::from(self.gpus)));
        one(self.cpu_watts, makespan, cpu_busy) + one(self.gpu_watts, gpus, gpu_busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_whole() {
        let whole = Span(1_234_567);
        for share in [0, 1, 250_000, 333_333, 999_999, SHARE] {
            let both = Machine::part(whole, share) + Machine::part(whole, SHARE - share);
            assert!(both.0.abs_diff(whole.0) <= 1, "{share}");
        }
        let machine = Machine::of(&crate::profile::described(), 4);
        assert_eq!(machine.transfer(500_000_000, SHARE), Span(10_010));
        assert_eq!(machine.transfer(500_000_000, SHARE / 2), Span(5_010));
    }
}
