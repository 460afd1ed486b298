//! Execution logs: which requests there were, what they ran and how long it took. What a log breaks is for `gswarm check`
//! to say: nothing is repaired here.

use crate::draft::{Draft, DraftNode, plain_request, span};
use crate::{File, ImportOptions};
use gswarm_core::check::ViolationCode;
use gswarm_core::input::document::{Path, Shown, without_mark};
use gswarm_core::input::{Code, ModelSpec, Scenario};
use gswarm_core::log_file::{LogFile, Record};
use gswarm_core::time::MAX_SECONDS;
use gswarm_core::{Span, WorkflowId};
use rustc_hash::FxHashMap;
use serde_json::Map;

/// What the log does not say of a model.
const USUAL_LOAD_SECONDS: f64 = 10.0;

/// One request as the log has it: its workflow, when it came and what its nodes took.
struct Request<'l> {
    workflow: &'l str,
    arrival: f64,
    nodes: Vec<(&'l str, &'l str, f64)>,
}

pub fn read(files: &mut [File<'_>], options: &ImportOptions, draft: &mut Draft) {
    if files.len() > 1 {
        let message = format_args!("import one log at a time: two may give a request different times");
        files[1].faults.add(Code::Inexpressible, 0, &Path::root(), message);
    }
    let Some(file) = files.first_mut() else { return };
    let log = LogFile::read_bytes(file.source.bytes);
    // Only a file that is no log at all is refused; every other fault is reported by the check.
    for fault in log.faults.iter().filter(|fault| fault.code == ViolationCode::File) {
        let at = offset(file.source.bytes, fault.place.line.unwrap_or(1));
        file.faults.add(Code::OtherKind, at, &Path::root(), format_args!("{}", fault.message));
    }
    if file.faults.has_errors() {
        return;
    }
    let mut models: FxHashMap<&str, (u32, f64)> = FxHashMap::default();
    let mut order: Vec<&str> = Vec::new();
    let mut requests: FxHashMap<&str, Request<'_>> = FxHashMap::default();
    for record in &log.executions {
        let Some((id, workflow, node, model)) = names(&log, record) else {
            let message = format_args!("a record without request, workflow, node or model");
            let at = offset(file.source.bytes, record.line);
            file.faults.add(Code::Missing, at, &Path::root(), message);
            continue;
        };
        let Some(seconds) = seconds(record) else {
            let message = format_args!("node `{}` of request `{}` took no time", Shown(node), Shown(id));
            let at = offset(file.source.bytes, record.line);
            file.faults.add(Code::NotPositive, at, &Path::root(), message);
            continue;
        };
        let gpus = record.gpu_ids.as_ref().map_or(1, |ids| ids.len().clamp(1, 1 << 20)) as u32;
        let load = record.switch_time.filter(|load| (0.0..=MAX_SECONDS).contains(load)).unwrap_or(0.0);
        let known = models.entry(model).or_insert((gpus, 0.0));
        *known = (known.0.max(gpus), known.1.max(load));
        let request = requests.entry(id).or_insert_with(|| {
            order.push(id);
            Request { workflow, arrival: f64::INFINITY, nodes: Vec::new() }
        });
        let arrival = record.arrival_time.filter(|at| at.is_finite() && (0.0..=MAX_SECONDS).contains(at));
        request.arrival = request.arrival.min(arrival.unwrap_or(f64::INFINITY));
        match request.nodes.iter_mut().find(|(known, ..)| *known == node) {
            // The last attempt is the one that counts.
            Some(known) => known.2 = seconds,
            None => request.nodes.push((node, model, seconds)),
        }
    }
    if file.faults.has_errors() {
        return;
    }
    draft.notes.say("Execution times come from the log, from each node's last attempt");
    draft.notes.say("The log is not repaired: `gswarm check` lists its violations");
    let ordered = || order.iter().map(|id| (*id, &requests[id]));
    if requests.values().any(|request| request.arrival == f64::INFINITY) {
        draft.notes.say("Requests without an arrival in the log arrive at 0");
    }
    match &options.workflow {
        Some(target) => with_configuration(file, &target.scenario, ordered(), draft),
        None => alone(&models, ordered(), draft),
    }
}

/// Where a line starts, from 1.
fn offset(bytes: &[u8], line: u32) -> u32 {
    let bytes = without_mark(bytes);
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let skipped = (line.max(1) - 1) as usize;
    if skipped == 0 { 0 } else { ends.take(skipped).last().unwrap_or(0) as u32 }
}

fn names<'l>(log: &'l LogFile, record: &Record) -> Option<(&'l str, &'l str, &'l str, &'l str)> {
    let name = |number: Option<u32>| number.map(|number| log.name(number)).filter(|name| !name.is_empty());
    Some((name(record.request)?, name(record.workflow)?, name(record.node)?, name(record.model)?))
}

fn seconds(record: &Record) -> Option<f64> {
    let spent = record.end_time.zip(record.start_time).map(|(end, start)| end - start);
    record.execution_time.or(spent).filter(|seconds| *seconds > 0.0 && *seconds <= MAX_SECONDS)
}

fn arrival(request: &Request<'_>) -> i64 {
    if request.arrival.is_finite() { (request.arrival * 1e6).round() as i64 } else { 0 }
}

/// The requests of a configuration that is known.
fn with_configuration<'l>(
    file: &mut File<'_>,
    known: &Scenario,
    requests: impl Iterator<Item = (&'l str, &'l Request<'l>)>,
    draft: &mut Draft,
) {
    draft.scenario = Scenario { requests: Vec::new(), ..known.clone() };
    draft.notes.say("Models and workflows come from --workflow");
    for (id, request) in requests {
        let Some(workflow) = known.workflows.iter().position(|workflow| workflow.id == request.workflow)
        else {
            let message = format_args!("the configuration has no workflow `{}`", Shown(request.workflow));
            file.faults.add(Code::UnknownWorkflow, 0, &Path::root(), message);
            continue;
        };
        let nodes = &known.workflows[workflow].nodes;
        let mut times: Vec<Option<Span>> = vec![None; nodes.len()];
        for (node, _, seconds) in &request.nodes {
            match nodes.iter().position(|known| known.id == *node) {
                Some(place) => times[place] = Some(span(*seconds)),
                None => {
                    let (workflow, node) = (Shown(request.workflow), Shown(node));
                    let message = format_args!("workflow `{workflow}` has no node `{node}`");
                    file.faults.add(Code::UnknownNode, 0, &Path::root(), message);
                }
            }
        }
        if times.iter().any(Option::is_none) {
            draft
                .notes
                .say_of("Requests with nodes that did not run; these take their models' mean times", id);
        }
        let request = plain_request(id.to_owned(), arrival(request), WorkflowId::from(workflow), times);
        draft.scenario.requests.push(request);
    }
}

/// A workflow, and the nodes of it that ran with their models.
type Ran<'l> = (&'l str, Vec<(&'l str, &'l str)>);

/// The requests with nothing but what the log says. A workflow has the nodes that its requests ran; where they differ, there
/// is one for each set of nodes.
fn alone<'l>(
    models: &FxHashMap<&str, (u32, f64)>,
    requests: impl Iterator<Item = (&'l str, &'l Request<'l>)>,
    draft: &mut Draft,
) {
    draft.notes.say("A log has no edges, so the workflows have none. Pass the configuration with --workflow FILE to keep them");
    draft.notes.say(format!(
        "Model sizes are unknown, assumed to be 1 GB; load times are the longest switch of the log, or {USUAL_LOAD_SECONDS} s without any"
    ));
    let mut workflows: FxHashMap<Ran<'_>, WorkflowId> = FxHashMap::default();
    for (id, request) in requests {
        let mut sorted = request.nodes.clone();
        sorted.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        let nodes: Vec<DraftNode> = sorted
            .iter()
            .map(|&(node, model, seconds)| {
                let (gpus, load) = models[model];
                let model = draft.model(model, |_| ModelSpec {
                    memory_gb: 1.0,
                    gpus_required: gpus,
                    load_time_seconds: if load > 0.0 { load } else { USUAL_LOAD_SECONDS },
                    ..ModelSpec::default()
                });
                DraftNode { id: node.to_owned(), model, seconds, config: Map::new() }
            })
            .collect();
        let key = (request.workflow, sorted.iter().map(|&(node, model, _)| (node, model)).collect());
        let workflow = match workflows.get(&key) {
            Some(&known) => known,
            None => {
                let made = draft.workflow(request.workflow, &nodes, Vec::new());
                workflows.insert(key, made);
                made
            }
        };
        let times = nodes.iter().map(|node| Some(span(node.seconds))).collect();
        draft.scenario.requests.push(plain_request(id.to_owned(), arrival(request), workflow, times));
    }
    draft.fill_mean_times();
}
