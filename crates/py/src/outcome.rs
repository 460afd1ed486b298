//! What came of a run, for as long as somebody holds it: the problem may be gone.

use crate::fault::Fault;
use gswarm_core::Instance;
use gswarm_core::check::{Violation, check_run};
use gswarm_core::compare::{RunKey, SweepRow};
use gswarm_core::explain::{SLOWEST, Timeline, slowest};
use gswarm_core::input::Scenario;
use gswarm_core::log_file::{LogFile, write_json, write_jsonl};
use gswarm_core::plan::{self, Planned};
use gswarm_core::report::write_events;
use gswarm_core::run;
use gswarm_core::truth::Truth;
use gswarm_show::gantt::Gantt;
use gswarm_show::page::html;
use gswarm_show::report::page;
use gswarm_show::run::ReportRun;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::io;
use std::sync::Arc;

/// Bars of a page's chart at most.
const MOST_BARS: usize = 200_000;

/// What came of a run.
#[pyclass(frozen, module = "gswarm._gswarm")]
pub struct Outcome {
    /// What was read.
    pub scenario: Arc<Scenario>,
    /// The problem.
    pub instance: Arc<Instance>,
    /// What happened, and what it came to.
    pub outcome: run::RunOutcome,
    /// What was planned, where it was.
    pub planned: Option<Planned>,
    /// How long executions really took.
    pub truth: Truth,
}

impl Outcome {
    /// Its log file, as one document or by line.
    pub fn log_text(&self, lines: bool) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let run::RunOutcome { log, summary, .. } = &self.outcome;
        if lines {
            write_jsonl(&self.instance, log, summary, &mut out)?;
        } else {
            write_json(&self.instance, log, summary, &mut out)?;
        }
        Ok(out)
    }
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    Fault::Internal(error.to_string()).into()
}

#[pymethods]
impl Outcome {
    fn metrics(&self) -> PyResult<String> {
        serde_json::to_string(&self.outcome.metrics).map_err(failed)
    }

    /// Policy, mode, number of GPUs, seed, makespan, bound and gap in percent.
    #[allow(clippy::type_complexity, reason = "a tuple, as Python has it")]
    fn summary(&self) -> (String, &'static str, u32, Option<u64>, f64, Option<f64>, Option<f64>) {
        let summary = &self.outcome.summary;
        (
            summary.policy.clone(),
            summary.mode.name(),
            summary.gpus,
            summary.seed,
            summary.makespan.seconds(),
            summary.lower_bound.map(|bound| bound.seconds()),
            summary.gap_percent(),
        )
    }

    /// The log file that `gswarm run` would write.
    fn log<'py>(&self, py: Python<'py>, lines: bool) -> PyResult<Bound<'py, PyBytes>> {
        let text = py.detach(|| self.log_text(lines)).map_err(failed)?;
        Ok(PyBytes::new(py, &text))
    }

    /// The lines of `gswarm run`'s other file.
    fn events(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| {
            let mut out = Vec::new();
            write_events(&self.instance, &self.outcome.log, &mut out)?;
            String::from_utf8(out).map_err(io::Error::other)
        })
        .map_err(failed)
    }

    /// The plan file, where there was a plan.
    fn plan<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(planned) = &self.planned else { return Ok(None) };
        let mut out = Vec::new();
        plan::file::write(&self.instance, planned, &mut out).map_err(failed)?;
        Ok(Some(PyBytes::new(py, &out)))
    }

    /// What the check says of the log, once more.
    fn check(&self, py: Python<'_>) -> Vec<PlainViolation> {
        let run::RunOutcome { log, summary, .. } = &self.outcome;
        let found = py.detach(|| check_run(&self.instance, &self.truth, log, Some(summary)));
        found.iter().map(plain_violation).collect()
    }

    fn executions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let instance = &self.instance;
        let all = &self.outcome.log.executions;
        // Each name is one object, however often it occurs.
        let names = |list: &mut dyn Iterator<Item = &str>| -> Vec<Py<PyString>> {
            list.map(|name| PyString::new(py, name).unbind()).collect()
        };
        let requests = names(&mut instance.requests.iter().map(|request| request.name.as_str()));
        let workflows = names(&mut instance.workflows.iter().map(|workflow| workflow.name.as_str()));
        let models = names(&mut instance.models.iter().map(|model| model.name.as_str()));
        let nodes: Vec<Vec<Py<PyString>>> = instance
            .workflows
            .iter()
            .map(|workflow| names(&mut workflow.nodes.iter().map(String::as_str)))
            .collect();
        let columns = PyDict::new(py);
        let texts = |name: &str, of: &dyn Fn(usize) -> Py<PyString>| -> PyResult<()> {
            columns.set_item(name, PyList::new(py, (0..all.len()).map(of))?)
        };
        let workflow_of = |at: usize| instance.requests[instance.request_of(all[at].task)].workflow;
        texts("request_id", &|at| requests[instance.request_of(all[at].task).index()].clone_ref(py))?;
        texts("workflow_id", &|at| workflows[workflow_of(at).index()].clone_ref(py))?;
        texts("node_id", &|at| {
            nodes[workflow_of(at).index()][instance.node_of(all[at].task) as usize].clone_ref(py)
        })?;
        texts("model_name", &|at| models[instance.model_of(all[at].task).index()].clone_ref(py))?;
        columns.set_item("gpu_id", all.iter().map(|one| one.gpus.first.0).collect::<Vec<_>>())?;
        columns.set_item("gpus", all.iter().map(|one| one.gpus.count).collect::<Vec<_>>())?;
        let arrival = |one: &gswarm_core::log::Execution| {
            instance.requests[instance.request_of(one.task)].arrival.seconds()
        };
        let seconds = |name: &str, of: &dyn Fn(&gswarm_core::log::Execution) -> f64| -> PyResult<()> {
            columns.set_item(name, all.iter().map(of).collect::<Vec<f64>>())
        };
        seconds("arrival_time", &arrival)?;
        seconds("ready_time", &|one| one.ready.seconds())?;
        seconds("switch_time", &|one| one.switch.seconds())?;
        seconds("start_time", &|one| one.start.seconds())?;
        seconds("end_time", &|one| one.end.seconds())?;
        seconds("execution_time", &|one| one.end.since(one.start).seconds())?;
        seconds("estimated_time", &|one| instance.execution(one.task).seconds())?;
        columns.set_item("batch_size", all.iter().map(|one| one.batch).collect::<Vec<_>>())?;
        columns.set_item("attempt", all.iter().map(|one| one.attempt).collect::<Vec<_>>())?;
        columns.set_item("status", all.iter().map(|one| one.status.name()).collect::<Vec<_>>())?;
        Ok(columns)
    }

    /// Loads before any execution needs it: model, GPUs, begin, end and status.
    #[allow(clippy::type_complexity, reason = "a list of tuples, as Python has it")]
    fn loads(&self) -> Vec<(String, Vec<u32>, f64, f64, &'static str)> {
        let one = |load: &gswarm_core::log::Load| {
            let model = self.instance.models[load.model].name.clone();
            let gpus = crate::view::numbers(load.gpus);
            (model, gpus, load.start.seconds(), load.end.seconds(), load.status.name())
        };
        self.outcome.log.loads.iter().map(one).collect()
    }

    /// A page about the run, with its Gantt chart, as `gswarm report` makes it.
    fn page(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        py.detach(|| {
            let file = LogFile::read_bytes(&self.log_text(true)?);
            let run::RunOutcome { log, summary, .. } = &self.outcome;
            let mut run = ReportRun::of(name, name, &self.instance, log, &file);
            let bound = summary.lower_bound.map(|bound| bound.seconds());
            run.gantt = Some(Gantt::of(&self.instance, log, run.label(), bound, MOST_BARS));
            Ok(html(&page(&mut [run])))
        })
        .map_err(|error: io::Error| failed(error))
    }

    /// The row of a comparison, as JSON; `seconds` are those of the whole call.
    fn row(&self, input: &str, seconds: f64) -> PyResult<String> {
        let summary = &self.outcome.summary;
        let key = RunKey {
            input: input.to_owned(),
            mode: summary.mode.name().to_owned(),
            batching: true,
            gpus: summary.gpus,
            policy: summary.policy.clone(),
            seed: summary.seed.unwrap_or_default(),
        };
        let slowest = slowest(&Timeline::new(&self.instance, &self.outcome.log), SLOWEST);
        let row =
            SweepRow { slowest, ..SweepRow::of(&key, "", &self.outcome.metrics, summary, [0.0, seconds]) };
        serde_json::to_string(&row).map_err(failed)
    }
}

/// A violation as the fields of `gswarm.Violation`: its code, what that means, the message, record, load, line, request, node
/// and GPU.
pub type PlainViolation = (
    &'static str,
    &'static str,
    String,
    Option<usize>,
    Option<usize>,
    Option<u32>,
    Option<String>,
    Option<String>,
    Option<u32>,
);

pub fn plain_violation(found: &Violation) -> PlainViolation {
    let place = &found.place;
    (
        found.code.code(),
        found.code.title(),
        found.message.clone(),
        place.record,
        place.load,
        place.line,
        place.request.clone(),
        place.node.clone(),
        place.gpu,
    )
}
