//! What a machine can do: run times per operation, size and device, as they were measured, and what follows from them.

mod advice;
mod builtin;
mod gpu;
mod law;
mod measure;
mod read;
mod types;

pub use crate::gpu::GpuError;
pub use advice::{Crossover, Ratio, crossovers, ratios};
pub use builtin::described;
pub use gpu::{GpuProfile, gpus, measure as measure_gpu};
pub use law::{Law, NoLaw, lacks};
pub use measure::{Effort, quantile, repeat};
pub use read::read;
pub use types::{Device, DeviceKind, HardwareProfile, Link, Measurement, Operation, VERSION};
