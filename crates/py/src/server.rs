//! A server of the cluster as a process on its node speaks with it: the adapters of `gswarm-exec`, asked in JSON, which is
//! how a worker in a Ray cluster reaches them.

use gswarm_core::{Gpus, ModelId, Span};
use gswarm_exec::backend::{
    BackendError, BackendSpec, BackendsFile, GpuPlace, KnownModel, LoadRecorder, Replica, connect_at,
    gpu_range,
};
use gswarm_exec::call::Call;
use gswarm_exec::clock::Clock;
use gswarm_exec::config;
use gswarm_exec::fleet::{Fleet, Member};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

/// What serves models on the GPUs of one server.
#[pyclass(frozen, module = "gswarm._gswarm")]
pub struct Server {
    runtime: Runtime,
    shared: Arc<Shared>,
}

struct Shared {
    fleet: Fleet,
    /// What was loaded and not taken off since. A process that was started anew holds nothing, whatever others believe.
    held: Mutex<BTreeSet<Replica>>,
}

/// An order under way.
#[pyclass(frozen, module = "gswarm._gswarm")]
pub struct Operation(AbortHandle);

#[pymethods]
impl Operation {
    /// Breaks it off, unless it has come to its end.
    fn cancel(&self) {
        self.0.abort();
    }
}

#[derive(Deserialize)]
struct Model {
    name: String,
    memory_gb: f64,
    slowdown: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Order {
    Load { model: u32, gpus: (u32, u32), expected: u64 },
    Unload { model: u32, gpus: (u32, u32) },
    Call { model: u32, gpus: (u32, u32), call: Said },
    Reset,
}

#[derive(Deserialize)]
struct Said {
    name: String,
    inputs: Map<String, Value>,
    config: Map<String, Value>,
    kind: Option<String>,
    estimate: u64,
}

impl From<Said> for Call {
    fn from(said: Said) -> Call {
        let Said { name, inputs, config, kind, estimate } = said;
        Call { name, inputs, config, kind, estimate: Span(estimate) }
    }
}

#[pymethods]
impl Server {
    /// The servers of a file of backends, as JSON, on `count` GPUs from the cluster's `first` on, which the system calls
    /// `visible`; `models` is a list of the models' names, sizes and slowdowns.
    #[new]
    fn new(backends: &str, models: &str, first: u32, count: u32, visible: Vec<String>) -> PyResult<Server> {
        let wrong = |error: String| PyValueError::new_err(error);
        let file: BackendsFile = serde_json::from_str(backends).map_err(|error| wrong(error.to_string()))?;
        let models: Vec<Model> = serde_json::from_str(models).map_err(|error| wrong(error.to_string()))?;
        let clock = config::clock(&file).map_err(|faults| wrong(faults.join("; ")))?;
        let known = models
            .into_iter()
            .map(|Model { name, memory_gb, slowdown }| KnownModel { name, memory_gb, slowdown })
            .collect::<Vec<_>>();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        // Clients of servers are made where there is a runtime.
        let _here = runtime.enter();
        let window = Gpus::new(first, count);
        let specs = file.backends.iter().filter_map(|spec| Some((spec, part_of(spec, window)?)));
        let members = specs.map(|(spec, gpus)| member(spec, gpus, &visible, &known, &clock));
        let members = members.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let shared = Shared { fleet: Fleet::new(members), held: Mutex::default() };
        drop(_here);
        Ok(Server { runtime, shared: Arc::new(shared) })
    }

    /// Begins an order, as JSON; `done` is called with what came of it, as JSON, from another thread.
    fn begin(&self, order: &str, done: Py<PyAny>) -> PyResult<Operation> {
        let order: Order =
            serde_json::from_str(order).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let shared = Arc::clone(&self.shared);
        let task = self.runtime.spawn(async move {
            let said = match shared.carry_out(order).await {
                Ok(value) => json!({"ok": value}),
                Err(error) => json!({"err": {"kind": kind(&error), "why": why(&error)}}),
            };
            let told = Python::attach(|py| done.call1(py, (said.to_string(),)).map(drop));
            // Nobody is left to tell: the loop that waited for it is closed.
            drop(told);
        });
        Ok(Operation(task.abort_handle()))
    }
}

/// The GPUs that a server of the file has among those here, counted from the first here.
fn part_of(spec: &BackendSpec, window: Gpus) -> Option<Gpus> {
    let (here, end) = (window.first.0, window.first.0 + window.count);
    let (first, last) = match &spec.gpus {
        None => (here, end - 1),
        Some(text) => gpu_range(text)?,
    };
    let (first, end) = (first.max(here), (last + 1).min(end));
    (first < end).then(|| Gpus::new(first - here, end - first))
}

fn member(
    spec: &BackendSpec,
    gpus: Gpus,
    visible: &[String],
    known: &[KnownModel],
    clock: &Clock,
) -> Result<Member, String> {
    let place = GpuPlace { gpus, visible: visible.to_vec() };
    // What loads take is measured by whoever asks for them.
    let nobody: LoadRecorder = Arc::new(|_| {});
    let backend = connect_at(spec, &place, known, clock, &nobody)?;
    let number = |name: &String| known.iter().position(|model| model.name == *name).map(ModelId::from);
    let models = (!spec.models.is_empty()).then(|| spec.models.keys().filter_map(number).collect());
    // A model that is wider than this server lies on the next ones too; whoever placed it there has seen to them.
    Ok(Member { name: spec.title(), backend, gpus, reach: u32::MAX - gpus.first.0, models })
}

impl Shared {
    async fn carry_out(&self, order: Order) -> Result<Value, BackendError> {
        match order {
            Order::Reset => {
                self.held().clear();
                for member in self.fleet.members() {
                    member.backend.reset().await?;
                }
                Ok(Value::Null)
            }
            Order::Load { model, gpus, expected } => {
                let replica = replica(model, gpus);
                self.member(replica)?.backend.load(replica, Span(expected)).await?;
                self.held().insert(replica);
                Ok(Value::Null)
            }
            Order::Unload { model, gpus } => {
                let replica = replica(model, gpus);
                self.member(replica)?.backend.unload(replica).await?;
                self.held().remove(&replica);
                Ok(Value::Null)
            }
            Order::Call { model, gpus, call } => {
                let replica = replica(model, gpus);
                if !self.held().contains(&replica) {
                    return Err(BackendError::Gone("the model is no longer loaded there".to_owned()));
                }
                self.member(replica)?.backend.call(replica, &call.into()).await
            }
        }
    }

    fn member(&self, replica: Replica) -> Result<&Member, BackendError> {
        let found = self.fleet.serves(replica).map(|number| &self.fleet.members()[number]);
        found.ok_or_else(|| BackendError::Failed("no server has this model on these GPUs".to_owned()))
    }

    fn held(&self) -> std::sync::MutexGuard<'_, BTreeSet<Replica>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn replica(model: u32, (first, count): (u32, u32)) -> Replica {
    Replica { model: ModelId(model), gpus: Gpus::new(first, count) }
}

/// What can be done about an error, in a word.
fn kind(error: &BackendError) -> &'static str {
    match error {
        BackendError::Gone(_) => "gone",
        BackendError::Refused(_) => "refused",
        BackendError::DoesNotFit(_) => "unfit",
        BackendError::Unusable(_) => "unusable",
        BackendError::TimedOut(_)
        | BackendError::Failed(_)
        | BackendError::Unwell(_)
        | BackendError::Crashed(_) => "failed",
    }
}

/// What went wrong, without the words that go before it where it is told.
fn why(error: &BackendError) -> String {
    match error {
        BackendError::Gone(why)
        | BackendError::Refused(why)
        | BackendError::Failed(why)
        | BackendError::Unwell(why)
        | BackendError::Crashed(why)
        | BackendError::DoesNotFit(why)
        | BackendError::Unusable(why) => why.clone(),
        BackendError::TimedOut(_) => error.to_string(),
    }
}
