//! From measured sizes to any size.

use super::types::{Device, DeviceKind, HardwareProfile, Operation};
use gswarm_core::input::{Code, Diagnostic};

/// Why a profile cannot say how long tasks take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLaw {
    /// It has no device of this kind.
    #[error("the profile has no {0}")]
    NoDevice(&'static str),
    /// The device was not measured on an operation, or only at one size.
    #[error("the profile has fewer than two sizes of {operation} on {device}")]
    TooFew {
        /// Which one.
        operation: &'static str,
        /// Where.
        device: String,
    },
    /// A number in it is no run time.
    #[error("{device}: the run time of {operation} at size {size} is not above zero")]
    NotPositive {
        /// Which one.
        operation: &'static str,
        /// Where.
        device: String,
        /// At which size.
        size: u32,
    },
}

impl NoLaw {
    /// The same as a finding in the profile's file.
    pub fn finding(&self, file: &str) -> Diagnostic {
        let code = match self {
            NoLaw::NoDevice(_) | NoLaw::TooFew { .. } => Code::Missing,
            NoLaw::NotPositive { .. } => Code::NotPositive,
        };
        let hint = match self {
            NoLaw::NoDevice(_) => {
                "tasks run on a CPU and on GPUs: measure both where there is a GPU (`gswarm tasks profile --device all`), or omit --hardware to use a described machine"
            }
            NoLaw::TooFew { .. } => {
                "measure at least two sizes, as in `gswarm tasks profile --sizes 256,1024`"
            }
            NoLaw::NotPositive { .. } => "measure again: `gswarm tasks profile --out FILE` writes a profile",
        };
        Diagnostic {
            path: "devices".to_owned(),
            hint: Some(hint.to_owned()),
            ..Diagnostic::of_file(file, code, self.to_string())
        }
    }
}

/// All that keeps tasks from being timed by a profile, whatever tasks they are.
pub fn lacks(file: &str, profile: &HardwareProfile) -> Vec<Diagnostic> {
    let of = |kind| Law::of(profile, kind, &[]).err();
    [DeviceKind::Cpu, DeviceKind::Gpu].into_iter().filter_map(of).map(|fault| fault.finding(file)).collect()
}

/// The run times of one device: a power of the size between each two that were measured, and beyond them the power of the
/// last two.
#[derive(Clone, Debug)]
pub struct Law {
    /// For each operation, logarithms of size and seconds, sizes rising.
    curves: Vec<Vec<(f64, f64)>>,
}

impl Law {
    /// The law of the first device of a kind, for the operations that tasks are made of.
    pub fn of(profile: &HardwareProfile, kind: DeviceKind, needed: &[Operation]) -> Result<Law, NoLaw> {
        let name = if kind == DeviceKind::Cpu { "CPU" } else { "GPU" };
        let device = profile.device(kind).ok_or(NoLaw::NoDevice(name))?;
        let curves: Result<Vec<_>, NoLaw> = Operation::ALL
            .iter()
            .map(|&operation| curve(device, operation, needed.contains(&operation)))
            .collect();
        Ok(Law { curves: curves? })
    }

    /// How long the operation takes at this size.
    pub fn seconds(&self, operation: Operation, size: f64) -> f64 {
        let curve = &self.curves[operation as usize];
        if curve.len() < 2 {
            return 0.0;
        }
        let at = size.max(1.0).ln();
        let upper = curve.partition_point(|&(size, _)| size < at).clamp(1, curve.len() - 1);
        let ((x0, y0), (x1, y1)) = (curve[upper - 1], curve[upper]);
        (y0 + (y1 - y0) * (at - x0) / (x1 - x0)).exp()
    }
}

fn curve(device: &Device, operation: Operation, needed: bool) -> Result<Vec<(f64, f64)>, NoLaw> {
    let of_it = device.measurements.iter().filter(|measured| measured.operation == operation);
    let mut points = Vec::new();
    for measured in of_it {
        if !(measured.median_seconds.is_finite() && measured.median_seconds > 0.0 && measured.size > 0) {
            return Err(NoLaw::NotPositive {
                operation: operation.name(),
                device: device.name.clone(),
                size: measured.size,
            });
        }
        points.push((f64::from(measured.size).ln(), measured.median_seconds.ln()));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by(|a, b| a.0 == b.0);
    if needed && points.len() < 2 {
        return Err(NoLaw::TooFew { operation: operation.name(), device: device.name.clone() });
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::described;

    #[test]
    fn measured_sizes_are_met_and_others_lie_between() {
        let profile = described();
        let law = Law::of(&profile, DeviceKind::Cpu, &Operation::ALL).unwrap();
        for measured in &profile.device(DeviceKind::Cpu).unwrap().measurements {
            let seconds = law.seconds(measured.operation, f64::from(measured.size));
            assert!((seconds / measured.median_seconds - 1.0).abs() < 1e-9);
        }
        let (low, mid, high) = (
            law.seconds(Operation::Sort, 1024.0),
            law.seconds(Operation::Sort, 1500.0),
            law.seconds(Operation::Sort, 2048.0),
        );
        assert!(low < mid && mid < high);
        // Beyond the last size the cube goes on.
        let ratio = law.seconds(Operation::GemmF32, 16384.0) / law.seconds(Operation::GemmF32, 8192.0);
        assert!((ratio - 8.0).abs() < 0.1, "{ratio}");
    }

    #[test]
    fn what_a_profile_lacks_is_named() {
        let mut profile = described();
        profile.devices.truncate(1);
        assert_eq!(Law::of(&profile, DeviceKind::Gpu, &[]).unwrap_err(), NoLaw::NoDevice("GPU"));
        profile.devices[0].measurements.retain(|measured| measured.operation != Operation::Sort);
        let missing = Law::of(&profile, DeviceKind::Cpu, &[Operation::Sort]).unwrap_err();
        assert_eq!(missing.to_string(), "the profile has fewer than two sizes of sort on cpu");
        assert!(Law::of(&profile, DeviceKind::Cpu, &[Operation::Copy]).is_ok());
        profile.devices[0].measurements[0].median_seconds = 0.0;
        assert!(Law::of(&profile, DeviceKind::Cpu, &[]).is_err());
    }
}
