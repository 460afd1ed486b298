//! What goes wrong in a simulation, drawn from a seed: the same seed fails the same attempts.

use crate::id::{GpuId, RequestId, TaskId};
use crate::time::Time;
use crate::truth::{mix, unit};

/// Failures to inject.
#[derive(Clone, Debug, Default)]
pub struct InjectedFaults {
    /// The share of executions that fail, each at a random point of its run.
    pub fail_rate: f64,
    /// What the draws depend on.
    pub seed: u64,
    /// GPUs that are lost, and when.
    pub lose: Vec<(Time, GpuId)>,
    /// GPUs that were lost and are there again, and when.
    pub bring_back: Vec<(Time, GpuId)>,
    /// Requests that are withdrawn, and when.
    pub withdraw: Vec<(Time, RequestId)>,
}

impl InjectedFaults {
    /// The part of its work after which this attempt fails, if it does.
    pub(super) fn fails_after(&self, task: TaskId, attempt: u32) -> Option<f64> {
        if self.fail_rate <= 0.0 {
            return None;
        }
        let draw = mix(self.seed ^ mix(u64::from(task.0) << 32 | u64::from(attempt)));
        (unit(draw) < self.fail_rate).then(|| unit(mix(draw)).max(1e-6))
    }
}
