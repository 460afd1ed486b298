//! A problem: the text of a configuration and of requests, valid, and read once for each way in which it is needed.

use crate::fault::{Fault, Plain, plain, usage};
use gswarm_core::cost::SwitchRule;
use gswarm_core::input::{
    ClusterSpec, MAX_GB, MAX_GPUS, Reading, Scenario, Source, read_predicted, read_scenario,
};
use gswarm_core::instance::{Mode, Residency};
use gswarm_core::time::MAX_SECONDS;
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

    fn reading(&self, mode: Mode, predicted: bool) -> Reading {
        let [config, requests] = [&self.config, &self.requests].map(|(name, bytes)| Source { name, bytes });
        let read = if predicted { read_predicted } else { read_scenario };
        let mut reading = read(config, requests, mode);
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

/// What is said of the cluster in a call; it wins over the configuration.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ClusterOptions {
    gpus: Option<i64>,
    gpus_per_server: Option<i64>,
    residency: Option<String>,
    switch_cost: Option<String>,
    gpu_memory_gb: Option<f64>,
    pcie_gb_per_s: Option<f64>,
    switch_overhead_seconds: Option<f64>,
}

impl ClusterOptions {
    /// What the configuration says, with what was given put over it; all that is wrong with it is said at once.
    pub fn over(&self, file: &ClusterSpec) -> Result<ClusterSpec, Fault> {
        let mut wrong = Vec::new();
        let gpus = number("gpus", self.gpus, &mut wrong);
        let gpus_per_server = number("gpus_per_server", self.gpus_per_server, &mut wrong);
        for (name, value) in [("gpu_memory_gb", self.gpu_memory_gb), ("pcie_gb_per_s", self.pcie_gb_per_s)] {
            if value.is_some_and(|value| !(value > 0.0 && value <= MAX_GB)) {
                wrong.push(format!("{name}: give a number above zero, of {MAX_GB} at most"));
            }
        }
        if self.switch_overhead_seconds.is_some_and(|value| !(0.0..=MAX_SECONDS).contains(&value)) {
            wrong.push(format!("switch_overhead_seconds: give seconds, from 0 to {MAX_SECONDS}"));
        }
        let residency = [("single", Residency::Single), ("memory", Residency::Memory)];
        let residency = choice("residency", self.residency.as_deref(), &residency, &mut wrong);
        let switch = [("transfer", SwitchRule::Transfer), ("load_time", SwitchRule::LoadTime)];
        let switch_cost = choice("switch_cost", self.switch_cost.as_deref(), &switch, &mut wrong);
        if !wrong.is_empty() {
            return Err(usage(wrong.join("; ")));
        }
        Ok(ClusterSpec {
            gpus: gpus.or(file.gpus),
            gpus_per_server: gpus_per_server.or(file.gpus_per_server),
            gpu_memory_gb: self.gpu_memory_gb.or(file.gpu_memory_gb),
            pcie_gb_per_s: self.pcie_gb_per_s.or(file.pcie_gb_per_s),
            switch_overhead_seconds: self.switch_overhead_seconds.or(file.switch_overhead_seconds),
            switch_cost: switch_cost.or(file.switch_cost),
            residency: residency.or(file.residency),
        })
    }
}

fn number(name: &str, given: Option<i64>, wrong: &mut Vec<String>) -> Option<u32> {
    let given = given?;
    let found = u32::try_from(given).ok().filter(|number| (1..=MAX_GPUS).contains(number));
    if found.is_none() {
        wrong.push(format!("{name} is {given}; give a number from 1 to {MAX_GPUS}"));
    }
    found
}

fn choice<T: Copy>(name: &str, given: Option<&str>, all: &[(&str, T)], wrong: &mut Vec<String>) -> Option<T> {
    let given = given?;
    let found = all.iter().find(|(known, _)| *known == given).map(|&(_, value)| value);
    if found.is_none() {
        let known: Vec<&str> = all.iter().map(|&(known, _)| known).collect();
        wrong.push(format!("{name} is `{given}`; there are {}", known.join(" and ")));
    }
    found
}
