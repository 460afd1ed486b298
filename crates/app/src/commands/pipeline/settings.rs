//! The settings of a pipeline.

use super::phases::Phase;
use crate::failure::Failure;
use serde::{Deserialize, Serialize};

/// Every setting, with what it does: the defaults, as a file.
pub const COMMENTED: &str = "\
# Settings of `gswarm pipeline`; what is left out is as here.
profile:
  use: auto                 # what later phases use: measured (needs a GPU), described (round figures), or auto: measured if there is a GPU
  measure: true             # whether to measure this machine at all
  sizes: [256, 512, 1024, 2048]
  budget_seconds: 0.1       # for each operation at each size
workload:
  tasks: 10000
  rate: 100.0               # arrivals a second (Poisson)
  dependent: 0.3            # share of tasks that wait for others
  noise: 1.0                # scales noise and interference
  seed: 0
train:
  model: gradient_boosting  # random_forest, gradient_boosting, linear or last_two
  seed: 0
schedule:
  tasks: 1000               # the first so many tasks of the workload
  gpus: 4
  energy_weight: 0.0        # what a joule is worth in seconds
evaluate:
  seeds: 10
  loads: [0.5, 0.8, 0.95, 1.5]
  tasks: 1000
";

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub profile: ProfileSettings,
    pub workload: WorkloadSettings,
    pub train: TrainSettings,
    pub schedule: ScheduleSettings,
    pub evaluate: EvaluateSettings,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileSettings {
    pub r#use: Source,
    pub measure: bool,
    pub sizes: Vec<u32>,
    pub budget_seconds: f64,
}

/// Which profile later phases use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Auto,
    Described,
    Measured,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadSettings {
    pub tasks: u32,
    pub rate: f64,
    pub dependent: f64,
    pub noise: f64,
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainSettings {
    pub model: String,
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleSettings {
    pub tasks: u32,
    pub gpus: u32,
    pub energy_weight: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluateSettings {
    pub seeds: u32,
    pub loads: Vec<f64>,
    pub tasks: u32,
}

impl Default for ProfileSettings {
    fn default() -> Self {
        let sizes = vec![256, 512, 1024, 2048];
        ProfileSettings { r#use: Source::Auto, measure: true, sizes, budget_seconds: 0.1 }
    }
}

impl Default for WorkloadSettings {
    fn default() -> Self {
        WorkloadSettings { tasks: 10_000, rate: 100.0, dependent: 0.3, noise: 1.0, seed: 0 }
    }
}

impl Default for TrainSettings {
    fn default() -> Self {
        TrainSettings { model: "gradient_boosting".to_string(), seed: 0 }
    }
}

impl Default for ScheduleSettings {
    fn default() -> Self {
        ScheduleSettings { tasks: 1000, gpus: 4, energy_weight: 0.0 }
    }
}

impl Default for EvaluateSettings {
    fn default() -> Self {
        EvaluateSettings { seeds: 10, loads: vec![0.5, 0.8, 0.95, 1.5], tasks: 1000 }
    }
}

impl Settings {
    /// The settings of one phase, as text that differs where they do.
    pub fn of(&self, phase: Phase) -> String {
        let text = match phase {
            Phase::Profile => serde_json::to_string(&self.profile),
            Phase::Workload => serde_json::to_string(&self.workload),
            Phase::Train => serde_json::to_string(&self.train),
            Phase::Schedule => serde_json::to_string(&self.schedule),
            Phase::Evaluate => serde_json::to_string(&self.evaluate),
        };
        text.unwrap_or_default()
    }
}

/// Reads a file of settings.
pub fn read(name: &str, bytes: &[u8]) -> Result<Settings, Failure> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| Failure::input(format!("{name} is not UTF-8 (E001)")))?;
    let settings: Settings = serde_saphyr::from_str(text).map_err(|error| {
        Failure::input(format!("{name}: {error}")).hint("`gswarm pipeline --init` prints every setting")
    })?;
    let refuse = |what: &str| Err(Failure::input(format!("{name}: {what}")));
    if settings.profile.sizes.iter().any(|size| !(16..=16384).contains(size)) {
        return refuse("profile.sizes lie between 16 and 16384");
    }
    if !(settings.profile.budget_seconds.is_finite()
        && (0.0..=3600.0).contains(&settings.profile.budget_seconds))
    {
        return refuse("profile.budget_seconds lies between 0 and 3600");
    }
    if settings.schedule.gpus == 0 || settings.evaluate.seeds == 0 || settings.evaluate.tasks == 0 {
        return refuse("schedule.gpus, evaluate.seeds and evaluate.tasks are above zero");
    }
    if settings.evaluate.loads.iter().any(|load| !(load.is_finite() && *load > 0.0)) {
        return refuse("evaluate.loads are above zero");
    }
    if !(settings.schedule.energy_weight.is_finite() && settings.schedule.energy_weight >= 0.0) {
        return refuse("schedule.energy_weight is zero or above");
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commented_file_holds_the_defaults() {
        assert_eq!(read("p", COMMENTED.as_bytes()).unwrap(), Settings::default());
        assert_eq!(read("p", b"schedule: {gpus: 2}").unwrap().schedule.gpus, 2);
        for bad in
            ["schedule: {gpu: 2}", "schedule: {gpus: 0}", "evaluate: {loads: [-1]}", "profile: {sizes: [1]}"]
        {
            assert!(read("p", bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
