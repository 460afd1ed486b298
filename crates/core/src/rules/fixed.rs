//! `static`: every model in its place, for good.
//!
//! Optimises switches: there are none. The [deployment](crate::deploy) is worked out from the pattern of the requests (which
//! models they use, how much and together; for a stream this is the pattern that is expected of it), then every replica is
//! loaded once, those that are needed first before the others. A request goes whole to the server that would finish it first,
//! of those that hold all its models. Each of its nodes is meant for one replica there, the one with least work. An idle
//! replica takes what waits for another of its model, if that has more to do: so a model's only GPU is not taken by one that
//! has others. A request that has not begun may also change its server. Replicas share GPUs only where memory allows, and take
//! turns on them. Where a load fails, the first task that needs the replica loads it.
//!
//! Where the models do not all fit into memory, those that found no room share GPUs with others and are switched: slow, but
//! everything is finished.
//!
//! Cost: O(nodes x replicas of the model on a server) for each request and server that could finish it, O(log n) per task.

mod queues;
mod replicas;
mod routes;
mod trials;

use super::Policy;
use super::info::without_params;
use crate::cost;
use crate::engine::{Decision, TaskState, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::{Deployment, Instance, Residency};
use queues::Queues;
use replicas::{Replica, Replicas};
use routes::{NOWHERE, Routes};
pub(crate) use trials::deploy;

// A deployment puts several models on a GPU where memory allows: that is the point of it.
without_params!(
    "static",
    BOTH,
    "no switches: a permanent deployment that suits the mix of requests; when memory holds all models",
    with_residency(Residency::Memory),
    |instance, _| Static::new(instance)
);

/// Runs a fixed deployment.
pub struct Static {
    replicas: Replicas,
    routes: Routes,
    queues: Queues,
    /// Tasks that each replica executes.
    executes: Vec<Vec<TaskId>>,
    /// Replicas still to be loaded; taken from the end.
    to_load: Vec<u32>,
    /// Of each replica, whether it is one of them.
    is_to_load: Vec<bool>,
    fits: bool,
    /// Megabytes of weights on each GPU when all is loaded: what is still to come must find its room.
    weights: IdVec<GpuId, u64>,
    /// Models that some workflow begins with.
    begins: IdVec<ModelId, bool>,
    /// Ready tasks whose model has no replica: GPUs may come back.
    stranded: Vec<TaskId>,
}

impl Static {
    /// Works out the deployment.
    pub fn new(instance: &Instance) -> Static {
        Static::with(instance, &deploy(instance))
    }

    /// Runs this deployment.
    pub(super) fn with(instance: &Instance, deployment: &Deployment) -> Static {
        let models = instance.models.len();
        let mut first_level: IdVec<ModelId, u32> = vec![u32::MAX; models].into();
        for workflow in &instance.workflows {
            for (&model, &level) in workflow.models.iter().zip(&workflow.levels) {
                first_level[model] = first_level[model].min(level);
            }
        }
        let replicas = Replicas::new(instance, deployment.replicas.iter().copied());
        let mut to_load: Vec<u32> = (0..replicas.all.len() as u32).filter(|_| deployment.fits).collect();
        to_load.sort_by_key(|&at| {
            let Replica { model, gpus, .. } = replicas.all[at as usize];
            std::cmp::Reverse((first_level[model], gpus, model))
        });
        Static {
            routes: Routes::new(instance, deployment.routing),
            queues: Queues::new(&replicas),
            executes: vec![Vec::new(); replicas.all.len()],
            is_to_load: vec![deployment.fits; replicas.all.len()],
            to_load,
            fits: deployment.fits,
            weights: weights_of(instance, deployment),
            begins: first_level.iter().map(|&level| level == 0).collect(),
            stranded: Vec::new(),
            replicas,
        }
    }

    fn next_load(&mut self, view: &View<'_>) -> Option<Decision> {
        let replica = |at: u32| self.replicas.all[at as usize];
        let free = |gpus: Gpus| gpus.iter().all(|gpu| !view.is_loading(gpu) && view.alive().contains(gpu));
        // Once GPUs were lost, others may stand where this was to go, or it may have come there already.
        let missing = |model, gpus| !view.holding(model).contains_all(gpus);
        // Taken over from another rule, the model may execute on a part of the window already: its load would hold those GPUs.
        let executes = |model, gpus: Gpus| gpus.iter().any(|gpu| view.running(gpu) == Some(model));
        let fits = |model, gpus| !executes(model, gpus) && view.load_cost(model, gpus).is_some();
        let next = self.to_load.iter().rposition(|&at| {
            let Replica { model, gpus, .. } = replica(at);
            missing(model, gpus) && free(gpus) && fits(model, gpus)
        })?;
        let at = self.to_load.remove(next);
        self.is_to_load[at as usize] = false;
        let Replica { model, gpus, .. } = replica(at);
        Some(Decision::Load { model, gpus, ahead_of: None })
    }

    /// Whether one more execution leaves room for all models that belong there.
    fn has_slot(&self, view: &View<'_>, model: ModelId, gpus: Gpus) -> bool {
        let slot = view.instance().models[model].slot_per_gpu;
        let room = cost::megabytes(view.instance().cluster.gpu_memory_gb);
        let slots = slot * (u64::from(view.batch_at(gpus.first)) + 1);
        !self.fits || slot == 0 || gpus.iter().all(|gpu| self.weights[gpu] + slots <= room)
    }

    /// Whether a replica was to be loaded ahead, and is neither there nor on its way: its load failed. The first task that
    /// needs it loads it, and pauses between its tries as any task does.
    fn load_failed(&self, view: &View<'_>, at: u32) -> bool {
        let Replica { model, gpus, .. } = self.replicas.all[at as usize];
        !self.is_to_load[at as usize]
            && !view.holding(model).contains_all(gpus)
            && !gpus.iter().any(|gpu| view.is_loading(gpu))
            && view.load_cost(model, gpus).is_some()
    }

    /// Whether a task could start on a replica now that holds its model.
    fn has_room(&mut self, view: &View<'_>, at: u32, task: TaskId) -> bool {
        let Replica { model, gpus, .. } = self.replicas.all[at as usize];
        let joins = || view.joinable(model).contains(gpus.first) && self.has_slot(view, model, gpus);
        (view.can_execute(model, gpus) || joins()) && !self.is_held_back(view, gpus, task)
    }

    /// Whether a task could start on a replica now, with or without a load.
    fn can_start(&mut self, view: &View<'_>, at: u32, task: TaskId) -> bool {
        let gpus = self.replicas.all[at as usize].gpus;
        self.has_room(view, at, task)
            || view.idle().contains_all(gpus)
                && (!self.fits || self.load_failed(view, at))
                && !self.is_held_back(view, gpus, task)
    }

    /// Whether the GPUs are kept for a task on several of them, which comes first and could begin before this one ends.
    fn is_held_back(&mut self, view: &View<'_>, gpus: Gpus, task: TaskId) -> bool {
        let rank = rank_of(view, task);
        for gpu in gpus.iter() {
            for place in 0..self.replicas.on_gpu(gpu).len() {
                let at = self.replicas.on_gpu(gpu)[place];
                let wide = self.replicas.all[at as usize].gpus;
                if wide.count == 1 || wide == gpus {
                    continue;
                }
                let head = self.queues.peek(at);
                let first = head.is_some_and(|(first, other)| (first, other) < (rank, task));
                let clear = || wide.iter().map(|gpu| view.free_at(gpu)).max().unwrap_or(view.now());
                if first && view.now() + view.expected(task) > clear() {
                    return true;
                }
            }
        }
        false
    }

    /// Another replica on the same server where a task could start that waits for its own.
    fn elsewhere(&mut self, view: &View<'_>, at: u32, task: TaskId) -> Option<u32> {
        let Replica { model, server, gpus } = self.replicas.all[at as usize];
        let (cost, busy) = (self.routes.cost(task), self.routes.load_of(gpus));
        let mut best: Option<(u64, u32)> = None;
        for other in self.replicas.on_server(model, server) {
            let load = self.routes.load_of(self.replicas.all[other].gpus);
            let better = best.is_none_or(|(least, _)| load < least);
            let other = other as u32;
            if other != at
                && better
                && load + cost <= busy
                && self.queues.peek(other).is_none()
                && self.has_room(view, other, task)
            {
                best = Some((load, other));
            }
        }
        best.map(|(_, other)| other)
    }

    /// A task that waits for another replica of the same model, which has more to do than this idle one.
    fn found_for(&mut self, view: &View<'_>, at: u32) -> Option<TaskId> {
        let Replica { model, server, gpus } = self.replicas.all[at as usize];
        if self.queues.peek(at).is_some() || !view.can_execute(model, gpus) {
            return None;
        }
        let mine = self.routes.load_of(gpus);
        let mut best: Option<(u64, TaskId)> = None;
        for other in self.replicas.on_server(model, server) {
            let load = self.routes.load_of(self.replicas.all[other].gpus);
            if best.is_some_and(|(most, _)| load <= most) {
                continue;
            }
            let Some((_, task)) = self.queues.peek(other as u32) else { continue };
            if mine + self.routes.cost(task) <= load && self.has_room(view, at, task) {
                best = Some((load, task));
            }
        }
        best.map(|(_, task)| task)
    }

    /// Has a request come to this server that waits for another and has not begun.
    fn fetch(&mut self, view: &View<'_>, at: u32) {
        let Replica { model, server, gpus } = self.replicas.all[at as usize];
        let instance = view.instance();
        if self.replicas.servers == 1
            || !self.begins[model]
            || self.queues.peek(at).is_some()
            || !view.can_execute(model, gpus)
        {
            return;
        }
        let mine = self.routes.load_of(gpus);
        let mut best: Option<(u64, TaskId)> = None;
        for other in self.replicas.of_model(model) {
            let load = self.routes.load_of(self.replicas.all[other].gpus);
            if self.replicas.all[other].server == server || best.is_some_and(|(most, _)| load <= most) {
                continue;
            }
            let Some((_, task)) = self.queues.peek(other as u32) else { continue };
            let request = instance.request_of(task);
            let able = self.replicas.able(instance, instance.requests[request].workflow);
            if able.binary_search(&server).is_ok()
                && self.routes.may_move(request, view.now())
                && mine + self.routes.cost(task) <= load
            {
                best = Some((load, task));
            }
        }
        let Some((_, task)) = best else { return };
        let moved = self.routes.moves(view, &self.replicas, instance.request_of(task), server);
        for (task, from, to) in moved {
            if self.queues.remove(task) {
                self.queues.push(&self.replicas, rank_of(view, task), task, to);
                self.left(from);
            }
        }
    }

    /// A task has left the queue of a replica. What waited behind it on its GPUs may start.
    fn left(&mut self, at: u32) {
        let gpus = self.replicas.all[at as usize].gpus;
        if gpus.count > 1 {
            self.stir(gpus);
        }
    }

    fn start(&mut self, view: &View<'_>, task: TaskId, at: u32) -> Decision {
        let from = self.routes.replica(task);
        self.queues.remove(task);
        if from != at {
            self.routes.move_to(&self.replicas, task, at);
            self.left(from);
        }
        self.queues.arm(&self.replicas, from);
        let Replica { server, gpus, .. } = self.replicas.all[at as usize];
        self.routes.begins(view.instance().request_of(task), server);
        self.executes[at as usize].push(task);
        Decision::Start { task, gpus }
    }

    /// A task on several GPUs, all of which are idle and hold its model: to clear them again later would leave GPUs idle.
    fn wide_first(&mut self, view: &View<'_>, server: u32) -> Option<(TaskId, u32)> {
        let mut best = None;
        for place in 0..self.replicas.wide(server).len() {
            let at = self.replicas.wide(server)[place];
            let Some(head) = self.queues.peek(at) else { continue };
            let Replica { model, gpus, .. } = self.replicas.all[at as usize];
            if best.is_none_or(|(first, _)| head < first) && view.can_execute(model, gpus) {
                best = Some((head, at));
            }
        }
        best.map(|((_, task), at)| (task, at))
    }

    fn next_start(&mut self, view: &View<'_>) -> Option<Decision> {
        while let Some(server) = self.queues.next_server() {
            if let Some((task, at)) = self.wide_first(view, server) {
                return Some(self.start(view, task, at));
            }
            while let Some((_, task, at)) = self.queues.first(&self.replicas, server) {
                let other = match self.has_room(view, at, task) {
                    true => Some(at),
                    false => self.elsewhere(view, at, task),
                };
                if let Some(to) = other.or_else(|| self.can_start(view, at, task).then_some(at)) {
                    return Some(self.start(view, task, to));
                }
                self.queues.disarm(&self.replicas, at);
            }
            match self.queues.next_hungry(server) {
                Some(at) => {
                    if let Some(task) = self.found_for(view, at) {
                        return Some(self.start(view, task, at));
                    }
                    self.fetch(view, at);
                }
                None => self.queues.settled(server),
            }
        }
        None
    }

    /// What stands on these GPUs may have room, and so may what waited behind a task on several of them.
    fn stir(&mut self, gpus: Gpus) {
        for gpu in gpus.iter() {
            for place in 0..self.replicas.on_gpu(gpu).len() {
                let at = self.replicas.on_gpu(gpu)[place];
                self.queues.stir(&self.replicas, at);
                let wide = self.replicas.all[at as usize].gpus;
                if wide.count > 1 && wide != gpus && self.queues.peek(at).is_some() {
                    for other in wide.iter() {
                        let there = self.replicas.on_gpu(other).to_vec();
                        there.into_iter().for_each(|at| self.queues.arm(&self.replicas, at));
                    }
                }
            }
        }
    }

    /// Begins anew with other replicas: GPUs were lost, or came back.
    fn rebuild(&mut self, view: &View<'_>, replicas: Vec<(ModelId, Gpus)>) {
        let waiting = self.queues.drain();
        let still = std::mem::take(&mut self.to_load).into_iter().map(|at| self.replicas.all[at as usize]);
        let still: Vec<Replica> = still.collect();
        self.replicas = Replicas::new(view.instance(), replicas.into_iter());
        let place = |one: &Replica| self.replicas.all.binary_search(one).ok().map(|at| at as u32);
        self.to_load = still.iter().filter_map(place).collect();
        self.is_to_load = vec![false; self.replicas.all.len()];
        self.to_load.iter().for_each(|&at| self.is_to_load[at as usize] = true);
        self.executes = vec![Vec::new(); self.replicas.all.len()];
        self.routes.clear();
        self.queues = Queues::new(&self.replicas);
        let stranded = std::mem::take(&mut self.stranded);
        let waiting = waiting.into_iter().map(|(_, task)| task).chain(stranded);
        waiting.for_each(|task| self.accept(task, view));
    }

    fn accept(&mut self, task: TaskId, view: &View<'_>) {
        self.routes.accept(view, &mut self.replicas, task);
        let at = self.routes.replica(task);
        if at == NOWHERE {
            return self.stranded.push(task);
        }
        self.queues.push(&self.replicas, rank_of(view, task), task, at);
    }
}

/// Requests in order of arrival (of the file, where they arrive together), whichever of their tasks is ready: early requests are
/// carried through before late ones are begun.
fn rank_of(view: &View<'_>, task: TaskId) -> super::ready::Rank {
    let request = &view.instance().requests[view.instance().request_of(task)];
    (-i64::from(request.priority), request.arrival.0)
}

/// What the deployment puts on each GPU, in megabytes.
fn weights_of(instance: &Instance, deployment: &Deployment) -> IdVec<GpuId, u64> {
    let mut weights: IdVec<GpuId, u64> = vec![0; instance.cluster.gpus as usize].into();
    for &(model, gpus) in &deployment.replicas {
        gpus.iter().for_each(|gpu| weights[gpu] += instance.models[model].memory_per_gpu);
    }
    weights
}

impl Policy for Static {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        // It may have run before, and failed.
        let at = self.routes.replica(task);
        if at != NOWHERE && self.executes[at as usize].contains(&task) {
            self.executes[at as usize].retain(|&other| other != task);
            self.routes.settle(&self.replicas, task);
        }
        self.accept(task, view);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        self.next_load(view).or_else(|| self.next_start(view))
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        for place in 0..self.replicas.on_gpu(gpus.first).len() {
            let at = self.replicas.on_gpu(gpus.first)[place] as usize;
            if self.replicas.all[at].gpus != gpus || self.executes[at].is_empty() {
                continue;
            }
            let (run, ended): (Vec<TaskId>, Vec<TaskId>) =
                self.executes[at].iter().partition(|&&task| view.state(task) == TaskState::Running);
            self.executes[at] = run;
            for task in ended {
                self.routes.settle(&self.replicas, task);
                self.routes.forget_if_over(view, task);
            }
        }
        self.stir(gpus);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        let waited = self.queues.remove(task);
        self.stranded.retain(|&other| other != task);
        let at = self.routes.replica(task);
        if at != NOWHERE {
            self.executes[at as usize].retain(|&other| other != task);
            if waited {
                self.left(at);
            }
        }
        self.routes.settle(&self.replicas, task);
        self.routes.forget_if_over(view, task);
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        // A model that had nowhere left to go may have somewhere again.
        let mut replicas: Vec<(ModelId, Gpus)> =
            self.replicas.all.iter().map(|one| (one.model, one.gpus)).collect();
        let before = replicas.len();
        for (model, spec) in view.instance().models.iter_enumerated() {
            if self.replicas.of_model(model).is_empty() {
                let alive = spec.windows().filter(|&gpus| view.alive().contains_all(gpus));
                replicas.extend(alive.map(|gpus| (model, gpus)));
            }
        }
        if replicas.len() > before {
            self.rebuild(view, replicas);
        }
        self.stir(Gpus { first: gpu, count: 1 });
    }

    /// A model that lost its last replica gets the windows that are left, and is switched like any other.
    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        if self.replicas.on_gpu(gpu).is_empty() {
            return;
        }
        let left = self.replicas.all.iter().filter(|one| !one.gpus.contains(gpu));
        let mut replicas: Vec<(ModelId, Gpus)> = left.map(|one| (one.model, one.gpus)).collect();
        for (model, spec) in view.instance().models.iter_enumerated() {
            let had_some = !self.replicas.of_model(model).is_empty();
            if had_some && replicas.iter().all(|&(other, _)| other != model) {
                let alive = spec.windows().filter(|&gpus| view.alive().contains_all(gpus));
                replicas.extend(alive.map(|gpus| (model, gpus)));
                self.fits = false;
            }
        }
        self.rebuild(view, replicas);
    }
}
