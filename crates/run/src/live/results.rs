//! What came of each request, one a line: its status, what its nodes wrote, and what went wrong.

use gswarm_core::instance::Instance;
use gswarm_core::{RequestId, TaskId};
use gswarm_exec::drive::FinishedRun;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

pub(super) fn write(instance: &Instance, finished: &FinishedRun, out: &mut dyn Write) -> io::Result<()> {
    let name = |task: TaskId| instance.workflow_of(task).nodes[instance.node_of(task) as usize].clone();
    let mut failed_in: BTreeMap<RequestId, Vec<Value>> = BTreeMap::new();
    for one in &finished.failures {
        let failure = json!({"node": name(one.task), "at": one.at.seconds(), "why": one.why});
        failed_in.entry(instance.request_of(one.task)).or_default().push(failure);
    }
    for (id, request) in instance.requests.iter_enumerated() {
        let tasks: Vec<TaskId> = instance.tasks_of(id).collect();
        let outputs: serde_json::Map<String, Value> = tasks
            .iter()
            .filter_map(|&task| Some((name(task), Value::Object(finished.outputs.get(&task)?.clone()))))
            .collect();
        let status = if outputs.len() == tasks.len() { "completed" } else { "failed" };
        let mut line = json!({"request_id": request.name, "status": status, "outputs": outputs});
        if let (Some(failures), Some(fields)) = (failed_in.remove(&id), line.as_object_mut()) {
            fields.insert("failures".to_owned(), Value::Array(failures));
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}
