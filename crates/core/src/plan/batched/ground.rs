//! What stays the same through the whole search: kinds of task, the windows of models, and what comes after each task.

use crate::id::{Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;
use crate::rules::sketch::tiles;
use crate::time::Span;

/// A node of a workflow: its tasks, one a request, differ in little but their length, and are planned alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub model: ModelId,
    /// How many tasks there are of it.
    pub tasks: u32,
    /// Longest path from a root of its workflow, in edges.
    pub level: u32,
}

pub(super) struct Ground<'i> {
    pub instance: &'i Instance,
    pub kinds: Vec<Kind>,
    /// The kind of each task.
    pub kind_of: IdVec<TaskId, u32>,
    /// The kinds of each model.
    pub kinds_of: IdVec<ModelId, Vec<u32>>,
    /// Windows of each model that do not overlap.
    pub tiles: IdVec<ModelId, Vec<Gpus>>,
    /// The longest path behind each task, itself included, one execution at a time.
    pub to_go: IdVec<TaskId, Span>,
    /// The width of the widest model that is used.
    pub widest: u32,
    /// What an execution takes of a replica at the best batch size, as a share of its time alone.
    pub share: IdVec<ModelId, f64>,
}

impl<'i> Ground<'i> {
    pub fn new(instance: &'i Instance) -> Ground<'i> {
        let mut first_kind = Vec::with_capacity(instance.workflows.len());
        let mut kinds = Vec::new();
        for workflow in &instance.workflows {
            first_kind.push(kinds.len() as u32);
            let nodes = workflow.models.iter().zip(&workflow.levels);
            kinds.extend(nodes.map(|(&model, &level)| Kind { model, tasks: 0, level }));
        }
        let mut kind_of: IdVec<TaskId, u32> = IdVec::with_capacity(instance.tasks());
        for task in instance.task_ids() {
            let workflow = instance.requests[instance.request_of(task)].workflow;
            let kind = first_kind[usize::from(workflow)] + instance.node_of(task);
            kinds[kind as usize].tasks += 1;
            kind_of.push(kind);
        }
        let mut kinds_of: IdVec<ModelId, Vec<u32>> = vec![Vec::new(); instance.models.len()].into();
        let used = (0u32..).zip(&kinds).filter(|(_, kind)| kind.tasks > 0);
        used.for_each(|(number, kind)| kinds_of[kind.model].push(number));
        let widths = kinds.iter().filter(|kind| kind.tasks > 0);
        let widest = widths.map(|kind| instance.models[kind.model].gpus).max().unwrap_or(1);
        let share = |slowdown: &[u32]| {
            let shares = slowdown.iter().zip(1u32..).map(|(&slow, batch)| f64::from(slow) / f64::from(batch));
            shares.fold(f64::INFINITY, f64::min) / 1e6
        };
        Ground {
            kinds,
            kind_of,
            kinds_of,
            tiles: instance.models.iter().map(tiles).collect(),
            to_go: to_go(instance),
            widest,
            share: instance.models.iter().map(|model| share(&model.slowdown)).collect(),
            instance,
        }
    }

    /// Kinds that have tasks.
    pub fn used(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.kinds).filter(|(_, kind)| kind.tasks > 0).map(|(number, _)| number)
    }
}

fn to_go(instance: &Instance) -> IdVec<TaskId, Span> {
    let mut to_go: IdVec<TaskId, Span> = vec![Span::ZERO; instance.tasks()].into();
    for request in &instance.requests {
        for &node in instance.workflows[request.workflow].order.iter().rev() {
            let task = TaskId(request.first_task.0 + node);
            let after = instance.successors(task).map(|after| to_go[after]).max().unwrap_or_default();
            to_go[task] = instance.execution(task) + after;
        }
    }
    to_go
}
