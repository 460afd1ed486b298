//! A policy in Python, run by the engine like any other.

use crate::fault::Fault;
use crate::view::{Model, Scene, Task, View, lend, numbers};
use gswarm_core::engine::{Decision, View as CoreView};
use gswarm_core::policy::Policy;
use gswarm_core::time::MAX_SECONDS;
use gswarm_core::{GpuId, Gpus, Instance, Span, TaskId, Time};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where something goes: the first GPU, or all of them.
#[derive(FromPyObject)]
enum Place {
    First(u32),
    All(Vec<u32>),
}

impl Place {
    /// Consecutive GPUs from the first on; `None` where only the first is said.
    fn read(self) -> PyResult<(u32, Option<u32>)> {
        match self {
            Place::First(first) => Ok((first, None)),
            Place::All(all) => {
                let Some(&first) = all.first() else {
                    return Err(PyValueError::new_err("no GPU is named"));
                };
                if all.windows(2).any(|pair| pair[0].checked_add(1) != Some(pair[1])) {
                    return Err(PyValueError::new_err(format!("GPUs {all:?} are not consecutive")));
                }
                Ok((first, Some(all.len() as u32)))
            }
        }
    }
}

/// Run a ready task on GPUs: load its model if it is not there, or join the batch that runs there.
///
/// `gpus` are the first of as many consecutive GPUs as its model needs, or all of them.
#[pyclass(frozen, module = "gswarm")]
pub struct Start {
    #[pyo3(get)]
    task: Py<Task>,
    first: u32,
    count: Option<u32>,
}

#[pymethods]
impl Start {
    #[new]
    fn new(task: Py<Task>, gpus: Place) -> PyResult<Start> {
        let (first, count) = gpus.read()?;
        Ok(Start { task, first, count })
    }

    #[classattr]
    fn __match_args__() -> (&'static str, &'static str) {
        ("task", "gpus")
    }

    #[getter]
    fn gpus(&self) -> Vec<u32> {
        let task = self.task.get();
        let instance = &task.scene.instance;
        let count = self.count.unwrap_or(instance.models[instance.model_of(task.id)].gpus);
        (self.first..self.first.saturating_add(count)).collect()
    }

    fn __repr__(&self) -> String {
        let task = self.task.get();
        format!("Start({}, gpus={:?})", task.scene.instance.task_name(task.id), self.gpus())
    }
}

/// Bring a model onto GPUs ahead of need; `ahead_of` is the task that will start there next, where there is one.
#[pyclass(frozen, module = "gswarm")]
pub struct Load {
    #[pyo3(get)]
    model: Py<Model>,
    #[pyo3(get)]
    ahead_of: Option<Py<Task>>,
    first: u32,
    count: Option<u32>,
}

#[pymethods]
impl Load {
    #[new]
    #[pyo3(signature = (model, gpus, ahead_of = None))]
    fn new(model: Py<Model>, gpus: Place, ahead_of: Option<Py<Task>>) -> PyResult<Load> {
        let (first, count) = gpus.read()?;
        Ok(Load { model, ahead_of, first, count })
    }

    #[classattr]
    fn __match_args__() -> (&'static str, &'static str) {
        ("model", "gpus")
    }

    #[getter]
    fn gpus(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        let needed: u32 = self.model.bind(py).getattr("gpus")?.extract()?;
        Ok((self.first..self.first.saturating_add(self.count.unwrap_or(needed))).collect())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Load({}, gpus={:?})", self.model, self.gpus(py)?))
    }
}

/// Be asked again at this time, even if nothing happens until then.
#[pyclass(frozen, module = "gswarm")]
pub struct Wake {
    #[pyo3(get)]
    at: f64,
}

#[pymethods]
impl Wake {
    #[new]
    fn new(at: f64) -> PyResult<Wake> {
        if (0.0..=MAX_SECONDS).contains(&at) {
            Ok(Wake { at })
        } else {
            Err(PyValueError::new_err(format!("at is {at}; give seconds, from 0 to {MAX_SECONDS}")))
        }
    }

    #[classattr]
    fn __match_args__() -> (&'static str,) {
        ("at",)
    }

    fn __repr__(&self) -> String {
        format!("Wake({})", self.at)
    }
}

/// Calls that not every policy has a use for: made only where its class has its own.
struct Hooks {
    freed: Option<Py<PyAny>>,
    lost: Option<Py<PyAny>>,
    returned: Option<Py<PyAny>>,
    given_up: Option<Py<PyAny>>,
}

/// A policy in Python.
pub struct PythonPolicy {
    ready: Py<PyAny>,
    decide: Py<PyAny>,
    hooks: Hooks,
    run: u64,
    view: Py<View>,
    scene: Arc<Scene>,
    /// Ends the simulation once something has gone wrong here.
    stop: Arc<AtomicBool>,
    /// What has gone wrong.
    pub fault: Option<Fault>,
    /// The decision that was handed over last.
    last: Option<Py<PyAny>>,
}

static RUNS: AtomicU64 = AtomicU64::new(1);

impl PythonPolicy {
    /// An object whose class derives from `gswarm.Policy`.
    pub fn new(
        object: &Bound<'_, PyAny>,
        instance: Arc<Instance>,
        stop: Arc<AtomicBool>,
    ) -> PyResult<PythonPolicy> {
        let py = object.py();
        let base = py.import("gswarm.policy")?.getattr("Policy")?;
        if object.is_instance_of::<PyType>() || !object.is_instance(&base)? {
            let class = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "policy is a {class}; give the name of a policy, or an object of a class that derives from gswarm.Policy"
            )));
        }
        let own = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let inherited = object.get_type().getattr(name)?.is(base.getattr(name)?);
            if inherited { Ok(None) } else { Ok(Some(object.getattr(name)?.unbind())) }
        };
        let models = Model::all(py, &instance)?;
        let scene = Arc::new(Scene { instance, models });
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        Ok(PythonPolicy {
            ready: object.getattr("ready")?.unbind(),
            decide: object.getattr("decide")?.unbind(),
            hooks: Hooks {
                freed: own("freed")?,
                lost: own("lost")?,
                returned: own("returned")?,
                given_up: own("given_up")?,
            },
            run,
            view: Py::new(py, View { run, scene: Arc::clone(&scene) })?,
            scene,
            stop,
            fault: None,
            last: None,
        })
    }

    /// What was decided last, for people.
    pub fn last_decision(&self, py: Python<'_>) -> Option<String> {
        self.last
            .as_ref()
            .map(|last| last.bind(py).repr().map_or_else(|_| String::new(), |text| text.to_string()))
    }

    /// Has begun: models and the view are there before anything else is.
    pub fn begin(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<()> {
        object.call_method1("begin", (self.view.clone_ref(py),)).map(drop)
    }

    fn fail(&mut self, fault: Fault) {
        self.stop.store(true, Ordering::Relaxed);
        self.fault.get_or_insert(fault);
    }

    fn object(&self, py: Python<'_>, task: TaskId) -> PyResult<Py<Task>> {
        Py::new(py, Task { id: task, scene: Arc::clone(&self.scene) })
    }

    fn tell(
        &mut self,
        view: &CoreView<'_>,
        call: impl FnOnce(&PythonPolicy, Python<'_>) -> PyResult<Py<PyAny>>,
    ) {
        if self.fault.is_some() {
            return;
        }
        let told = Python::attach(|py| lend(self.run, view, || call(self, py)));
        if let Err(error) = told {
            self.fail(Fault::Raised(error));
        }
    }

    fn read(&self, py: Python<'_>, now: Time, given: &Py<PyAny>) -> Result<Decision, Fault> {
        let given = given.bind(py);
        let refused = |reason: String| Fault::Policy {
            at: now.seconds(),
            reason,
            decision: given.repr().ok().map(|text| text.to_string()),
        };
        let instance = &self.scene.instance;
        let window = |first: u32, count: u32| {
            let gpus = instance.cluster.gpus;
            match first.checked_add(count) {
                Some(end) if end <= gpus => Ok(Gpus { first: GpuId(first), count }),
                _ => Err(refused(format!("the GPUs are 0 to {}", gpus - 1))),
            }
        };
        let own = |task: &Task| {
            if Arc::ptr_eq(&task.scene, &self.scene) {
                Ok(task.id)
            } else {
                Err(refused("the task belongs to another run".to_owned()))
            }
        };
        if let Ok(start) = given.cast::<Start>() {
            let start = start.get();
            let task = own(start.task.get())?;
            let count = start.count.unwrap_or(instance.models[instance.model_of(task)].gpus);
            return Ok(Decision::Start { task, gpus: window(start.first, count)? });
        }
        if let Ok(load) = given.cast::<Load>() {
            let load = load.get();
            let (model, known) = (load.model.get().id, &self.scene.models);
            if !known.get(model.index()).is_some_and(|own| own.is(&load.model)) {
                return Err(refused("the model belongs to another run".to_owned()));
            }
            let ahead_of = load.ahead_of.as_ref().map(|task| own(task.get())).transpose()?;
            let count = load.count.unwrap_or(instance.models[model].gpus);
            return Ok(Decision::Load { model, gpus: window(load.first, count)?, ahead_of });
        }
        if let Ok(wake) = given.cast::<Wake>() {
            return Ok(Decision::Wake { at: Time::ZERO + Span::from_seconds(wake.get().at) });
        }
        Err(refused("decide must return Start, Load, Wake or None".to_owned()))
    }
}

impl Policy for PythonPolicy {
    fn ready(&mut self, task: TaskId, view: &CoreView<'_>) {
        self.tell(view, |policy, py| policy.ready.call1(py, (policy.object(py, task)?, &policy.view)));
    }

    fn decide(&mut self, view: &CoreView<'_>) -> Option<Decision> {
        if self.fault.is_some() {
            return None;
        }
        let decided = Python::attach(|py| {
            let given =
                lend(self.run, view, || self.decide.call1(py, (&self.view,))).map_err(Fault::Raised)?;
            if given.is_none(py) {
                return Ok(None);
            }
            let decision = self.read(py, view.now(), &given)?;
            self.last = Some(given);
            Ok(Some(decision))
        });
        decided.unwrap_or_else(|fault| {
            self.fail(fault);
            None
        })
    }

    fn freed(&mut self, gpus: Gpus, view: &CoreView<'_>) {
        if self.hooks.freed.is_none() {
            return;
        }
        self.tell(view, |policy, py| match &policy.hooks.freed {
            Some(hook) => hook.call1(py, (PyTuple::new(py, numbers(gpus))?, &policy.view)),
            None => Ok(py.None()),
        });
    }

    fn lost(&mut self, gpu: GpuId, view: &CoreView<'_>) {
        self.tell(view, |policy, py| match &policy.hooks.lost {
            Some(hook) => hook.call1(py, (gpu.0, &policy.view)),
            None => Ok(py.None()),
        });
    }

    fn returned(&mut self, gpu: GpuId, view: &CoreView<'_>) {
        self.tell(view, |policy, py| match &policy.hooks.returned {
            Some(hook) => hook.call1(py, (gpu.0, &policy.view)),
            None => Ok(py.None()),
        });
    }

    fn given_up(&mut self, task: TaskId, view: &CoreView<'_>) {
        if self.hooks.given_up.is_none() {
            return;
        }
        self.tell(view, |policy, py| match &policy.hooks.given_up {
            Some(hook) => hook.call1(py, (policy.object(py, task)?, &policy.view)),
            None => Ok(py.None()),
        });
    }
}
