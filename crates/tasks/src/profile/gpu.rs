//! The operations on a GPU, and the link to it.

use super::measure::{Effort, repeat};
use super::types::{Device, DeviceKind, Link, Measurement, Operation};
use crate::gpu::{Gpu, GpuError, GpuWork, Power};
use std::time::{Duration, Instant};

/// The edge of a square of floats whose copy no GPU's cache holds: twice 268 MB.
const BEYOND_CACHE: u32 = 8192;

/// What was measured on one GPU.
pub struct GpuProfile {
    /// The device.
    pub device: Device,
    /// The link to it.
    pub link: Link,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}

/// The GPUs of this machine; an error that says why where there is none to be had.
pub fn gpus() -> Result<usize, GpuError> {
    crate::gpu::count()
}

/// Measures every operation at every size. One that vanishes meanwhile is an error, and nothing of it is kept.
pub fn measure(
    ordinal: usize,
    sizes: &[u32],
    effort: &Effort,
    mut tell: impl FnMut(Operation, u32),
) -> Result<GpuProfile, GpuError> {
    let gpu = Gpu::open(ordinal)?;
    let power = Power::of(ordinal);
    let idle = power.watts();
    let mut measurements = Vec::new();
    for operation in Operation::ALL {
        for &size in sizes {
            tell(operation, size);
            let mut bench = gpu.prepare(work(operation), size)?;
            measurements.push(repeat(effort, operation, size, || bench.once())?);
        }
    }
    let link = link(&gpu, ordinal, effort)?;
    let busy = busy(&gpu, &power, sizes)?;
    let copies = measurements.iter().filter(|measured| measured.operation == Operation::Copy);
    let rate =
        |measured: &Measurement| 8.0 * f64::from(measured.size).powi(2) / measured.median_seconds / 1e9;
    let largest = copies.max_by_key(|measured| measured.size);
    // A small copy would tell how fast the cache is. Where there is no memory for a large one, the largest has to do.
    let edge = sizes.iter().copied().max().unwrap_or(0).max(BEYOND_CACHE);
    let mut notes = Vec::new();
    let beyond_cache = gpu
        .prepare(GpuWork::Copy, edge)
        .and_then(|mut bench| repeat(effort, Operation::Copy, edge, || bench.once()));
    let beyond_cache = beyond_cache
        .map_err(|error| {
            notes.push(format!("cuda:{ordinal}: the memory bandwidth may be that of a cache: {error}"))
        })
        .ok();
    let (idle_watts, busy_watts, power_source) = match (idle, busy) {
        (Some(idle), Some(busy)) => (idle, busy.max(idle), "nvml"),
        _ => {
            notes.push(format!("cuda:{ordinal}: NVML cannot read the power; it is assumed"));
            (70.0, 350.0, "assumed")
        }
    };
    let device = Device {
        name: format!("cuda:{ordinal}"),
        kind: DeviceKind::Gpu,
        model: gpu.name()?,
        memory_mb: gpu.memory_bytes()? as f64 / 1e6,
        memory_gb_per_s: beyond_cache.as_ref().or(largest).map_or(0.0, rate),
        idle_watts,
        busy_watts,
        power_source: power_source.to_string(),
        measurements,
    };
    Ok(GpuProfile { device, link, notes })
}

fn work(operation: Operation) -> GpuWork {
    match operation {
        Operation::GemmF32 => GpuWork::GemmF32,
        Operation::GemmBf16 => GpuWork::GemmBf16,
        Operation::BatchedGemm => GpuWork::BatchedGemm,
        Operation::Convolution => GpuWork::Convolution,
        Operation::Sort => GpuWork::Sort,
        Operation::Sparse => GpuWork::Sparse,
        Operation::Copy => GpuWork::Copy,
    }
}

/// Floats of 64 MB, and next to nothing for the latency.
fn link(gpu: &Gpu, ordinal: usize, effort: &Effort) -> Result<Link, GpuError> {
    const EDGE: u32 = 4096;
    let rate = |to_gpu, pinned| -> Result<f64, GpuError> {
        let mut bench = gpu.prepare(GpuWork::Transfer { to_gpu, pinned }, EDGE)?;
        let measured = repeat(effort, Operation::Copy, EDGE, || bench.once())?;
        Ok(4.0 * f64::from(EDGE).powi(2) / measured.median_seconds / 1e9)
    };
    let mut small = gpu.prepare(GpuWork::Transfer { to_gpu: true, pinned: true }, 1)?;
    let latency = repeat(effort, Operation::Copy, 1, || small.once())?.median_seconds;
    Ok(Link {
        device: format!("cuda:{ordinal}"),
        to_pinned_gb_per_s: rate(true, true)?,
        to_pageable_gb_per_s: rate(true, false)?,
        from_pinned_gb_per_s: rate(false, true)?,
        from_pageable_gb_per_s: rate(false, false)?,
        latency_seconds: latency,
    })
}

/// The power after half a second of matrix products: NVML's readings lag behind.
fn busy(gpu: &Gpu, power: &Power, sizes: &[u32]) -> Result<Option<f64>, GpuError> {
    if power.watts().is_none() {
        return Ok(None);
    }
    let mut bench = gpu.prepare(GpuWork::GemmF32, sizes.iter().copied().max().unwrap_or(1024))?;
    let since = Instant::now();
    let mut most: Option<f64> = None;
    while since.elapsed() < Duration::from_millis(500) {
        bench.once()?;
        most = power.watts().map(|watts| most.map_or(watts, |most| most.max(watts))).or(most);
    }
    Ok(most)
}
