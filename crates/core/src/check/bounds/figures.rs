//! The figures behind the arguments for a bound, computed from the inputs alone.

use super::super::context::TOLERANCE;
use crate::cost::SwitchRule;
use crate::gpuset::GpuSet;
use crate::id::{IdVec, ModelId, RequestId, TaskId};
use crate::instance::{Instance, Model, Residency, Workflow};

/// Lengths of time in whole microseconds, one a model.
type PerModel = IdVec<ModelId, u64>;

/// The least before the first execution of each model on a cluster that starts empty: its own load; or the load of another
/// model that has nodes to execute and a switch from it, each a whole number of microseconds as in a run. A chain of more
/// links moves more and cannot be cheaper.
pub(super) fn entries(instance: &Instance) -> PerModel {
    let mut has_nodes: IdVec<ModelId, bool> = vec![false; instance.models.len()].into();
    instance.task_ids().for_each(|task| has_nodes[instance.model_of(task)] = true);
    let chain = |to: ModelId| {
        let via = instance.models.keys().filter(|&via| via != to && has_nodes[via]);
        via.map(|via| cold(instance, via) + switch(instance, via, to)).min().unwrap_or(u64::MAX)
    };
    instance.models.keys().map(|model| cold(instance, model).min(chain(model))).collect()
}

/// The least that any load of each model takes.
pub(super) fn cheapest_loads(instance: &Instance) -> PerModel {
    let onto_another = |to: ModelId| {
        let old = instance.models.keys().filter(move |&old| old != to);
        old.map(move |old| switch(instance, old, to)).min()
    };
    let least = |model| cold(instance, model).min(onto_another(model).unwrap_or(u64::MAX));
    instance.models.keys().map(least).collect()
}

fn cold(instance: &Instance, model: ModelId) -> u64 {
    micros(instance.models[model].load_seconds)
}

pub(super) fn switch(instance: &Instance, old: ModelId, new: ModelId) -> u64 {
    let (rules, models) = (&instance.cluster.switch, &instance.models);
    let moved = |gb: f64| gb / rules.pcie_gb_per_s;
    micros(match rules.rule {
        SwitchRule::Transfer => moved(models[old].memory_gb + models[new].memory_gb) + rules.overhead_seconds,
        SwitchRule::LoadTime => models[new].load_seconds + moved(models[old].memory_gb),
        SwitchRule::Measured => models[new].load_seconds + models[old].unload_seconds,
    })
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

/// What has to be loaded between two nodes of which one waits for the other, one row a model: where their models have no two
/// windows side by side, they share a GPU, which holds the first and then the second. It comes there at once, by way of a
/// third model, or after the GPU was emptied.
pub(super) fn between(instance: &Instance) -> IdVec<ModelId, PerModel> {
    let models = || instance.models.keys();
    let least = |from: ModelId, to: ModelId| {
        let single = instance.cluster.residency == Residency::Single;
        let (one, other) = (&instance.models[from].starts, &instance.models[to].starts);
        let (wide, width) = (instance.models[from].gpus, instance.models[to].gpus);
        let lowest = |starts: &GpuSet| starts.iter().next().map_or(u32::MAX, |gpu| gpu.0);
        let highest = |starts: &GpuSet| starts.iter().last().map_or(0, |gpu| gpu.0);
        let beside = u64::from(lowest(one)) + u64::from(wide) <= u64::from(highest(other))
            || u64::from(lowest(other)) + u64::from(width) <= u64::from(highest(one));
        if from == to || beside || !single {
            return 0;
        }
        let mut ways = vec![switch(instance, from, to), cold(instance, to)];
        let thirds = models().filter(|&third| third != from && third != to);
        ways.extend(thirds.map(|third| switch(instance, from, third) + switch(instance, third, to)));
        ways.into_iter().min().unwrap_or(0)
    };
    models().map(|from| models().map(|to| least(from, to)).collect()).collect()
}

/// For each node of a request, in the order of its workflow: the least before it can begin, and the least behind its end.
pub(super) fn around(
    instance: &Instance,
    entries: &PerModel,
    between: &IdVec<ModelId, PerModel>,
    request: RequestId,
) -> (Vec<u64>, Vec<u64>) {
    let request = &instance.requests[request];
    let (arrival, workflow) = (request.arrival.0, &instance.workflows[request.workflow]);
    let length = |node: u32| instance.execution(TaskId(request.first_task.0 + node)).0;
    let (mut heads, mut tails) = (vec![0; workflow.nodes.len()], vec![0; workflow.nodes.len()]);
    let load = |from: u32, to: u32| between[workflow.models[from as usize]][workflow.models[to as usize]];
    for &node in &workflow.order {
        let inputs = workflow.predecessors(node).iter();
        let inputs = inputs.map(|&input| heads[input as usize] + length(input) + load(input, node));
        let there = entries[workflow.models[node as usize]];
        heads[node as usize] = inputs.max().unwrap_or(0).max(arrival).max(there);
    }
    for &node in workflow.order.iter().rev() {
        let rest = workflow.successors(node).iter();
        let rest = rest.map(|&after| load(node, after) + length(after) + tails[after as usize]);
        tails[node as usize] = rest.max().unwrap_or(0);
    }
    (heads, tails)
}

/// Before this no node can begin. Those without inputs are the first.
pub(super) fn earliest(instance: &Instance, entries: &PerModel) -> u64 {
    let roots = instance.task_ids().filter(|&task| instance.predecessors(task).next().is_none());
    let begins = |task| {
        let arrival = instance.requests[instance.request_of(task)].arrival.0;
        arrival.max(entries[instance.model_of(task)])
    };
    roots.map(begins).min().unwrap_or(0)
}

/// The time of a replica that `length` takes up at the least, in whole microseconds: at the batch size at which a replica
/// does most, slowdown / batch of the time alone.
pub(super) fn at_best_batch(model: &Model, length: u128) -> u128 {
    let (slow, batch) = model
        .slowdown
        .iter()
        .zip(1u128..)
        .map(|(&slow, batch)| (u128::from(slow), batch))
        .min_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)))
        .unwrap_or((1_000_000, 1));
    (length * slow).div_ceil(batch * 1_000_000)
}

/// The time of replicas that each model's nodes take up at the least, one after the other.
pub(super) fn work(instance: &Instance) -> IdVec<ModelId, u128> {
    let mut lengths: IdVec<ModelId, u128> = vec![0; instance.models.len()].into();
    for task in instance.task_ids() {
        lengths[instance.model_of(task)] += u128::from(instance.execution(task).0);
    }
    lengths.iter_enumerated().map(|(model, &length)| at_best_batch(&instance.models[model], length)).collect()
}

/// The GPU-time that all nodes take up at the least.
pub(super) fn gpu_work(instance: &Instance) -> u128 {
    let work = work(instance);
    work.iter_enumerated().map(|(model, &work)| work * u128::from(instance.models[model].gpus)).sum()
}

/// How many replicas of so many GPUs the cluster holds side by side.
pub(super) fn replicas(instance: &Instance, width: u32) -> u64 {
    let (gpus, width) = (u64::from(instance.cluster.gpus), u64::from(width.max(1)));
    match instance.cluster.gpus_per_server.map(u64::from) {
        None => gpus / width,
        Some(per) if width <= per => gpus / per * (per / width) + gpus % per / width,
        // Larger than a server: each begins at a server's first GPU.
        Some(per) if width <= gpus => (gpus - width) / (width.div_ceil(per) * per) + 1,
        Some(_) => 0,
    }
}

/// How far below what is reckoned here a bound may have rounded one way to a model, in microseconds.
pub(super) const WAY: u128 = 4;

/// What rounding to seconds and back can amount to.
pub(super) fn slack(is: u128) -> u128 {
    u128::from(TOLERANCE) + (is >> 50)
}

/// A time of a witness in whole microseconds; `None` where it is none.
pub(super) fn claimed(seconds: f64) -> Option<u128> {
    (seconds.is_finite() && (0.0..1e18).contains(&seconds)).then(|| (seconds * 1e6).round() as u128)
}

/// The place of a node in its workflow.
pub(super) fn node(workflow: &Workflow, name: &str) -> Option<u32> {
    workflow.nodes.iter().position(|node| node == name).map(|place| place as u32)
}
