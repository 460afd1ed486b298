//! A snapshot of a run between two steps: what is on the GPUs, what waits, and why.

use crate::chronicle::{in_words, numbers, whose};
use crate::wire::{
    BarKind, CallStanding, GpuState, GpuStatus, ModelQueue, ModelStatus, NodeState, OngoingBar, QueuedNode,
};
use gswarm_core::engine::{RunningTask, TaskState, View};
use gswarm_core::instance::Residency;
use gswarm_core::{GpuId, Gpus, ModelId, RequestId, TaskId, Time};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// A node's place among those that wait for the same model.
pub type Rank = (Reverse<i32>, Time, TaskId);

/// A look at an engine, whoever drives it.
#[derive(Clone, Copy)]
pub struct Scene<'s> {
    /// The engine.
    pub view: View<'s>,
    /// The time that it is, which may be later than that of the last thing that happened.
    pub now: Time,
    /// Since when each task that is ready waits.
    pub ready: &'s FxHashMap<TaskId, Time>,
    /// Why nobody serves a model, where the servers are known.
    pub unserved: Option<&'s FxHashMap<ModelId, String>>,
}

impl Scene<'_> {
    /// What is on each GPU, and what it does.
    #[must_use]
    pub fn gpus(&self) -> Vec<GpuStatus> {
        let view = self.view;
        let instance = view.instance();
        let now = self.now;
        let cluster = &instance.cluster;
        // What is only usual says nothing of these GPUs.
        let is_known = cluster.gpu_memory_given || cluster.residency == Residency::Memory;
        let has = is_known.then_some(cluster.gpu_memory_gb);
        let gpus = (0..cluster.gpus).map(GpuId).map(|gpu| {
            let held = instance.models.keys().filter(|&model| view.holding(model).contains(gpu));
            let held = held.map(|model| instance.models[model].name.clone());
            let state = match (view.alive().contains(gpu), view.is_loading(gpu), view.is_running(gpu)) {
                (false, ..) => GpuState::Lost,
                (_, true, _) => GpuState::Loading,
                (_, _, true) => GpuState::Running,
                _ => GpuState::Idle,
            };
            let used: u64 = instance
                .models
                .iter_enumerated()
                .filter(|&(model, _)| view.holding(model).contains(gpu))
                .map(|(_, model)| model.memory_per_gpu)
                .sum();
            GpuStatus {
                gpu: gpu.0,
                server: cluster.server_of(gpu.0),
                state,
                models: held.collect(),
                loading: view.being_loaded(gpu).map(|model| instance.models[model].name.clone()),
                memory_gb: used as f64 / 1000.0,
                memory_total_gb: has,
                batch: view.batch_at(gpu),
                free_in: view.free_at(gpu).since(now).seconds(),
                overdue: match state {
                    GpuState::Running | GpuState::Loading => now.since(view.free_at(gpu)).seconds(),
                    GpuState::Idle | GpuState::Lost => 0.0,
                },
            }
        });
        gpus.collect()
    }

    /// For each model, the nodes that are ready and wait for it: the more urgent first, then in the order in which they became
    /// ready.
    #[must_use]
    pub fn ranks(&self) -> Vec<Vec<Rank>> {
        let view = self.view;
        let instance = view.instance();
        let mut ranks = vec![Vec::new(); instance.models.len()];
        for (&task, &since) in self.ready {
            ranks[instance.model_of(task).index()].push(self.rank(task, since));
        }
        ranks.iter_mut().for_each(|tasks| tasks.sort_unstable());
        ranks
    }

    fn rank(&self, task: TaskId, since: Time) -> Rank {
        let view = self.view;
        (Reverse(view.instance().requests[view.instance().request_of(task)].priority), since, task)
    }

    /// The models that nodes wait for.
    #[must_use]
    pub fn by_model(&self) -> Vec<ModelQueue> {
        let view = self.view;
        let instance = view.instance();
        let now = self.now;
        let models = self.ranks().into_iter().enumerate().filter(|(_, tasks)| !tasks.is_empty());
        let models = models.map(|(model, tasks)| {
            let model = ModelId::from(model);
            let first = tasks.iter().map(|&(_, since, _)| since).min();
            let longest = first.map_or(0.0, |since| now.since(since).seconds());
            ModelQueue {
                model: instance.models[model].name.clone(),
                waiting: tasks.len() as u64,
                longest_wait: longest,
                why: self.why(model),
            }
        });
        models.collect()
    }

    /// All models: where they are, and who waits for them.
    #[must_use]
    pub fn models(&self) -> Vec<ModelStatus> {
        let instance = self.view.instance();
        // Nobody's place in the row is asked for here, so that nothing is put in order.
        let mut waits = vec![(0u64, Time::NEVER); instance.models.len()];
        for (&task, &since) in self.ready {
            let (count, first) = &mut waits[instance.model_of(task).index()];
            (*count, *first) = (*count + 1, since.min(*first));
        }
        let models =
            instance.models.iter_enumerated().zip(waits).map(|((model, spec), (count, first))| ModelStatus {
                name: spec.name.clone(),
                waiting: count,
                longest_wait: if count == 0 { 0.0 } else { self.now.since(first).seconds() },
                why: (count > 0).then(|| self.why(model)),
                resident_on: self.replicas(model).flat_map(Gpus::iter).map(|gpu| gpu.0).collect(),
            });
        models.collect()
    }

    /// Where a model is, whole: what is left of it on GPUs beside others that were given to another model is of no use.
    fn replicas(&self, model: ModelId) -> impl Iterator<Item = Gpus> + '_ {
        let (view, mut next) = (self.view, 0);
        let windows = view.instance().models[model].windows();
        // A window that begins inside of one that is a replica is none itself.
        windows.filter(move |gpus| {
            let is_one = gpus.first.0 >= next && view.holding(model).contains_all(*gpus);
            if is_one {
                next = gpus.first.0 + gpus.count;
            }
            is_one
        })
    }

    /// What executes or loads just now.
    #[must_use]
    pub fn ongoing(&self) -> Vec<OngoingBar> {
        let instance = self.view.instance();
        let executing = self.view.under_way().filter_map(|one: RunningTask| {
            let start = one.began?;
            let whose = whose(instance, one.task);
            let node = &instance.workflow_of(one.task).nodes[whose.node.place as usize];
            let end = self.view.free_at(one.gpus.first);
            let bar = self.bar(BarKind::Run, instance.model_of(one.task), one.gpus, (start, end));
            Some(OngoingBar { request: Some(whose.request.to_string()), node: Some(node.clone()), ..bar })
        });
        let loads = self.view.loads();
        let loading =
            loads.map(|(model, gpus, start, end)| self.bar(BarKind::Load, model, gpus, (start, end)));
        executing.chain(loading).collect()
    }

    fn bar(&self, kind: BarKind, model: ModelId, gpus: Gpus, (start, end): (Time, Time)) -> OngoingBar {
        OngoingBar {
            kind,
            gpus: numbers(gpus),
            model: self.view.instance().models[model].name.clone(),
            request: None,
            node: None,
            start: start.seconds(),
            ok: true,
            why: None,
            expected_end: Some(end.seconds()),
        }
    }

    /// Nodes that execute, or wait on their GPUs for their model.
    #[must_use]
    pub fn running_nodes(&self) -> usize {
        self.view.under_way().count()
    }

    /// Where the nodes of a request stand.
    #[must_use]
    pub fn nodes(&self, id: RequestId, ranks: &[Vec<Rank>]) -> Vec<QueuedNode> {
        let view = self.view;
        let instance = view.instance();
        let now = self.now;
        let workflow = &instance.workflows[instance.requests[id].workflow];
        let nodes = instance.tasks_of(id).map(|task| {
            let model = instance.model_of(task);
            let node = QueuedNode {
                node: workflow.nodes[instance.node_of(task) as usize].clone(),
                model: instance.models[model].name.clone(),
                state: NodeState::Running,
                position: None,
                waited: None,
                why: None,
            };
            match view.state(task) {
                TaskState::Waiting => {
                    let waits =
                        instance.predecessors(task).filter(|&before| view.state(before) != TaskState::Done);
                    let waits: Vec<&str> = waits
                        .map(|before| workflow.nodes[instance.node_of(before) as usize].as_str())
                        .collect();
                    let why = format!("it needs the output of {}", waits.join(", "));
                    QueuedNode { state: NodeState::Waiting, why: Some(why), ..node }
                }
                TaskState::Ready => {
                    let since = self.ready.get(&task).copied().unwrap_or(now);
                    let place = ranks[model.index()].binary_search(&self.rank(task, since)).unwrap_or(0);
                    QueuedNode {
                        state: NodeState::Ready,
                        position: Some(place as u64),
                        waited: Some(now.since(since).seconds()),
                        why: Some(self.why(model)),
                        ..node
                    }
                }
                TaskState::Held => {
                    let failed = view.failures(task);
                    let unserved = self.unserved.and_then(|unserved| unserved.get(&model)).cloned();
                    let why = match (failed, unserved) {
                        (_, Some(why)) => why,
                        (0, _) => {
                            "its server failed; it will be retried shortly, without using up an attempt"
                                .to_owned()
                        }
                        _ => format!("it failed and will be retried shortly; failed attempts: {failed}"),
                    };
                    QueuedNode { state: NodeState::Paused, why: Some(why), ..node }
                }
                TaskState::Running => node,
                TaskState::Done => QueuedNode { state: NodeState::Done, ..node },
                TaskState::GivenUp => QueuedNode { state: NodeState::GivenUp, ..node },
            }
        });
        nodes.collect()
    }

    /// Where the only node of a call stands.
    #[must_use]
    pub fn call(&self, task: TaskId) -> CallStanding {
        let (view, now) = (self.view, self.now);
        let instance = view.instance();
        let model = instance.model_of(task);
        let comes = view.loads().filter(|&(loading, ..)| loading == model).map(|(.., end)| end).min();
        let (state, position) = match (view.state(task), comes) {
            (TaskState::Running, None) => ("running", None),
            (TaskState::Running, Some(_)) => ("loading", Some(0)),
            (_, comes) => {
                let rank = |task| self.rank(task, self.ready.get(&task).copied().unwrap_or(now));
                let own = rank(task);
                let same = self.ready.keys().filter(|&&other| instance.model_of(other) == model);
                let before = same.filter(|&&other| rank(other) < own).count();
                (if comes.is_some() { "loading" } else { "waiting" }, Some(before as u64))
            }
        };
        let is_running = state == "running";
        CallStanding {
            model: instance.models[model].name.clone(),
            state: state.to_owned(),
            position,
            expected_start_seconds: self.starts(task, comes, position.unwrap_or(0)).filter(|_| !is_running),
            why: (!is_running).then(|| self.why(model)),
        }
    }

    /// In how many seconds a node is expected to start: when a replica of its model has room, or has come, and those before it
    /// have had their turn. What other models may do in between is not known.
    fn starts(&self, task: TaskId, comes: Option<Time>, before: u64) -> Option<f64> {
        let (view, now) = (self.view, self.now);
        let instance = view.instance();
        let model = instance.model_of(task);
        let free = |gpus: Gpus| gpus.iter().map(|gpu| view.free_at(gpu)).max();
        let there = self.replicas(model).filter_map(free).min();
        let windows = || instance.models[model].windows();
        let loaded = || {
            let each = windows().filter(|gpus| gpus.iter().all(|gpu| view.alive().contains(gpu)));
            each.filter_map(|gpus| Some(free(gpus)? + view.load_cost(model, gpus).unwrap_or_default())).min()
        };
        let first = comes.or(there).or_else(loaded)?;
        let rounds = before / u64::from(instance.models[model].max_batch());
        Some(first.since(now).seconds() + rounds as f64 * view.expected(task).seconds())
    }

    /// Why nodes that are ready for a model wait.
    #[must_use]
    pub fn why(&self, model: ModelId) -> String {
        let view = self.view;
        let spec = &view.instance().models[model];
        let now = self.now;
        let windows = || spec.windows().filter(|gpus| gpus.iter().all(|gpu| view.alive().contains(gpu)));
        if let Some(why) = self.unserved.and_then(|unserved| unserved.get(&model)) {
            return why.clone();
        }
        if windows().next().is_none() {
            return "every server that could serve it is out of rotation".to_owned();
        }
        let free_at = |gpus: gswarm_core::Gpus| gpus.iter().map(|gpu| view.free_at(gpu)).max().unwrap_or(now);
        let loaded: Vec<_> = windows().filter(|&gpus| view.holding(model).contains_all(gpus)).collect();
        let left = |at: Option<Time>| time_left(at.unwrap_or(now), now);
        if !loaded.is_empty() {
            let next = left(loaded.iter().map(|&gpus| free_at(gpus)).min());
            return match self.replicas(model).count() {
                0 | 1 => format!("its only replica is busy, {next}"),
                many => format!("all {many} replicas are busy, the first {next}"),
            };
        }
        if let Some(gpus) =
            windows().find(|gpus| gpus.iter().any(|gpu| view.being_loaded(gpu) == Some(model)))
        {
            let left = left(Some(free_at(gpus)));
            return format!("the model is loading on {}, {left}", in_words(gpus));
        }
        if windows().any(|gpus| gpus.iter().all(|gpu| view.idle().contains(gpu))) {
            return "the model is not loaded; it will be loaded when more requests wait for it, or at the waiting limit"
                .to_owned();
        }
        let next = windows().min_by_key(|&gpus| free_at(gpus));
        let (gpus, left) =
            next.map_or_else(Default::default, |gpus| (in_words(gpus), left(Some(free_at(gpus)))));
        format!(
            "the model is not loaded and all GPUs are busy; the first that could take it, {gpus}, is busy {left}"
        )
    }
}

/// How long something goes on that should end then: `for about another 3.2 s`; `overdue by 3.2 s` where it should have ended.
fn time_left(end: Time, now: Time) -> String {
    match (end.since(now).seconds(), now.since(end).seconds()) {
        (left, _) if left >= 0.05 => format!("for about another {left:.1} s"),
        (_, late) if late >= 0.05 => format!("overdue by {late:.1} s"),
        _ => "about to be free".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_should_have_ended_is_overdue() {
        let at = |tenths: u64| Time(tenths * 100_000);
        let told = [(70, 38), (38, 70), (38, 38)].map(|(end, now)| time_left(at(end), at(now)));
        assert_eq!(told, ["for about another 3.2 s", "overdue by 3.2 s", "about to be free"]);
    }
}
