//! From an instance to a small problem, and from its steps back to a plan.

use super::problem::{ExactProblem, MOST_GPUS, MOST_MODELS, MOST_TASKS, Model, Moves, Step, Task, Way};
use super::shares::Setups;
use super::symmetry::Symmetry;
use super::ways::{self, Loads};
use crate::id::{Gpus, ModelId, RequestId, TaskId};
use crate::instance::Instance;
use crate::plan::Plan;
use crate::plan::decode::{EMPTY, SwitchTable, is_exact};

/// A problem that is small enough.
pub(super) struct Small {
    pub problem: ExactProblem,
}

impl Small {
    /// `None` where there are too many tasks, GPUs or models, or where times do not follow from a plan alone.
    pub fn of(instance: &Instance, loads: Loads) -> Option<Small> {
        let gpus = instance.cluster.gpus as usize;
        if !is_exact(instance) || instance.tasks() > MOST_TASKS || gpus > MOST_GPUS {
            return None;
        }
        let mut used: Vec<ModelId> = instance.task_ids().map(|task| instance.model_of(task)).collect();
        used.sort_unstable();
        used.dedup();
        if used.len() > MOST_MODELS {
            return None;
        }
        let table = SwitchTable::new(instance);
        let chains = ways::chains(&table, &used);
        let of_model = |at: usize| {
            let entry = chains.iter().map(|row| row[at]).collect();
            model(instance, &table, &used, used[at], entry, loads)
        };
        let mut models: Vec<Model> = (0..used.len()).map(of_model).collect();
        let cold_is_shortest = ways::cold_is_shortest(&table, &used);
        for held in 0..models.len() {
            models[held].longest_after = longest(models.iter().map(|model| model.ways[held + 1].as_slice()));
        }
        let lags = lags(&models, gpus);
        let tasks = tasks(instance, &used, &lags);
        let unit = unit(instance, &models);
        let mut by_tail: Vec<usize> = (0..tasks.len()).collect();
        by_tail.sort_by_key(|&at| std::cmp::Reverse(tasks[at].tail));
        let setups = Setups::new(models.len(), |held, model| models[model].entry[held]);
        let problem = ExactProblem {
            gpus,
            order: order(instance),
            by_tail,
            requests: requests(instance),
            symmetry: symmetry(instance, &models, gpus),
            lags,
            unit,
            longest_load: longest(models.iter().flat_map(|model| &model.ways).map(Vec::as_slice)),
            hops: hops(&models, loads, cold_is_shortest),
            setups,
            closed: loads == Loads::AnyWay && cold_is_shortest,
            moves: Moves::of(instance, &models, &used, cold_is_shortest),
            forced: (0..gpus).map(|gpu| forced(&models, gpu)).collect(),
            tasks,
            models,
        };
        Some(Small { problem })
    }

    pub fn plan(&self, instance: &Instance, steps: &[Step]) -> Plan {
        let placed = |step: &Step| {
            let task = TaskId::from(step.task);
            (task, Gpus::new(step.window as u32, instance.models[instance.model_of(task)].gpus))
        };
        Plan(steps.iter().map(placed).collect())
    }
}

/// The longest time before a load and the longest load together.
fn longest<'a>(ways: impl Iterator<Item = &'a [Way]> + Clone) -> u64 {
    let most = |part: fn(&Way) -> u64| ways.clone().flatten().map(part).max().unwrap_or(0);
    most(|way| way.0) + most(|way| way.1)
}

fn model(
    instance: &Instance,
    table: &SwitchTable,
    used: &[ModelId],
    id: ModelId,
    entry: Vec<u64>,
    loads: Loads,
) -> Model {
    let held = std::iter::once(EMPTY).chain(used.iter().map(|model| model.0 + 1));
    let itself = used.iter().position(|&model| model == id).map(|at| at + 1);
    let others = entry.iter().enumerate().filter(|&(held, _)| Some(held) != itself);
    Model {
        width: instance.models[id].gpus as usize,
        windows: instance.models[id].windows().map(|window| window.first.index()).collect(),
        least_entry: others.map(|(_, &entry)| entry).min().unwrap_or(0),
        alone: held.clone().map(|held| table.span(held, id).0).collect(),
        ways: held.map(|held| ways::ways(instance, table, held, id, loads)).collect(),
        entry,
        longest_after: 0,
    }
}

fn tasks(instance: &Instance, used: &[ModelId], lags: &[u64]) -> Vec<Task> {
    let mut tasks: Vec<Task> = instance
        .task_ids()
        .map(|task| Task {
            execution: instance.execution(task).0,
            arrival: instance.requests[instance.request_of(task)].arrival.0,
            model: used.binary_search(&instance.model_of(task)).unwrap_or(0),
            inputs: instance
                .predecessors(task)
                .map(|before| 1 << before.index())
                .fold(0, |set, bit: u64| set | bit),
            tail: 0,
            request: instance.request_of(task).index(),
        })
        .collect();
    for task in order(instance).into_iter().rev() {
        let after = instance.successors(TaskId::from(task)).map(|after| &tasks[after.index()]);
        let lag = |after: &Task| lags[tasks[task].model * used.len() + after.model];
        tasks[task].tail = after.map(|after| lag(after) + after.execution + after.tail).max().unwrap_or(0);
    }
    tasks
}

/// The tasks, inputs first.
fn order(instance: &Instance) -> Vec<usize> {
    let of_request = |request: &crate::instance::Request| {
        let first = request.first_task.index();
        let nodes = instance.workflows[request.workflow].order.iter();
        nodes.map(move |&node| first + node as usize).collect::<Vec<usize>>()
    };
    instance.requests.iter().flat_map(of_request).collect()
}

fn requests(instance: &Instance) -> Vec<(usize, usize)> {
    let of = |request: RequestId| {
        (instance.requests[request].first_task.index(), instance.tasks_of(request).count())
    };
    instance.requests.keys().map(of).collect()
}

fn symmetry(instance: &Instance, models: &[Model], gpus: usize) -> Symmetry {
    let looks = |request: RequestId| {
        let spec = &instance.requests[request];
        let times: Vec<u64> = instance.tasks_of(request).map(|task| instance.execution(task).0).collect();
        (spec.workflow, spec.arrival, times)
    };
    let all: Vec<_> = instance.requests.keys().map(looks).collect();
    let alike = (0..all.len()).map(|at| all.iter().position(|other| *other == all[at]).unwrap_or(at));
    let set = |(first, count): (usize, usize)| (first..first + count).fold(0, |set, task| set | 1 << task);
    let of_request = requests(instance).into_iter().map(set).collect();
    // Windows of one width are alike, whatever the model.
    let mut windows: Vec<u32> = Vec::new();
    for model in models {
        windows.extend(model.windows.iter().map(|&first| ((1 << model.width) - 1) << first));
    }
    windows.sort_unstable();
    windows.dedup();
    Symmetry::new(&alike.collect::<Vec<usize>>(), of_request, gpus, &windows)
}

/// By how much sooner a GPU must be free to be as good with what it holds as with something else, two by two.
fn hops(models: &[Model], loads: Loads, cold_is_shortest: bool) -> Vec<u64> {
    let row = MOST_MODELS + 1;
    let mut hops = vec![NEVER; row * row];
    for held in 0..=models.len() {
        for other in 0..=models.len() {
            let hop = if held == other {
                Some(0)
            } else if cold_is_shortest {
                // It can load what the other holds, and that is then as good as if it had executed something.
                let can = |model: &&Model| model.width == 1 || loads == Loads::AnyWay;
                other.checked_sub(1).map(|at| &models[at]).filter(can).map(|model| model.alone[held])
            } else {
                models.iter().try_fold(0, |hop: u64, model| Some(hop.max(behind(model, held, other)?)))
            };
            hops[held * row + other] = hop.unwrap_or(NEVER);
        }
    }
    hops
}

/// By how much later a model may be on a GPU that holds `held` than on one that holds `other`; `None` where a load may also
/// take longer, which matters if the GPU is not the last of its window to be free.
fn behind(model: &Model, held: usize, other: usize) -> Option<u64> {
    if model.width == 1 {
        return Some(model.alone[held].saturating_sub(model.alone[other]));
    }
    let no_longer = |&(before, last): &Way| {
        let way = model.ways[held].iter().rfind(|way| way.1 <= last)?;
        Some(way.0.saturating_sub(before))
    };
    model.ways[other].iter().try_fold(0, |most: u64, way| Some(most.max(no_longer(way)?)))
}

/// More than any schedule takes, and so little that sums of it do not overflow.
const NEVER: u64 = u64::MAX / 4;

/// The least that lies between the end of a task of one model and the start of one of another that waits for it, row by row:
/// where no two windows of the two are apart, some GPU has to change from the one to the other in between.
fn lags(models: &[Model], gpus: usize) -> Vec<u64> {
    let pairs =
        models.iter().enumerate().flat_map(|(held, one)| models.iter().map(move |other| (held, one, other)));
    let lag = |(held, one, other): (usize, &Model, &Model)| {
        if one.width + other.width > gpus { other.entry[held + 1] } else { 0 }
    };
    pairs.map(lag).collect()
}

/// Every time of a schedule is a sum of executions, loads and an arrival: a multiple of what they are all multiples of.
fn unit(instance: &Instance, models: &[Model]) -> u64 {
    fn common(one: u64, other: u64) -> u64 {
        if other == 0 { one } else { common(other, one % other) }
    }
    let executions = instance.task_ids().map(|task| instance.execution(task).0);
    let arrivals = instance.requests.iter().map(|request| request.arrival.0);
    let ways = models.iter().flat_map(|model| model.ways.iter().flatten()).flat_map(|way| [way.0, way.1]);
    executions.chain(arrivals).chain(ways).fold(0, common).max(1)
}

/// The models all of whose windows contain a GPU.
fn forced(models: &[Model], gpu: usize) -> usize {
    let always = |model: &Model| model.windows.iter().all(|&first| first <= gpu && gpu < first + model.width);
    models.iter().enumerate().filter(|(_, model)| always(model)).map(|(at, _)| 1 << at).sum()
}

impl Moves {
    fn of(instance: &Instance, models: &[Model], used: &[ModelId], cold_is_shortest: bool) -> Moves {
        if cold_is_shortest {
            return Moves::Always;
        }
        if models.iter().any(|model| model.width > 1) {
            return Moves::Never;
        }
        let mut shortest = vec![u64::MAX; models.len()];
        for task in instance.task_ids() {
            let least = &mut shortest[used.binary_search(&instance.model_of(task)).unwrap_or(0)];
            *least = (*least).min(instance.execution(task).0);
        }
        let straight = |to: &Model| {
            let round = |via: usize| models[via].alone[0] + shortest[via] + to.alone[via + 1];
            (0..models.len()).all(|via| to.alone[0] <= round(via))
        };
        if models.iter().all(straight) { Moves::Always } else { Moves::FromGpusInUse }
    }
}
