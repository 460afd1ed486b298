//! Phases: all that can run before the widest models have to, then the widest, then what needs them, and so on.

use crate::id::{IdVec, TaskId, WorkflowId};
use crate::instance::{Instance, Workflow};

/// The phase of every node of every workflow: even for narrow models, odd for the widest, never before that of an input.
pub(super) struct Phases(IdVec<WorkflowId, Vec<u32>>);

pub(super) fn of(instance: &Instance) -> Phases {
    let widest = super::cells::widest(instance);
    Phases(instance.workflows.iter().map(|workflow| of_nodes(instance, workflow, widest)).collect())
}

impl Phases {
    pub fn of(&self, instance: &Instance, task: TaskId) -> u32 {
        let workflow = instance.requests[instance.request_of(task)].workflow;
        self.0[workflow][instance.node_of(task) as usize]
    }
}

fn of_nodes(instance: &Instance, workflow: &Workflow, widest: u32) -> Vec<u32> {
    let mut phase = vec![0; workflow.nodes.len()];
    for &node in &workflow.order {
        let is_wide = widest > 1 && instance.models[workflow.models[node as usize]].gpus == widest;
        let least =
            workflow.predecessors(node).iter().map(|&before| phase[before as usize]).max().unwrap_or(0);
        phase[node as usize] = if (least % 2 == 1) == is_wide { least } else { least + 1 };
    }
    phase
}
