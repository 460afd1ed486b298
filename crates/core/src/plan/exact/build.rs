//! From an instance to a small problem, and from its steps back to a plan.

use super::problem::{MOST_GPUS, MOST_MODELS, MOST_TASKS, Model, Problem, Step, Task, Way};
use super::shares::Setups;
use super::symmetry::Symmetry;
use crate::id::{Gpus, ModelId, RequestId, TaskId};
use crate::instance::Instance;
use crate::plan::Plan;
use crate::plan::decode::{EMPTY, SwitchTable, is_exact};
use crate::plan::routes::{Detours, Routes};

/// What loads may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loads {
    /// What plans can do.
    AsPlanned,
    /// At least what any schedule can do.
    AnyWay,
}

/// A problem that is small enough.
pub(super) struct Small {
    pub problem: Problem,
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
        let table = SwitchTable::straight(instance);
        let (planned, relaxed) = (Routes::new(instance, &table), Routes::relaxed(instance, &table));
        let routes = if loads == Loads::AnyWay { &relaxed } else { &planned };
        let mut models: Vec<Model> =
            used.iter().map(|&id| model(instance, routes, &relaxed, &used, id)).collect();
        for held in 0..models.len() {
            models[held].longest_after = longest(models.iter().map(|model| model.ways[held + 1].as_slice()));
        }
        let lags = lags(&models, gpus);
        let tasks = tasks(instance, &used, &lags);
        let unit = unit(instance, &models);
        let mut by_tail: Vec<usize> = (0..tasks.len()).collect();
        by_tail.sort_by_key(|&at| std::cmp::Reverse(tasks[at].tail));
        let setups = Setups::new(models.len(), |held, model| models[model].entry[held]);
        let problem = Problem {
            gpus,
            order: order(instance),
            by_tail,
            requests: requests(instance),
            symmetry: symmetry(instance, &models, gpus),
            lags,
            unit,
            longest_load: longest(models.iter().flat_map(|model| &model.ways).map(Vec::as_slice)),
            hops: hops(&models, loads),
            setups,
            closed: loads == Loads::AnyWay,
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

fn model(instance: &Instance, routes: &Routes, relaxed: &Routes, used: &[ModelId], id: ModelId) -> Model {
    let held = std::iter::once(EMPTY).chain(used.iter().map(|model| model.0 + 1));
    let pairs = |routes: &Routes, held: u32| -> Vec<Way> {
        routes.ways(held, id, Detours::Always).iter().map(|way| (way.before, way.last)).collect()
    };
    let shortest = |ways: &Vec<Way>| ways.iter().map(|way| way.0 + way.1).min().unwrap_or(0);
    let ways: Vec<Vec<Way>> = held.clone().map(|held| pairs(routes, held)).collect();
    let entry: Vec<u64> = held.map(|held| shortest(&pairs(relaxed, held))).collect();
    let itself = used.iter().position(|&model| model == id).map(|at| at + 1);
    let others = entry.iter().enumerate().filter(|&(held, _)| Some(held) != itself);
    Model {
        width: instance.models[id].gpus as usize,
        windows: instance.models[id].windows().map(|window| window.first.index()).collect(),
        least_entry: others.map(|(_, &entry)| entry).min().unwrap_or(0),
        alone: ways.iter().map(shortest).collect(),
        ways,
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

/// The shortest chain of loads between what a GPU can hold, two by two; none leads to nothing, and in plans none brings a
/// model of several GPUs to one alone.
fn hops(models: &[Model], loads: Loads) -> Vec<u64> {
    let row = MOST_MODELS + 1;
    let mut hops = vec![u64::MAX / 4; row * row];
    for held in 0..=models.len() {
        for (number, model) in models.iter().enumerate() {
            if model.width == 1 || loads == Loads::AnyWay {
                hops[held * row + number + 1] = model.alone[held];
            }
        }
        hops[held * row + held] = 0;
    }
    hops
}

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
