//! The specification of a run: everything that decides what it does, in one serialisable type.

use gswarm_core::input::{ClusterSpec, Code, Diagnostic, Source};
use gswarm_core::instance::Mode;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_core::truth::{Drift, Noise, TrueTimes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Everything that decides what a run does. The same specification gives the same log, byte for byte, unless it runs live or
/// searches for a plan within a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunSpec {
    /// The system configuration: models, workflows and, where it says so, the cluster.
    pub config: PathBuf,
    /// The requests.
    pub requests: PathBuf,
    /// When requests arrive: all at the start (`offline`), or at their timestamps (`online`).
    pub mode: Mode,
    /// The cluster. Each field overrides the configuration's `cluster`.
    pub cluster: ClusterSpec,
    /// The policy: its name, or its name and its parameters. Default: `planned` offline, `adaptive` online.
    pub policy: Option<PolicySpec>,
    /// A plan file to follow in place of a policy.
    pub plan: Option<PathBuf>,
    /// Where `static` keeps models: a deployment file in place of the one that it would work out.
    pub deployment: Option<PathBuf>,
    /// The seed of every random choice.
    pub seed: u64,
    /// Measured costs in place of those in the configuration.
    pub calibration: Option<CalibrationSpec>,
    /// Whether models batch as the configuration says; `false` runs one execution at a time on each replica.
    pub batching: bool,
    /// What is believed about run times, and what is true.
    pub times: TimesSpec,
    /// Retries, and failures to simulate.
    pub faults: FaultSpec,
    /// Where to run live. Without it the run is simulated.
    pub live: Option<LiveSpec>,
    /// What is written where.
    pub output: OutputSpec,
}

/// Measured costs: a file of `gswarm calibrate`, and how to use it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CalibrationSpec {
    /// The calibration file.
    pub file: PathBuf,
    /// Loads take what the first one took, as on servers that have just started.
    pub first_loads: bool,
}

/// What is believed about run times, and what is true.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimesSpec {
    /// A predictor that `gswarm train` wrote. It times nodes for which the requests give no time.
    pub predictor: Option<PathBuf>,
    /// Draws run times around the estimates: `lognormal:0.2`, `config` (the default: by the models' `*_std`, where requests
    /// give no time) or `none`.
    #[schemars(with = "Option<String>")]
    pub noise: Option<Noise>,
    /// Changes of true times from a moment on, as in `1.3@1000s` or `llm7b=1.3@0`.
    #[schemars(with = "Vec<String>")]
    pub drift: Vec<Drift>,
    /// What is true where a predictor is used: its estimates, or the times in the requests.
    #[schemars(with = "Option<TrueTimesName>")]
    pub truth: Option<TrueTimes>,
    /// Learn from what executions take, and correct the estimates of the rest.
    pub learn: bool,
    /// Keep from policies how far `noise` makes the estimates miss.
    pub means_only: bool,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)] // Only its schema is used.
enum TrueTimesName {
    Estimates,
    Requests,
}

/// Retries, and failures to simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FaultSpec {
    /// Attempts at a node before its request fails.
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: u32,
    /// Seconds that a request of a live run waits for unhealthy servers before it fails.
    #[schemars(range(min = 1, max = 3_200_000_000.0))]
    pub server_patience: f64,
    /// Chance that a simulated execution fails.
    #[schemars(range(min = 0, max = 1))]
    pub fail_rate: f64,
    /// GPUs that are lost during a simulated run.
    pub lose_gpus: Vec<LostGpu>,
}

impl Default for FaultSpec {
    fn default() -> FaultSpec {
        FaultSpec { max_attempts: 3, server_patience: 600.0, fail_rate: 0.0, lose_gpus: Vec::new() }
    }
}

/// A GPU that is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LostGpu {
    /// Its number, from 0.
    pub gpu: u32,
    /// When, in seconds from the start of the run.
    #[schemars(range(min = 0, max = 3.2e9))]
    pub at: f64,
}

/// Where a live run happens: on servers, on models in this process, or on a Ray cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LiveSpec {
    /// The file that lists the servers.
    pub backends: Option<PathBuf>,
    /// A folder of models that this process serves where no servers are listed; on Ray a file with a callable for each model.
    pub models: Option<PathBuf>,
    /// The Ray cluster that runs the models.
    pub ray: Option<RaySpec>,
}

/// A Ray cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RaySpec {
    /// The head's address as HOST:PORT, or `auto` for the cluster of this machine.
    pub address: String,
    /// The Python that has Ray and gswarm.
    pub python: String,
    /// How many times as fast as the clock models are emulated, where neither models nor servers are given.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1e6))]
    pub speed: Option<f64>,
    /// The most seconds that a call may take. Default: a minute plus ten times its estimate.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 3.2e9))]
    pub call_timeout: Option<f64>,
    /// The Ray namespace of the run. Chosen when the run begins.
    pub namespace: Option<String>,
}

impl Default for RaySpec {
    fn default() -> RaySpec {
        RaySpec {
            address: "auto".to_owned(),
            python: "python3".to_owned(),
            speed: None,
            call_timeout: None,
            namespace: None,
        }
    }
}

/// What is written where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSpec {
    /// The folder of the logs, and of the journal of a live run.
    pub folder: PathBuf,
    /// The form of the execution log.
    pub format: LogFormat,
}

impl Default for OutputSpec {
    fn default() -> OutputSpec {
        OutputSpec { folder: PathBuf::from("."), format: LogFormat::Auto }
    }
}

/// The form of an execution log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON document.
    Json,
    /// One JSON document a line: the header, then the executions.
    Jsonl,
    /// Columns, as a Parquet file: the smallest and fastest, for large runs.
    Parquet,
    /// JSON up to 100,000 executions, lines above.
    #[default]
    Auto,
}

impl Default for RunSpec {
    fn default() -> RunSpec {
        RunSpec {
            config: PathBuf::new(),
            requests: PathBuf::new(),
            mode: Mode::Offline,
            cluster: ClusterSpec::default(),
            policy: None,
            plan: None,
            deployment: None,
            seed: 0,
            calibration: None,
            batching: true,
            times: TimesSpec::default(),
            faults: FaultSpec::default(),
            live: None,
            output: OutputSpec::default(),
        }
    }
}

impl RunSpec {
    /// The policy, with its parameters: the one that is named, or the default of the mode. A plan is followed under the name
    /// `planned`.
    #[must_use]
    pub fn policy(&self) -> PolicySpec {
        self.policy.clone().unwrap_or_else(|| {
            PolicySpec::default_of(if self.plan.is_some() {
                PolicyKind::Planned
            } else if self.deployment.is_some() {
                PolicyKind::Static
            } else {
                PolicyKind::usual(self.mode)
            })
        })
    }

    /// Whether nodes may lack a time: a predictor gives it, and nothing else is asked what is true.
    #[must_use]
    pub fn predicts_all(&self) -> bool {
        self.times.predictor.is_some() && self.times.truth != Some(TrueTimes::Requests)
    }

    /// Reads a specification, JSON or YAML. Relative paths in it start at `folder`, the folder of the file.
    ///
    /// # Errors
    /// All faults at once. Warnings beside a valid specification come with it.
    pub fn read(source: Source<'_>, folder: &Path) -> Result<(RunSpec, Vec<Diagnostic>), Vec<Diagnostic>> {
        let (value, diagnostics) = crate::shape::read(source, &RunSpec::schema())?;
        let faults = unreadable_times(source, &value["times"]);
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut spec: RunSpec = serde_json::from_value(value)
            .map_err(|error| vec![Diagnostic::of_file(source.name, Code::WrongType, error.to_string())])?;
        spec.paths_mut().into_iter().for_each(|path| {
            if path.is_relative() && !path.as_os_str().is_empty() {
                *path = folder.join(&*path);
            }
        });
        Ok((spec, diagnostics))
    }

    /// The JSON Schema of specifications.
    #[must_use]
    pub fn schema() -> Value {
        schemars::schema_for!(RunSpec).to_value()
    }

    /// As YAML, without what has its default value.
    ///
    /// # Errors
    /// Where a path is not text.
    pub fn to_yaml(&self) -> Result<String, String> {
        let value = self.to_value().map_err(|error| error.to_string())?;
        serde_saphyr::to_string(&value).map_err(|error| error.to_string())
    }

    /// As JSON, without what has its default value.
    ///
    /// # Errors
    /// Where a path is not text.
    pub fn to_value(&self) -> serde_json::Result<Value> {
        let mut value = serde_json::to_value(self)?;
        leave_out(&mut value, &serde_json::to_value(RunSpec::default())?);
        Ok(value)
    }

    fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        let mut paths = vec![&mut self.config, &mut self.requests, &mut self.output.folder];
        paths.extend(self.plan.as_mut());
        paths.extend(self.deployment.as_mut());
        paths.extend(self.calibration.as_mut().map(|calibration| &mut calibration.file));
        paths.extend(self.times.predictor.as_mut());
        if let Some(live) = &mut self.live {
            paths.extend(live.backends.as_mut());
            paths.extend(live.models.as_mut());
        }
        paths
    }
}

/// Noise and drifts that are not of the form that they are written in.
fn unreadable_times(source: Source<'_>, times: &Value) -> Vec<Diagnostic> {
    let noise = times["noise"].as_str().map(|text| ("times.noise".to_owned(), text.parse::<Noise>().err()));
    let drifts = times["drift"].as_array().into_iter().flatten().enumerate();
    let drifts = drifts.map(|(place, one)| {
        (format!("times.drift[{place}]"), one.as_str().unwrap_or_default().parse::<Drift>().err())
    });
    let found = noise.into_iter().chain(drifts).filter_map(|(path, error)| Some((path, error?)));
    found.map(|(path, error)| crate::shape::fault_at(source, &path, Code::UnknownChoice, &error)).collect()
}

/// Removes what is as usual, and what is null.
fn leave_out(value: &mut Value, usual: &Value) {
    let Value::Object(fields) = value else { return };
    fields.retain(|name, field| {
        let usual = usual.get(name).unwrap_or(&Value::Null);
        if field == usual || field.is_null() {
            return false;
        }
        // What is absent by default shows that it is there, also where all of it is as usual.
        leave_out(field, usual);
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RunSpec, Vec<Diagnostic>> {
        let source = Source { name: "run.yaml", bytes: text.as_bytes() };
        RunSpec::read(source, Path::new("")).map(|(spec, _)| spec)
    }

    #[test]
    fn what_is_printed_is_read_again() {
        let text = "config: c.yaml\nrequests: r.yaml\nmode: online\ncluster: {gpus: 8, residency: memory}\n\
                    policy: {name: online, alpha: 2.0}\ntimes: {noise: lognormal:0.2, drift: [1.3@100], learn: true}\n\
                    faults: {fail_rate: 0.1, lose_gpus: [{gpu: 3, at: 600.0}]}\nlive: {}\nbatching: false\n";
        let spec = read(text).unwrap();
        let printed = spec.to_yaml().unwrap();
        assert_eq!(read(&printed).unwrap(), spec, "{printed}");
        assert!(!printed.contains("seed") && printed.contains("alpha: 2"), "{printed}");
    }

    #[test]
    fn noise_and_drifts_that_cannot_be_read_are_told_with_their_lines() {
        let text = "config: c\nrequests: r\ntimes:\n  noise: loud\n  drift:\n  - 1.3@100\n  - fast\n";
        let faults = read(text).unwrap_err();
        let found: Vec<_> = faults.iter().map(|one| (one.line, one.path.as_str())).collect();
        assert_eq!(found, [(Some(4), "times.noise"), (Some(7), "times.drift[1]")]);
    }

    #[test]
    fn paths_start_at_the_folder_of_the_file() {
        let source = Source { name: "a/run.yaml", bytes: b"config: c.yaml\nrequests: /r.yaml\n" };
        let (spec, _) = RunSpec::read(source, Path::new("a")).unwrap();
        assert_eq!((spec.config, spec.requests), (PathBuf::from("a/c.yaml"), PathBuf::from("/r.yaml")));
        assert_eq!(spec.output.folder, PathBuf::from("a/."));
    }

    #[test]
    fn every_fault_is_told_with_its_line() {
        let text = "config: 3.5\nmode: sometimes\nseed: -1\npolicy: {name: online, alhpa: 1, beta: -2}\nfaults:\n  fail_rate: 2\n  max_attempts: 1.5\nclustre: {}\n";
        let faults = read(text).unwrap_err();
        let found: Vec<(&str, Option<u32>, String)> =
            faults.iter().map(|one| (one.code.code(), one.line, one.path.clone())).collect();
        for (line, path) in [
            (2, "mode"),
            (3, "seed"),
            (4, "policy.alhpa"),
            (4, "policy.beta"),
            (6, "faults.fail_rate"),
            (7, "faults.max_attempts"),
            (8, "clustre"),
        ] {
            assert!(found.iter().any(|(_, at, of)| *at == Some(line) && of == path), "{path}: {found:#?}");
        }
    }
}
