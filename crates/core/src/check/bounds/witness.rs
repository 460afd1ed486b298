//! Each argument: the bound that its figures give, or the figure that contradicts the problem.

use super::figures::{self, WAY, claimed, slack};
use super::{pace, text, visits};
use crate::id::TaskId;
use crate::instance::{Instance, Residency};
use crate::log_file::BoundClaim;

type Supported = Result<u128, String>;

/// The bound that the figures of a witness give, in microseconds, where all of them fit the inputs.
pub(super) fn supported(instance: &Instance, claim: &BoundClaim, value: u128) -> Supported {
    match claim {
        BoundClaim::Area { gpus, work_gpu_seconds } => {
            let gpus = all_gpus(instance, *gpus)?;
            Ok(all_work(instance, *work_gpu_seconds)?.div_ceil(gpus))
        }
        BoundClaim::Switching { gpus, work_gpu_seconds, loading_gpu_seconds } => {
            let gpus = all_gpus(instance, *gpus)?;
            let work = all_work(instance, *work_gpu_seconds)?;
            let loading = loading(instance, *loading_gpu_seconds, value)?;
            // Any shorter schedule spends this much without executing, and the work has to fit beside it.
            Ok((work + loading).div_ceil(gpus))
        }
        BoundClaim::Visits {
            gpus,
            work_gpu_seconds,
            lost_gpu_seconds,
            begin_seconds,
            end_seconds,
            prices,
        } => {
            let gpus = all_gpus(instance, *gpus)?;
            let work = all_work(instance, *work_gpu_seconds)?;
            let ends = (*begin_seconds, *end_seconds);
            // What the figures give is proved for itself: a value above it is no fault of theirs.
            let given = claimed(*lost_gpu_seconds).map_or(value, |lost| (work + lost).div_ceil(gpus));
            let lost = visits::lost(instance, *lost_gpu_seconds, ends, prices, value.min(given))?;
            Ok((work + lost).div_ceil(gpus))
        }
        BoundClaim::Pace { gpus, work_gpu_seconds, idle_gpu_seconds } => {
            let gpus = all_gpus(instance, *gpus)?;
            let idle = u128::from(figures::earliest(instance, &figures::entries(instance))) * gpus;
            let idle = fits("the idle start", *idle_gpu_seconds, idle, WAY * gpus)?;
            Ok((pace::work(instance, *work_gpu_seconds, value)? + idle).div_ceil(gpus))
        }
        BoundClaim::Path { request_id, node_ids, head_seconds } => {
            path(instance, request_id, node_ids, *head_seconds)
        }
        BoundClaim::Replicas {
            model_name,
            replicas,
            least_head_seconds,
            least_tail_seconds,
            total_seconds,
        } => {
            let least = (*least_head_seconds, *least_tail_seconds);
            on_replicas(instance, model_name, *replicas, least, *total_seconds)
        }
    }
}

fn all_gpus(instance: &Instance, said: u32) -> Supported {
    match instance.cluster.gpus {
        gpus if gpus == said => Ok(u128::from(gpus)),
        gpus => Err(format!("it counts {said} GPUs, but there are {gpus}")),
    }
}

fn all_work(instance: &Instance, said: f64) -> Supported {
    let is = figures::gpu_work(instance);
    fits("the work", said, is, rounded_shares(instance, is))
}

/// How far a figure may lie below what is reckoned here. Where executions share a replica, their shares of its time may have
/// been rounded down, and the smaller figure is as true.
fn rounded_shares(instance: &Instance, is: u128) -> u128 {
    if instance.models.iter().any(|model| model.max_batch() > 1) { is / 500 } else { 0 }
}

/// The figure, if it is what the inputs give, or at most `below` less.
fn fits(what: &str, said: f64, is: u128, below: u128) -> Supported {
    let number = claimed(said).ok_or_else(|| format!("{what} is {said} s"))?;
    if number > is + slack(is) || number + slack(is) + below < is {
        return Err(format!("{what} is {}, but the inputs give {}", text(number), text(is)));
    }
    Ok(number)
}

/// What every schedule shorter than `value` spends without executing.
fn loading(instance: &Instance, said: f64, value: u128) -> Supported {
    let shorter = least_loading(instance, value.saturating_sub(1));
    // The figure may also be that of the bound itself, for which one load less may do; and where shares of a batch or a way to
    // a model were rounded down, a figure that is smaller is as true.
    let least = match rounded_shares(instance, 500) {
        0 => least_loading(instance, value + 2 * WAY),
        _ => 0,
    };
    let below = slack(least) + WAY * u128::from(instance.cluster.gpus);
    let fits = |&number: &u128| number <= shorter + slack(shorter) && number + below >= least;
    match claimed(said).filter(fits) {
        Some(_) => Ok(shorter),
        None => Err(format!("loading is {said} GPU-seconds, but the inputs give {}", text(shorter))),
    }
}

/// The least GPU-time without execution in a schedule that ends at `end`: every GPU waits for the first node that can begin,
/// and a model needs as many loads as its work does not fit into one stay from its earliest moment to the end. A load may
/// fall into that wait, so the larger counts. Where models share a GPU, loads may also go on beside executions.
fn least_loading(instance: &Instance, end: u128) -> u128 {
    let entries = figures::entries(instance);
    let idle = u128::from(figures::earliest(instance, &entries)) * u128::from(instance.cluster.gpus);
    if instance.cluster.residency == Residency::Memory {
        return idle;
    }
    let loads = figures::cheapest_loads(instance);
    let work = figures::work(instance);
    let loading = work.iter_enumerated().filter(|&(_, &work)| work > 0).map(|(model, &work)| {
        let stay = end.saturating_sub(u128::from(entries[model])).max(1);
        work.div_ceil(stay) * u128::from(instance.models[model].gpus) * u128::from(loads[model])
    });
    loading.sum::<u128>().max(idle)
}

/// A chain of a request's nodes: they run one after the other, behind what has to come before the first and with the loads
/// that have to come between them.
fn path(instance: &Instance, request: &str, names: &[String], head: f64) -> Supported {
    let found = instance.requests.iter_enumerated().find(|(_, one)| one.name == request);
    let (id, spec) = found.ok_or_else(|| format!("there is no request `{request}`"))?;
    let workflow = &instance.workflows[spec.workflow];
    let place = |name: &String| {
        figures::node(workflow, name).ok_or_else(|| format!("request `{request}` has no node `{name}`"))
    };
    let nodes: Vec<u32> = names.iter().map(place).collect::<Result<_, _>>()?;
    let Some(&first) = nodes.first() else { return Err("the path is empty".to_string()) };
    if let Some(pair) = nodes.windows(2).find(|pair| !workflow.successors(pair[0]).contains(&pair[1])) {
        let name = |node: u32| &workflow.nodes[node as usize];
        return Err(format!("`{}` does not wait for `{}`", name(pair[1]), name(pair[0])));
    }
    let between = figures::between(instance);
    let (heads, _) = figures::around(instance, &figures::entries(instance), &between, id);
    let head = fits("what comes before the path", head, u128::from(heads[first as usize]), WAY)?;
    let lengths = nodes.iter().map(|node| instance.execution(TaskId(spec.first_task.0 + node)).0);
    let model = |node: u32| workflow.models[node as usize];
    let loads = nodes.windows(2).map(|pair| between[model(pair[0])][model(pair[1])]);
    Ok(head + lengths.chain(loads).map(u128::from).sum::<u128>())
}

/// A set of one model's nodes on `k` replicas: each replica idles until the head of its first node, and the run goes on for
/// the tail of its last. Each node of the set can be given a replica of its own where there are fewer nodes than replicas.
fn on_replicas(
    instance: &Instance,
    model: &str,
    replicas: u64,
    (least_head, least_tail): (f64, f64),
    total: f64,
) -> Supported {
    let found = instance.models.iter_enumerated().find(|(_, one)| one.name == model);
    let (id, spec) = found.ok_or_else(|| format!("there is no model `{model}`"))?;
    let least = |seconds: f64| claimed(seconds).ok_or_else(|| format!("a limit of the set is {seconds} s"));
    let (least_head, least_tail) = (least(least_head)?, least(least_tail)?);
    let (entries, between) = (figures::entries(instance), figures::between(instance));
    let (mut heads, mut tails, mut work) = (Vec::new(), Vec::new(), 0);
    for (request, one) in instance.requests.iter_enumerated() {
        let models = &instance.workflows[one.workflow].models;
        if !models.contains(&id) {
            continue;
        }
        let (head, tail) = figures::around(instance, &entries, &between, request);
        for task in instance.tasks_of(request).filter(|&task| instance.model_of(task) == id) {
            let node = instance.node_of(task) as usize;
            if u128::from(head[node]) >= least_head && u128::from(tail[node]) >= least_tail {
                heads.push(head[node]);
                tails.push(tail[node]);
                work += u128::from(instance.execution(task).0);
            }
        }
    }
    let count = figures::replicas(instance, spec.gpus).min(heads.len() as u64);
    if count == 0 || count != replicas {
        let nodes = heads.len();
        return Err(format!(
            "it counts {replicas} replicas, but {count} can be at work on its {nodes} nodes"
        ));
    }
    let batched = spec.max_batch() > 1;
    // Where executions share a replica, several are its first: only the very least head and tail are certain.
    let sum = |times: &mut Vec<u64>| {
        times.sort_unstable();
        let certain = if batched { &times[..1] } else { &times[..count as usize] };
        certain.iter().copied().map(u128::from).sum::<u128>() * if batched { u128::from(count) } else { 1 }
    };
    let nodes = heads.len() as u128;
    let is = sum(&mut heads) + figures::at_best_batch(spec, work) + sum(&mut tails);
    // Each node's share of a batch may have been rounded down on its own, and each head.
    let below = WAY * u128::from(count) + if batched { is / 500 + nodes } else { 0 };
    let total = fits("the total", total, is, below)?;
    Ok(total.div_ceil(u128::from(count)))
}
