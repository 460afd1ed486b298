//! Flags of `gswarm run` as parts of its specification, and faults of a specification as faults of flags.

use crate::args::not_negative;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use gswarm_core::input::Diagnostic;
use gswarm_core::time::MAX_SECONDS;
use gswarm_run::{FaultSpec, LostGpu, RaySpec, RunSpec};
use std::path::{Path, PathBuf};

/// Failures to simulate, and retries.
#[derive(Debug, Args)]
#[command(next_help_heading = "Faults to simulate")]
pub struct FaultArgs {
    /// Probability that an execution fails [default: 0]
    #[arg(long, alias = "fail_rate", value_name = "0..1", allow_negative_numbers = true, value_parser = share)]
    fail_rate: Option<f64>,
    /// Attempts at a node before its request fails [default: 3]
    #[arg(long, alias = "max_attempts", value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    max_attempts: Option<u32>,
    /// Seconds that a request of a live run waits for unhealthy servers before it fails [default: 600]
    #[arg(long, alias = "server_patience", value_name = "SECONDS", allow_negative_numbers = true, value_parser = not_negative)]
    server_patience: Option<f64>,
    /// Lose a GPU at a time, such as 3@600 (GPU 3 after 600 s); repeatable
    #[arg(long = "lose-gpu", alias = "lose_gpu", value_name = "ID@SECONDS", allow_hyphen_values = true, value_parser = loss)]
    lose_gpu: Vec<LostGpu>,
}

impl FaultArgs {
    /// Sets the given flags in a specification.
    pub fn apply(&self, faults: &mut FaultSpec) {
        super::set(&mut faults.fail_rate, &self.fail_rate);
        super::set(&mut faults.max_attempts, &self.max_attempts);
        super::set(&mut faults.server_patience, &self.server_patience);
        if !self.lose_gpu.is_empty() {
            faults.lose_gpus.clone_from(&self.lose_gpu);
        }
    }
}

/// Who carries a live run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Carrier {
    /// Servers that this process calls itself
    Local,
    /// A Ray cluster, which places the servers and moves data between nodes
    Ray,
}

const RAY: &str = "Ray (with --engine ray; see docs/ray.md)";

/// Where a live run happens.
#[derive(Debug, Args)]
pub struct LiveArgs {
    /// Run for real: on the servers of --backends, the models of --models or a Ray cluster. Without it the run is
    /// simulated
    #[arg(long, conflicts_with = "simulate")]
    live: bool,
    /// Former spelling: `--simulate true` is --live, `--simulate false` a simulation
    #[arg(long, hide = true, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, action = clap::ArgAction::Set)]
    simulate: Option<bool>,
    /// The servers of a live run, JSON or YAML; see docs/live.md
    #[arg(long, value_name = "FILE")]
    backends: Option<PathBuf>,
    /// Folder of models for a live run without --backends; see docs/models.md [default: models]. With
    /// --engine ray, a file with a callable for each model; see docs/ray.md
    #[arg(long, value_name = "DIR|FILE")]
    models: Option<PathBuf>,
    /// What runs the servers of a live run; `ray` implies --live [default: local]
    #[arg(long, value_name = "NAME", value_enum, help_heading = RAY)]
    engine: Option<Carrier>,
    /// Head of the Ray cluster as HOST:PORT, or `auto` for the cluster of this machine [default: auto]
    #[arg(long, value_name = "ADDRESS", help_heading = RAY)]
    address: Option<String>,
    /// Python interpreter with Ray and gswarm [default: python3]
    #[arg(long, value_name = "PROGRAM", env = "GSWARM_PYTHON", help_heading = RAY)]
    python: Option<String>,
    /// With --engine ray and without --models: speed of emulated models
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = speed, help_heading = RAY)]
    speed: Option<f64>,
    /// With --engine ray: time limit of a call [default: a minute plus ten times its estimate]
    #[arg(long, alias = "call_timeout", value_name = "SECONDS", allow_negative_numbers = true,
          value_parser = call_timeout, help_heading = RAY)]
    call_timeout: Option<f64>,
}

impl LiveArgs {
    /// Puts the flags that were given into a specification; those that would do nothing are refused.
    pub fn apply(&self, spec: &mut RunSpec) -> Result<(), Failure> {
        if self.simulate == Some(false) {
            spec.live = None;
        }
        let on_ray = self.engine == Some(Carrier::Ray);
        if self.live || self.simulate == Some(true) || on_ray {
            spec.live.get_or_insert_default();
        }
        let Some(live) = &mut spec.live else {
            return match &self.backends {
                Some(_) => Err(Failure::input("--backends needs a live run, but this run is simulated")
                    .hint("add --live to run on these servers, or remove --backends")),
                None => self.none_of_ray(),
            };
        };
        if on_ray {
            live.ray.get_or_insert_default();
        } else if self.engine == Some(Carrier::Local) {
            live.ray = None;
        }
        live.backends = self.backends.clone().or(live.backends.take());
        live.models = self.models.clone().or(live.models.take());
        let Some(RaySpec { address, python, speed, call_timeout, .. }) = &mut live.ray else {
            return self.none_of_ray();
        };
        super::set(address, &self.address);
        super::set(python, &self.python);
        *speed = self.speed.or(*speed);
        *call_timeout = self.call_timeout.or(*call_timeout);
        Ok(())
    }

    fn none_of_ray(&self) -> Result<(), Failure> {
        let given = [
            ("--address", self.address.is_some()),
            ("--speed", self.speed.is_some()),
            ("--call-timeout", self.call_timeout.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some(("--speed", _)) => Err(Failure::input("--speed is for runs on a Ray cluster").hint(
                "add --engine ray, or pass --backends FILE with `backends: [{kind: emulated, speed: 20}]`",
            )),
            Some((flag, _)) => Err(Failure::input(format!("{flag} is for runs on a Ray cluster"))
                .hint("add --engine ray, or remove the flag")),
            None => Ok(()),
        }
    }
}

/// The flag that sets a field of a specification, where it has another name.
const FLAGS: [(&str, &str); 3] =
    [("faults.lose_gpus", "--lose-gpu"), ("output.folder", "--out"), ("calibration.file", "--calibration")];

/// All faults of a specification: with the fields of its file, or with the flags that it was made from.
pub fn failure(mut faults: Vec<Diagnostic>, file: Option<&Path>) -> Failure {
    if let Some(file) = file {
        faults.iter_mut().for_each(|fault| fault.file = file.display().to_string());
        return Failure::faults(faults);
    }
    let told = |fault: &Diagnostic| {
        let place = fault.path.split('[').next().unwrap_or_default();
        let known = FLAGS.iter().find(|(path, _)| *path == place).map(|(_, flag)| (*flag).to_owned());
        let name = place.rsplit('.').next().unwrap_or_default();
        let flag = known.unwrap_or_else(|| format!("--{}", name.replace('_', "-")));
        let failure = Failure::input(format!("{flag}: {}", fault.message));
        match &fault.hint {
            Some(hint) => failure.hint(hint.clone()),
            None => failure,
        }
    };
    let all = faults.iter().map(told).reduce(Failure::and);
    all.unwrap_or_else(|| Failure::input("the run is not valid")).about(faults)
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("give a number from 0 to 1".to_string()),
    }
}

fn loss(text: &str) -> Result<LostGpu, String> {
    let usage = || "give a GPU and a time in seconds, such as 3@600".to_string();
    let (gpu, seconds) = text.split_once('@').ok_or_else(usage)?;
    let gpu = gpu.parse::<u32>().map_err(|_| usage())?;
    let at = not_negative(seconds).map_err(|_| usage())?;
    if at > MAX_SECONDS {
        return Err(format!("the time must be at most {MAX_SECONDS} seconds"));
    }
    Ok(LostGpu { gpu, at })
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err("give a number above zero and at most a million".to_owned()),
    }
}

fn call_timeout(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= MAX_SECONDS => Ok(value),
        _ => Err(format!("give seconds above zero and at most {MAX_SECONDS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_read() {
        assert_eq!(loss("3@1.5"), Ok(LostGpu { gpu: 3, at: 1.5 }));
        for bad in ["3", "@1", "3@", "x@1", "3@-1", "3@nan", "3@1e300"] {
            assert!(loss(bad).is_err(), "{bad}");
        }
    }
}
