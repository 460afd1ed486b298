//! How far a run deviated from its prediction, per node, per request and as a whole. Both are logs of the same problem.

mod replay;

pub use replay::replay;

use crate::id::{IdVec, TaskId};
use crate::instance::Instance;
use crate::log::{Execution, ExecutionLog, Status};
use crate::report::metrics;
use serde::Serialize;

/// A figure as it was predicted and as it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// Before the run, or from its decisions.
    pub predicted: f64,
    /// In the run.
    pub measured: f64,
    /// How far the prediction is above what was measured, in percent of that; `None` where that is nothing.
    pub error_percent: Option<f64>,
}

impl Compared {
    fn new(predicted: f64, measured: f64) -> Compared {
        let error_percent = (measured > 0.0).then(|| 100.0 * (predicted - measured) / measured);
        Compared { predicted, measured, error_percent }
    }
}

/// Errors of many predictions, in percent of what was measured, by their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Of how many.
    pub count: usize,
    /// Half of them are smaller.
    pub median: f64,
    /// One in ten is larger.
    pub p90: f64,
    /// The largest.
    pub worst: f64,
    /// With their signs: above zero where more was predicted than measured.
    pub mean_signed: f64,
}

impl Errors {
    fn of(signed: impl Iterator<Item = f64>) -> Errors {
        let signed: Vec<f64> = signed.collect();
        let mut sizes: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let at = |p: f64| {
            let place = p * (sizes.len() - 1) as f64;
            let (low, high) = (sizes[place.floor() as usize], sizes[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        if sizes.is_empty() {
            return Errors::default();
        }
        Errors {
            count: sizes.len(),
            median: at(0.5),
            p90: at(0.9),
            worst: sizes[sizes.len() - 1],
            mean_signed: signed.iter().sum::<f64>() / signed.len() as f64,
        }
    }
}

/// One node or request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct One {
    /// A request, or `request/node`.
    pub name: String,
    /// The model of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Seconds that it took.
    pub seconds: Compared,
}

/// The executions of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfModel {
    /// Which.
    pub model: String,
    /// The seconds of all its executions together.
    pub executing: Compared,
    /// Of its executions one by one.
    pub errors: Errors,
    /// Loads, predicted and measured.
    pub loads: (u64, u64),
    /// The mean seconds of a load.
    pub load: Compared,
}

/// How far a prediction was off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fidelity {
    /// From the first arrival to the last end.
    pub makespan: Compared,
    /// The sum of all loads and switches.
    pub switch_time: Compared,
    /// Loads of either sort, predicted and measured.
    pub loads: (u64, u64),
    /// Latencies of requests.
    pub requests: Errors,
    /// Latency of the median request.
    pub median_latency: Compared,
    /// Execution times of nodes.
    pub nodes: Errors,
    /// Nodes by model.
    pub models: Vec<OfModel>,
    /// The requests that were predicted worst.
    pub worst_requests: Vec<One>,
    /// The nodes that were predicted worst.
    pub worst_nodes: Vec<One>,
    /// Latencies of requests, predicted and measured, for charts.
    #[serde(skip)]
    pub latencies: Vec<(f64, f64)>,
    /// Execution times of nodes, predicted and measured, for charts.
    #[serde(skip)]
    pub executions: Vec<(f64, f64)>,
}

/// Compares a prediction with a run; lists the `top` largest errors. Work that either did not complete is omitted.
#[must_use]
pub fn fidelity(
    instance: &Instance,
    predicted: &ExecutionLog,
    measured: &ExecutionLog,
    top: usize,
) -> Fidelity {
    let runs = [by_task(instance, predicted), by_task(instance, measured)];
    let totals = [metrics(instance, predicted), metrics(instance, measured)];
    let compared =
        |of: &dyn Fn(&crate::report::Metrics) -> f64| Compared::new(of(&totals[0]), of(&totals[1]));
    let both = |task: TaskId| Some((runs[0][task]?, runs[1][task]?));
    let mut nodes = Vec::new();
    for task in instance.task_ids() {
        let Some((one, other)) = both(task) else { continue };
        let seconds = Compared::new((one.end - one.start).seconds(), (other.end - other.start).seconds());
        let model = instance.model_of(task);
        nodes.push((
            model,
            One { name: instance.task_name(task), model: Some(instance.models[model].name.clone()), seconds },
        ));
    }
    let mut requests = Vec::new();
    for (id, request) in instance.requests.iter_enumerated() {
        let ends: Option<Vec<_>> =
            instance.tasks_of(id).map(|task| both(task).map(|(a, b)| (a.end, b.end))).collect();
        let Some(ends) = ends else { continue };
        let last = |of: fn(&(crate::Time, crate::Time)) -> crate::Time| ends.iter().map(of).max();
        let (Some(one), Some(other)) = (last(|ends| ends.0), last(|ends| ends.1)) else { continue };
        let latency = |end: crate::Time| end.since(request.arrival).seconds();
        let seconds = Compared::new(latency(one), latency(other));
        requests.push(One { name: request.name.clone(), model: None, seconds });
    }
    let pairs = |of: &mut dyn Iterator<Item = &One>| -> Vec<(f64, f64)> {
        of.map(|one| (one.seconds.predicted, one.seconds.measured)).collect()
    };
    let models = instance.models.iter_enumerated().filter_map(|(id, model)| {
        let of: Vec<&One> = nodes.iter().filter(|(of, _)| *of == id).map(|(_, one)| one).collect();
        let loads = [loads_of(instance, predicted, id), loads_of(instance, measured, id)];
        if of.is_empty() {
            return None;
        }
        let sum = |what: fn(&One) -> f64| of.iter().map(|one| what(one)).sum::<f64>();
        let mean = |(count, seconds): (u64, f64)| if count > 0 { seconds / count as f64 } else { 0.0 };
        Some(OfModel {
            model: model.name.clone(),
            executing: Compared::new(sum(|one| one.seconds.predicted), sum(|one| one.seconds.measured)),
            errors: Errors::of(of.iter().filter_map(|one| one.seconds.error_percent)),
            loads: (loads[0].0, loads[1].0),
            load: Compared::new(mean(loads[0]), mean(loads[1])),
        })
    });
    let loads = [&totals[0], &totals[1]].map(|run| run.model_switches + run.cold_loads);
    Fidelity {
        makespan: compared(&|run| run.makespan.seconds()),
        switch_time: compared(&|run| run.total_switch_time.seconds()),
        loads: (loads[0], loads[1]),
        requests: Errors::of(requests.iter().filter_map(|one| one.seconds.error_percent)),
        median_latency: compared(&|run| run.request_latency.median),
        nodes: Errors::of(nodes.iter().filter_map(|(_, one)| one.seconds.error_percent)),
        models: models.collect(),
        latencies: pairs(&mut requests.iter()),
        executions: pairs(&mut nodes.iter().map(|(_, one)| one)),
        worst_requests: worst(requests.into_iter(), top),
        worst_nodes: worst(nodes.into_iter().map(|(_, one)| one), top),
    }
}

/// The execution that completed each task.
fn by_task<'l>(instance: &Instance, log: &'l ExecutionLog) -> IdVec<TaskId, Option<&'l Execution>> {
    let mut found: IdVec<TaskId, Option<&Execution>> = vec![None; instance.tasks()].into();
    let done = log.executions.iter().filter(|one| one.status == Status::Completed);
    done.for_each(|one| found[one.task] = Some(one));
    found
}

/// How often a model was loaded, and what that took altogether.
fn loads_of(instance: &Instance, log: &ExecutionLog, model: crate::ModelId) -> (u64, f64) {
    let for_runs =
        log.executions.iter().filter(|one| one.switch.0 > 0 && instance.model_of(one.task) == model);
    let ahead = log.loads.iter().filter(|load| load.model == model && load.status == Status::Completed);
    let spans: Vec<f64> = for_runs
        .map(|one| one.switch.seconds())
        .chain(ahead.map(|load| (load.end - load.start).seconds()))
        .collect();
    (spans.len() as u64, spans.iter().sum())
}

fn worst(all: impl Iterator<Item = One>, top: usize) -> Vec<One> {
    let mut all: Vec<One> = all.collect();
    let size = |one: &One| one.seconds.error_percent.map_or(0.0, f64::abs);
    all.sort_by(|one, other| size(other).total_cmp(&size(one)).then_with(|| one.name.cmp(&other.name)));
    all.truncate(top);
    all
}
