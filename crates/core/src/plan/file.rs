//! Plans as files: JSON, with names, so that a plan outlives the numbering of the run that made it.

use super::{Plan, Planned, Step, Steps};
use crate::id::{Gpus, ModelId, RequestId, TaskId};
use crate::instance::Instance;
use crate::log_file::BoundClaim;
use crate::time::{MAX_SECONDS, Span, Time};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;

#[derive(Serialize, Deserialize)]
struct PlanFile {
    schema: u32,
    gpus: u32,
    makespan: f64,
    lower_bound: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bound: Option<BoundClaim>,
    /// What the bound's argument gives; `lower_bound` is more where a search has proved more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bound_seconds: Option<f64>,
    found_by: String,
    /// Whether no schedule is shorter, and how that is known.
    #[serde(default)]
    optimal: bool,
    #[serde(default)]
    proof: Option<String>,
    /// The specification of the run that it was made for, where whoever wrote it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<Value>,
    plan: Vec<Entry>,
}

/// One step: a node, or in schema 2 also a model to load.
#[derive(Default, Serialize, Deserialize)]
struct Entry {
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<String>,
    gpu_ids: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_at_most: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<f64>,
}

/// A plan as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanRead {
    /// Schema 1: an order.
    Order(Plan),
    /// Schema 2: steps.
    Steps(Steps),
}

/// Writes a plan: with schema 1 where it is an order, with schema 2 where it says more.
pub fn write(instance: &Instance, planned: &Planned, out: &mut impl io::Write) -> io::Result<()> {
    write_with(instance, planned, None, out)
}

/// The same with the specification of the run that it was made for.
pub fn write_with(
    instance: &Instance,
    planned: &Planned,
    spec: Option<Value>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let entries = match &planned.steps {
        None => planned.plan.0.iter().map(|&(task, gpus)| run_entry(instance, task, gpus)).collect(),
        Some(steps) => steps.0.iter().map(|step| step_entry(instance, step)).collect(),
    };
    let file = PlanFile {
        schema: if planned.steps.is_some() { 2 } else { 1 },
        gpus: instance.cluster.gpus,
        makespan: planned.makespan.seconds(),
        lower_bound: planned.lower_bound().seconds(),
        bound_seconds: Some(planned.bound.value.seconds()),
        bound: Some(planned.bound.claim(instance)),
        found_by: planned.found_by.clone(),
        optimal: planned.proof.is_some(),
        proof: planned.proof.map(|proof| proof.name().to_owned()),
        spec,
        plan: entries,
    };
    serde_json::to_writer_pretty(&mut *out, &file)?;
    out.write_all(b"\n")
}

fn run_entry(instance: &Instance, task: TaskId, gpus: Gpus) -> Entry {
    Entry {
        request_id: Some(instance.requests[instance.request_of(task)].name.clone()),
        node_id: Some(instance.workflow_of(task).nodes[instance.node_of(task) as usize].clone()),
        gpu_ids: gpus.iter().map(|gpu| gpu.0).collect(),
        ..Entry::default()
    }
}

fn step_entry(instance: &Instance, step: &Step) -> Entry {
    let not_before = Some(step.not_before()).filter(|&at| at > Time::ZERO).map(Time::seconds);
    match *step {
        Step::Run { task, gpus, batch_at_most, .. } => {
            Entry { batch_at_most, not_before, ..run_entry(instance, task, gpus) }
        }
        Step::Load { model, gpus, .. } => Entry {
            load: Some(instance.models[model].name.clone()),
            gpu_ids: gpus.iter().map(|gpu| gpu.0).collect(),
            not_before,
            ..Entry::default()
        },
    }
}

/// What a plan file claims about its plan, not yet validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// How long the plan takes.
    pub makespan: f64,
    /// The lower bound.
    pub lower_bound: f64,
    /// Whether no schedule is shorter ...
    pub optimal: bool,
    /// ... and how that is known.
    pub proof: Option<String>,
}

/// What the file promises; `None` where it is no plan.
#[must_use]
pub fn promise(bytes: &[u8]) -> Option<Promise> {
    let PlanFile { makespan, lower_bound, optimal, proof, .. } = serde_json::from_slice(bytes).ok()?;
    Some(Promise { makespan, lower_bound, optimal, proof })
}

/// The specification of the run that a plan was made for, where the file has it.
#[must_use]
pub fn spec(bytes: &[u8]) -> Option<Value> {
    #[derive(Deserialize)]
    struct Only {
        spec: Option<Value>,
    }
    serde_json::from_slice::<Only>(bytes).ok()?.spec
}

/// Most faults that are listed; a plan for other inputs has one for every node.
const MOST_FAULTS: usize = 20;

/// Reads a plan for `instance`, or says all that is wrong with it: every node must be there once, on GPUs that its model
/// may use, behind its inputs.
pub fn read(instance: &Instance, bytes: &[u8]) -> Result<PlanRead, Vec<String>> {
    let file: PlanFile =
        serde_json::from_slice(bytes).map_err(|error| vec![format!("not a plan: {error}")])?;
    if !(1..=2).contains(&file.schema) {
        return Err(vec![format!("the plan has schema {}; this version reads schemas 1 and 2", file.schema)]);
    }
    if file.gpus != instance.cluster.gpus {
        return Err(vec![format!(
            "the plan is for {} GPUs, but there are {}",
            file.gpus, instance.cluster.gpus
        )]);
    }
    let requests: FxHashMap<&str, RequestId> =
        instance.requests.iter_enumerated().map(|(id, request)| (request.name.as_str(), id)).collect();
    let mut faults = Vec::new();
    let mut seen = Seen { placed: vec![false; instance.tasks()], anywhere: vec![false; instance.tasks()] };
    for task in file.plan.iter().filter_map(|entry| named(instance, &requests, entry)) {
        seen.anywhere[task.index()] = true;
    }
    let mut steps = Steps::default();
    let mut unknown = 0;
    for (at, entry) in file.plan.iter().enumerate() {
        // An entry that names a node stands for it, whatever else is wrong with it: what waits for the node is not at fault.
        let named = named(instance, &requests, entry);
        match resolve(instance, &requests, entry, &seen) {
            Ok(step) => steps.0.push(step),
            Err(fault) => {
                faults.push(format!("plan[{at}]: {fault}"));
                unknown += usize::from(named.is_none() && entry.load.is_none());
            }
        }
        if let Some(task) = named {
            seen.placed[task.index()] = true;
        }
    }
    // An entry that names no node was to name one of those that are missing.
    let missing: Vec<TaskId> = instance.task_ids().filter(|task| !seen.anywhere[task.index()]).collect();
    if missing.len() > unknown {
        let listed = missing.iter().take(MOST_FAULTS);
        faults.extend(listed.map(|&task| format!("{} is not in the plan", instance.task_name(task))));
    }
    let left_out = faults.len().saturating_sub(MOST_FAULTS);
    faults.truncate(MOST_FAULTS);
    if left_out > 0 {
        faults.push(format!("and at least {left_out} more"));
    }
    match (faults.is_empty(), file.schema) {
        (false, _) => Err(faults),
        (true, 1) => Ok(PlanRead::Order(steps.plan())),
        (true, _) => Ok(PlanRead::Steps(steps)),
    }
}

/// The nodes that entries name.
struct Seen {
    /// Those so far.
    placed: Vec<bool>,
    /// All of them.
    anywhere: Vec<bool>,
}

fn resolve(
    instance: &Instance,
    requests: &FxHashMap<&str, RequestId>,
    entry: &Entry,
    seen: &Seen,
) -> Result<Step, String> {
    let not_before = match entry.not_before {
        None => Time::ZERO,
        Some(seconds) if (0.0..=MAX_SECONDS).contains(&seconds) => Time::ZERO + Span::from_seconds(seconds),
        Some(seconds) => return Err(format!("`not_before` is {seconds}")),
    };
    match entry {
        Entry { load: Some(name), request_id: None, node_id: None, .. } => {
            let model = instance.models.iter_enumerated().find(|(_, model)| &model.name == name);
            let (model, _) = model.ok_or_else(|| format!("there is no model `{name}`"))?;
            let gpus = window(instance, model, &entry.gpu_ids, &format!("`{name}`"))?;
            Ok(Step::Load { model, gpus, not_before })
        }
        Entry { load: None, request_id: Some(request), node_id: Some(node), .. } => {
            let (task, gpus) = resolve_run(instance, requests, (request, node), &entry.gpu_ids, seen)?;
            if entry.batch_at_most == Some(0) {
                return Err(format!("{request}/{node} has a batch of 0"));
            }
            Ok(Step::Run { task, gpus, batch_at_most: entry.batch_at_most, not_before })
        }
        _ => Err("neither a node (`request_id` and `node_id`) nor a model to `load`".to_owned()),
    }
}

fn window(instance: &Instance, model: ModelId, gpu_ids: &[u32], who: &str) -> Result<Gpus, String> {
    let model = &instance.models[model];
    let first = gpu_ids.first().copied().unwrap_or(u32::MAX);
    let gpus = Gpus::new(first, model.gpus);
    let consecutive = gpu_ids.iter().copied().eq((first..).take(model.gpus as usize));
    if !consecutive || first >= instance.cluster.gpus || !model.starts.contains(gpus.first) {
        return Err(format!("{who} cannot run on GPUs {gpu_ids:?}: `{}` needs {}", model.name, model.gpus));
    }
    Ok(gpus)
}

/// The node that an entry names, if there is one of that name.
fn named(instance: &Instance, requests: &FxHashMap<&str, RequestId>, entry: &Entry) -> Option<TaskId> {
    find(instance, requests, entry.request_id.as_deref()?, entry.node_id.as_deref()?).ok()
}

fn find(
    instance: &Instance,
    requests: &FxHashMap<&str, RequestId>,
    request: &str,
    node: &str,
) -> Result<TaskId, String> {
    let &id = requests.get(request).ok_or_else(|| format!("there is no request `{request}`"))?;
    let workflow = &instance.workflows[instance.requests[id].workflow];
    let place = workflow.nodes.iter().position(|name| name == node);
    let place = place.ok_or_else(|| format!("request `{request}` has no node `{node}`"))?;
    Ok(TaskId(instance.requests[id].first_task.0 + place as u32))
}

fn resolve_run(
    instance: &Instance,
    requests: &FxHashMap<&str, RequestId>,
    (request, node): (&str, &str),
    gpu_ids: &[u32],
    seen: &Seen,
) -> Result<(TaskId, Gpus), String> {
    let task = find(instance, requests, request, node)?;
    if seen.placed[task.index()] {
        return Err(format!("{request}/{node} appears twice in the plan"));
    }
    let gpus = window(instance, instance.model_of(task), gpu_ids, &format!("{request}/{node}"))?;
    // An input that is not there at all is a fault of its own.
    let comes_later = |before: &TaskId| seen.anywhere[before.index()] && !seen.placed[before.index()];
    match instance.predecessors(task).find(comes_later) {
        Some(before) => {
            Err(format!("{request}/{node} comes before its input {}", instance.task_name(before)))
        }
        None => Ok((task, gpus)),
    }
}
