//! Lower bounds: times that no valid schedule can go below, each with a witness that can be recomputed by hand.
//!
//! There are six arguments; the largest value counts:
//! - **area**: the work of all tasks, spread evenly over all GPUs;
//! - **switching**: the same, plus the minimum time for loading;
//! - **visits**: the area, plus the least that GPUs lose at the beginning, between models and at the end;
//! - **path**: the longest chain of one request behind the cheapest way to its first model, with the loads that must come
//!   between its tasks;
//! - **replicas**: the work of one model over as many replicas as the cluster can hold, between the earliest moments at
//!   which they can begin and the least that comes after them (Carlier);
//! - **pace** (with batching): the area, where each task shares its GPUs only as far as its request leaves it time to.

mod between;
mod claim;
mod entry;
mod pace;
mod replicas;
mod switching;
mod transport;
mod visits;
mod words;

use crate::id::{IdVec, ModelId, RequestId, TaskId};
use crate::instance::{Instance, Model};
use crate::time::{Span, Time};
use between::Between;
use entry::entry_costs;
pub use visits::Price;

/// A bound and why it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// No makespan is shorter.
    pub value: Span,
    /// The argument that gives it.
    pub witness: Witness,
}

/// What an independent check needs to recompute a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// `work` GPU-microseconds over `gpus` GPUs.
    Area {
        /// Execution time times GPUs, over all tasks, at the best batch size.
        work: u128,
        /// The GPUs.
        gpus: u32,
    },
    /// The area, plus loading.
    Switching {
        /// Execution time times GPUs, over all tasks, at the best batch size.
        work: u128,
        /// The least GPU-time that is spent without executing, for this makespan.
        loading: u128,
        /// The GPUs.
        gpus: u32,
    },
    /// The area, plus what GPUs lose on their way from model to model.
    Visits {
        /// Execution time times GPUs, over all tasks, at the best batch size.
        work: u128,
        /// The least GPU-time that is lost at the beginning, between models and at the end, in a run that is a microsecond
        /// shorter than the bound: with the work it is more than the GPUs have in that time.
        lost: u128,
        /// The GPUs.
        gpus: u32,
        /// The worth of a GPU's beginning, in microseconds.
        begin: i64,
        /// The worth of a GPU's end, in microseconds.
        end: i64,
        /// The worth of every visit. What is left for what is entered next never costs less than the two are worth.
        prices: Vec<Price>,
    },
    /// One request's longest path.
    Path {
        /// The request.
        request: RequestId,
        /// Its tasks on the path, in order. Where the windows of two always overlap, a load comes between them.
        tasks: Vec<TaskId>,
        /// Before the first of them can begin: arrival, or the cheapest way to its model.
        head: Span,
    },
    /// The area at the batch sizes that leave each request time to finish.
    Pace {
        /// Execution time times GPUs at the batch sizes that this makespan allows each task at the most.
        work: u128,
        /// GPU-time before anything can execute.
        idle: u128,
        /// The GPUs.
        gpus: u32,
    },
    /// One model's tasks on its replicas.
    Replicas {
        /// The model.
        model: ModelId,
        /// As many replicas as the cluster can hold, or as there are tasks in the set.
        replicas: u64,
        /// Only tasks whose head is at least this.
        least_head: Span,
        /// Only tasks whose tail is at least this.
        least_tail: Span,
        /// The smallest heads, work, and smallest tails of the set, added up, in microseconds.
        total: u128,
    },
}

impl Witness {
    /// The name of the argument.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Witness::Area { .. } => "area",
            Witness::Switching { .. } => "switching",
            Witness::Visits { .. } => "visits",
            Witness::Path { .. } => "path",
            Witness::Pace { .. } => "pace",
            Witness::Replicas { .. } => "replicas",
        }
    }
}

/// The best known bound on the makespan.
#[must_use]
pub fn lower_bound(instance: &Instance) -> Span {
    best_bound(instance).value
}

/// The best known bound on the makespan, and why it holds.
#[must_use]
pub fn best_bound(instance: &Instance) -> Bound {
    let all = all_bounds(instance);
    all.into_iter().max_by_key(|bound| bound.value).expect("there is always the area")
}

/// Every argument's bound, in the order in which they are described above.
#[must_use]
pub fn all_bounds(instance: &Instance) -> Vec<Bound> {
    let entry = entry_costs(instance);
    let between = Between::of(instance);
    let slack = Slack::of(instance, &entry, &between);
    let work = total_work(instance);
    let gpus = instance.cluster.gpus.max(1);
    let area = Span(work.div_ceil(u128::from(gpus)) as u64);
    let mut bounds = vec![Bound { value: area, witness: Witness::Area { work, gpus } }];
    // What loading takes at the least is reckoned from empty GPUs.
    let is_cold = instance.start.is_empty();
    bounds.extend(is_cold.then(|| switching::bound(instance, &slack, work)).flatten());
    let path = longest_path(instance, &slack, &between);
    let least = path.as_ref().map_or(area, |path| path.value.max(area));
    bounds.extend(is_cold.then(|| visits::bound(instance, &slack, work, least)).flatten());
    bounds.extend(path);
    let known = bounds.iter().map(|bound| bound.value).max().unwrap_or(area);
    bounds.extend(pace::bound(instance, &slack, known));
    bounds.extend(instance.models.keys().filter_map(|model| replicas::bound(instance, &slack, model)));
    bounds
}

/// The smallest makespan from `low` on that fits, where more time never fits worse; `None` where none can be counted.
fn smallest(mut low: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let mut high = low.max(1);
    while !fits(high) {
        low = high;
        high = high.checked_mul(2)?;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle + 1 }
    }
    Some(high)
}

/// For each request the least latency that its own tasks leave and the GPU-time of its tasks; and the earliest moment at
/// which anything can execute.
pub(crate) fn least_ends(instance: &Instance) -> (Vec<Span>, Vec<u128>, Span) {
    let slack = Slack::of(instance, &entry_costs(instance), &Between::NOTHING);
    let first = slack.head.iter().copied().min().unwrap_or_default();
    (least_latencies(instance).into(), request_work(instance).into(), first)
}

/// The least latency of each request, on any number of GPUs: its longest path behind the cheapest way to its models.
pub(crate) fn least_latencies(instance: &Instance) -> IdVec<RequestId, Span> {
    let slack = Slack::of(instance, &entry_costs(instance), &Between::NOTHING);
    let ends = |task: TaskId| slack.head[task] + instance.execution(task) + slack.tail[task];
    let latency = |(id, request): (RequestId, &crate::instance::Request)| {
        let end = instance.tasks_of(id).map(ends).max().unwrap_or_default();
        Span(end.0.saturating_sub(request.arrival.0))
    };
    instance.requests.iter_enumerated().map(latency).collect()
}

/// The GPU-time that each request takes at the least, in microseconds: execution time x GPUs at the best batch size.
pub(crate) fn request_work(instance: &Instance) -> IdVec<RequestId, u128> {
    let shares: IdVec<ModelId, u64> = instance.models.iter().map(best_share).collect();
    let of_task = |task: TaskId| {
        let model = instance.model_of(task);
        let gpus = u128::from(instance.models[model].gpus);
        u128::from(instance.execution(task).0) * gpus * u128::from(shares[model]) / 1_000_000
    };
    instance.requests.keys().map(|id| instance.tasks_of(id).map(of_task).sum()).collect()
}

/// The least that comes before each task can begin, and after it has ended.
pub(crate) struct Slack {
    pub head: IdVec<TaskId, Span>,
    pub tail: IdVec<TaskId, Span>,
}

impl Slack {
    fn of(instance: &Instance, entry: &IdVec<ModelId, Span>, between: &Between) -> Slack {
        let none: IdVec<TaskId, Span> = vec![Span::ZERO; instance.tasks()].into();
        let mut slack = Slack { head: none.clone(), tail: none };
        for request in &instance.requests {
            let workflow = &instance.workflows[request.workflow];
            let task = |node: u32| TaskId(request.first_task.0 + node);
            let load = |from: u32, to: u32| {
                between.least(workflow.models[from as usize], workflow.models[to as usize])
            };
            for &node in &workflow.order {
                let before = workflow.predecessors(node).iter();
                let ends = before
                    .map(|&from| slack.head[task(from)] + instance.execution(task(from)) + load(from, node));
                let inputs = ends.max();
                let ready = inputs.unwrap_or(request.arrival.since(Time::ZERO));
                // Its model must be on its GPUs too, which takes its entry from the start of the run.
                slack.head[task(node)] = ready.max(entry[workflow.models[node as usize]]);
            }
            for &node in workflow.order.iter().rev() {
                let after = workflow.successors(node).iter();
                let rest =
                    after.map(|&to| load(node, to) + slack.tail[task(to)] + instance.execution(task(to)));
                let rest = rest.max();
                slack.tail[task(node)] = rest.unwrap_or(Span::ZERO);
            }
        }
        slack
    }
}

/// What one execution takes of its GPUs at the best batch size, in millionths of its batch-1 time.
fn best_share(model: &Model) -> u64 {
    let shares = model.slowdown.iter().zip(1u64..).map(|(&slow, batch)| u64::from(slow) / batch);
    shares.min().unwrap_or(1_000_000)
}

/// The minimum GPU time of all requests.
#[must_use]
pub fn gpu_time(instance: &Instance) -> Span {
    Span(u64::try_from(total_work(instance)).unwrap_or(u64::MAX))
}

fn total_work(instance: &Instance) -> u128 {
    let shares: IdVec<ModelId, u64> = instance.models.iter().map(best_share).collect();
    let work = instance.task_ids().map(|task| {
        let model = instance.model_of(task);
        let gpus = u128::from(instance.models[model].gpus);
        u128::from(instance.execution(task).0) * gpus * u128::from(shares[model])
    });
    work.sum::<u128>() / 1_000_000
}

fn longest_path(instance: &Instance, slack: &Slack, between: &Between) -> Option<Bound> {
    let length = |task: TaskId| slack.head[task] + instance.execution(task) + slack.tail[task];
    let first = instance.task_ids().max_by_key(|&task| (length(task), std::cmp::Reverse(task)))?;
    // Every task of a longest path has the same length; the one with the smallest head begins it.
    let request = instance.request_of(first);
    let begins = instance.tasks_of(request).filter(|&task| length(task) == length(first));
    let mut task = begins.min_by_key(|&task| slack.head[task])?;
    let (head, value) = (slack.head[task], length(task));
    let mut tasks = vec![task];
    let rest = |task: TaskId, after: TaskId| {
        let load = between.least(instance.model_of(task), instance.model_of(after));
        load + instance.execution(after) + slack.tail[after]
    };
    while let Some(next) = instance.successors(task).find(|&after| slack.tail[task] == rest(task, after)) {
        tasks.push(next);
        task = next;
    }
    Some(Bound { value, witness: Witness::Path { request, tasks, head } })
}
