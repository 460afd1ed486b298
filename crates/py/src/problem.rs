//! A problem: a configuration and requests, from files or from Python objects, and held to be valid for each way in which it is
//! run.

use crate::document::document;
use crate::fault::{Fault, Plain, plain, usage};
use gswarm_core::generate::{Format, write_config, write_scenario_requests};
use gswarm_core::input::{Lacking, Reading, Scenario, Severity, Source, read_documents, read_lacking};
use gswarm_core::instance::Mode;
use gswarm_run::RunSpec;
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

    /// The same for a run of this specification.
    pub fn scenario_of(&self, spec: &RunSpec) -> Result<Arc<Scenario>, Fault> {
        self.scenario(spec.mode, spec.predicts_all())
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
        write_config(scenario, Format::Json, &mut config)
            .and_then(|()| write_scenario_requests(scenario, Format::Json, &mut requests))
            .map_err(Fault::from)?;
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
        .ok_or_else(|| usage(format!("mode is `{name}`; use offline or online")))
}
