//! Where a problem runs: the GPUs, their division into servers, and the cost of loading models.

use crate::cost::SwitchCost;
use crate::gpuset::GpuSet;
use crate::id::Gpus;
pub use crate::scenario::Residency;
use crate::scenario::{ClusterSpec, SwitchRule};

/// The GPUs, and what moving models onto them costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Number of GPUs.
    pub gpus: u32,
    /// GPUs of one server; `None` where all are in one.
    pub gpus_per_server: Option<u32>,
    /// Memory of one GPU.
    pub gpu_memory_gb: f64,
    /// Whether the value was given or is the default. A default counts only where models share a GPU.
    pub gpu_memory_given: bool,
    /// Cost of replacing models.
    pub switch: SwitchCost,
    /// How many models a GPU holds.
    pub residency: Residency,
}

/// Default GPU memory.
pub const DEFAULT_GPU_MEMORY_GB: f64 = 80.0;

impl Cluster {
    /// The cluster of `spec`, with default values for missing fields. `None` without a number of GPUs.
    #[must_use]
    pub fn from_spec(spec: &ClusterSpec) -> Option<Cluster> {
        Some(Cluster {
            gpus: spec.gpus?,
            gpus_per_server: spec.gpus_per_server,
            gpu_memory_gb: spec.gpu_memory_gb.unwrap_or(DEFAULT_GPU_MEMORY_GB),
            gpu_memory_given: spec.gpu_memory_gb.is_some(),
            switch: SwitchCost {
                rule: spec.switch_cost.unwrap_or(SwitchRule::Transfer),
                pcie_gb_per_s: spec.pcie_gb_per_s.unwrap_or(16.0),
                overhead_seconds: spec.switch_overhead_seconds.unwrap_or(2.0),
            },
            residency: spec.residency.unwrap_or_default(),
        })
    }

    /// The server of a GPU.
    #[must_use]
    pub fn server_of(&self, gpu: u32) -> u32 {
        gpu / self.gpus_per_server.unwrap_or(self.gpus).max(1)
    }

    /// The number of servers; the last may be smaller than the others.
    #[must_use]
    pub fn servers(&self) -> u32 {
        self.server_of(self.gpus.saturating_sub(1)) + 1
    }

    /// Whether a model may be put on these GPUs: inside one server where it fits into one, else from a server's first GPU on.
    pub(crate) fn legal(&self, gpus: Gpus) -> bool {
        let end = u64::from(gpus.first.0) + u64::from(gpus.count);
        if gpus.count == 0 || end > u64::from(self.gpus) {
            return false;
        }
        match self.gpus_per_server {
            None => true,
            Some(per) if gpus.count > per => gpus.first.0.is_multiple_of(per),
            Some(per) => gpus.first.0 / per == (end as u32 - 1) / per,
        }
    }

    /// First GPUs of the windows of `width` that a model may be put on.
    pub(crate) fn starts(&self, width: u32) -> GpuSet {
        let mut starts = GpuSet::empty(self.gpus);
        let windows = (0..self.gpus).map(|first| Gpus::new(first, width));
        windows.filter(|&window| self.legal(window)).for_each(|window| starts.insert(window.first));
        starts
    }
}
