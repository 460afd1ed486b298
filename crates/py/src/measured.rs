//! A log that another process wrote, as what came of a run: live runs are made by processes of their own.

use crate::apart::apart;
use crate::fault::{Fault, usage};
use crate::outcome::Outcome;
use crate::problem::Inputs;
use gswarm_core::Instance;
use gswarm_core::check::read_back;
use gswarm_core::instance::Mode;
use gswarm_core::log_file::{LogFile, Timing};
use gswarm_core::report::{RunInfo, metrics, summary};
use gswarm_core::run;
use gswarm_core::truth::Truth;
use pyo3::prelude::*;
use std::sync::Arc;

/// The run that a log is of: measured times, as live runs have them. `predictor` is what gave its estimates, where one did.
#[pyfunction]
pub fn read_log(
    py: Python<'_>,
    inputs: &Inputs,
    log: Vec<u8>,
    predictor: Option<(String, Vec<u8>)>,
) -> PyResult<Outcome> {
    let given = inputs.given();
    apart(py, None, false, move |_| {
        let file = LogFile::read_bytes(&log);
        let mode = file.mode().unwrap_or(Mode::Offline);
        let scenario = given.scenario(mode, predictor.is_some())?;
        let (cluster, _) = file.cluster(&scenario.cluster);
        let source =
            predictor.map(|(name, bytes)| gswarm_run::predictor(&name, &bytes, &scenario)).transpose()?;
        let estimates = source.as_ref().map_or(&[][..], |source| source.estimates());
        let mut instance = Instance::build_estimated(&scenario, cluster, mode, estimates)
            .map_err(|faults| Fault::Infeasible(faults.iter().map(ToString::to_string).collect()))?;
        source.iter().for_each(|source| source.tell(&scenario, &mut instance, false));
        let (log, faults) = read_back(&instance, &file);
        if let Some(first) = faults.first() {
            return Err(usage(format!("the log belongs to another problem: {first}")));
        }
        let metrics = metrics(&instance, &log);
        let info = RunInfo {
            policy: file.claims.policy.clone().unwrap_or_default(),
            simulate: true,
            timing: Timing::Measured,
            seed: file.claims.seed,
            ..RunInfo::default()
        };
        let summary = summary(&instance, &metrics, info);
        let outcome = run::RunOutcome { log, metrics, summary };
        let instance = Arc::new(instance);
        Ok(Outcome { scenario, instance, outcome, planned: None, truth: Truth::default() })
    })
}
