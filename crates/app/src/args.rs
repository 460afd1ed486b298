//! Arguments that commands share.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gswarm_core::cost::SwitchRule;
use gswarm_core::input::{ClusterSpec, MAX_GB, MAX_GPUS};
use gswarm_core::instance::{Mode, Residency};
use gswarm_core::time::MAX_SECONDS;
use std::path::PathBuf;

/// The two input files.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    /// System configuration, JSON or YAML
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Requests, JSON or YAML
    #[arg(long, value_name = "FILE")]
    pub requests: PathBuf,
    #[command(flatten)]
    pub measured: MeasuredArgs,
}

/// Measured costs instead of those in the files.
#[derive(Clone, Debug, Default, Args)]
pub struct MeasuredArgs {
    /// Use the costs that `gswarm calibrate` measured instead of those in the files
    #[arg(
        long,
        alias = "profile",
        value_name = "FILE",
        help_heading = "Measured costs (see docs/calibration.md)"
    )]
    pub calibration: Option<PathBuf>,
    /// With --calibration: every load takes as long as the first, as on freshly started servers
    #[arg(
        long,
        alias = "first_loads",
        requires = "calibration",
        help_heading = "Measured costs (see docs/calibration.md)"
    )]
    pub first_loads: bool,
    /// With --calibration: no model batches
    #[arg(
        long,
        alias = "no_batching",
        requires = "calibration",
        help_heading = "Measured costs (see docs/calibration.md)"
    )]
    pub no_batching: bool,
}

/// The cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterArgs {
    /// Number of GPUs
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_GPUS)))]
    pub gpus: Option<u32>,
    #[command(flatten)]
    pub machines: MachineArgs,
}

/// The cluster without its number of GPUs.
#[derive(Clone, Debug, Default, Args)]
pub struct MachineArgs {
    /// GPUs of one server: a model that fits into a server never spans two
    #[arg(long, alias = "gpus_per_server", value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_GPUS)))]
    pub gpus_per_server: Option<u32>,
    /// Models on a GPU: one at a time, or as many as fit into its memory
    #[arg(long, value_name = "RULE", value_parser = residency_parser())]
    pub residency: Option<Residency>,
    /// Cost of replacing a model: moving both over PCIe, or the new one's load time
    #[arg(long, alias = "switch_cost", value_name = "RULE", value_parser = switch_parser())]
    pub switch_cost: Option<SwitchRule>,
    /// Memory of one GPU
    #[arg(long, alias = "gpu_memory_gb", value_name = "GB", allow_negative_numbers = true, value_parser = gigabytes)]
    pub gpu_memory_gb: Option<f64>,
    /// Bandwidth between host and GPU
    #[arg(long, alias = "pcie_gb_per_s", value_name = "GB/S", allow_negative_numbers = true, value_parser = gigabytes)]
    pub pcie_gb_per_s: Option<f64>,
    /// Added to every switch under `transfer`
    #[arg(long, alias = "switch_overhead_seconds", value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub switch_overhead_seconds: Option<f64>,
}

impl ClusterArgs {
    /// The flags that were given.
    pub fn spec(&self) -> ClusterSpec {
        ClusterSpec { gpus: self.gpus, ..self.machines.spec() }
    }

    /// The file's values, overridden by flags.
    pub fn over(&self, file: &ClusterSpec) -> ClusterSpec {
        self.spec().over(file)
    }
}

impl MachineArgs {
    /// The flags that were given.
    pub fn spec(&self) -> ClusterSpec {
        ClusterSpec {
            gpus: None,
            gpus_per_server: self.gpus_per_server,
            gpu_memory_gb: self.gpu_memory_gb,
            pcie_gb_per_s: self.pcie_gb_per_s,
            switch_overhead_seconds: self.switch_overhead_seconds,
            switch_cost: self.switch_cost,
            residency: self.residency,
        }
    }
}

/// A parser that takes one of `pairs`' names and gives its value; help, errors and completions list the names.
pub fn choice<T: Copy + Send + Sync + 'static>(
    pairs: Vec<(&'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let names: Vec<&'static str> = pairs.iter().map(|&(name, _)| name).collect();
    PossibleValuesParser::new(names).try_map(move |given: String| {
        let found = pairs.iter().find(|(name, _)| *name == given);
        found.map(|&(_, value)| value).ok_or_else(|| format!("no such value: {given}"))
    })
}

fn residency_parser() -> impl TypedValueParser<Value = Residency> {
    choice(vec![("single", Residency::Single), ("memory", Residency::Memory)])
}

fn switch_parser() -> impl TypedValueParser<Value = SwitchRule> {
    choice(vec![("transfer", SwitchRule::Transfer), ("load_time", SwitchRule::LoadTime)])
}

/// `offline` or `online`.
pub fn mode_parser() -> impl TypedValueParser<Value = Mode> {
    choice(vec![(Mode::Offline.name(), Mode::Offline), (Mode::Online.name(), Mode::Online)])
}

/// A size or rate above zero, with the limit that the configuration has.
fn gigabytes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= MAX_GB => Ok(value),
        _ => Err(format!("give a number above zero and at most {MAX_GB}")),
    }
}

/// A length of time, with the limit that the configuration has.
fn seconds(text: &str) -> Result<f64, String> {
    let value = not_negative(text)?;
    if value <= MAX_SECONDS { Ok(value) } else { Err(format!("give {MAX_SECONDS} seconds at most")) }
}

/// Numbers, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

/// `1..5` or `1,2,3`.
pub fn seeds(text: &str) -> Result<Seeds, String> {
    let usage = || format!("`{text}` is not a list of seeds: write 1..5 or 1,2,3, at most 10,000 seeds");
    let number = |text: &str| text.trim().trim_start_matches('=').parse::<u64>().map_err(|_| usage());
    let mut seeds: Vec<u64> = match text.split_once("..") {
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first || last - first >= 10_000 {
                return Err(usage());
            }
            (first..=last).collect()
        }
        None => text.split(',').map(number).collect::<Result<_, _>>()?,
    };
    seeds.sort_unstable();
    seeds.dedup();
    Ok(Seeds(seeds))
}

/// A number of zero or more.
pub fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("give a number that is zero or greater".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file() {
        let file = ClusterSpec { gpus: Some(2), gpu_memory_gb: Some(24.0), ..ClusterSpec::default() };
        let flags = ClusterArgs { gpus: Some(8), ..ClusterArgs::default() };
        let merged = flags.over(&file);
        assert_eq!((merged.gpus, merged.gpu_memory_gb), (Some(8), Some(24.0)));
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for bad in ["0", "-1", "nan", "inf", "1.1e9", "1e300"] {
            assert!(gigabytes(bad).is_err(), "{bad}");
        }
        assert!(gigabytes("1e9").is_ok() && seconds("1e300").is_err() && seconds("0").is_ok());
        assert!(not_negative("-1").is_err() && not_negative("0").is_ok());
    }

    #[test]
    fn seeds_are_a_range_or_a_list() {
        for (text, expected) in [("1..3", vec![1, 2, 3]), ("7", vec![7]), ("5, 2,5", vec![2, 5])] {
            assert_eq!(seeds(text), Ok(Seeds(expected)));
        }
        for bad in ["", "3..1", "0..10000", "a", "1,,2", "-1"] {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }
}
