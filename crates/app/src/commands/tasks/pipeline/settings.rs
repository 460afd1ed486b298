//! The settings of a pipeline.

use super::phases::Phase;
use crate::commands::tasks::generate::refused;
use crate::failure::Failure;
use gswarm_core::input::{Code, Diagnostic, Source};
use gswarm_learn::PredictorKind;
use gswarm_learn::train::MIN_ROWS;
use gswarm_run::shape::{self, fault_at};
use gswarm_tasks::{TaskKind, WorkloadOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Every setting, with what it does: the defaults, as a file.
pub const COMMENTED: &str = "\
# Settings of `gswarm tasks pipeline`. Omitted settings have the values shown here.
profile:
  use: auto                 # profile of later phases: measured (needs a GPU), described (round figures), auto (measured if there is a GPU)
  measure: true             # whether to measure this machine at all
  sizes: [256, 512, 1024, 2048]
  budget_seconds: 0.1       # for each operation at each size
workload:
  tasks: 10000
  rate: 100.0               # arrivals a second (Poisson)
  dependent: 0.3            # share of tasks that wait for others
  noise: 1.0                # scales noise and interference
  sizes: [100, 5000]        # smallest and largest
  intensity: [0.1, 1.0]     # least and greatest compute intensity
  memory_mb: [10, 500]      # least and most memory
  types: {matmul: 1, convolution: 1, sort: 1, sparse: 1}  # relative weights; 0 for none
  seed: 0
train:
  model: gradient_boosting  # random_forest, gradient_boosting, linear or last_two
  trees: null               # 100 unless given
  depth: null               # of the trees; 15 for a forest, 7 for a boosted sum unless given
  seed: 0
schedule:
  tasks: 1000               # schedules the first tasks of the workload, this many
  gpus: 4
  energy_weight: 0.0        # what a joule is worth in seconds
evaluate:
  seeds: 10
  loads: [0.5, 0.8, 0.95, 1.5]
  tasks: 1000
";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    pub profile: ProfileSettings,
    pub workload: WorkloadSettings,
    pub train: TrainSettings,
    pub schedule: ScheduleSettings,
    pub evaluate: EvaluateSettings,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileSettings {
    pub r#use: ProfileChoice,
    pub measure: bool,
    #[schemars(length(min = 1), inner(range(min = 16, max = 16384)))]
    pub sizes: Vec<u32>,
    #[schemars(range(min = 0, max = 3600))]
    pub budget_seconds: f64,
}

/// Which profile later phases use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileChoice {
    Auto,
    Described,
    Measured,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadSettings {
    #[schemars(range(min = 1))]
    pub tasks: u32,
    #[schemars(range(min = 1e-6, max = 1e9))]
    pub rate: f64,
    #[schemars(range(min = 0, max = 1))]
    pub dependent: f64,
    #[schemars(range(min = 0, max = 1000))]
    pub noise: f64,
    #[schemars(inner(range(max = 1e6)))]
    pub sizes: [f64; 2],
    #[schemars(inner(range(max = 1e6)))]
    pub intensity: [f64; 2],
    #[schemars(inner(range(max = 1e9)))]
    pub memory_mb: [f64; 2],
    pub types: Types,
    pub seed: u64,
}

/// The weights of the types of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Types {
    #[schemars(range(min = 0, max = 1e9))]
    pub matmul: f64,
    #[schemars(range(min = 0, max = 1e9))]
    pub convolution: f64,
    #[schemars(range(min = 0, max = 1e9))]
    pub sort: f64,
    #[schemars(range(min = 0, max = 1e9))]
    pub sparse: f64,
}

impl Types {
    /// In the order of [`gswarm_tasks::TaskKind::ALL`].
    pub fn weights(&self) -> [f64; 4] {
        gswarm_tasks::TaskKind::ALL.map(|kind| match kind {
            TaskKind::Matmul => self.matmul,
            TaskKind::Convolution => self.convolution,
            TaskKind::Sort => self.sort,
            TaskKind::Sparse => self.sparse,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrainSettings {
    #[schemars(extend("enum" = PredictorKind::ALL.map(PredictorKind::name)))]
    pub model: String,
    #[schemars(range(min = 1, max = 10000))]
    pub trees: Option<usize>,
    #[schemars(range(min = 1, max = 40))]
    pub depth: Option<usize>,
    pub seed: u64,
}

impl TrainSettings {
    /// The kind of model, if there is one of this name.
    pub fn kind(&self) -> Option<PredictorKind> {
        PredictorKind::of_name(&self.model)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleSettings {
    #[schemars(range(min = 1))]
    pub tasks: u32,
    #[schemars(range(min = 1, max = 1024))]
    pub gpus: u32,
    #[schemars(range(min = 0, max = 1e9))]
    pub energy_weight: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluateSettings {
    #[schemars(range(min = 1))]
    pub seeds: u32,
    #[schemars(length(min = 1), inner(range(min = 1e-6, max = 1000)))]
    pub loads: Vec<f64>,
    #[schemars(range(min = 1))]
    pub tasks: u32,
}

impl Default for ProfileSettings {
    fn default() -> Self {
        let sizes = vec![256, 512, 1024, 2048];
        ProfileSettings { r#use: ProfileChoice::Auto, measure: true, sizes, budget_seconds: 0.1 }
    }
}

impl Default for WorkloadSettings {
    fn default() -> Self {
        let WorkloadOptions { size: sizes, intensity, memory_mb, .. } = WorkloadOptions::default();
        let (tasks, rate, types) = (10_000, 100.0, Types::default());
        WorkloadSettings {
            tasks,
            rate,
            dependent: 0.3,
            noise: 1.0,
            sizes,
            intensity,
            memory_mb,
            types,
            seed: 0,
        }
    }
}

impl Default for Types {
    fn default() -> Self {
        Types { matmul: 1.0, convolution: 1.0, sort: 1.0, sparse: 1.0 }
    }
}

impl Default for TrainSettings {
    fn default() -> Self {
        TrainSettings { model: "gradient_boosting".to_string(), trees: None, depth: None, seed: 0 }
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

/// Hint for faults of settings.
const HINT: &str = "`gswarm tasks pipeline --init` prints every setting with what it does";

/// Reads a file of settings: all that is wrong with it at once, before any phase is begun.
pub fn read(name: &str, bytes: &[u8]) -> Result<Settings, Failure> {
    let file = Source { name, bytes };
    let (value, mut faults) = shape::faults_of(file, &schemars::schema_for!(Settings).to_value());
    let settings: Option<Settings> = match (value, faults.is_empty()) {
        (Some(value), false) => {
            // What several settings say together is told beside the faults of each.
            let counts = [("workload", 10_000), ("schedule", 1000)];
            let counts = counts.map(|(section, usual)| match &value[section]["tasks"] {
                Value::Null => Some(usual),
                given => given.as_u64().and_then(|tasks| u32::try_from(tasks).ok()),
            });
            if let [Some(tasks), Some(scheduled)] = counts {
                faults.extend(too_few(file, tasks, scheduled));
            }
            None
        }
        (value, _) => value.and_then(|value| match serde_json::from_value(value) {
            Ok(settings) => Some(settings),
            Err(error) => {
                faults.push(Diagnostic::of_file(name, Code::WrongType, error.to_string()));
                None
            }
        }),
    };
    faults.extend(settings.iter().flat_map(|settings| contradictions(file, settings)));
    for fault in &mut faults {
        fault.hint.get_or_insert_with(|| HINT.to_owned());
    }
    settings.filter(|_| faults.is_empty()).ok_or_else(|| refused(&faults))
}

fn too_few(file: Source<'_>, tasks: u32, scheduled: u32) -> Option<Diagnostic> {
    let left = tasks.saturating_sub(scheduled) as usize;
    let message = format!(
        "of {tasks} tasks, {scheduled} are scheduled, which leaves {left} for training; at least {MIN_ROWS} are needed"
    );
    (left < MIN_ROWS).then(|| fault_at(file, "workload.tasks", Code::TooFewRows, &message))
}

/// Checks settings that are valid alone but not together.
fn contradictions(file: Source<'_>, settings: &Settings) -> Vec<Diagnostic> {
    let Settings { profile, workload, schedule, .. } = settings;
    let mut faults: Vec<Diagnostic> = too_few(file, workload.tasks, schedule.tasks).into_iter().collect();
    if !profile.measure && profile.r#use == ProfileChoice::Measured {
        let message = "`use: measured` needs `measure: true`";
        faults.push(fault_at(file, "profile.use", Code::UnknownChoice, message));
    }
    for (path, [low, high]) in [
        ("workload.sizes", workload.sizes),
        ("workload.intensity", workload.intensity),
        ("workload.memory_mb", workload.memory_mb),
    ] {
        if !(low > 0.0 && low <= high) {
            let message = "give the minimum, above zero, and the maximum";
            faults.push(fault_at(file, path, Code::NotPositive, message));
        }
    }
    if workload.types.weights().iter().all(|&weight| weight == 0.0) {
        faults.push(fault_at(
            file,
            "workload.types",
            Code::Nothing,
            "at least one weight must be above zero",
        ));
    }
    faults
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

    #[test]
    fn faults_of_shape_have_a_code_a_line_and_a_path() {
        let cases = [
            ("workload:\n  tasks: -1\n", "E202", "p.yaml:2:10", "workload.tasks"),
            ("workload: {taks: 5}\n", "E108", "p.yaml:1", "did you mean `tasks`?"),
            ("workload: {seed: 1e30}\n", "E204", "p.yaml:1", "workload.seed"),
            ("workload: {tasks: 1.5}\n", "E205", "p.yaml:1", "workload.tasks"),
            ("workload: {tasks: 5e9}\n", "E204", "p.yaml:1", "workload.tasks"),
            ("workload: {tasks: many}\n", "E101", "p.yaml:1", "a whole number"),
            ("workload: {types: {foo: 1}}\n", "E108", "p.yaml:1", "workload.types.foo"),
            ("workload: {sizes: [1, 2, 3]}\n", "E101", "p.yaml:1", "workload.sizes"),
            ("evaluate: {loads: [0.5, high]}\n", "E101", "p.yaml:1", "evaluate.loads[1]"),
            ("profile: {measure: 3}\n", "E101", "p.yaml:1", "profile.measure"),
            ("profile: {use: mesured}\n", "E108", "p.yaml:1", "did you mean `measured`?"),
            ("workload: {rate: 1, rate: 2}\n", "E103", "p.yaml:1", "workload.rate"),
            ("- workload\n", "E101", "p.yaml:1", "a mapping"),
            ("workload: {tasks: [\n", "E002", "p.yaml:", "p.yaml"),
            ("train: {trees: -5}\n", "E202", "p.yaml:1", "train.trees"),
        ];
        for (text, code, place, told) in cases {
            let failure = read("p.yaml", text.as_bytes()).unwrap_err();
            for part in [&format!("error[{code}]"), place, told] {
                assert!(failure.message().contains(part), "{text}: `{part}` is not in {}", failure.message());
            }
            assert!(!failure.message().contains("<input>"), "{text}: {}", failure.message());
        }
        assert!(read("p.yaml", b"\xff").unwrap_err().message().contains("error[E001]"));
        let several = "train:\nworkload: {tasks: -1, seed: x}\nschedul: {}\n";
        assert!(read("p.yaml", several.as_bytes()).unwrap_err().message().contains("3 faults"));
    }

    #[test]
    fn all_faults_are_told_at_once_each_with_its_line() {
        let text =
            "profile:\n  sizes: []\nworkload: {tasks: 20}\ntrain:\n  model: xgb\nevaluate:\n  loads: []\n";
        let told = read("p.yaml", text.as_bytes()).unwrap_err();
        for (line, path) in
            [(2, "profile.sizes"), (3, "workload.tasks"), (5, "train.model"), (7, "evaluate.loads")]
        {
            assert!(told.message().contains(path), "{path}: {}", told.message());
            assert!(told.message().contains(&format!("p.yaml:{line}")), "{path}: {}", told.message());
        }
    }
}
