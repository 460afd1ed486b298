//! Measurements for people.

use crate::failure::Failure;
use crate::output::{self, table};
use gswarm_learn::calibration::{Calibration, ModelCalibration, Quartiles};

/// Prints the measurements: a row per model and a row per batch size.
pub fn calibration(calibration: &Calibration) -> Result<(), Failure> {
    if calibration.models.is_empty() {
        return Ok(());
    }
    let models = calibration.models.iter().map(|(name, one)| {
        vec![
            name.clone(),
            one.backend.clone(),
            spread(&one.load.first),
            spread(&one.load.again),
            spread(&one.unload),
            seconds(one.first_call_extra),
            format!("{:.1} s", one.seconds),
        ]
    });
    let header = ["model", "server", "first load", "load again", "unload", "first call", "took"];
    output::line(&table::table(&header, 2, models))?;
    let batches = calibration.models.iter().flat_map(|(name, one)| rows(name, one));
    let header = [
        "model",
        "batch",
        "fixed",
        "per 1000 read",
        "per 1000 written",
        "context",
        "slowdown",
        "mixed",
        "off by",
        "worst",
    ];
    output::line("")?;
    output::line(&table::table(&header, 1, batches))?;
    for (name, one) in &calibration.models {
        one.notes.iter().for_each(|note| output::note(&format!("note: {name}: {note}")));
    }
    output::line(&format!("Measured in {:.1} s", calibration.seconds))
}

fn rows(name: &str, model: &ModelCalibration) -> Vec<Vec<String>> {
    // Over the lengths that were measured, as a whole.
    let at = |batch: u32| -> f64 {
        let cost = model.execution.iter().find(|cost| cost.batch == batch);
        let seen = model.observations.iter().filter(|one| one.batch == 1);
        cost.map_or(0.0, |cost| seen.map(|one| cost.seconds(one.prompt, one.output)).sum())
    };
    let of = |cost: &gswarm_learn::calibration::Cost| {
        vec![
            name.to_owned(),
            cost.batch.to_string(),
            seconds(cost.fixed),
            seconds(1000.0 * cost.prompt),
            seconds(1000.0 * cost.output),
            if cost.context > 0.0 { format!("{:.1e}", cost.context) } else { "-".to_owned() },
            format!("{:.3}", at(cost.batch) / at(1).max(1e-12)),
            cost.mixed.map_or("-".to_owned(), |share| format!("{share:.3}")),
            format!("{:.1}%", cost.residual_percent.0),
            format!("{:.1}%", cost.residual_percent.1),
        ]
    };
    model.execution.iter().map(of).collect()
}

fn seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "-".to_owned(),
        1.0.. => format!("{seconds:.3} s"),
        _ => format!("{:.2} ms", 1e3 * seconds),
    }
}

fn spread(of: &Quartiles) -> String {
    if of.n < 2 {
        seconds(of.median)
    } else {
        format!("{} (±{:.1}%)", seconds(of.median), 100.0 * of.share())
    }
}
