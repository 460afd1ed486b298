//! Lower bounds: times that no valid schedule can go below.

use crate::cost::SwitchRule;
use crate::id::{IdVec, ModelId};
use crate::instance::{Instance, Model};
use crate::time::{Span, Time};

/// The best bound on the makespan that we know.
#[must_use]
pub fn lower_bound(instance: &Instance) -> Span {
    let entry = entry_costs(instance);
    area(instance).max(path_and_replicas(instance, &entry))
}

/// The least time between an idle, empty cluster and the first execution of each model: its own load, or (where switching
/// is cheaper than loading) another model's load and a switch. Longer chains cost more: each link moves its model again.
fn entry_costs(instance: &Instance) -> IdVec<ModelId, Span> {
    let cost = &instance.cluster.switch;
    let load = |model: &Model| cost.of(None, model.memory_gb, model.load_seconds);
    if cost.rule != SwitchRule::Transfer {
        return instance.models.iter().map(load).collect();
    }
    let chain = |via: &Model| via.load_seconds + via.memory_gb / cost.pcie_gb_per_s;
    let cheapest = instance.models.iter().map(chain).fold(f64::INFINITY, f64::min);
    let by_chain = |model: &Model| cheapest + model.memory_gb / cost.pcie_gb_per_s + cost.overhead_seconds;
    // Two roundings in the run (load, then switch) against one here: one microsecond keeps the bound valid.
    let floor = |model: &Model| Span((by_chain(model) * 1e6).floor().max(1.0) as u64 - 1);
    instance.models.iter().map(|model| load(model).min(floor(model))).collect()
}

/// What one execution takes of its GPUs at the best batch size, in millionths of its batch-1 time.
fn best_share(model: &Model) -> u64 {
    let shares = model.slowdown.iter().zip(1u64..).map(|(&slow, batch)| u64::from(slow) / batch);
    shares.min().unwrap_or(1_000_000)
}

/// All work, spread evenly over all GPUs.
fn area(instance: &Instance) -> Span {
    let shares: IdVec<ModelId, u64> = instance.models.iter().map(best_share).collect();
    let work = instance.task_ids().map(|task| {
        let model = instance.model_of(task);
        let gpus = u128::from(instance.models[model].gpus);
        u128::from(instance.execution(task).0) * gpus * u128::from(shares[model])
    });
    Span((work.sum::<u128>() / 1_000_000).div_ceil(u128::from(instance.cluster.gpus.max(1))) as u64)
}

/// Per request: its arrival, the entry of its first model and its longest path. Per model: its replicas share the work
/// between the least that comes before any of its tasks and the least that comes after (Carlier).
fn path_and_replicas(instance: &Instance, entry: &IdVec<ModelId, Span>) -> Span {
    let mut best = Span::ZERO;
    let shares: IdVec<ModelId, u64> = instance.models.iter().map(best_share).collect();
    let mut groups: IdVec<ModelId, Group> = (0..instance.models.len()).map(|_| Group::default()).collect();
    let (mut heads, mut tails) = (Vec::new(), Vec::new());
    for request in &instance.requests {
        let workflow = &instance.workflows[request.workflow];
        let nodes = workflow.nodes.len();
        let task = |node: u32| crate::id::TaskId(request.first_task.0 + node);
        heads.clear();
        heads.resize(nodes, Span::ZERO);
        tails.clear();
        tails.resize(nodes, Span::ZERO);
        for &node in &workflow.order {
            let before = workflow.predecessors(node).iter();
            let inputs = before.map(|&p| heads[p as usize] + instance.execution(task(p))).max();
            // A task's model must be on its GPUs too, which takes at least its entry from the start of the run.
            let ready = inputs.unwrap_or(request.arrival.since(Time::ZERO));
            heads[node as usize] = ready.max(entry[workflow.models[node as usize]]);
        }
        for &node in workflow.order.iter().rev() {
            let after = workflow.successors(node).iter();
            let rest = after.map(|&s| tails[s as usize] + instance.execution(task(s))).max();
            tails[node as usize] = rest.unwrap_or(Span::ZERO);
        }
        for node in 0..nodes as u32 {
            let (head, tail) = (heads[node as usize], tails[node as usize]);
            let execution = instance.execution(task(node));
            best = best.max(head + execution + tail);
            let model = workflow.models[node as usize];
            groups[model].add(head, tail, u128::from(execution.0) * u128::from(shares[model]));
        }
    }
    for (model, group) in groups.iter_enumerated() {
        let replicas = u64::from(max_replicas(instance, model));
        if replicas > 0 && instance.models[model].max_batch() == 1 {
            best = best.max(group.bound(replicas));
        } else if replicas > 0 && group.count > 0 {
            let work = (group.work / 1_000_000).div_ceil(u128::from(replicas));
            best = best.max(group.least_head() + Span(work as u64) + group.least_tail());
        }
    }
    best
}

/// How many replicas of a model the cluster can hold at once.
fn max_replicas(instance: &Instance, model: ModelId) -> u32 {
    let spec = &instance.models[model];
    let (mut count, mut next) = (0, 0);
    for window in spec.windows() {
        if window.first.0 >= next {
            count += 1;
            next = window.first.0 + window.count;
        }
    }
    count
}

#[derive(Default)]
struct Group {
    count: u64,
    work: u128,
    heads: Vec<Span>,
    tails: Vec<Span>,
}

impl Group {
    fn add(&mut self, head: Span, tail: Span, work: u128) {
        self.count += 1;
        self.work += work;
        self.heads.push(head);
        self.tails.push(tail);
    }

    fn least_head(&self) -> Span {
        self.heads.iter().copied().min().unwrap_or_default()
    }

    fn least_tail(&self) -> Span {
        self.tails.iter().copied().min().unwrap_or_default()
    }

    /// (k smallest heads + work + k smallest tails) / k: no replica starts before its own first head nor ends before its
    /// own last tail. With fewer tasks than replicas only as many replicas work as there are tasks.
    fn bound(&self, replicas: u64) -> Span {
        let k = replicas.min(self.count) as usize;
        if k == 0 {
            return Span::ZERO;
        }
        let least = |spans: &[Span]| -> u128 {
            let mut spans = spans.to_vec();
            spans.select_nth_unstable(k - 1);
            spans[..k].iter().map(|span| u128::from(span.0)).sum()
        };
        let total = least(&self.heads) + self.work / 1_000_000 + least(&self.tails);
        Span(total.div_ceil(k as u128) as u64)
    }
}
