//! Why a target cannot be met: the latency of requests on their own, and where the slowest spend their time.

use super::trials::Trials;
use crate::failure::Failure;
use gswarm_core::explain::{Timeline, request};
use gswarm_core::instance::Instance;
use gswarm_core::report::request_latencies;
use gswarm_core::size::{
    FloorReport, Floors, Measure, MeasuredRequest, Sample, TailPart, Target, TargetReport, undisturbed,
    workflow_of,
};
use gswarm_core::{RequestId, Span, TaskId, Time, WorkflowId};
use std::collections::BTreeMap;

/// Requests that are looked at to say where time goes.
const LOOKED_AT: usize = 100;

/// The first target that no number of GPUs can keep: with nothing to wait for, requests take longer.
pub(super) fn floor(trials: &Trials<'_>) -> Result<Option<FloorReport>, Failure> {
    let (instance, trace_of) = trials.first_problem()?;
    let alone = undisturbed(&instance);
    let sample = undisturbed_sample(&instance, &alone, &trace_of);
    for target in &trials.spec.targets {
        let workflow = workflow_of(&trials.scenario, target);
        let floor = match target.measure {
            // A single run from empty GPUs: models have to be loaded first.
            Measure::Makespan => Some(Floors::of(&instance).of_target(target).seconds()),
            _ => sample.reached(target, workflow).value,
        };
        let Some(floor) = floor.filter(|&floor| !target.is_kept(floor)) else { continue };
        let slowest = slowest_alone(&instance, &alone, target, workflow, floor);
        return Ok(Some(FloorReport {
            target: TargetReport::from(target),
            floor,
            workflow: instance.workflows[instance.requests[slowest].workflow].name.clone(),
            path: longest_path(&instance, slowest),
        }));
    }
    Ok(None)
}

fn undisturbed_sample(instance: &Instance, alone: &[Span], trace_of: &[Option<u32>]) -> Sample {
    let of_request = |(id, one): (RequestId, &gswarm_core::instance::Request)| {
        let latency = alone[id.index()];
        Some(MeasuredRequest {
            workflow: one.workflow,
            latency: latency.seconds(),
            late: one.deadline.map(|deadline| latency > deadline),
            trace: trace_of[id.index()]?,
        })
    };
    let requests = instance.requests.iter_enumerated().filter_map(of_request).collect();
    Sample { requests, makespans: Vec::new() }
}

/// A request that is typical of those that decide a floor: of the workflow that most of them run, the one in the middle.
fn slowest_alone(
    instance: &Instance,
    alone: &[Span],
    target: &Target,
    workflow: Option<WorkflowId>,
    floor: f64,
) -> RequestId {
    let decides = |id: RequestId, latency: Span| match (target.measure, instance.requests[id].deadline) {
        (Measure::Deadline, deadline) => deadline.is_some_and(|deadline| latency > deadline),
        (Measure::Mean | Measure::Makespan, _) => true,
        _ => latency.seconds() >= floor - 1e-6,
    };
    let mut by_workflow: BTreeMap<_, Vec<(Span, RequestId)>> = BTreeMap::new();
    for (id, one) in instance.requests.iter_enumerated() {
        if workflow.is_none_or(|of| of == one.workflow) && decides(id, alone[id.index()]) {
            by_workflow.entry(one.workflow).or_default().push((alone[id.index()], id));
        }
    }
    let most = by_workflow.into_values().max_by_key(Vec::len);
    most.map_or(RequestId(0), |mut of_it| {
        of_it.sort_unstable();
        of_it[of_it.len() / 2].1
    })
}

/// The models on a request's longest path, with the seconds that each executes.
fn longest_path(instance: &Instance, id: RequestId) -> Vec<(String, f64)> {
    let mut ends: BTreeMap<TaskId, Span> = BTreeMap::new();
    let one = &instance.requests[id];
    for &node in &instance.workflows[one.workflow].order {
        let task = TaskId(one.first_task.0 + node);
        let inputs = instance.predecessors(task).filter_map(|before| ends.get(&before).copied()).max();
        ends.insert(task, inputs.unwrap_or_default() + instance.execution(task));
    }
    let mut path = Vec::new();
    let mut next = ends.iter().max_by_key(|&(_, &end)| end).map(|(&task, _)| task);
    while let Some(task) = next {
        let model = instance.models[instance.model_of(task)].name.clone();
        path.push((model, instance.execution(task).seconds()));
        next = instance.predecessors(task).max_by_key(|before| ends.get(before));
    }
    path.reverse();
    path
}

/// Where the time of the slowest requests goes on so many GPUs, per request.
pub(super) fn slowest(trials: &Trials<'_>, gpus: u32) -> Result<Vec<TailPart>, Failure> {
    let (prepared, log, trace_of) = trials.first_log(0, gpus)?;
    let instance = &prepared.instance;
    let mut latencies: Vec<(Span, RequestId)> = request_latencies(instance, &log)
        .into_iter()
        .filter(|(id, _)| trace_of[id.index()].is_some())
        .map(|(id, latency)| (latency.unwrap_or(Time::NEVER.since(Time::ZERO)), id))
        .collect();
    latencies.sort_unstable_by(|one, other| other.cmp(one));
    let count = (latencies.len() / 100).clamp(1, LOOKED_AT);
    let timeline = Timeline::new(instance, &log);
    let mut parts: BTreeMap<(&str, Option<String>), f64> = BTreeMap::new();
    let mut add = |what, model: Option<String>, span: Span| {
        *parts.entry((what, model)).or_default() += span.seconds() / count as f64;
    };
    for story in latencies.iter().take(count).filter_map(|&(_, id)| request(&timeline, id)) {
        add("executing", None, story.executing);
        add("waiting", None, story.waiting);
        add("retrying", None, story.retrying);
        story.path.iter().for_each(|step| add("loading", Some(step.model.clone()), step.switching));
    }
    let mut parts: Vec<TailPart> = parts
        .into_iter()
        .filter(|&(_, seconds)| seconds > 0.0)
        .map(|((what, model), seconds)| TailPart { what: what.to_owned(), model, seconds })
        .collect();
    parts.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    Ok(parts)
}
