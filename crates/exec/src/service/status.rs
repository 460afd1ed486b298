//! How things stand: who waits for what, and why; what is on the GPUs.

use super::desk::{Desk, Open, Whose, numbers};
use crate::backend::Backend;
use crate::drive::Machine;
use gswarm_core::engine::{TaskState, View};
use gswarm_core::{GpuId, ModelId, RequestId, TaskId, Time};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::sync::Arc;

/// A node's place among those that wait for the same model.
type Rank = (Reverse<i32>, Time, TaskId);

/// A look at a service between two of its steps.
pub struct Standing<'s> {
    pub(super) machine: &'s Machine<'static, Desk>,
    pub(super) stopping: bool,
}

impl Standing<'_> {
    /// Why nothing can be done for requests at the moment, where that is so.
    #[must_use]
    pub fn not_ready(&self) -> Option<&'static str> {
        match self.machine.abandoned_since() {
            _ if self.stopping => Some("the service is stopping"),
            Some(_) => Some("no backend answers; GET /v1/cluster says since when"),
            None => None,
        }
    }

    /// The backends that are not known to be out: whether they are is found out by asking.
    #[must_use]
    pub fn up(&self) -> Vec<Arc<dyn Backend>> {
        self.machine.up()
    }

    /// Requests that have not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.desk().open.len()
    }

    /// The backends: whether each answers.
    #[must_use]
    pub fn backends(&self) -> Value {
        let now = self.machine.clock.now();
        let backends = self.machine.backends().map(|(name, gpus, down)| {
            json!({"name": name, "gpus": numbers(gpus), "up": down.is_none(),
                   "down_seconds": down.map(|since| now.since(since).seconds())})
        });
        backends.collect()
    }

    /// What is on each GPU, and what it does.
    #[must_use]
    pub fn gpus(&self) -> Value {
        let view = self.view();
        let instance = view.instance();
        let now = self.machine.clock.now();
        let gpus = (0..instance.cluster.gpus).map(GpuId).map(|gpu| {
            let held = instance.models.keys().filter(|&model| view.holding(model).contains(gpu));
            let held: Vec<&str> = held.map(|model| instance.models[model].name.as_str()).collect();
            let state = match (view.alive().contains(gpu), view.is_loading(gpu), view.is_running(gpu)) {
                (false, ..) => "lost",
                (_, true, _) => "loading",
                (_, _, true) => "running",
                _ => "idle",
            };
            let used: u64 = instance
                .models
                .iter_enumerated()
                .filter(|&(model, _)| view.holding(model).contains(gpu))
                .map(|(_, model)| model.memory_per_gpu)
                .sum();
            json!({"gpu": gpu.0, "state": state, "models": held, "memory_gb": used as f64 / 1000.0,
                   "batch": view.batch_at(gpu), "free_in": view.free_at(gpu).since(now).seconds()})
        });
        gpus.collect()
    }

    /// Where the open requests stand, those that came first at the front.
    #[must_use]
    pub fn queue(&self, from: usize, limit: usize) -> Value {
        let desk = self.desk();
        let mut order: Vec<(i64, RequestId)> =
            desk.open.iter().map(|(&id, open)| (open.accepted, id)).collect();
        order.sort_unstable();
        let ranks = self.ranks();
        let shown = order.iter().skip(from).take(limit);
        let requests: Vec<Value> = shown.map(|&(_, id)| self.describe(id, &desk.open[&id], &ranks)).collect();
        json!({"open": order.len(), "waiting_nodes": desk.ready.len(), "by_model": self.by_model(),
               "requests": requests})
    }

    /// Where one open request stands, by its name.
    #[must_use]
    pub fn request(&self, name: &str) -> Option<Value> {
        let desk = self.desk();
        let id = *desk.by_name.get(name)?;
        Some(self.describe(id, &desk.open[&id], &self.ranks()))
    }

    fn desk(&self) -> &Desk {
        &self.machine.book
    }

    fn view(&self) -> View<'_> {
        self.machine.engine.view()
    }

    /// For each model, the nodes that are ready and wait for it: the more urgent first, then in the order in which they became
    /// ready.
    fn ranks(&self) -> Vec<Vec<Rank>> {
        let view = self.view();
        let instance = view.instance();
        let mut ranks = vec![Vec::new(); instance.models.len()];
        for (&task, &since) in &self.desk().ready {
            ranks[instance.model_of(task).index()].push(self.rank(task, since));
        }
        ranks.iter_mut().for_each(|tasks| tasks.sort_unstable());
        ranks
    }

    fn rank(&self, task: TaskId, since: Time) -> Rank {
        let view = self.view();
        (Reverse(view.instance().requests[view.instance().request_of(task)].priority), since, task)
    }

    fn by_model(&self) -> Value {
        let view = self.view();
        let instance = view.instance();
        let now = self.machine.clock.now();
        let models = self.ranks().into_iter().enumerate().filter(|(_, tasks)| !tasks.is_empty());
        let models = models.map(|(model, tasks)| {
            let model = ModelId::from(model);
            let first = tasks.iter().map(|&(_, since, _)| since).min();
            let longest = first.map_or(0.0, |since| now.since(since).seconds());
            json!({"model": instance.models[model].name, "waiting": tasks.len(), "longest_wait": longest,
                   "why": self.why(model)})
        });
        models.collect()
    }

    fn describe(&self, id: RequestId, open: &Open, ranks: &[Vec<Rank>]) -> Value {
        let view = self.view();
        let instance = view.instance();
        let now = self.machine.clock.now();
        let workflow = &instance.workflows[instance.requests[id].workflow];
        let nodes = instance.tasks_of(id).map(|task| {
            let model = instance.model_of(task);
            let (name, model_name) =
                (&workflow.nodes[instance.node_of(task) as usize], &instance.models[model].name);
            match view.state(task) {
                TaskState::Waiting => {
                    let waits =
                        instance.predecessors(task).filter(|&before| view.state(before) != TaskState::Done);
                    let waits: Vec<&str> = waits
                        .map(|before| workflow.nodes[instance.node_of(before) as usize].as_str())
                        .collect();
                    json!({"node": name, "model": model_name, "state": "waiting",
                           "why": format!("it needs what {} will write", waits.join(", "))})
                }
                TaskState::Ready => {
                    let since = self.desk().ready.get(&task).copied().unwrap_or(now);
                    let place = ranks[model.index()].binary_search(&self.rank(task, since)).unwrap_or(0);
                    json!({"node": name, "model": model_name, "state": "ready", "position": place,
                           "waited": now.since(since).seconds(), "why": self.why(model)})
                }
                TaskState::Held => json!({"node": name, "model": model_name, "state": "paused",
                    "why": format!("it failed and is tried again in a moment; attempts that failed: {}", view.failures(task))}),
                TaskState::Running => json!({"node": name, "model": model_name, "state": "running"}),
                TaskState::Done => json!({"node": name, "model": model_name, "state": "done"}),
                TaskState::GivenUp => json!({"node": name, "model": model_name, "state": "given up"}),
            }
        });
        let nodes: Vec<Value> = nodes.collect();
        let kind = if matches!(open.whose, Whose::Direct { .. }) { "call" } else { "workflow" };
        json!({"request_id": &*open.name, "workflow_id": workflow.name, "kind": kind,
               "accepted_at": open.accepted as f64 / 1e6, "priority": instance.requests[id].priority,
               "trouble": open.trouble, "nodes": nodes})
    }

    /// Why nodes that are ready for a model wait.
    fn why(&self, model: ModelId) -> String {
        let view = self.view();
        let spec = &view.instance().models[model];
        let now = self.machine.clock.now();
        let windows = || spec.windows().filter(|gpus| gpus.iter().all(|gpu| view.alive().contains(gpu)));
        if windows().next().is_none() {
            return "every backend that could serve it is out".to_owned();
        }
        let free_at = |gpus: gswarm_core::Gpus| gpus.iter().map(|gpu| view.free_at(gpu)).max().unwrap_or(now);
        let loaded: Vec<_> = windows().filter(|&gpus| view.holding(model).contains_all(gpus)).collect();
        let soonest = |at: Option<Time>| at.map_or(0.0, |at| at.since(now).seconds());
        if !loaded.is_empty() {
            let next = soonest(loaded.iter().map(|&gpus| free_at(gpus)).min());
            return match loaded.len() {
                1 => format!("its one replica is busy, for another {next:.1} s or so"),
                many => format!("all {many} replicas of it are busy; the first is free in {next:.1} s or so"),
            };
        }
        if let Some(gpus) =
            windows().find(|gpus| gpus.iter().any(|gpu| view.being_loaded(gpu) == Some(model)))
        {
            let left = soonest(Some(free_at(gpus)));
            return format!("the model is being loaded on GPU {gpus}, for another {left:.1} s or so");
        }
        if windows().any(|gpus| gpus.iter().all(|gpu| view.idle().contains(gpu))) {
            return "the model is not loaded; its turn comes when more wait for it, or within the limit on waiting"
                .to_owned();
        }
        let next = windows().min_by_key(|&gpus| free_at(gpus));
        let (gpus, left) =
            next.map_or((String::new(), 0.0), |gpus| (gpus.to_string(), soonest(Some(free_at(gpus)))));
        format!(
            "the model is not loaded and all GPUs are busy; the first that could take it, GPU {gpus}, is free in {left:.1} s or so"
        )
    }
}
