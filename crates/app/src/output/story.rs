//! The events of a live run as they happen, one per line, in the words of its scheduler log.

use gswarm_core::engine::{TaskState, View};
use gswarm_core::log_file::shown;
use gswarm_core::{GpuId, Gpus, Instance, ModelId, RequestId, TaskId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What has been told of a run.
#[derive(Default)]
pub struct Story {
    /// Requests by arrival, the next to come last; `None` before the first look.
    to_come: Option<Vec<(Time, RequestId)>>,
    loads: BTreeSet<(Time, Gpus, ModelId)>,
    /// What executes, and where.
    under_way: BTreeMap<TaskId, Gpus>,
    lost: BTreeSet<GpuId>,
}

impl Story {
    /// What has happened since the last look, in the order of a log: ends, losses, arrivals, loads, starts.
    pub fn goes_on(&mut self, view: &View<'_>) -> String {
        let (instance, mut text) = (view.instance(), String::new());
        let now = |text: &mut String| {
            let _ = write!(text, "[{:.2}s] ", view.now().seconds());
        };
        let started = view.under_way().filter(|one| one.began.is_some());
        let started: BTreeMap<TaskId, Gpus> = started.map(|one| (one.task, one.gpus)).collect();
        for (&task, &gpus) in self.under_way.iter().filter(|(task, gpus)| started.get(task) != Some(gpus)) {
            let alive = gpus.iter().all(|gpu| view.alive().contains(gpu));
            let verb = match view.state(task) {
                TaskState::Done => "Completed",
                _ if !alive => "Lost",
                _ => "Failed",
            };
            now(&mut text);
            told(&mut text, instance, verb, task, gpus);
        }
        let gone = (0..instance.cluster.gpus).map(GpuId).filter(|&gpu| !view.alive().contains(gpu));
        let gone: BTreeSet<GpuId> = gone.collect();
        for gpu in gone.difference(&self.lost) {
            now(&mut text);
            let _ = writeln!(text, "Lost GPU {}", gpu.0);
        }
        let to_come = self.to_come.get_or_insert_with(|| {
            let mut all: Vec<_> =
                instance.requests.iter_enumerated().map(|(id, request)| (request.arrival, id)).collect();
            all.sort_unstable_by(|one, other| other.cmp(one));
            all
        });
        while let Some((_, id)) = to_come.pop_if(|(at, _)| *at <= view.now()) {
            let request = &instance.requests[id];
            let (name, workflow) = (shown(&request.name), shown(&instance.workflows[request.workflow].name));
            let at = request.arrival.seconds();
            let _ = writeln!(text, "[{at:.2}s] Request {name} arrived (workflow {workflow})");
        }
        let loads: BTreeSet<_> = view.loads().map(|(model, gpus, start, _)| (start, gpus, model)).collect();
        for (start, gpus, model) in loads.difference(&self.loads) {
            let model = shown(&instance.models[*model].name);
            let _ =
                writeln!(text, "[{:.2}s] Loading model {model} on GPU(s) {}", start.seconds(), list(*gpus));
        }
        for (&task, &gpus) in started.iter().filter(|(task, gpus)| self.under_way.get(task) != Some(gpus)) {
            now(&mut text);
            told(&mut text, instance, "Started", task, gpus);
        }
        (self.loads, self.under_way, self.lost) = (loads, started, gone);
        text
    }
}

fn told(text: &mut String, instance: &Instance, verb: &str, task: TaskId, gpus: Gpus) {
    let request = &instance.requests[instance.request_of(task)];
    let node = &instance.workflow_of(task).nodes[instance.node_of(task) as usize];
    let (node, request) = (shown(node), shown(&request.name));
    let _ = writeln!(text, "{verb} node {node} of request {request} on GPU(s) {}", list(gpus));
}

fn list(gpus: Gpus) -> String {
    let numbers: Vec<String> = gpus.iter().map(|gpu| gpu.0.to_string()).collect();
    format!("[{}]", numbers.join(", "))
}
