//! The settings of a pipeline.

mod shape;

use super::phases::Phase;
use crate::commands::tasks::generate::refused;
use crate::failure::Failure;
use gswarm_core::input::{Code, Diagnostic};
use gswarm_learn::Kind;
use gswarm_learn::table::Faults;
use gswarm_learn::train::MIN_ROWS;
use gswarm_tasks::{Kind as TaskKind, Options};
use serde::{Deserialize, Serialize};

/// Every setting, with what it does: the defaults, as a file.
pub const COMMENTED: &str = "\
# Settings of `gswarm tasks pipeline`; what is left out is as here.
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
  sizes: [100, 5000]        # smallest and largest
  intensity: [0.1, 1.0]     # least and greatest compute intensity
  memory_mb: [10, 500]      # least and most memory
  types: {matmul: 1, convolution: 1, sort: 1, sparse: 1}  # in what proportion; 0 is none
  seed: 0
train:
  model: gradient_boosting  # random_forest, gradient_boosting, linear or last_two
  trees: null               # 100 unless given
  depth: null               # of the trees; 15 for a forest, 7 for a boosted sum unless given
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

impl Source {
    /// As files spell it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Auto => "auto",
            Source::Described => "described",
            Source::Measured => "measured",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadSettings {
    pub tasks: u32,
    pub rate: f64,
    pub dependent: f64,
    pub noise: f64,
    pub sizes: [f64; 2],
    pub intensity: [f64; 2],
    pub memory_mb: [f64; 2],
    pub types: Types,
    pub seed: u64,
}

/// The weights of the types of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Types {
    pub matmul: f64,
    pub convolution: f64,
    pub sort: f64,
    pub sparse: f64,
}

impl Types {
    /// In the order of [`gswarm_tasks::Kind::ALL`].
    pub fn weights(&self) -> [f64; 4] {
        gswarm_tasks::Kind::ALL.map(|kind| match kind {
            TaskKind::Matmul => self.matmul,
            TaskKind::Convolution => self.convolution,
            TaskKind::Sort => self.sort,
            TaskKind::Sparse => self.sparse,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainSettings {
    pub model: String,
    pub trees: Option<usize>,
    pub depth: Option<usize>,
    pub seed: u64,
}

impl TrainSettings {
    /// The kind of model, if there is one of this name.
    pub fn kind(&self) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == self.model)
    }
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
        let Options { size: sizes, intensity, memory_mb, .. } = Options::default();
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

/// What to do about a fault of settings.
const HINT: &str = "`gswarm tasks pipeline --init` prints every setting with what it does";

/// Reads a file of settings.
pub fn read(name: &str, bytes: &[u8]) -> Result<Settings, Failure> {
    let misshapen = |reason: String| {
        let found = shape::faults(name, bytes);
        let other =
            Diagnostic { hint: Some(HINT.to_owned()), ..Diagnostic::of_file(name, Code::WrongType, reason) };
        refused(if found.is_empty() { std::slice::from_ref(&other) } else { &found })
    };
    let text = std::str::from_utf8(bytes).map_err(|_| misshapen("this is not UTF-8".to_owned()))?;
    let settings: Settings = serde_saphyr::from_str(text).map_err(|error| {
        // The first line says what; those behind it show the text, as the line and path of a fault do.
        let told = error.without_snippet().to_string();
        misshapen(told.lines().next().unwrap_or_default().to_owned())
    })?;
    let faults = faults(name, text, &settings);
    if faults.is_empty() { Ok(settings) } else { Err(refused(&faults.into_diagnostics())) }
}

/// The line of a setting, or of its section where the setting is written in the same line or not at all.
fn line_of(text: &str, path: &str) -> Option<u32> {
    let (section, key) = path.split_once('.')?;
    let lines = || text.lines().enumerate().map(|(at, line)| (at as u32 + 1, line));
    let (from, _) = lines().find(|(_, line)| line.trim_start().starts_with(&format!("{section}:")))?;
    let inside =
        lines().skip(from as usize).take_while(|(_, line)| line.starts_with([' ', '#']) || line.is_empty());
    let found = inside
        .map(|(at, line)| (at, line.trim_start()))
        .find(|(_, line)| line.starts_with(&format!("{key}:")));
    Some(found.map_or(from, |(at, _)| at))
}

/// All that is wrong with settings, before any phase is begun.
fn faults(name: &str, text: &str, settings: &Settings) -> Faults {
    let mut faults = Faults::new(name);
    let mut require = |holds: bool, code: Code, path: &str, message: &str| {
        if !holds {
            faults.add(code, line_of(text, path), path, message, Some(HINT.to_owned()));
        }
    };
    let Settings { profile, workload, train, schedule, evaluate } = settings;
    let within = |value: f64, least: f64, most: f64| value.is_finite() && (least..=most).contains(&value);
    let sizes = !profile.sizes.is_empty() && profile.sizes.iter().all(|size| (16..=16_384).contains(size));
    require(
        sizes,
        Code::Nothing,
        "profile.sizes",
        "sizes lie between 16 and 16384, and there is one at least",
    );
    require(
        within(profile.budget_seconds, 0.0, 3_600.0),
        Code::TooLarge,
        "profile.budget_seconds",
        "a budget lies between 0 and 3600 s",
    );
    let measured = profile.measure || profile.r#use != Source::Measured;
    require(
        measured,
        Code::UnknownChoice,
        "profile.use",
        "`use: measured` with `measure: false`: nothing is measured that could be used",
    );
    require(workload.tasks > 0, Code::NotPositive, "workload.tasks", "the number of tasks is above zero");
    require(
        within(workload.rate, 1e-6, 1e9),
        Code::NotPositive,
        "workload.rate",
        "arrivals a second lie between 0.000001 and a billion",
    );
    require(
        within(workload.dependent, 0.0, 1.0),
        Code::TooLarge,
        "workload.dependent",
        "a share lies between 0 and 1",
    );
    require(
        within(workload.noise, 0.0, 1e3),
        Code::TooLarge,
        "workload.noise",
        "noise lies between 0 and 1000",
    );
    for (path, [low, high], most) in [
        ("workload.sizes", workload.sizes, 1e6),
        ("workload.intensity", workload.intensity, 1e6),
        ("workload.memory_mb", workload.memory_mb, 1e9),
    ] {
        let ordered = within(low, f64::MIN_POSITIVE, high) && within(high, low, most);
        require(ordered, Code::NotPositive, path, "give the least, above zero, and the greatest");
    }
    let weights = workload.types.weights();
    let some =
        weights.iter().all(|&weight| within(weight, 0.0, 1e9)) && weights.iter().any(|&weight| weight > 0.0);
    require(
        some,
        Code::Nothing,
        "workload.types",
        "weights are zero or above, and one of them is above zero",
    );
    let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let unknown = format!("`{}` is no model; they are {}", train.model, known.join(", "));
    require(train.kind().is_some(), Code::UnknownChoice, "train.model", &unknown);
    require(
        train.trees.is_none_or(|trees| (1..=10_000).contains(&trees)),
        Code::NotPositive,
        "train.trees",
        "trees are 1 to 10000",
    );
    require(
        train.depth.is_none_or(|depth| (1..=40).contains(&depth)),
        Code::NotPositive,
        "train.depth",
        "depths are 1 to 40",
    );
    require(schedule.tasks > 0, Code::NotPositive, "schedule.tasks", "the number of tasks is above zero");
    let left = workload.tasks.saturating_sub(schedule.tasks) as usize;
    let few = format!(
        "of {} tasks, {} are scheduled and {left} left to learn from; at least {MIN_ROWS} are needed",
        workload.tasks, schedule.tasks
    );
    require(left >= MIN_ROWS, Code::TooFewRows, "workload.tasks", &few);
    require((1..=1024).contains(&schedule.gpus), Code::NotPositive, "schedule.gpus", "GPUs are 1 to 1024");
    require(
        within(schedule.energy_weight, 0.0, 1e9),
        Code::NotPositive,
        "schedule.energy_weight",
        "a weight is zero or above",
    );
    require(evaluate.seeds > 0, Code::NotPositive, "evaluate.seeds", "the number of seeds is above zero");
    require(evaluate.tasks > 0, Code::NotPositive, "evaluate.tasks", "the number of tasks is above zero");
    let loads = !evaluate.loads.is_empty() && evaluate.loads.iter().all(|&load| within(load, 1e-6, 1e3));
    require(
        loads,
        Code::Nothing,
        "evaluate.loads",
        "loads lie between 0.000001 and 1000, and there is one at least",
    );
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
