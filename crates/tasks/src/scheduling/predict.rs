//! Predicted run times from trained predictors.

use super::view::{Doubt, Estimates};
use super::workload::{RunTimes, Workload};
use gswarm_core::Span;
use gswarm_core::belief::{TAIL, spread_of};
use gswarm_learn::model::{Online, Prediction, Predictor, encode};
use gswarm_learn::table::{Column, Table, Values};

/// The columns that are known before a run and that predictors may be trained on.
pub const FEATURES: [&str; 7] = [
    "size",
    "compute_intensity",
    "memory_required",
    "duration_estimate",
    "task_type",
    "profile_cpu_seconds",
    "profile_gpu_seconds",
];

/// A feature of predictors that speak of several devices: `cpu` or `gpu`.
const DEVICE: &str = "device";

/// Why predictors do not do for tasks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPrediction {
    /// None speaks of the device.
    #[error("no predictor covers the {0}: give one whose target or feature `device` names it")]
    NoDevice(&'static str),
    /// Several do, and nothing says which is meant.
    #[error("{count} predictors cover the {device}: give one")]
    Several {
        /// Which device.
        device: &'static str,
        /// How many speak of it.
        count: usize,
    },
    /// One of other features.
    #[error("the predictor of `{target}` needs {features}, which tasks do not have")]
    Features {
        /// What it predicts.
        target: String,
        /// The features that tasks do not have.
        features: String,
    },
}

/// What is known of the tasks before they run, as a table of [`FEATURES`]; `profile` is what the hardware profile says.
pub fn feature_table(workload: &Workload, profile: &Estimates) -> Table {
    let numbers =
        |name: &str, values: Vec<f64>| Column { name: name.to_string(), values: Values::Numbers(values) };
    let tasks = &workload.tasks;
    let columns = vec![
        numbers(FEATURES[0], tasks.iter().map(|task| task.size).collect()),
        numbers(FEATURES[1], tasks.iter().map(|task| task.intensity).collect()),
        numbers(FEATURES[2], tasks.iter().map(|task| task.memory_bytes as f64 / 1e6).collect()),
        numbers(FEATURES[3], tasks.iter().map(|task| task.estimate.seconds()).collect()),
        Column { name: FEATURES[4].to_string(), values: tasks.iter().map(|task| task.kind.name()).collect() },
        numbers(FEATURES[5], profile.means.iter().map(|mean| mean.cpu.seconds()).collect()),
        numbers(FEATURES[6], profile.means.iter().map(|mean| mean.gpu.seconds()).collect()),
    ];
    Table::new("workload", columns)
}

/// The columns of a table that `gswarm tasks schedule` could not predict from, each with the reason, for
/// [`gswarm_learn::train::TrainOptions::set_aside`]. Empty unless it is a table of tasks and `target` is one of their true times.
pub fn set_aside(table: &Table, target: &str) -> Vec<(String, String)> {
    let marks = ["task_id", "compute_intensity", "memory_required"];
    if !target.starts_with("true_") || marks.iter().any(|name| table.column(name).is_none()) {
        return Vec::new();
    }
    let unknown = table.columns().iter().filter(|column| !FEATURES.contains(&column.name.as_str()));
    unknown
        .map(|column| (column.name.clone(), "`gswarm tasks schedule` does not predict from it".to_owned()))
        .collect()
}

/// Predicts the run times of all tasks. A predictor with a feature `device` speaks of both devices; any other of the one
/// that its target names, as `true_cpu_seconds` does.
pub fn predict(
    workload: &Workload,
    profile: &Estimates,
    predictors: &[Predictor],
) -> Result<Estimates, NoPrediction> {
    let table = feature_table(workload, profile);
    let of = |device: &'static str| -> Result<(Vec<Prediction>, &Predictor), NoPrediction> {
        let speaks = |predictor: &&Predictor| {
            let of_both = predictor
                .features()
                .iter()
                .any(|feature| feature.name == DEVICE && feature.code(device).is_finite());
            of_both || predictor.target().contains(device)
        };
        let speaking: Vec<&Predictor> = predictors.iter().filter(speaks).collect();
        let predictor = match speaking[..] {
            [] => return Err(NoPrediction::NoDevice(device)),
            [one] => one,
            [..] => return Err(NoPrediction::Several { device, count: speaking.len() }),
        };
        let mut columns = table.columns().to_vec();
        let names = vec![device; workload.tasks.len()];
        columns.push(Column { name: DEVICE.to_string(), values: names.into_iter().collect() });
        let rows = encode(predictor.features(), &Table::new("workload", columns)).map_err(|faults| {
            let features: Vec<String> = faults.iter().map(|fault| format!("`{}`", fault.path)).collect();
            NoPrediction::Features { target: predictor.target().to_owned(), features: features.join(", ") }
        })?;
        Ok((predictor.predict(&rows), predictor))
    };
    let ((cpu, of_cpu), (gpu, of_gpu)) = (of("cpu")?, of("gpu")?);
    let span = |seconds: f64| Span(Span::from_seconds(seconds).0.max(1));
    let spread = |predictor: &Predictor, prediction: &Prediction| {
        let end = |p: f64| span(predictor.quantile(prediction, p));
        spread_of(end(TAIL), end(1.0 - TAIL))
    };
    let both = || cpu.iter().zip(&gpu);
    let means = both().map(|(cpu, gpu)| RunTimes { cpu: span(cpu.mean), gpu: span(gpu.mean) });
    let doubt = Doubt {
        spreads: both().map(|(cpu, gpu)| [spread(of_cpu, cpu), spread(of_gpu, gpu)]).collect(),
        scales: both().map(|(cpu, gpu)| [cpu.scale, gpu.scale]).collect(),
        online: [Online::new(of_cpu), Online::new(of_gpu)],
    };
    Ok(Estimates { means: means.collect(), doubt: Some(doubt) })
}
