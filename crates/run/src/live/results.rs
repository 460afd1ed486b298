//! Results of requests, one per line: status, outputs of nodes, and errors.

use gswarm_core::instance::Instance;
use gswarm_core::{RequestId, TaskId};
use gswarm_exec::drive::FinishedRun;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// A line of the file.
#[derive(Serialize)]
struct ResultLine<'a> {
    request_id: &'a str,
    status: &'static str,
    /// By node, of those that completed.
    outputs: BTreeMap<&'a str, &'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<FailedNode<'a>>,
}

#[derive(Serialize)]
struct FailedNode<'a> {
    node: &'a str,
    at: f64,
    why: &'a str,
}

pub(super) fn write(instance: &Instance, finished: &FinishedRun, out: &mut dyn Write) -> io::Result<()> {
    let name = |task: TaskId| instance.workflow_of(task).nodes[instance.node_of(task) as usize].as_str();
    let mut failed_in: BTreeMap<RequestId, Vec<FailedNode<'_>>> = BTreeMap::new();
    for one in &finished.failures {
        let failure = FailedNode { node: name(one.task), at: one.at.seconds(), why: &one.why };
        failed_in.entry(instance.request_of(one.task)).or_default().push(failure);
    }
    for (id, request) in instance.requests.iter_enumerated() {
        let tasks: Vec<TaskId> = instance.tasks_of(id).collect();
        let written = tasks.iter().filter_map(|&task| Some((name(task), finished.outputs.get(&task)?)));
        let outputs: BTreeMap<_, _> = written.collect();
        let status = if outputs.len() == tasks.len() { "completed" } else { "failed" };
        let failures = failed_in.remove(&id).unwrap_or_default();
        serde_json::to_writer(
            &mut *out,
            &ResultLine { request_id: &request.name, status, outputs, failures },
        )?;
        writeln!(out)?;
    }
    Ok(())
}
