//! The machine that workloads are made for where no profile is given.

use super::types::{Device, DeviceKind, HardwareProfile, Link, Measurement, Operation, VERSION};

/// A server whose GPUs are slices of a large one. Its figures are round numbers of that order of size, not measurements:
/// `source` says so. A GPU is four to ten times as fast as the whole CPU on large tasks and slower on small ones, so that
/// both have work for which they are the better choice.
pub fn described() -> HardwareProfile {
    HardwareProfile {
        version: VERSION,
        source: "described".to_string(),
        devices: vec![
            device("cpu", DeviceKind::Cpu, 64_000.0, [60.0, 220.0], &CPU),
            device("cuda:0", DeviceKind::Gpu, 16_000.0, [30.0, 150.0], &GPU),
        ],
        links: vec![Link {
            device: "cuda:0".to_string(),
            to_pinned_gb_per_s: 50.0,
            to_pageable_gb_per_s: 12.0,
            from_pinned_gb_per_s: 50.0,
            from_pageable_gb_per_s: 12.0,
            latency_seconds: 10e-6,
        }],
        notes: vec!["round figures of a described machine, not measured".to_string()],
    }
}

const SIZES: [u32; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// Fixed time, floating-point operations a second for each operation, elements sorted a second, bytes copied a second.
struct Rates {
    start: f64,
    gemm: f64,
    gemm_bf16: f64,
    convolution: f64,
    sparse: f64,
    sort: f64,
    copy: f64,
}

const CPU: Rates = Rates {
    start: 5e-6,
    gemm: 80e9,
    gemm_bf16: 100e9,
    convolution: 30e9,
    sparse: 0.12e9,
    sort: 30e6,
    copy: 40e9,
};

const GPU: Rates = Rates {
    start: 400e-6,
    gemm: 800e9,
    gemm_bf16: 3200e9,
    convolution: 180e9,
    sparse: 0.36e9,
    sort: 120e6,
    copy: 400e9,
};

fn device(name: &str, kind: DeviceKind, memory_mb: f64, watts: [f64; 2], rates: &Rates) -> Device {
    let measurements = Operation::ALL.iter().flat_map(|&operation| {
        SIZES.map(|size| Measurement {
            operation,
            size,
            median_seconds: seconds(operation, size, rates),
            spread: 0.0,
            repetitions: 0,
        })
    });
    Device {
        name: name.to_string(),
        kind,
        model: "described".to_string(),
        memory_mb,
        memory_gb_per_s: rates.copy / 1e9,
        idle_watts: watts[0],
        busy_watts: watts[1],
        power_source: "assumed".to_string(),
        measurements: measurements.collect(),
    }
}

fn seconds(operation: Operation, size: u32, rates: &Rates) -> f64 {
    let elements = f64::from(size) * f64::from(size);
    let flops = operation.flops(size);
    let work = match operation {
        Operation::GemmF32 | Operation::BatchedGemm => flops / rates.gemm,
        Operation::GemmBf16 => flops / rates.gemm_bf16,
        Operation::Convolution => flops / rates.convolution,
        Operation::Sparse => flops / rates.sparse,
        Operation::Sort => elements / rates.sort,
        Operation::Copy => 8.0 * elements / rates.copy,
    };
    rates.start + work
}
