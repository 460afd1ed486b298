//! The rest of a running problem, as a separate problem.

use super::{Instance, Request, Rows, Task, Workflow};
use crate::id::{IdVec, RequestId, TaskId, WorkflowId};
use crate::time::{Span, Time};
use rustc_hash::FxHashMap;

impl Instance {
    /// The tasks for which `is_left` holds, which must hold for whatever waits for one of them; each with the time that is
    /// expected of it now. All can begin at once, on empty GPUs. The second part gives each of its tasks the number here.
    pub(crate) fn rest(
        &self,
        is_left: impl Fn(TaskId) -> bool,
        time: impl Fn(TaskId) -> Span,
    ) -> (Instance, IdVec<TaskId, TaskId>) {
        let mut rest = Instance::empty(self.models.clone(), IdVec::new(), self.cluster.clone(), self.mode);
        let mut known: FxHashMap<(WorkflowId, Vec<u32>), WorkflowId> = FxHashMap::default();
        let mut numbers = IdVec::new();
        for (id, request) in self.requests.iter_enumerated() {
            let left: Vec<u32> =
                self.tasks_of(id).filter(|&task| is_left(task)).map(|task| self.node_of(task)).collect();
            if left.is_empty() {
                continue;
            }
            let workflow = *known.entry((request.workflow, left.clone())).or_insert_with(|| {
                rest.workflows.push(self.workflows[request.workflow].part(&left));
                WorkflowId::from(rest.workflows.len() - 1)
            });
            let (number, first_task) = (RequestId::from(rest.requests.len()), TaskId::from(rest.tasks.len()));
            for (node, &old) in (0..).zip(&left) {
                let task = TaskId(request.first_task.0 + old);
                let execution = time(task).max(Span(1));
                rest.tasks.push(Task {
                    execution,
                    request: number,
                    model: self.model_of(task),
                    workflow,
                    node,
                });
                numbers.push(task);
            }
            rest.requests.push(Request { workflow, first_task, arrival: Time::ZERO, ..request.clone() });
        }
        (rest, numbers)
    }
}

impl Workflow {
    /// The part that some nodes make, which are given in the order of the file.
    fn part(&self, nodes: &[u32]) -> Workflow {
        let place = |node: u32| nodes.binary_search(&node).ok().map(|place| place as u32);
        let edges: Vec<(u32, u32)> = (0..)
            .zip(nodes)
            .flat_map(|(from, &node)| {
                self.successors(node).iter().filter_map(move |&to| Some((from, place(to)?)))
            })
            .collect();
        let count = nodes.len() as u32;
        let successors = Rows::new(count, edges.iter().copied());
        let predecessors = Rows::new(count, edges.iter().map(|&(from, to)| (to, from)));
        let order: Vec<u32> = self.order.iter().filter_map(|&node| place(node)).collect();
        let mut levels = vec![0; nodes.len()];
        for &node in &order {
            for &after in successors.row(node) {
                levels[after as usize] = levels[after as usize].max(levels[node as usize] + 1);
            }
        }
        Workflow {
            name: self.name.clone(),
            nodes: nodes.iter().map(|&node| self.nodes[node as usize].clone()).collect(),
            models: nodes.iter().map(|&node| self.models[node as usize]).collect(),
            levels,
            order,
            successors,
            predecessors,
        }
    }
}
