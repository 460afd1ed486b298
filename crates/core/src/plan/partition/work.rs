//! The problem, flattened for the dispatcher, and what each request asks of the widest models and of the others.

use super::layout::Layout;
use crate::instance::Instance;

/// The tasks side by side.
pub(super) struct Work {
    pub execution: Vec<u64>,
    pub model: Vec<u32>,
    pub request: Vec<u32>,
    pub inputs: Vec<u32>,
    first_output: Vec<u32>,
    outputs: Vec<u32>,
    /// Per request: its first task, and one past its last.
    pub tasks: Vec<(u32, u32)>,
    pub arrival: Vec<u64>,
    /// All tasks, inputs before what needs them.
    order: Vec<u32>,
    /// Per model.
    pub width: Vec<u32>,
}

impl Work {
    pub fn new(instance: &Instance) -> Work {
        let tasks = || instance.task_ids();
        let mut work = Work {
            execution: tasks().map(|task| instance.execution(task).0).collect(),
            model: tasks().map(|task| instance.model_of(task).0).collect(),
            request: tasks().map(|task| instance.request_of(task).0).collect(),
            inputs: tasks().map(|task| instance.predecessors(task).count() as u32).collect(),
            first_output: vec![0],
            outputs: Vec::new(),
            tasks: Vec::new(),
            order: Vec::new(),
            arrival: instance.requests.iter().map(|request| request.arrival.0).collect(),
            width: instance.models.iter().map(|model| model.gpus).collect(),
        };
        for task in tasks() {
            work.outputs.extend(instance.successors(task).map(|after| after.0));
            work.first_output.push(work.outputs.len() as u32);
        }
        for (id, request) in instance.requests.iter_enumerated() {
            let count = instance.tasks_of(id).count() as u32;
            let nodes = instance.workflows[request.workflow].order.iter();
            work.order.extend(nodes.map(|&node| request.first_task.0 + node));
            work.tasks.push((request.first_task.0, request.first_task.0 + count));
        }
        work
    }

    pub fn outputs(&self, task: u32) -> &[u32] {
        let task = task as usize;
        &self.outputs[self.first_output[task] as usize..self.first_output[task + 1] as usize]
    }
}

/// What a request asks, as a layout divides it.
#[derive(Clone, Copy, Default)]
pub(super) struct Demand {
    /// GPU-time of narrow tasks that a wide one waits for.
    pub before: f64,
    /// Time of wide tasks.
    pub wide: f64,
    /// GPU-time of narrow tasks that no wide one waits for.
    pub after: f64,
    /// Narrow tasks that a wide one waits for.
    pub tasks_before: u32,
}

/// Demands of all requests, and for each task whether a wide one waits for it and the longest chain behind it.
pub(super) struct Demands {
    pub requests: Vec<Demand>,
    pub feeds: Vec<bool>,
    pub tail: Vec<u64>,
}

impl Demands {
    pub fn new(work: &Work, layout: &Layout) -> Demands {
        let count = work.execution.len();
        let (mut feeds, mut tail) = (vec![false; count], vec![0; count]);
        let is_wide = |task: u32| layout.places[work.model[task as usize] as usize].is_wide;
        let mut requests = vec![Demand::default(); work.tasks.len()];
        for &task in work.order.iter().rev() {
            let at = task as usize;
            let demand = &mut requests[work.request[at] as usize];
            for &after in work.outputs(task) {
                feeds[at] |= feeds[after as usize] || is_wide(after);
                tail[at] = tail[at].max(tail[after as usize] + work.execution[after as usize]);
            }
            let time = work.execution[at] as f64;
            let area = time * f64::from(work.width[work.model[at] as usize]);
            match (is_wide(task), feeds[at]) {
                (true, _) => demand.wide += time,
                (false, true) => {
                    demand.before += area;
                    demand.tasks_before += 1;
                }
                (false, false) => demand.after += area,
            }
        }
        Demands { requests, feeds, tail }
    }

    /// How long the `count` wide tasks that can begin first wait for their inputs at the least.
    pub fn lead(&self, work: &Work, layout: &Layout, count: usize) -> u64 {
        let is_wide = |task: usize| layout.places[work.model[task] as usize].is_wide;
        let mut head = vec![0; work.execution.len()];
        let mut leads = Vec::new();
        for &task in &work.order {
            let at = task as usize;
            let end = head[at] + work.execution[at];
            work.outputs(task).iter().for_each(|&after| head[after as usize] = end.max(head[after as usize]));
            if is_wide(at) {
                leads.push(head[at]);
            }
        }
        leads.sort_unstable();
        leads.get(count.min(leads.len()).saturating_sub(1)).copied().unwrap_or(0)
    }
}
