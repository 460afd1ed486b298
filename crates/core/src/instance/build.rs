//! From valid input to a problem on some GPUs, or why it cannot be run there.

use super::{Instance, Mode, Model, Request, Rows, Task, Workflow};
use crate::cluster::{Cluster, Residency};
use crate::cost::{self, Leaving};
use crate::estimate::Estimate;
use crate::id::{IdVec, ModelId, RequestId, TaskId, WorkflowId};
use crate::scenario::{ModelSpec, Scenario, WorkflowSpec};
use crate::time::{Span, Time};

/// Why a valid input cannot be run on these GPUs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Infeasible {
    /// Too few GPUs for a model that a request uses.
    #[error("model `{model}` needs {needs} consecutive GPUs{}, but there {} {gpus}", server_note(*.per_server), if *.gpus == 1 { "is" } else { "are" })]
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
    #[error("model `{model}` needs {needs_gb:.1} GB on each of its GPUs, but a GPU has {has_gb:.1} GB")]
    TooLittleMemory {
        /// The model.
        model: String,
        /// Per GPU.
        needs_gb: f64,
        /// Per GPU.
        has_gb: f64,
    },
    /// Longer than the clock can count.
    #[error("all nodes together take {0:.3e} s; a run can last at most {max:.3e} s", max = LONGEST_RUN.seconds())]
    TooLong(f64),
    /// Nobody says how long a node takes.
    #[error("node `{node}` of request `{request}` has no execution time")]
    NoTime {
        /// The request.
        request: String,
        /// The node.
        node: String,
    },
    /// More nodes than there are numbers for.
    #[error("there are {0} nodes; a run can have at most {max}", max = u32::MAX)]
    TooManyNodes(u64),
}

/// What the execution and the loads of all nodes may take together: about 3,000 years. Even with every node tried a hundred
/// times the clock does not run over.
pub const LONGEST_RUN: Span = Span(100_000_000_000_000_000);

fn server_note(per_server: Option<u32>) -> String {
    per_server.map_or(String::new(), |per| format!(" in servers of {per}"))
}

impl Instance {
    /// Turns a valid scenario into a problem on `cluster`.
    ///
    /// # Errors
    /// Every reason why it cannot be run there; and the first node that has no execution time, which a scenario may lack where
    /// [`Instance::build_estimated`] is given one.
    pub fn build(scenario: &Scenario, cluster: Cluster, mode: Mode) -> Result<Instance, Vec<Infeasible>> {
        Instance::build_estimated(scenario, cluster, mode, &[])
    }

    /// The models of a valid scenario on `cluster`, without its requests: for whoever asks nothing of how long these take.
    ///
    /// # Errors
    /// Every model that the requests use and the cluster cannot hold.
    pub fn of_models(scenario: &Scenario, cluster: Cluster) -> Result<Instance, Vec<Infeasible>> {
        let models = scenario.models.iter().map(|spec| model(spec, &cluster)).collect();
        let faults = infeasible(scenario, &cluster, &models);
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Instance::empty(models, scenario.workflows.iter().map(workflow).collect(), cluster, Mode::Offline))
    }

    /// The same with estimates, by the number of the task, for nodes to which neither their request nor their model gives a time.
    ///
    /// # Errors
    /// Those of [`Instance::build`].
    pub fn build_estimated(
        scenario: &Scenario,
        cluster: Cluster,
        mode: Mode,
        estimates: &[Estimate],
    ) -> Result<Instance, Vec<Infeasible>> {
        let models: IdVec<ModelId, Model> =
            scenario.models.iter().map(|spec| model(spec, &cluster)).collect();
        let workflows: IdVec<WorkflowId, Workflow> = scenario.workflows.iter().map(workflow).collect();
        let total: u64 = scenario.requests.iter().map(|r| workflows[r.workflow].nodes.len() as u64).sum();
        let mut faults = infeasible(scenario, &cluster, &models);
        if total > u64::from(u32::MAX) {
            faults.push(Infeasible::TooManyNodes(total));
            return Err(faults);
        }
        let defaults: IdVec<ModelId, Option<Span>> =
            scenario.models.iter().map(cost::default_execution).collect();
        let executions = match executions(scenario, total as usize, &defaults, estimates) {
            Ok(executions) => executions,
            Err(fault) => {
                faults.push(fault);
                return Err(faults);
            }
        };
        let serial = serial_seconds(scenario, &cluster, &models, &executions);
        if serial > LONGEST_RUN.seconds() {
            faults.push(Infeasible::TooLong(serial));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let start = scenario.requests.iter().filter_map(|r| r.timestamp).min().unwrap_or(0);
        let mut instance = Instance::empty(models, workflows, cluster, mode);
        instance.requests.reserve(scenario.requests.len());
        instance.tasks.reserve(total as usize);
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
                instance.tasks.push(Task {
                    execution: executions[instance.tasks.len()],
                    request: RequestId::from(id),
                    model,
                    workflow: spec.workflow,
                    node: node as u32,
                });
            }
        }
        if instance.models.iter().any(|model| model.deviation > 0.0) {
            instance.takes_mean = scenario.given_times().map(|time| time.is_none()).collect();
        }
        Ok(instance)
    }
}

/// How long each node of each request takes: as the request says, else its model, else the estimate.
fn executions(
    scenario: &Scenario,
    count: usize,
    defaults: &IdVec<ModelId, Option<Span>>,
    estimates: &[Estimate],
) -> Result<Vec<Span>, Infeasible> {
    let mut executions = Vec::with_capacity(count);
    for request in &scenario.requests {
        for (place, node) in scenario.workflows[usize::from(request.workflow)].nodes.iter().enumerate() {
            let given = request.times.get(place).copied().flatten().or(defaults[node.model]);
            let estimated = || estimates.get(executions.len()).map(|estimate| estimate.mean.max(Span(1)));
            executions.push(
                given.or_else(estimated).ok_or_else(|| Infeasible::NoTime {
                    request: request.id.clone(),
                    node: node.id.clone(),
                })?,
            );
        }
    }
    Ok(executions)
}

/// How long everything takes one after the other, each node with the dearest load of its model and the slowest batch.
fn serial_seconds(
    scenario: &Scenario,
    cluster: &Cluster,
    models: &IdVec<ModelId, Model>,
    executions: &[Span],
) -> f64 {
    let dearest_to_leave = models.iter().map(Model::leaving).fold(Leaving::default(), |one, other| Leaving {
        gb: one.gb.max(other.gb),
        seconds: one.seconds.max(other.seconds),
        unused: false,
    });
    let dearest = |model: &Model| {
        let cold = cluster.switch.of(None, model.memory_gb, model.load_seconds);
        let switch = cluster.switch.of(Some(dearest_to_leave), model.memory_gb, model.load_seconds);
        cold.max(switch).seconds()
    };
    let loads: IdVec<ModelId, f64> = models.iter().map(dearest).collect();
    let slowest =
        |model: ModelId| f64::from(models[model].slowdown.last().copied().unwrap_or(1_000_000)) / 1e6;
    let requests = scenario.requests.iter().map(|request| &scenario.workflows[usize::from(request.workflow)]);
    let mut executions = executions.iter();
    let mut of_request = |workflow: &WorkflowSpec| -> f64 {
        let nodes = workflow.nodes.iter().zip(&mut executions);
        nodes.map(|(node, time)| time.seconds() * slowest(node.model) + loads[node.model]).sum()
    };
    requests.map(&mut of_request).sum()
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
        deviation: cost::deviation(spec),
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
