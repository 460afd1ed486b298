//! What a policy in Python looks at: tasks, models, and the state of the run for as long as a call of the policy lasts.

use gswarm_core::engine::{TaskState, View as CoreView};
use gswarm_core::gpuset::GpuSet;
use gswarm_core::{GpuId, Gpus, Instance, ModelId, TaskId};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use scoped_tls_hkt::scoped_thread_local;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The run whose policy is being asked on this thread, and its state.
#[derive(Clone, Copy)]
struct Look<'a> {
    run: u64,
    view: CoreView<'a>,
}

scoped_thread_local!(static LOOK: for<'a> Look<'a>);

/// Lends `view` to the run's [`View`] while `call` goes on.
pub fn lend<R>(run: u64, view: &CoreView<'_>, call: impl FnOnce() -> R) -> R {
    LOOK.set(Look { run, view: *view }, call)
}

/// What all objects of a run share.
pub struct Scene {
    /// The problem.
    pub instance: Arc<Instance>,
    /// Its models, one object each.
    pub models: Vec<Py<Model>>,
}

/// A model of the configuration: one object for a run, so that it can be a key.
#[pyclass(frozen, module = "gswarm")]
pub struct Model {
    /// Its number.
    pub id: ModelId,
    /// What the configuration calls it.
    #[pyo3(get)]
    name: Py<PyString>,
    /// Consecutive GPUs that it needs.
    #[pyo3(get)]
    gpus: u32,
    /// Memory that it needs, all of its GPUs together.
    #[pyo3(get)]
    memory_gb: f64,
    /// What a load onto empty GPUs takes.
    #[pyo3(get)]
    load_seconds: f64,
    /// Executions at once on one replica.
    #[pyo3(get)]
    max_batch: u32,
}

impl Model {
    /// All of a problem, by number.
    pub fn all(py: Python<'_>, instance: &Instance) -> PyResult<Vec<Py<Model>>> {
        let model = |(id, model): (ModelId, &gswarm_core::instance::Model)| {
            Py::new(
                py,
                Model {
                    id,
                    name: PyString::new(py, &model.name).unbind(),
                    gpus: model.gpus,
                    memory_gb: model.memory_gb,
                    load_seconds: model.load_seconds,
                    max_batch: model.max_batch(),
                },
            )
        };
        instance.models.iter_enumerated().map(model).collect()
    }
}

#[pymethods]
impl Model {
    fn __repr__(&self) -> String {
        format!("Model({})", self.name)
    }
}

/// A node of a request.
#[pyclass(frozen, module = "gswarm", eq, hash)]
pub struct Task {
    /// Its number.
    pub id: TaskId,
    /// The run's.
    pub scene: Arc<Scene>,
}

impl PartialEq for Task {
    fn eq(&self, other: &Task) -> bool {
        self.id == other.id && Arc::ptr_eq(&self.scene, &other.scene)
    }
}

impl Hash for Task {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl Task {
    fn request_spec(&self) -> &gswarm_core::instance::Request {
        let instance = &self.scene.instance;
        &instance.requests[instance.request_of(self.id)]
    }
}

#[pymethods]
impl Task {
    /// Its number: in the order of the requests and of their workflows' nodes.
    #[getter]
    fn id(&self) -> u32 {
        self.id.0
    }

    /// The model that it calls.
    #[getter]
    fn model(&self, py: Python<'_>) -> Py<Model> {
        self.scene.models[self.scene.instance.model_of(self.id).index()].clone_ref(py)
    }

    /// The name of its request.
    #[getter]
    fn request(&self) -> &str {
        &self.request_spec().name
    }

    /// The name of its node in the workflow.
    #[getter]
    fn node(&self) -> &str {
        let instance = &self.scene.instance;
        &instance.workflow_of(self.id).nodes[instance.node_of(self.id) as usize]
    }

    /// The name of its workflow.
    #[getter]
    fn workflow(&self) -> &str {
        &self.scene.instance.workflow_of(self.id).name
    }

    /// The longest path from a node that waits for none, in edges.
    #[getter]
    fn level(&self) -> u32 {
        self.scene.instance.level_of(self.id)
    }

    /// Its request's; more is more urgent.
    #[getter]
    fn priority(&self) -> i32 {
        self.request_spec().priority
    }

    /// When its request came in.
    #[getter]
    fn arrival(&self) -> f64 {
        self.request_spec().arrival.seconds()
    }

    /// When its request should be done, where that is said.
    #[getter]
    fn deadline(&self) -> Option<f64> {
        let request = self.request_spec();
        request.deadline.map(|deadline| (request.arrival + deadline).seconds())
    }

    /// How long it was expected to take before the run.
    #[getter]
    fn estimate(&self) -> f64 {
        self.scene.instance.execution(self.id).seconds()
    }

    fn __repr__(&self) -> String {
        format!("Task({})", self.scene.instance.task_name(self.id))
    }
}

/// The present of a run; times are in seconds, GPUs are numbers from 0. It answers only while the policy is being asked.
#[pyclass(frozen, module = "gswarm")]
pub struct View {
    /// The run.
    pub run: u64,
    /// What its objects share.
    pub scene: Arc<Scene>,
}

impl View {
    fn look<R>(&self, ask: impl FnOnce(CoreView<'_>) -> R) -> PyResult<R> {
        let over = || {
            PyRuntimeError::new_err("a view is valid only during the call of its policy, on the same thread")
        };
        if !LOOK.is_set() {
            return Err(over());
        }
        LOOK.with(|look| if look.run == self.run { Ok(ask(look.view)) } else { Err(over()) })
    }

    fn gpu(&self, gpu: u32) -> PyResult<GpuId> {
        let count = self.scene.instance.cluster.gpus;
        if gpu < count {
            Ok(GpuId(gpu))
        } else {
            Err(PyIndexError::new_err(format!("there is no GPU {gpu}; the GPUs are 0 to {}", count - 1)))
        }
    }

    fn model_object(&self, py: Python<'_>, model: ModelId) -> Py<Model> {
        self.scene.models[model.index()].clone_ref(py)
    }

    /// The number of a model that may be another run's.
    fn known(&self, model: &Model) -> PyResult<ModelId> {
        if model.id.index() < self.scene.models.len() {
            Ok(model.id)
        } else {
            Err(PyKeyError::new_err("this model belongs to another problem"))
        }
    }

    /// The number of a task that may be another run's.
    fn task(&self, task: &Task) -> PyResult<TaskId> {
        if Arc::ptr_eq(&self.scene, &task.scene) {
            Ok(task.id)
        } else {
            Err(PyKeyError::new_err("this task belongs to another run"))
        }
    }
}

fn list(set: &GpuSet) -> Vec<u32> {
    set.iter().map(|gpu| gpu.0).collect()
}

/// GPUs as Python sees them.
pub fn numbers(gpus: Gpus) -> Vec<u32> {
    gpus.iter().map(|gpu| gpu.0).collect()
}

#[pymethods]
impl View {
    /// What time it is.
    #[getter]
    fn now(&self) -> PyResult<f64> {
        self.look(|view| view.now().seconds())
    }

    /// How many GPUs there are.
    #[getter]
    fn gpus(&self) -> u32 {
        self.scene.instance.cluster.gpus
    }

    /// The models of the configuration.
    #[getter]
    fn models(&self, py: Python<'_>) -> Vec<Py<Model>> {
        self.scene.models.iter().map(|model| model.clone_ref(py)).collect()
    }

    /// GPUs on which nothing executes or loads, in order.
    #[getter]
    fn idle(&self) -> PyResult<Vec<u32>> {
        self.look(|view| list(view.idle()))
    }

    /// GPUs that were not lost.
    #[getter]
    fn alive(&self) -> PyResult<Vec<u32>> {
        self.look(|view| list(view.alive()))
    }

    /// GPUs that hold no model.
    #[getter]
    fn empty(&self) -> PyResult<Vec<u32>> {
        self.look(|view| list(view.empty()))
    }

    /// Tasks that are neither finished nor given up.
    #[getter]
    fn open_tasks(&self) -> PyResult<usize> {
        self.look(|view| view.open_tasks())
    }

    /// GPUs that hold the model.
    fn holding(&self, model: &Model) -> PyResult<Vec<u32>> {
        let model = self.known(model)?;
        self.look(|view| list(view.holding(model)))
    }

    /// First GPUs of the model's replicas that are at work and have room in their batch.
    fn joinable(&self, model: &Model) -> PyResult<Vec<u32>> {
        let model = self.known(model)?;
        self.look(|view| list(view.joinable(model)))
    }

    /// Windows of idle GPUs (or of those in `within`) that the model may be put on, by their first GPU.
    #[pyo3(signature = (model, within = None))]
    fn windows(&self, model: &Model, within: Option<Vec<u32>>) -> PyResult<Vec<u32>> {
        let model = self.known(model)?;
        let given = within.map(|gpus| {
            let mut set = GpuSet::empty(self.scene.instance.cluster.gpus);
            gpus.into_iter().try_for_each(|gpu| self.gpu(gpu).map(|gpu| set.insert(gpu)))?;
            PyResult::Ok(set)
        });
        let given = given.transpose()?;
        let spec = &self.scene.instance.models[model];
        self.look(|view| {
            let mut starts = given.as_ref().unwrap_or(view.idle()).starts(spec.gpus);
            starts.keep(&spec.starts);
            list(&starts)
        })
    }

    /// Executions on the replica that starts at this GPU.
    fn batch_at(&self, gpu: u32) -> PyResult<u32> {
        let gpu = self.gpu(gpu)?;
        self.look(|view| view.batch_at(gpu))
    }

    /// The model that came onto a GPU last, where it holds one.
    fn resident(&self, py: Python<'_>, gpu: u32) -> PyResult<Option<Py<Model>>> {
        let gpu = self.gpu(gpu)?;
        let model = self.look(|view| view.resident(gpu))?;
        Ok(model.map(|model| self.model_object(py, model)))
    }

    /// The models on a GPU, those that were used last at the end.
    fn residents(&self, py: Python<'_>, gpu: u32) -> PyResult<Vec<Py<Model>>> {
        let gpu = self.gpu(gpu)?;
        let models = self.look(|view| view.residents(gpu))?;
        Ok(models.into_iter().map(|model| self.model_object(py, model)).collect())
    }

    /// Since when nothing executes or loads on a GPU.
    fn idle_since(&self, gpu: u32) -> PyResult<f64> {
        let gpu = self.gpu(gpu)?;
        self.look(|view| view.idle_since(gpu).seconds())
    }

    /// When what executes or loads on a GPU is expected to end; now, where there is nothing.
    fn free_at(&self, gpu: u32) -> PyResult<f64> {
        let gpu = self.gpu(gpu)?;
        self.look(|view| view.free_at(gpu).seconds())
    }

    /// How long a GPU has loaded for and executed what has ended.
    fn busy(&self, gpu: u32) -> PyResult<f64> {
        let gpu = self.gpu(gpu)?;
        self.look(|view| view.busy(gpu).seconds())
    }

    /// Whether a model is being loaded onto a GPU.
    fn is_loading(&self, gpu: u32) -> PyResult<bool> {
        let gpu = self.gpu(gpu)?;
        self.look(|view| view.is_loading(gpu))
    }

    /// Whether something executes on a GPU.
    fn is_running(&self, gpu: u32) -> PyResult<bool> {
        let gpu = self.gpu(gpu)?;
        self.look(|view| view.is_running(gpu))
    }

    /// What loading the model onto the window from this GPU on would take now; `None` where it has no room there.
    fn load_cost(&self, model: &Model, gpu: u32) -> PyResult<Option<f64>> {
        let (model, first) = (self.known(model)?, self.gpu(gpu)?);
        let window = Gpus { first, count: self.scene.instance.models[model].gpus };
        self.gpu(first.0 + window.count - 1)?;
        self.look(|view| view.load_cost(model, window).map(|span| span.seconds()))
    }

    /// How long a task is expected to take, by the estimates and by what was learned since.
    fn expected(&self, task: &Task) -> PyResult<f64> {
        let task = self.task(task)?;
        self.look(|view| view.expected(task).seconds())
    }

    /// The time that a share `p`, from 0 to 1, of tasks like this one do not exceed.
    fn quantile(&self, task: &Task, p: f64) -> PyResult<f64> {
        let task = self.task(task)?;
        if !(0.0..=1.0).contains(&p) {
            return Err(PyValueError::new_err(format!("p is {p}; give a share from 0 to 1")));
        }
        self.look(|view| view.quantile(task, p).seconds())
    }

    /// How often a task has failed.
    fn failures(&self, task: &Task) -> PyResult<u32> {
        let task = self.task(task)?;
        self.look(|view| view.failures(task))
    }

    /// Where a task stands: `waiting`, `ready`, `held`, `running`, `done` or `given_up`.
    fn state(&self, task: &Task) -> PyResult<&'static str> {
        let task = self.task(task)?;
        self.look(|view| match view.state(task) {
            TaskState::Waiting => "waiting",
            TaskState::Ready => "ready",
            TaskState::Held => "held",
            TaskState::Running => "running",
            TaskState::Done => "done",
            TaskState::GivenUp => "given_up",
        })
    }

    /// Tasks on GPUs: where, and since when they execute; `None` while their model is being loaded.
    #[allow(clippy::type_complexity, reason = "a list of tuples, as Python has it")]
    fn under_way(&self) -> PyResult<Vec<(Task, Vec<u32>, Option<f64>)>> {
        self.look(|view| {
            let object = |id| Task { id, scene: Arc::clone(&self.scene) };
            let shown = |one: gswarm_core::engine::RunningTask| {
                (object(one.task), numbers(one.gpus), one.began.map(|at| at.seconds()))
            };
            view.under_way().map(shown).collect()
        })
    }

    fn __repr__(&self) -> String {
        match self.now() {
            Ok(now) => format!("View(now={now})"),
            Err(_) => "View(over)".to_owned(),
        }
    }
}
