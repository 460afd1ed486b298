//! A problem: a configuration and requests, from files or from Python objects, and held to be valid for each way in which it is
//! run.

use crate::document::document;
use crate::fault::{Fault, Plain, plain, usage};
use gswarm_core::cost::SwitchRule;
use gswarm_core::generate::{Format, write_scenario_config, write_scenario_requests};
use gswarm_core::input::{
    ClusterSpec, Lacking, MAX_GB, MAX_GPUS, Reading, Scenario, Severity, Source, read_documents, read_lacking,
};
use gswarm_core::instance::{Mode, Residency};
use gswarm_core::time::MAX_SECONDS;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, PoisonError};

/// For what a problem is known to be valid: when requests arrive, and whether a predictor times nodes that have no time.
type Way = (&'static str, bool);

/// A configuration and requests that are valid.
#[pyclass(frozen, module = "gswarm._gswarm")]
pub struct Inputs {
    given: Arc<Given>,
    warnings: Vec<Plain>,
}

/// What threads share of it.
pub struct Given {
    /// What people call the configuration and the requests.
    names: [String; 2],
    /// Their texts, where they are files.
    files: Option<[Vec<u8>; 2]>,
    /// Whether lines and columns mean something to whoever gave them.
    located: bool,
    scenario: Arc<Scenario>,
    valid_for: Mutex<Vec<Way>>,
}

impl Given {
    /// What is scheduled, or all that is wrong with it for such a run.
    pub fn scenario(&self, mode: Mode, predicted: bool) -> Result<Arc<Scenario>, Fault> {
        let way = (mode.name(), predicted);
        let mut known = self.valid_for.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(&way) {
            let lacking = lacking(predicted);
            let names = self.names.each_ref().map(String::as_str);
            let mut found = self.scenario.validate_as(names, mode, lacking);
            if found.iter().any(|one| one.severity == Severity::Error) {
                if let (Some(files), true) = (&self.files, self.located) {
                    found =
                        read_lacking(source(names[0], &files[0]), source(names[1], &files[1]), mode, lacking)
                            .diagnostics;
                }
                return Err(Fault::Input(found));
            }
            known.push(way);
        }
        Ok(Arc::clone(&self.scenario))
    }

    /// What people call it: by its configuration's name.
    pub fn name(&self) -> &str {
        &self.names[0]
    }
}

fn lacking(predicted: bool) -> Lacking {
    if predicted { Lacking::Times } else { Lacking::Nothing }
}

fn source<'a>(name: &'a str, bytes: &'a [u8]) -> Source<'a> {
    Source { name, bytes }
}

impl Inputs {
    /// What threads share of it.
    pub fn given(&self) -> Arc<Given> {
        Arc::clone(&self.given)
    }

    fn of(
        names: [String; 2],
        files: Option<[Vec<u8>; 2]>,
        located: bool,
        way: Way,
        mut reading: Reading,
    ) -> Result<Inputs, Fault> {
        if !located {
            reading.diagnostics.iter_mut().for_each(|found| (found.line, found.column) = (None, None));
        }
        let Some(scenario) = reading.scenario else { return Err(Fault::Input(reading.diagnostics)) };
        let warnings = reading.diagnostics.iter().map(plain).collect();
        let valid_for = Mutex::new(vec![way]);
        let given = Given { names, files, located, scenario: Arc::new(scenario), valid_for };
        Ok(Inputs { given: Arc::new(given), warnings })
    }
}

#[pymethods]
impl Inputs {
    /// Reads both from the texts of files.
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
            let [one, other] = [&config, &requests].map(|(name, bytes)| source(name, bytes));
            let reading = read_lacking(one, other, mode, lacking(predicted));
            let (names, files) = ([config.0, requests.0], [config.1, requests.1]);
            Ok(Inputs::of(names, Some(files), located, (mode.name(), predicted), reading)?)
        })
    }

    /// Takes both from Python objects; what is none of Python's own, `plain` turns into something that is.
    #[staticmethod]
    fn of_values(
        py: Python<'_>,
        config: (String, Bound<'_, PyAny>),
        requests: (String, Bound<'_, PyAny>),
        plain: &Bound<'_, PyAny>,
        mode: &str,
        predicted: bool,
    ) -> PyResult<Inputs> {
        let mode = mode_named(mode)?;
        let (one, other) = (document(&config.1, plain)?, document(&requests.1, plain)?);
        let names = [config.0, requests.0];
        py.detach(move || {
            let of = names.each_ref().map(String::as_str);
            let reading = read_documents([&one, &other], of, mode, lacking(predicted));
            Ok(Inputs::of(names, None, false, (mode.name(), predicted), reading)?)
        })
    }

    /// Findings that are no errors.
    #[getter]
    fn warnings(&self) -> Vec<Plain> {
        self.warnings.clone()
    }

    /// The names and the texts of both: those of the files, or of files that say the same.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<[(String, Bound<'py, PyBytes>); 2]> {
        let Given { names, files, scenario, .. } = &*self.given;
        let text = |name: &String, bytes: &[u8]| (name.clone(), PyBytes::new(py, bytes));
        if let Some([config, requests]) = files {
            return Ok([text(&names[0], config), text(&names[1], requests)]);
        }
        let (mut config, mut requests) = (Vec::new(), Vec::new());
        write_scenario_config(scenario, Format::Json, &mut config)
            .and_then(|()| write_scenario_requests(scenario, Format::Json, &mut requests))
            .map_err(|error| Fault::Internal(error.to_string()))?;
        Ok([text(&names[0], &config), text(&names[1], &requests)])
    }

    /// Names of models and workflows, and how many requests there are.
    fn contents(&self) -> (Vec<String>, Vec<String>, usize) {
        let scenario = &self.given.scenario;
        let models = scenario.models.iter().map(|model| model.id.clone()).collect();
        let workflows = scenario.workflows.iter().map(|workflow| workflow.id.clone()).collect();
        (models, workflows, scenario.requests.len())
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
