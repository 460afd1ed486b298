//! What follows from a profile of both devices: which is faster, from which size, and how to split the work.

use super::types::{DeviceKind, HardwareProfile, Measurement, Operation};
use serde::Serialize;

/// One operation at one size on both devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// What.
    pub operation: Operation,
    /// How large.
    pub size: u32,
    /// CPU time over GPU time: above 1 the GPU is faster.
    pub cpu_over_gpu: f64,
    /// The same with the transfer of three matrices counted to the GPU.
    pub with_transfer: f64,
    /// The share of such work that a GPU should get for both to end together, transfers left out.
    pub gpu_share: f64,
}

/// The smallest measured size from which the GPU is faster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Crossover {
    /// What.
    pub operation: Operation,
    /// Data already there; `None` where the GPU never is.
    pub resident: Option<u32>,
    /// Data sent first.
    pub with_transfer: Option<u32>,
}

/// Every pair of measurements; empty where one of the devices is missing.
pub fn ratios(profile: &HardwareProfile) -> Vec<Ratio> {
    let (Some(cpu), Some(gpu)) = (profile.device(DeviceKind::Cpu), profile.device(DeviceKind::Gpu)) else {
        return Vec::new();
    };
    let link = profile.links.iter().find(|link| link.device == gpu.name);
    let pair = |on_cpu: &Measurement| {
        let same = |on_gpu: &&Measurement| (on_gpu.operation, on_gpu.size) == (on_cpu.operation, on_cpu.size);
        let on_gpu = gpu.measurements.iter().find(same)?;
        let bytes = 3.0 * 4.0 * f64::from(on_cpu.size).powi(2);
        let transfer =
            link.map_or(0.0, |link| link.latency_seconds + bytes / (link.to_pinned_gb_per_s * 1e9));
        let (c, g) = (on_cpu.median_seconds, on_gpu.median_seconds);
        Some(Ratio {
            operation: on_cpu.operation,
            size: on_cpu.size,
            cpu_over_gpu: c / g,
            with_transfer: c / (g + transfer),
            gpu_share: c / (c + g),
        })
    };
    cpu.measurements.iter().filter_map(pair).collect()
}

/// Where the GPU begins to pay, for each operation.
pub fn crossovers(ratios: &[Ratio]) -> Vec<Crossover> {
    let of = |operation: Operation| {
        let mut its: Vec<&Ratio> = ratios.iter().filter(|ratio| ratio.operation == operation).collect();
        its.sort_by_key(|ratio| ratio.size);
        let from = |value: fn(&Ratio) -> f64| {
            // From there on, without exception: one lucky size below does not count.
            let slower = its.iter().rposition(|ratio| value(ratio) <= 1.0).map_or(0, |at| at + 1);
            its.get(slower).map(|ratio| ratio.size)
        };
        (!its.is_empty()).then(|| Crossover {
            operation,
            resident: from(|ratio| ratio.cpu_over_gpu),
            with_transfer: from(|ratio| ratio.with_transfer),
        })
    };
    Operation::ALL.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::described;

    #[test]
    fn the_described_machine_has_a_crossover_for_every_operation() {
        let ratios = ratios(&described());
        assert_eq!(ratios.len(), 56);
        let large = ratios.iter().find(|r| r.operation == Operation::GemmF32 && r.size == 8192).unwrap();
        assert!((large.cpu_over_gpu - 10.0).abs() < 0.1 && (large.gpu_share - 10.0 / 11.0).abs() < 0.01);
        let crossovers = crossovers(&ratios);
        let gemm = crossovers.iter().find(|c| c.operation == Operation::GemmF32).unwrap();
        assert_eq!(gemm.resident, Some(512));
        assert!(gemm.with_transfer >= gemm.resident);
        let mut alone = described();
        alone.devices.truncate(1);
        assert!(super::ratios(&alone).is_empty());
    }
}
