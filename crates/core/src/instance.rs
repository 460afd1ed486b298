//! The problem itself: immutable, valid and indexed by number. Everything after the input reads this.

mod build;
mod deployment;
mod estimates;
mod incoming;
mod rest;
mod start;

pub use crate::cluster::{Cluster, DEFAULT_GPU_MEMORY_GB};
use crate::cost::Leaving;
use crate::gpuset::GpuSet;
use crate::id::{Gpus, IdVec, ModelId, RequestId, TaskId, WorkflowId};
pub use crate::scenario::{Mode, Residency};
use crate::time::{Span, Time};
pub use build::{Infeasible, LONGEST_RUN};
pub use deployment::{Deployment, Routing};
pub use incoming::NewRequest;
pub use start::Start;
use std::sync::Arc;

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
    /// The standard deviation of its run times as a share of their mean, by the configuration.
    pub deviation: f64,
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
    pub(crate) fn leaving(&self) -> Leaving {
        Leaving { gb: self.memory_gb, seconds: self.unload_seconds, unused: false }
    }

    /// The windows that the model may be put on, lowest first.
    pub fn windows(&self) -> impl Iterator<Item = Gpus> + '_ {
        self.starts.iter().map(|first| Gpus { first, count: self.gpus })
    }

    /// Those of them that do not overlap, from the first on. Plans use no others: windows that start anywhere would split the
    /// GPUs so that fewer fit.
    #[must_use]
    pub fn tiles(&self) -> Vec<Gpus> {
        apart(self.windows())
    }
}

/// Of windows, lowest first, those that do not overlap one before.
pub(crate) fn apart(windows: impl Iterator<Item = Gpus>) -> Vec<Gpus> {
    let mut tiles: Vec<Gpus> = Vec::new();
    for window in windows {
        if tiles.last().is_none_or(|last| last.first.0 + last.count <= window.first.0) {
            tiles.push(window);
        }
    }
    tiles
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

    /// How many nodes each node waits for, in the order of the file.
    pub fn predecessor_counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.predecessors.starts.windows(2).map(|pair| pair[1] - pair[0])
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
    /// Where `static` keeps models, where somebody says so.
    pub deployment: Option<Arc<Deployment>>,
    tasks: IdVec<TaskId, Task>,
    /// Where a predictor gave them, the 5% and 95% points of each task's time; apart, because few runs ask for them.
    intervals: IdVec<TaskId, (Span, Span)>,
    /// Whether a task takes its model's mean, because its request gives it no time; empty where no time varies.
    takes_mean: IdVec<TaskId, bool>,
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

impl Instance {
    /// A problem without requests, which begins with empty GPUs.
    fn empty(
        models: IdVec<ModelId, Model>,
        workflows: IdVec<WorkflowId, Workflow>,
        cluster: Cluster,
        mode: Mode,
    ) -> Instance {
        Instance {
            models,
            workflows,
            requests: IdVec::new(),
            cluster,
            mode,
            start: Start::default(),
            deployment: None,
            tasks: IdVec::new(),
            intervals: IdVec::new(),
            takes_mean: IdVec::new(),
        }
    }

    /// The same models, workflows and GPUs, without any request; begins with empty GPUs.
    pub(crate) fn without_requests(&self) -> Instance {
        Instance::empty(self.models.clone(), self.workflows.clone(), self.cluster.clone(), self.mode)
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
