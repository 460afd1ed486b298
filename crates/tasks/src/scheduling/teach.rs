//! Predictors of run times, learned from tasks that have run.

use super::predict::{FEATURES, feature_table};
use super::view::Estimates;
use super::workload::{Task, Workload};
use gswarm_core::input::Diagnostic;
use gswarm_learn::model::{FitSettings, Predictor, fit};
use gswarm_learn::table::{Column, Table, Values};

/// One predictor for the CPU and one for GPUs, from a workload whose true times are known.
pub fn teach(
    history: &Workload,
    profile: &Estimates,
    settings: &FitSettings,
) -> Result<Vec<Predictor>, Vec<Diagnostic>> {
    let features = feature_table(history, profile);
    let names: Vec<String> = FEATURES.iter().map(ToString::to_string).collect();
    let of = |target: &str, truth: fn(&Task) -> f64| {
        let mut columns = features.columns().to_vec();
        let values = Values::Numbers(history.tasks.iter().map(truth).collect());
        columns.push(Column { name: target.to_string(), values });
        fit(&Table::new("history", columns), target, &names, settings)
    };
    // A task without a true time is a row without a target, which training refuses by name.
    let cpu = of("true_cpu_seconds", |task| task.truth.map_or(f64::NAN, |truth| truth.cpu.seconds()))?;
    let gpu = of("true_gpu_seconds", |task| task.truth.map_or(f64::NAN, |truth| truth.gpu.seconds()))?;
    Ok(vec![cpu, gpu])
}
