//! Plans as files: JSON, with names, so that a plan outlives the numbering of the run that made it.

use super::{Plan, Planned};
use crate::id::{Gpus, RequestId, TaskId};
use crate::instance::Instance;
use crate::log_file::BoundClaim;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::io;

#[derive(Serialize, Deserialize)]
struct PlanFile {
    schema: u32,
    gpus: u32,
    makespan: f64,
    lower_bound: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bound: Option<BoundClaim>,
    found_by: String,
    plan: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    request_id: String,
    node_id: String,
    gpu_ids: Vec<u32>,
}

/// Writes a plan.
pub fn write(instance: &Instance, planned: &Planned, out: &mut impl io::Write) -> io::Result<()> {
    let entry = |&(task, gpus): &(TaskId, Gpus)| Entry {
        request_id: instance.requests[instance.request_of(task)].name.clone(),
        node_id: instance.workflow_of(task).nodes[instance.node_of(task) as usize].clone(),
        gpu_ids: gpus.iter().map(|gpu| gpu.0).collect(),
    };
    let file = PlanFile {
        schema: 1,
        gpus: instance.cluster.gpus,
        makespan: planned.makespan.seconds(),
        lower_bound: planned.bound.value.seconds(),
        bound: Some(planned.bound.claim(instance)),
        found_by: planned.found_by.clone(),
        plan: planned.plan.0.iter().map(entry).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &file)?;
    out.write_all(b"\n")
}

/// Most faults that are listed; a plan for other inputs has one for every node.
const MOST_FAULTS: usize = 20;

/// Reads a plan for `instance`, or says all that is wrong with it: every node must be there once, on GPUs that its model
/// may use, behind its inputs.
pub fn read(instance: &Instance, bytes: &[u8]) -> Result<Plan, Vec<String>> {
    let file: PlanFile =
        serde_json::from_slice(bytes).map_err(|error| vec![format!("not a plan: {error}")])?;
    if file.schema != 1 {
        return Err(vec![format!("the plan has schema {}, and this version reads schema 1", file.schema)]);
    }
    if file.gpus != instance.cluster.gpus {
        return Err(vec![format!(
            "the plan is for {} GPUs, and there are {}",
            file.gpus, instance.cluster.gpus
        )]);
    }
    let requests: FxHashMap<&str, RequestId> =
        instance.requests.iter_enumerated().map(|(id, request)| (request.name.as_str(), id)).collect();
    let mut faults = Vec::new();
    let mut placed = vec![false; instance.tasks()];
    let mut plan = Plan::default();
    for (at, entry) in file.plan.iter().enumerate() {
        match resolve(instance, &requests, entry, &placed) {
            Ok((task, gpus)) => {
                placed[task.index()] = true;
                plan.0.push((task, gpus));
            }
            Err(fault) => faults.push(format!("plan[{at}]: {fault}")),
        }
    }
    let missing = instance.task_ids().filter(|task| !placed[task.index()]);
    faults.extend(
        missing.take(MOST_FAULTS).map(|task| format!("{} is not in the plan", instance.task_name(task))),
    );
    let left_out = faults.len().saturating_sub(MOST_FAULTS);
    faults.truncate(MOST_FAULTS);
    if left_out > 0 {
        faults.push(format!("and at least {left_out} more"));
    }
    if faults.is_empty() { Ok(plan) } else { Err(faults) }
}

fn resolve(
    instance: &Instance,
    requests: &FxHashMap<&str, RequestId>,
    entry: &Entry,
    placed: &[bool],
) -> Result<(TaskId, Gpus), String> {
    let (request, node) = (&entry.request_id, &entry.node_id);
    let &id = requests.get(request.as_str()).ok_or_else(|| format!("there is no request `{request}`"))?;
    let workflow = &instance.workflows[instance.requests[id].workflow];
    let place = workflow.nodes.iter().position(|name| name == node);
    let place = place.ok_or_else(|| format!("request `{request}` has no node `{node}`"))?;
    let task = TaskId(instance.requests[id].first_task.0 + place as u32);
    let model = &instance.models[instance.model_of(task)];
    let first = entry.gpu_ids.first().copied().unwrap_or(u32::MAX);
    let gpus = Gpus::new(first, model.gpus);
    let consecutive = entry.gpu_ids.iter().copied().eq((first..).take(model.gpus as usize));
    if !consecutive || first >= instance.cluster.gpus || !model.starts.contains(gpus.first) {
        return Err(format!(
            "{request}/{node} cannot run on GPUs {:?}: `{}` needs {}",
            entry.gpu_ids, model.name, model.gpus
        ));
    }
    if placed[task.index()] {
        return Err(format!("{request}/{node} is in the plan twice"));
    }
    match instance.predecessors(task).find(|before| !placed[before.index()]) {
        Some(before) => {
            Err(format!("{request}/{node} stands before its input {}", instance.task_name(before)))
        }
        None => Ok((task, gpus)),
    }
}
