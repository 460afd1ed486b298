//! Two runs of the same requests side by side: what moved, and what it cost.
//!
//! Requests and nodes are matched by their names, so that runs on other GPUs, of other policies or in another mode can be
//! compared; everything is computed from the instances and the logs, whatever program made them.

mod nodes;
mod requests;

pub use nodes::{FirstDifference, NodeChanges, NodePlacement};
pub use requests::{LatencyParts, RequestChanges, RequestMove};

use crate::explain::Timeline;
use crate::id::{RequestId, TaskId};
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::report::{Metrics, metrics};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// A figure of both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureChange {
    /// What it is.
    pub name: &'static str,
    /// `s`, `%`, `GPU s`, or nothing for a number of things.
    pub unit: &'static str,
    /// Of the first run.
    pub first: f64,
    /// Of the second.
    pub second: f64,
    /// Whether less is better, or more; `None` where neither is.
    pub less_is_better: Option<bool>,
}

impl FigureChange {
    /// Second minus first.
    #[must_use]
    pub fn change(&self) -> f64 {
        self.second - self.first
    }

    /// The change in percent of the first; `None` of nothing.
    #[must_use]
    pub fn percent(&self) -> Option<f64> {
        (self.first != 0.0 && self.unit != "%").then(|| 100.0 * self.change() / self.first)
    }
}

/// One model in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelChange {
    /// Its name.
    pub model: String,
    /// Loads of it, in the first run and in the second.
    pub loads: [u64; 2],
    /// GPU seconds that went into them.
    pub load_gpu_seconds: [f64; 2],
    /// GPUs that ever executed it.
    pub gpus: [u64; 2],
}

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// The runs' figures.
    pub figures: Vec<FigureChange>,
    /// Where the time of all GPUs went.
    pub gpu_time: Vec<FigureChange>,
    /// Models that were loaded or placed otherwise, the largest change of load time first.
    pub models: Vec<ModelChange>,
    /// What became of the nodes.
    pub nodes: NodeChanges,
    /// What became of the requests.
    pub requests: RequestChanges,
}

/// A run: the problem, and what happened.
#[derive(Clone, Copy)]
pub struct RunSide<'a> {
    /// The problem.
    pub instance: &'a Instance,
    /// What happened.
    pub log: &'a ExecutionLog,
}

/// Puts two runs side by side, with the `top` requests that changed most in each direction. `None` where they have no
/// request in common.
#[must_use]
pub fn diff(first: RunSide<'_>, second: RunSide<'_>, top: usize) -> Option<Diff> {
    let pairs = Pairs::of(first.instance, second.instance);
    if pairs.requests.is_empty() {
        return None;
    }
    let measured = [metrics(first.instance, first.log), metrics(second.instance, second.log)];
    let timelines = [Timeline::new(first.instance, first.log), Timeline::new(second.instance, second.log)];
    Some(Diff {
        figures: figures(&measured),
        gpu_time: gpu_time(&measured),
        models: models([first, second]),
        nodes: nodes::nodes(&timelines, &pairs),
        requests: requests::requests(&timelines, &pairs, top),
    })
}

/// What the two problems have in common.
struct Pairs {
    requests: Vec<[RequestId; 2]>,
    tasks: Vec<[TaskId; 2]>,
    /// Requests of the first alone, and of the second alone.
    alone: [usize; 2],
}

impl Pairs {
    fn of(first: &Instance, second: &Instance) -> Pairs {
        let by_name: FxHashMap<&str, RequestId> =
            second.requests.iter_enumerated().map(|(id, request)| (request.name.as_str(), id)).collect();
        let mut pairs = Pairs { requests: Vec::new(), tasks: Vec::new(), alone: [0, 0] };
        for (one, request) in first.requests.iter_enumerated() {
            let Some(&other) = by_name.get(request.name.as_str()) else {
                pairs.alone[0] += 1;
                continue;
            };
            pairs.requests.push([one, other]);
            let there = &second.workflows[second.requests[other].workflow].nodes;
            for task in first.tasks_of(one) {
                let place = first.node_of(task) as usize;
                let name = &first.workflows[request.workflow].nodes[place];
                // Mostly the two workflows are the same, and then so are the places.
                let same = there.get(place) == Some(name);
                let found = if same { Some(place) } else { there.iter().position(|node| node == name) };
                if let Some(node) = found {
                    pairs.tasks.push([task, TaskId(second.requests[other].first_task.0 + node as u32)]);
                }
            }
        }
        pairs.alone[1] = second.requests.len() - pairs.requests.len();
        pairs
    }
}

fn figures(measured: &[Metrics; 2]) -> Vec<FigureChange> {
    let figure = |name, unit, less_is_better, of: &dyn Fn(&Metrics) -> f64| {
        let [first, second] = [of(&measured[0]), of(&measured[1])];
        FigureChange { name, unit, first, second, less_is_better }
    };
    let (less, more) = (Some(true), Some(false));
    let mut all = vec![
        figure("Makespan", "s", less, &|run| run.makespan.seconds()),
        figure("Requests completed", "", more, &|run| run.completed_requests as f64),
        figure("Mean latency", "s", less, &|run| run.request_latency.mean),
        figure("Median latency", "s", less, &|run| run.request_latency.median),
        figure("P99 latency", "s", less, &|run| run.request_latency.p99),
        figure("Model switches", "", less, &|run| run.model_switches as f64),
        figure("Cold loads", "", None, &|run| run.cold_loads as f64),
        figure("Switch time", "s", less, &|run| run.total_switch_time.seconds()),
        figure("Utilisation", "%", None, &|run| 100.0 * run.utilisation.mean),
        figure("Retries", "", less, &|run| run.retries as f64),
        figure("Deadlines missed", "", less, &|run| run.deadline_misses as f64),
        figure("GPUs", "", less, &|run| run.gpus.len() as f64),
    ];
    let always = ["Makespan", "Mean latency", "P99 latency", "Model switches", "Utilisation"];
    all.retain(|one| always.contains(&one.name) || one.first != one.second);
    all
}

/// Executing, loading and idle, over all GPUs from the first arrival to the last end.
fn gpu_time(measured: &[Metrics; 2]) -> Vec<FigureChange> {
    let parts = measured.each_ref().map(|run| {
        let sum =
            |of: fn(&crate::report::GpuMetrics) -> u64| run.gpus.iter().map(of).sum::<u64>() as f64 / 1e6;
        let (busy, compute) = (sum(|gpu| gpu.busy.0), sum(|gpu| gpu.compute.0));
        let whole = run.makespan.seconds() * run.gpus.len() as f64;
        [compute, busy - compute, whole - busy, whole]
    });
    let name = [("Executing", None), ("Loading", Some(true)), ("Idle", Some(true)), ("Together", Some(true))];
    let rows = name.into_iter().enumerate();
    rows.map(|(at, (name, less_is_better))| FigureChange {
        name,
        unit: "GPU s",
        first: parts[0][at],
        second: parts[1][at],
        less_is_better,
    })
    .collect()
}

fn models(sides: [RunSide<'_>; 2]) -> Vec<ModelChange> {
    let mut all: Vec<ModelChange> = Vec::new();
    let mut places: FxHashMap<String, usize> = FxHashMap::default();
    for (side, RunSide { instance, log }) in sides.into_iter().enumerate() {
        let mut used = vec![(0, 0.0, vec![false; instance.cluster.gpus as usize]); instance.models.len()];
        for one in &log.executions {
            let (loads, seconds, gpus) = &mut used[instance.model_of(one.task).index()];
            if one.switch.0 > 0 {
                *loads += 1;
                *seconds += one.switch.seconds() * f64::from(one.gpus.count);
            }
            one.gpus.range().for_each(|gpu| gpus[gpu] = true);
        }
        for load in &log.loads {
            let (loads, seconds, _) = &mut used[load.model.index()];
            *loads += 1;
            *seconds += load.end.since(load.start).seconds() * f64::from(load.gpus.count);
        }
        for (model, (loads, seconds, gpus)) in instance.models.iter().zip(used) {
            let place = *places.entry(model.name.clone()).or_insert_with(|| {
                let (loads, load_gpu_seconds, gpus) = ([0; 2], [0.0; 2], [0; 2]);
                all.push(ModelChange { model: model.name.clone(), loads, load_gpu_seconds, gpus });
                all.len() - 1
            });
            all[place].loads[side] = loads;
            all[place].load_gpu_seconds[side] = seconds;
            all[place].gpus[side] = gpus.into_iter().filter(|&used| used).count() as u64;
        }
    }
    all.retain(|one| {
        one.loads[0] != one.loads[1] || one.gpus[0] != one.gpus[1] || {
            (one.load_gpu_seconds[0] - one.load_gpu_seconds[1]).abs() > 1e-6
        }
    });
    let changed = |one: &ModelChange| (one.load_gpu_seconds[1] - one.load_gpu_seconds[0]).abs();
    all.sort_by(|one, other| {
        changed(other).total_cmp(&changed(one)).then_with(|| one.model.cmp(&other.model))
    });
    all
}
