//! A problem: the text of a configuration and of requests, valid, and read once for each way in which it is needed.

use crate::fault::{Fault, Plain, plain, usage};
use gswarm_core::input::{Reading, Scenario, Source, read_predicted, read_profiled, read_scenario};
use gswarm_core::instance::Mode;
use gswarm_run::RunSpec;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, PoisonError};

/// How a problem is read: when requests arrive, and whether a predictor times nodes that have no time.
type Way = (&'static str, bool);

/// The text of both inputs.
#[pyclass(frozen, module = "gswarm._gswarm")]
pub struct Inputs {
    text: Arc<Text>,
    warnings: Vec<Plain>,
}

/// What threads share of it.
pub struct Text {
    config: (String, Vec<u8>),
    requests: (String, Vec<u8>),
    /// Whether lines and columns mean something to whoever gave them.
    located: bool,
    read: Mutex<Vec<(Way, Arc<Scenario>)>>,
}

impl Text {
    /// What they say, or all that is wrong with them.
    pub fn scenario(&self, mode: Mode, predicted: bool) -> Result<Arc<Scenario>, Fault> {
        let way = (mode.name(), predicted);
        let mut known = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, scenario)) = known.iter().find(|(other, _)| *other == way) {
            return Ok(Arc::clone(scenario));
        }
        let reading = self.reading(mode, predicted);
        let scenario = reading.scenario.map(Arc::new).ok_or(Fault::Input(reading.diagnostics))?;
        known.push((way, Arc::clone(&scenario)));
        Ok(scenario)
    }

    /// What they say to a run.
    pub fn scenario_of(&self, spec: &RunSpec) -> Result<Arc<Scenario>, Fault> {
        if spec.calibration.is_none() {
            return self.scenario(spec.mode, spec.predicts_all());
        }
        let reading = self.located_only(|config, requests| read_profiled(config, requests, spec.mode));
        reading.scenario.map(Arc::new).ok_or(Fault::Input(reading.diagnostics))
    }

    fn reading(&self, mode: Mode, predicted: bool) -> Reading {
        let read = if predicted { read_predicted } else { read_scenario };
        self.located_only(|config, requests| read(config, requests, mode))
    }

    /// Reads both; lines that mean nothing to whoever gave them are left out.
    fn located_only(&self, read: impl FnOnce(Source<'_>, Source<'_>) -> Reading) -> Reading {
        let [config, requests] = [&self.config, &self.requests].map(|(name, bytes)| Source { name, bytes });
        let mut reading = read(config, requests);
        if !self.located {
            reading.diagnostics.iter_mut().for_each(|found| (found.line, found.column) = (None, None));
        }
        reading
    }

    /// What people call it: by its configuration's name.
    pub fn name(&self) -> &str {
        &self.config.0
    }
}

impl Inputs {
    /// What threads share of it.
    pub fn text(&self) -> Arc<Text> {
        Arc::clone(&self.text)
    }
}

#[pymethods]
impl Inputs {
    #[new]
    fn new(
        py: Python<'_>,
        config: (String, Vec<u8>),
        requests: (String, Vec<u8>),
        located: bool,
        mode: &str,
        predicted: bool,
    ) -> PyResult<Inputs> {
        let mode = mode_named(mode)?;
        py.detach(move || {
            let text = Text { config, requests, located, read: Mutex::default() };
            let reading = text.reading(mode, predicted);
            let Some(scenario) = reading.scenario else {
                return Err(Fault::Input(reading.diagnostics).into());
            };
            let warnings = reading.diagnostics.iter().map(plain).collect();
            let read = Mutex::new(vec![((mode.name(), predicted), Arc::new(scenario))]);
            Ok(Inputs { text: Arc::new(Text { read, ..text }), warnings })
        })
    }

    /// Findings that are no errors.
    #[getter]
    fn warnings(&self) -> Vec<Plain> {
        self.warnings.clone()
    }

    /// The names and texts that it was made of.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> [(String, Bound<'py, PyBytes>); 2] {
        [&self.text.config, &self.text.requests].map(|(name, bytes)| (name.clone(), PyBytes::new(py, bytes)))
    }

    /// Names of models and workflows, and how many requests there are.
    fn contents(&self, mode: &str, predicted: bool) -> PyResult<(Vec<String>, Vec<String>, usize)> {
        let scenario = self.text.scenario(mode_named(mode)?, predicted)?;
        let models = scenario.models.iter().map(|model| model.id.clone()).collect();
        let workflows = scenario.workflows.iter().map(|workflow| workflow.id.clone()).collect();
        Ok((models, workflows, scenario.requests.len()))
    }
}

/// `offline` or `online`.
pub fn mode_named(name: &str) -> Result<Mode, Fault> {
    [Mode::Offline, Mode::Online]
        .into_iter()
        .find(|mode| mode.name() == name)
        .ok_or_else(|| usage(format!("mode is `{name}`; there are offline and online")))
}
