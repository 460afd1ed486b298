//! `online`: a cost for every task and GPU, for streams.
//!
//! Optimises waiting, switching and balance together. When a task becomes ready it goes to the GPUs with the least
//! alpha x wait + beta x switch + gamma x future impact + delta x load, and waits in their list. Tasks on several GPUs are
//! placed before the others that become ready at the same moment, and idle GPUs steal from the longest list.
//!
//! - wait: until all that is in the lists of these GPUs is done.
//! - switch: what bringing the model over takes, after what is in the lists.
//! - future impact: what bringing back the model that is displaced would take, times the share of the last `lookahead` x
//!   GPUs placements that used it: a model in demand is worth keeping.
//! - load: 10 x (tasks given to these GPUs - mean) + 100 x (their busy time - mean) / now, as published.
//!
//! Knows nothing of requests that have not arrived. Cost: O(windows) per task.

use super::lists::Lists;
use super::{Policy, PolicyParams, sketch};
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;
use crate::time::{Span, Time};
use std::collections::VecDeque;

/// Least cost, with work stealing.
pub struct Online<'i> {
    instance: &'i Instance,
    params: PolicyParams,
    lists: Lists<'i>,
    windows: IdVec<ModelId, Vec<Gpus>>,
    /// When each GPU's list will be done.
    done_at: IdVec<GpuId, Time>,
    /// The model that each GPU will hold then.
    last: IdVec<GpuId, Option<ModelId>>,
    given: IdVec<GpuId, u32>,
    given_total: u64,
    /// The models of the latest placements.
    recent: VecDeque<ModelId>,
    recent_count: IdVec<ModelId, u32>,
    incoming: Vec<TaskId>,
}

impl<'i> Online<'i> {
    /// With nothing placed.
    #[must_use]
    pub fn new(instance: &'i Instance, params: &PolicyParams) -> Online<'i> {
        let gpus = instance.cluster.gpus as usize;
        Online {
            instance,
            params: params.clone(),
            lists: Lists::new(instance),
            windows: instance.models.iter().map(sketch::tiles).collect(),
            done_at: vec![Time::ZERO; gpus].into(),
            last: vec![None; gpus].into(),
            given: vec![0; gpus].into(),
            given_total: 0,
            recent: VecDeque::new(),
            recent_count: vec![0; instance.models.len()].into(),
            incoming: Vec::new(),
        }
    }

    fn place(&mut self, task: TaskId, view: &View<'_>) {
        let model = self.instance.model_of(task);
        let means = Means::of(self, view);
        let costs = self.windows[model].iter().map(|&gpus| (self.cost(model, gpus, view, &means), gpus));
        let Some((_, gpus)) = costs.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))) else { return };
        let begins = self.free_at(gpus, view) + self.switch(model, gpus);
        for gpu in gpus.iter() {
            self.done_at[gpu] = begins + self.instance.execution(task);
            self.last[gpu] = Some(model);
            self.given[gpu] += 1;
        }
        self.given_total += u64::from(gpus.count);
        self.lists.assign(task, gpus);
        self.remember(model);
    }

    fn remember(&mut self, model: ModelId) {
        self.recent.push_back(model);
        self.recent_count[model] += 1;
        let most = (self.params.lookahead * self.instance.cluster.gpus) as usize;
        while self.recent.len() > most {
            if let Some(old) = self.recent.pop_front() {
                self.recent_count[old] -= 1;
            }
        }
    }

    fn free_at(&self, gpus: Gpus, view: &View<'_>) -> Time {
        gpus.iter().map(|gpu| self.done_at[gpu].max(view.free_at(gpu))).max().unwrap_or(Time::ZERO)
    }

    /// From what the GPUs will hold, to `model`.
    fn switch(&self, model: ModelId, gpus: Gpus) -> Span {
        gpus.iter().map(|gpu| self.between(self.last[gpu], model)).max().unwrap_or(Span::ZERO)
    }

    fn between(&self, old: Option<ModelId>, new: ModelId) -> Span {
        if old == Some(new) {
            return Span::ZERO;
        }
        let spec = &self.instance.models[new];
        let leaving = old.map(|old| self.instance.models[old].memory_gb);
        self.instance.cluster.switch.of(leaving, spec.memory_gb, spec.load_seconds)
    }

    fn cost(&self, model: ModelId, gpus: Gpus, view: &View<'_>, means: &Means) -> f64 {
        let wait = self.free_at(gpus, view).since(view.now()).seconds();
        let switch = self.switch(model, gpus).seconds();
        let asked = self.recent.len().max(1) as f64;
        let displaced = gpus.iter().filter_map(|gpu| self.last[gpu]).filter(|&old| old != model);
        let back = displaced
            .map(|old| self.between(Some(model), old).seconds() * f64::from(self.recent_count[old]) / asked);
        let future = back.fold(0.0, f64::max) * f64::from(self.params.lookahead);
        let load =
            gpus.iter().map(|gpu| means.load(self.given[gpu], view.busy(gpu))).fold(f64::MIN, f64::max);
        let PolicyParams { alpha, beta, gamma, delta, .. } = self.params;
        alpha * wait + beta * switch + gamma * future + delta * load
    }
}

/// What the load of a GPU is measured against.
struct Means {
    given: f64,
    busy: f64,
    now: f64,
}

impl Means {
    fn of(policy: &Online<'_>, view: &View<'_>) -> Means {
        let gpus = f64::from(policy.instance.cluster.gpus);
        let busy: u64 = view.alive().iter().map(|gpu| view.busy(gpu).0).sum();
        Means {
            given: policy.given_total as f64 / gpus,
            busy: busy as f64 / 1e6 / gpus,
            now: view.now().seconds(),
        }
    }

    fn load(&self, given: u32, busy: Span) -> f64 {
        let share = if self.now > 0.0 { 100.0 * (busy.seconds() - self.busy) / self.now } else { 0.0 };
        10.0 * (f64::from(given) - self.given) + share
    }
}

impl Policy for Online<'_> {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        if self.lists.is_assigned(task) || self.lists.is_void() {
            self.lists.mark_ready(task, view);
        } else {
            self.incoming.push(task);
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        if !self.incoming.is_empty() {
            let mut incoming = std::mem::take(&mut self.incoming);
            let instance = self.instance;
            incoming.sort_by_key(|&task| {
                let priority = instance.requests[instance.request_of(task)].priority;
                (-i64::from(priority), std::cmp::Reverse(instance.models[instance.model_of(task)].gpus))
            });
            for task in incoming {
                if !self.lists.is_void() {
                    self.place(task, view);
                }
                self.lists.mark_ready(task, view);
            }
        }
        self.lists.decide(view).or_else(|| self.lists.steal(view))
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        self.lists.freed(gpus, view);
    }

    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lists.lost(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, _view: &View<'_>) {
        self.lists.given_up(task);
    }
}
