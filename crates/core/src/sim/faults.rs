//! What goes wrong in a simulation, drawn from a seed: the same seed fails the same attempts.

use crate::id::{GpuId, TaskId};
use crate::time::Time;

/// Failures to inject.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The share of executions that fail, each at a random point of its run.
    pub fail_rate: f64,
    /// What the draws depend on.
    pub seed: u64,
    /// GPUs that are lost, and when.
    pub lose: Vec<(Time, GpuId)>,
    /// GPUs that were lost and are there again, and when.
    pub bring_back: Vec<(Time, GpuId)>,
}

impl Faults {
    /// The part of its work after which this attempt fails, if it does.
    pub(super) fn fails_after(&self, task: TaskId, attempt: u32) -> Option<f64> {
        if self.fail_rate <= 0.0 {
            return None;
        }
        let draw = mix(self.seed ^ mix(u64::from(task.0) << 32 | u64::from(attempt)));
        (unit(draw) < self.fail_rate).then(|| unit(mix(draw)).max(1e-6))
    }
}

/// A number from 0 to 1 from random bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Spreads the bits of a number (the finaliser of splitmix64): a draw that needs no state, so that it does not depend on
/// the order in which executions start.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
