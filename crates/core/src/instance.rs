//! The problem itself: immutable, valid and indexed by number. Everything after the input reads this.

mod estimates;
mod incoming;
mod onward;
mod rest;
mod start;

pub use crate::cluster::{Cluster, DEFAULT_GPU_MEMORY_GB, Residency};
use crate::cost::{self, Leaving};
use crate::gpuset::GpuSet;
use crate::id::{Gpus, IdVec, ModelId, RequestId, TaskId, WorkflowId};
use crate::input::{ModelSpec, Scenario, WorkflowSpec};
use crate::time::{Span, Time};
pub use incoming::NewRequest;
pub use onward::Onward;
pub use start::Start;

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All at time 0.
    Offline,
    /// At their timestamp minus the earliest.
    Online,
}

impl Mode {
    /// As flags and logs spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Offline => "offline",
            Mode::Online => "online",
        }
    }
}

/// A model, ready for scheduling.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its key in the configuration.
    pub name: String,
    /// Size of its weights in GB, over all its GPUs.
    pub memory_gb: f64,
    /// Consecutive GPUs that it needs.
    pub gpus: u32,
    /// First load onto empty GPUs, in seconds.
    pub load_seconds: f64,
    /// What taking it off its GPUs takes by measurement, in seconds; 0 where nothing is said of it.
    pub unload_seconds: f64,
    /// Megabytes of weights on each of its GPUs.
    pub memory_per_gpu: u64,
    /// What each execution takes beside the weights in GB, over all its GPUs; 0 where nothing is said of it.
    pub slot_gb: f64,
    /// Megabytes that each execution takes on each of its GPUs beside the weights; 0 where nothing is said of it.
    pub slot_per_gpu: u64,
    /// Slowdown per batch size in millionths, index b - 1. One entry, 1.0, where the model does not batch. No longer than
    /// what a GPU's memory holds beside the weights.
    pub slowdown: Vec<u32>,
    /// First GPUs of the windows that it may be put on.
    pub starts: GpuSet,
    /// How far off the estimates of its executions may be, as the standard deviation of the logarithm; 0 where they are
    /// taken to be certain.
    pub spread: f64,
}

impl Model {
    /// Most executions at once on a replica.
    #[must_use]
    pub fn max_batch(&self) -> u32 {
        self.slowdown.len() as u32
    }

    /// How long an execution takes among `batch` on its replica.
    #[must_use]
    pub fn at_batch(&self, alone: Span, batch: u32) -> Span {
        match batch {
            1 => alone,
            _ => {
                Span((u128::from(alone.0) * u128::from(self.slowdown[batch as usize - 1]) / 1_000_000) as u64)
            }
        }
    }

    /// What it is to whoever takes its place.
    #[must_use]
    pub fn leaving(&self) -> Leaving {
        Leaving { gb: self.memory_gb, seconds: self.unload_seconds }
    }

    /// The windows that the model may be put on, lowest first.
    pub fn windows(&self) -> impl Iterator<Item = Gpus> + '_ {
        self.starts.iter().map(|first| Gpus { first, count: self.gpus })
    }
}

/// A workflow's graph.
#[derive(Clone, Debug)]
pub struct Workflow {
    /// Its key in the configuration.
    pub name: String,
    /// Node ids, in the order of the file.
    pub nodes: Vec<String>,
    /// The model of each node.
    pub models: Vec<ModelId>,
    /// Longest path from a root, in edges.
    pub levels: Vec<u32>,
    /// The nodes such that every edge goes forward.
    pub order: Vec<u32>,
    successors: Rows,
    predecessors: Rows,
}

impl Workflow {
    /// The nodes that read what `node` writes.
    #[must_use]
    pub fn successors(&self, node: u32) -> &[u32] {
        self.successors.row(node)
    }

    /// The nodes that `node` waits for.
    #[must_use]
    pub fn predecessors(&self, node: u32) -> &[u32] {
        self.predecessors.row(node)
    }
}

/// Lists of numbers behind one another in one array.
#[derive(Clone, Debug)]
struct Rows {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Rows {
    fn new(rows: u32, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Rows {
        let mut starts = vec![0; rows as usize + 1];
        pairs.clone().for_each(|(row, _)| starts[row as usize + 1] += 1);
        for row in 0..rows as usize {
            starts[row + 1] += starts[row];
        }
        let (mut next, mut items) = (starts.clone(), vec![0; starts[rows as usize] as usize]);
        for (row, item) in pairs {
            items[next[row as usize] as usize] = item;
            next[row as usize] += 1;
        }
        Rows { starts, items }
    }

    fn row(&self, row: u32) -> &[u32] {
        &self.items[self.starts[row as usize] as usize..self.starts[row as usize + 1] as usize]
    }
}

/// A request, ready for scheduling.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its id in the file.
    pub name: String,
    /// What it runs.
    pub workflow: WorkflowId,
    /// When it arrives.
    pub arrival: Time,
    /// Its first node; the others follow.
    pub first_task: TaskId,
    /// Higher first.
    pub priority: i32,
    /// From arrival.
    pub deadline: Option<Span>,
}

/// A problem that can be run.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Models, in the order of the file.
    pub models: IdVec<ModelId, Model>,
    /// Workflows, in the order of the file.
    pub workflows: IdVec<WorkflowId, Workflow>,
    /// Requests, in the order of the file.
    pub requests: IdVec<RequestId, Request>,
    /// Where it runs.
    pub cluster: Cluster,
    /// When requests arrive.
    pub mode: Mode,
    /// What is on the GPUs when it begins.
    pub start: Start,
    tasks: IdVec<TaskId, Task>,
    /// Where a predictor gave them, the 5% and 95% points of each task's time; apart, because few runs ask for them.
    intervals: IdVec<TaskId, (Span, Span)>,
}

/// All that is asked of a task all the time, side by side: with a million of them, every further table is another wait
/// for memory.
#[derive(Clone, Copy, Debug)]
struct Task {
    execution: Span,
    request: RequestId,
    model: ModelId,
    workflow: WorkflowId,
    node: u32,
}

/// Why a valid input cannot be run on these GPUs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Infeasible {
    /// Too few GPUs for a model that a request uses.
    #[error("model `{model}` needs {needs} consecutive GPUs{}, and there are {gpus}", server_note(*.per_server))]
    TooFewGpus {
        /// The model.
        model: String,
        /// What it needs.
        needs: u32,
        /// What there is.
        gpus: u32,
        /// The server size, where one was given.
        per_server: Option<u32>,
    },
    /// A model is larger than the memory of its GPUs.
    #[error("model `{model}` needs {needs_gb:.1} GB on each of its GPUs, and a GPU has {has_gb:.1} GB")]
    TooLittleMemory {
        /// The model.
        model: String,
        /// Per GPU.
        needs_gb: f64,
        /// Per GPU.
        has_gb: f64,
    },
    /// Longer than the clock can count.
    #[error("all nodes one after the other take {0:.3e} s, and a run can count {max:.3e} s at most", max = LONGEST_RUN.seconds())]
    TooLong(f64),
    /// More nodes than there are numbers for.
    #[error("{0} nodes are more than the {max} that one run can hold", max = u32::MAX)]
    TooManyNodes(u64),
}

/// What the execution and the loads of all nodes may take together: about 3,000 years. Even with every node tried a hundred
/// times the clock does not run over.
pub const LONGEST_RUN: Span = Span(100_000_000_000_000_000);

fn server_note(per_server: Option<u32>) -> String {
    per_server.map_or(String::new(), |per| {
        format!(" (servers of {per}: inside one where it fits, else from a server's first GPU)")
    })
}

impl Instance {
    /// Turns valid input into a problem on `cluster`, or says why it cannot be run there.
    pub fn build(scenario: &Scenario, cluster: Cluster, mode: Mode) -> Result<Instance, Vec<Infeasible>> {
        let models: IdVec<ModelId, Model> =
            scenario.models.iter().map(|spec| model(spec, &cluster)).collect();
        let workflows: IdVec<WorkflowId, Workflow> = scenario.workflows.iter().map(workflow).collect();
        let total: u64 = scenario.requests.iter().map(|r| workflows[r.workflow].nodes.len() as u64).sum();
        let mut faults = infeasible(scenario, &cluster, &models);
        if total > u64::from(u32::MAX) {
            faults.push(Infeasible::TooManyNodes(total));
        }
        let defaults: IdVec<ModelId, Option<Span>> =
            scenario.models.iter().map(cost::default_execution).collect();
        let serial = serial_seconds(scenario, &cluster, &models, &defaults);
        if serial > LONGEST_RUN.seconds() {
            faults.push(Infeasible::TooLong(serial));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let start = scenario.requests.iter().filter_map(|r| r.timestamp).min().unwrap_or(0);
        let mut instance = Instance {
            models,
            workflows,
            requests: IdVec::with_capacity(scenario.requests.len()),
            cluster,
            mode,
            start: Start::default(),
            tasks: IdVec::with_capacity(total as usize),
            intervals: IdVec::new(),
        };
        for (id, spec) in scenario.requests.iter().enumerate() {
            let arrival = match mode {
                Mode::Offline => Time::ZERO,
                Mode::Online => Time(spec.timestamp.map_or(0, |at| at.abs_diff(start))),
            };
            instance.requests.push(Request {
                name: spec.id.clone(),
                workflow: spec.workflow,
                arrival,
                first_task: TaskId::from(instance.tasks.len()),
                priority: spec.priority,
                deadline: spec.deadline,
            });
            for (node, &model) in instance.workflows[spec.workflow].models.iter().enumerate() {
                let given = spec.times.get(node).copied().flatten();
                instance.tasks.push(Task {
                    // The input's checks saw to it that one of the two is there, unless a predictor is yet to speak.
                    execution: given.or(defaults[model]).unwrap_or(Span(1)),
                    request: RequestId::from(id),
                    model,
                    workflow: spec.workflow,
                    node: node as u32,
                });
            }
        }
        Ok(instance)
    }

    /// The part of the problem that some requests make on some GPUs, numbered from 0: a problem of its own, which begins with
    /// empty GPUs.
    #[must_use]
    pub fn restrict(&self, requests: &[RequestId], cell: Gpus) -> Instance {
        let models = self
            .models
            .iter()
            .map(|model| Model { starts: model.starts.within(cell, model.gpus), ..model.clone() });
        let mut part = Instance {
            models: models.collect(),
            workflows: self.workflows.clone(),
            requests: IdVec::with_capacity(requests.len()),
            cluster: Cluster { gpus: cell.count, ..self.cluster.clone() },
            mode: self.mode,
            start: Start::default(),
            tasks: IdVec::new(),
            intervals: IdVec::new(),
        };
        for (id, &request) in requests.iter().enumerate() {
            let first_task = TaskId::from(part.tasks.len());
            part.requests.push(Request { first_task, ..self.requests[request].clone() });
            let tasks =
                self.tasks_of(request).map(|task| Task { request: RequestId::from(id), ..self.tasks[task] });
            part.tasks.extend(tasks);
        }
        part
    }

    /// The number of nodes of all requests.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// All nodes of all requests.
    pub fn task_ids(&self) -> impl DoubleEndedIterator<Item = TaskId> + use<> {
        (0..self.tasks.len() as u32).map(TaskId)
    }

    /// The nodes of one request.
    pub fn tasks_of(&self, request: RequestId) -> impl DoubleEndedIterator<Item = TaskId> + use<> {
        let request = &self.requests[request];
        let count = self.workflows[request.workflow].nodes.len() as u32;
        (request.first_task.0..request.first_task.0 + count).map(TaskId)
    }

    /// The request that a task belongs to.
    #[must_use]
    pub fn request_of(&self, task: TaskId) -> RequestId {
        self.tasks[task].request
    }

    /// The model that a task calls.
    #[must_use]
    pub fn model_of(&self, task: TaskId) -> ModelId {
        self.tasks[task].model
    }

    /// How long a task is expected to run at batch 1: the estimate. What it really takes is known to
    /// [`Truth`](crate::truth::Truth), or to the servers of a live run.
    #[must_use]
    pub fn execution(&self, task: TaskId) -> Span {
        self.tasks[task].execution
    }

    /// The place of a task in its workflow.
    #[must_use]
    pub fn node_of(&self, task: TaskId) -> u32 {
        self.tasks[task].node
    }

    /// The workflow that a task belongs to.
    #[must_use]
    pub fn workflow_of(&self, task: TaskId) -> &Workflow {
        &self.workflows[self.tasks[task].workflow]
    }

    /// Longest path from a root of its request, in edges.
    #[must_use]
    pub fn level_of(&self, task: TaskId) -> u32 {
        self.workflow_of(task).levels[self.node_of(task) as usize]
    }

    /// The tasks that wait for `task`.
    pub fn successors(&self, task: TaskId) -> impl Iterator<Item = TaskId> + '_ {
        let Task { workflow, node, .. } = self.tasks[task];
        let first = task.0 - node;
        self.workflows[workflow].successors(node).iter().map(move |&node| TaskId(first + node))
    }

    /// The tasks that `task` waits for.
    pub fn predecessors(&self, task: TaskId) -> impl Iterator<Item = TaskId> + '_ {
        let Task { workflow, node, .. } = self.tasks[task];
        let first = task.0 - node;
        self.workflows[workflow].predecessors(node).iter().map(move |&node| TaskId(first + node))
    }

    /// `request/node`, as people name a task.
    #[must_use]
    pub fn task_name(&self, task: TaskId) -> String {
        let node = self.node_of(task) as usize;
        format!("{}/{}", self.requests[self.tasks[task].request].name, self.workflow_of(task).nodes[node])
    }
}

/// How long everything takes one after the other, each node with the dearest load of its model and the slowest batch.
fn serial_seconds(
    scenario: &Scenario,
    cluster: &Cluster,
    models: &IdVec<ModelId, Model>,
    defaults: &IdVec<ModelId, Option<Span>>,
) -> f64 {
    let dearest_to_leave = models.iter().map(Model::leaving).fold(Leaving::default(), |one, other| Leaving {
        gb: one.gb.max(other.gb),
        seconds: one.seconds.max(other.seconds),
    });
    let dearest = |model: &Model| {
        let cold = cluster.switch.of(None, model.memory_gb, model.load_seconds);
        let switch = cluster.switch.of(Some(dearest_to_leave), model.memory_gb, model.load_seconds);
        cold.max(switch).seconds()
    };
    let loads: IdVec<ModelId, f64> = models.iter().map(dearest).collect();
    let slowest =
        |model: ModelId| f64::from(models[model].slowdown.last().copied().unwrap_or(1_000_000)) / 1e6;
    let of_request = |request: &crate::input::RequestSpec| -> f64 {
        let nodes = scenario.workflows[usize::from(request.workflow)].nodes.iter().enumerate();
        let time = |at: usize, model: ModelId| request.times.get(at).copied().flatten().or(defaults[model]);
        nodes
            .map(|(at, node)| {
                time(at, node.model).unwrap_or(Span(1)).seconds() * slowest(node.model) + loads[node.model]
            })
            .sum()
    };
    scenario.requests.iter().map(of_request).sum()
}

fn model(spec: &ModelSpec, cluster: &Cluster) -> Model {
    let per_gpu = |gb: f64| cost::megabytes(gb / f64::from(spec.gpus_required));
    let memory_per_gpu = per_gpu(spec.memory_gb);
    let slot_per_gpu = spec.memory_gb_per_slot.map_or(0, per_gpu);
    let free = cost::megabytes(cluster.gpu_memory_gb).saturating_sub(memory_per_gpu);
    // Where not even one fits, that is said elsewhere, and of used models only.
    let slots = free.checked_div(slot_per_gpu).unwrap_or(u64::MAX).max(1);
    let slowdown = spec.batching.as_ref().map_or_else(
        || vec![1_000_000],
        |batching| cost::slowdown_table(&batching.slowdown, u64::from(batching.max_batch).min(slots) as u32),
    );
    Model {
        name: spec.id.clone(),
        memory_gb: spec.memory_gb,
        gpus: spec.gpus_required,
        load_seconds: spec.load_time_seconds,
        unload_seconds: spec.unload_time_seconds.unwrap_or(0.0),
        memory_per_gpu,
        slot_gb: spec.memory_gb_per_slot.unwrap_or(0.0),
        slot_per_gpu,
        slowdown,
        starts: cluster.starts(spec.gpus_required),
        spread: 0.0,
    }
}

fn workflow(spec: &WorkflowSpec) -> Workflow {
    let count = spec.nodes.len() as u32;
    let successors = Rows::new(count, spec.edges.iter().copied());
    let predecessors = Rows::new(count, spec.edges.iter().map(|&(from, to)| (to, from)));
    let mut waiting: Vec<u32> = (0..count).map(|node| predecessors.row(node).len() as u32).collect();
    let mut order: Vec<u32> = (0..count).filter(|&node| waiting[node as usize] == 0).collect();
    let mut levels = vec![0; count as usize];
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for &after in successors.row(node) {
            levels[after as usize] = levels[after as usize].max(levels[node as usize] + 1);
            waiting[after as usize] -= 1;
            if waiting[after as usize] == 0 {
                order.push(after);
            }
        }
    }
    debug_assert_eq!(order.len(), count as usize, "input checks refuse cycles");
    Workflow {
        name: spec.id.clone(),
        nodes: spec.nodes.iter().map(|node| node.id.clone()).collect(),
        models: spec.nodes.iter().map(|node| node.model).collect(),
        levels,
        order,
        successors,
        predecessors,
    }
}

/// Models that requests use and the cluster cannot hold.
fn infeasible(scenario: &Scenario, cluster: &Cluster, models: &IdVec<ModelId, Model>) -> Vec<Infeasible> {
    let mut used_workflows = vec![false; scenario.workflows.len()];
    scenario.requests.iter().for_each(|request| used_workflows[usize::from(request.workflow)] = true);
    let mut used = vec![false; models.len()];
    for (workflow, _) in scenario.workflows.iter().zip(&used_workflows).filter(|&(_, &is_used)| is_used) {
        workflow.nodes.iter().for_each(|node| used[usize::from(node.model)] = true);
    }
    let mut faults = Vec::new();
    for (model, _) in models.iter().zip(&used).filter(|&(_, &is_used)| is_used) {
        if model.starts.is_empty() {
            faults.push(Infeasible::TooFewGpus {
                model: model.name.clone(),
                needs: model.gpus,
                gpus: cluster.gpus,
                per_server: cluster.gpus_per_server,
            });
        }
        // Whoever says what an execution takes means memory to count, whatever the residency.
        let counts = cluster.residency == Residency::Memory || model.slot_per_gpu > 0;
        let needs = model.memory_per_gpu + model.slot_per_gpu;
        if counts && needs > cost::megabytes(cluster.gpu_memory_gb) {
            faults.push(Infeasible::TooLittleMemory {
                model: model.name.clone(),
                needs_gb: needs as f64 / 1000.0,
                has_gb: cluster.gpu_memory_gb,
            });
        }
    }
    faults
}
