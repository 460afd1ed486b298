//! Reads the file of a calibration, with every fault of its numbers.

use super::types::{CALIBRATION, Calibration, SCHEMA};
use serde_json::Value;

/// Why a file is no calibration that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCalibration {
    /// It is something else.
    #[error("this is not a calibration: {0}")]
    Other(String),
    /// It is of another version.
    #[error("it has schema {found}; this gswarm reads schema {SCHEMA}")]
    Version {
        /// What it says.
        found: String,
    },
    /// Its numbers cannot be.
    #[error("{}", .0.join("; "))]
    Values(Vec<String>),
}

/// Reads a calibration.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8]) -> Result<Calibration, BadCalibration> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| BadCalibration::Other(error.to_string()))?;
    if value.get("kind").and_then(Value::as_str) != Some(CALIBRATION) {
        let hint = match value.get("devices") {
            Some(_) => "it looks like a hardware profile, which `gswarm tasks profile` writes",
            None => "`gswarm calibrate` writes them, with `\"kind\": \"calibration\"`",
        };
        return Err(BadCalibration::Other(hint.to_owned()));
    }
    match value.get("schema") {
        Some(schema) if *schema == SCHEMA => {}
        other => {
            let found = other.map_or("none".to_owned(), Value::to_string);
            return Err(BadCalibration::Version { found });
        }
    }
    let calibration: Calibration =
        serde_json::from_value(value).map_err(|error| BadCalibration::Other(error.to_string()))?;
    let faults = faults(&calibration);
    if faults.is_empty() { Ok(calibration) } else { Err(BadCalibration::Values(faults)) }
}

fn faults(calibration: &Calibration) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, model) in &calibration.models {
        let mut refuse = |what: &str| faults.push(format!("model `{name}`: {what}"));
        let times = [model.load.first, model.load.again, model.unload].map(|spread| spread.median);
        if times.iter().chain([&model.first_call_extra]).any(|&time| !is_cost(time)) {
            refuse("a load or unload time is negative or infinite");
        }
        if model.execution.first().is_none_or(|cost| cost.batch != 1) {
            refuse("`execution` does not begin with batch 1");
        }
        if !model.execution.is_sorted_by(|one, other| one.batch < other.batch) {
            refuse("the batches of `execution` do not increase");
        }
        let costs = model.execution.iter().flat_map(|one| [one.fixed, one.prompt, one.output, one.context]);
        if costs.into_iter().any(|cost| !is_cost(cost)) {
            refuse("a cost is negative or infinite");
        }
        if model.execution.iter().filter_map(|one| one.mixed).any(|share| !(is_cost(share) && share > 0.0)) {
            refuse("a share `mixed` is not above zero");
        }
        if ![model.prompt.fixed, model.prompt.per_character].into_iter().all(f64::is_finite) {
            refuse("prompts cannot be counted");
        }
    }
    faults
}

fn is_cost(seconds: f64) -> bool {
    seconds.is_finite() && seconds >= 0.0
}
