//! The file `hardware_profile.json`.

use gswarm_core::named;
use serde::{Deserialize, Serialize};

/// The version of the file that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;

named! {
    /// What is measured. A size is the edge of a square: matrices are `size` by `size`, and there are `size * size` numbers to
    /// sort or to copy, so that one number says how large a task is whatever it does.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Operation {
        /// Matrix product of 32-bit floats.
        GemmF32 = "gemm_f32",
        /// Matrix product of 16-bit brain floats.
        GemmBf16 = "gemm_bf16",
        /// Sixteen products of matrices of a quarter of the edge.
        BatchedGemm = "batched_gemm",
        /// Eight channels to eight channels, three by three.
        Convolution = "convolution",
        /// 32-bit floats in ascending order.
        Sort = "sort",
        /// A matrix with one entry in a hundred times one of 32 columns.
        Sparse = "sparse",
        /// From one place in the device's memory to another.
        Copy = "copy",
    }
}

impl Operation {
    /// Floating-point operations of one run; zero where none are counted.
    pub fn flops(self, size: u32) -> f64 {
        let n = f64::from(size);
        match self {
            Operation::GemmF32 | Operation::GemmBf16 => 2.0 * n * n * n,
            Operation::BatchedGemm => 16.0 * 2.0 * (n / 4.0).floor().powi(3),
            Operation::Convolution => 2.0 * n * n * 9.0 * 64.0,
            Operation::Sparse => 2.0 * n * n * 0.01 * 32.0,
            Operation::Sort | Operation::Copy => 0.0,
        }
    }
}

/// Which sort of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// All cores of the host together.
    Cpu,
    /// One GPU.
    Gpu,
}

/// Everything that was measured on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareProfile {
    /// [`VERSION`].
    pub version: u32,
    /// Where the figures come from: `measured`, or the name of a profile that is built in.
    pub source: String,
    /// One entry a device.
    pub devices: Vec<Device>,
    /// Between the host and each GPU.
    pub links: Vec<Link>,
    /// What could not be measured, and why.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One device and its run times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// `cpu`, `cuda:0`.
    pub name: String,
    /// Which sort.
    pub kind: DeviceKind,
    /// As its maker calls it.
    pub model: String,
    /// Its memory.
    pub memory_mb: f64,
    /// Reading and writing together, from the largest copy.
    pub memory_gb_per_s: f64,
    /// Power with nothing to do.
    pub idle_watts: f64,
    /// Power at work.
    pub busy_watts: f64,
    /// `nvml` where it was read, `assumed` where it could not be.
    pub power_source: String,
    /// Run times.
    pub measurements: Vec<Measurement>,
}

/// One operation at one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// What was run.
    pub operation: Operation,
    /// How large.
    pub size: u32,
    /// Median of the repetitions.
    pub median_seconds: f64,
    /// Distance of the quartiles, as a share of the median.
    pub spread: f64,
    /// How often it was run, warm-up not counted.
    pub repetitions: u32,
}

/// How fast data goes to a GPU and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The GPU.
    pub device: String,
    /// Host to GPU from pinned memory.
    pub to_pinned_gb_per_s: f64,
    /// Host to GPU from pageable memory.
    pub to_pageable_gb_per_s: f64,
    /// GPU to host into pinned memory.
    pub from_pinned_gb_per_s: f64,
    /// GPU to host into pageable memory.
    pub from_pageable_gb_per_s: f64,
    /// The time that a transfer of next to nothing takes.
    pub latency_seconds: f64,
}

impl HardwareProfile {
    /// The first device of a kind.
    pub fn device(&self, kind: DeviceKind) -> Option<&Device> {
        self.devices.iter().find(|device| device.kind == kind)
    }
}
