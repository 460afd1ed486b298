//! A problem that starts with loaded models and running executions.

use crate::id::{GpuId, Gpus, ModelId, TaskId};

/// What is on the GPUs at time zero; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Models that are there, GPU by GPU.
    pub resident: Vec<(GpuId, ModelId)>,
    /// Tasks that execute from the first moment on, where their models are. Their requests are there at time zero, and their
    /// times are what is left of them.
    pub running: Vec<(TaskId, Gpus)>,
}

impl Start {
    /// Whether every GPU is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resident.is_empty() && self.running.is_empty()
    }
}
