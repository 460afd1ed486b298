//! `static`: every model in its place, for good.
//!
//! Optimises switches: there are none. The [`deployment`](super::deployment) is worked out from the pattern of the requests
//! (which models they use, how much and together; for a stream this is the pattern that is expected of it), then every
//! replica is loaded once, those that are needed first before the others. A ready task goes to a replica of its model that is
//! free, on the server where its request ran before if there is one there. Replicas share GPUs only where memory allows, and
//! take turns on them. Where a load fails, the first task that needs the replica loads it.
//!
//! Where the models do not all fit into memory, those that found no room share GPUs with others and are switched: slow, but
//! everything is finished.
//!
//! Cost: O(models x replicas) to deploy, for each replica; O(log n + replicas of the model) per task.

use super::deployment::{Deployment, deploy};
use super::info::without_params;
use super::ready::ReadyByModel;
use super::reserve::Reservations;
use super::{Policy, place};
use crate::cost;
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, RequestId, TaskId};
use crate::instance::{Instance, Residency};

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
    ready: ReadyByModel,
    windows: IdVec<ModelId, Vec<Gpus>>,
    /// Replicas still to be loaded.
    to_load: Vec<(ModelId, Gpus)>,
    fits: bool,
    /// Megabytes of weights on each GPU when all is loaded: what is still to come must find its room.
    weights: IdVec<GpuId, u64>,
    /// The server on which each request ran last.
    server: IdVec<RequestId, u32>,
    reserved: Reservations,
    round: u64,
    waits_in: IdVec<ModelId, u64>,
}

const NO_SERVER: u32 = u32::MAX;

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
        let mut to_load = deployment.replicas.clone();
        // Taken from the end.
        to_load.sort_by_key(|&(model, gpus)| std::cmp::Reverse((first_level[model], gpus)));
        Static {
            ready: ReadyByModel::new(models),
            windows: (0..models).map(|model| windows_of(deployment, ModelId::from(model))).collect(),
            to_load: if deployment.fits { to_load } else { Vec::new() },
            fits: deployment.fits,
            weights: weights_of(instance, deployment),
            server: vec![NO_SERVER; instance.requests.len()].into(),
            reserved: Reservations::new(instance.cluster.gpus),
            round: 1,
            waits_in: vec![0; models].into(),
        }
    }

    fn new_round(&mut self) {
        self.round += 1;
        self.reserved.clear();
    }

    fn next_load(&mut self, view: &View<'_>) -> Option<Decision> {
        let free = |gpus: Gpus| gpus.iter().all(|gpu| !view.is_loading(gpu) && view.alive().contains(gpu));
        // Once GPUs were lost, others may stand where this was to go, or it may have come there already.
        let missing = |model, gpus| !view.holding(model).contains_all(gpus);
        // Taken over from another rule, the model may execute on a part of the window already: its load would hold those GPUs.
        let executes = |model, gpus: Gpus| gpus.iter().any(|gpu| view.running(gpu) == Some(model));
        let fits = |model, gpus| !executes(model, gpus) && view.load_cost(model, gpus).is_some();
        let next = self
            .to_load
            .iter()
            .rposition(|&(model, gpus)| missing(model, gpus) && free(gpus) && fits(model, gpus))?;
        let (model, gpus) = self.to_load.remove(next);
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
    fn load_failed(&self, view: &View<'_>, model: ModelId, gpus: Gpus) -> bool {
        !self.to_load.contains(&(model, gpus))
            && !view.holding(model).contains_all(gpus)
            && !gpus.iter().any(|gpu| view.is_loading(gpu))
            && view.load_cost(model, gpus).is_some()
    }

    /// A free replica, on the server where the request ran before if possible, else the one idle longest.
    fn free_replica(&self, view: &View<'_>, model: ModelId, task: TaskId) -> Option<Gpus> {
        let cluster = &view.instance().cluster;
        let home = self.server.get(view.instance().request_of(task)).copied().unwrap_or(NO_SERVER);
        let takes = view.expected(task);
        let free = |gpus: &Gpus| {
            if !self.reserved.leaves_in_time(view, *gpus, takes) {
                return false;
            }
            view.can_execute(model, *gpus)
                || (!self.fits || self.load_failed(view, model, *gpus)) && view.idle().contains_all(*gpus)
        };
        let joins =
            |gpus: &Gpus| view.joinable(model).contains(gpus.first) && self.has_slot(view, model, *gpus);
        let open = self.windows[model].iter().copied().filter(|gpus| free(gpus) || joins(gpus));
        open.min_by_key(|&gpus| {
            // Who loads again what failed to load waits for it: only where no other replica is free.
            let lacks = self.fits && !view.holding(model).contains_all(gpus);
            let away = home != NO_SERVER && cluster.server_of(gpus.first.0) != home;
            (lacks, away, view.batch_at(gpus.first), place::latest_idle(view, gpus), gpus)
        })
    }
}

/// What the deployment puts on each GPU, in megabytes.
fn weights_of(instance: &Instance, deployment: &Deployment) -> IdVec<GpuId, u64> {
    let mut weights: IdVec<GpuId, u64> = vec![0; instance.cluster.gpus as usize].into();
    for &(model, gpus) in &deployment.replicas {
        gpus.iter().for_each(|gpu| weights[gpu] += instance.models[model].memory_per_gpu);
    }
    weights
}

fn windows_of(deployment: &Deployment, model: ModelId) -> Vec<Gpus> {
    deployment.windows(model).collect()
}

impl Policy for Static {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.push_by_arrival(task, view);
        self.new_round();
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        if let Some(load) = self.next_load(view) {
            return Some(load);
        }
        let mut chosen = None;
        for model in self.ready.models() {
            if self.waits_in[model] == self.round {
                continue;
            }
            let Some(task) = self.ready.peek(model) else { continue };
            match self.free_replica(view, model, task) {
                Some(gpus) => {
                    chosen = Some((model, gpus));
                    break;
                }
                None => {
                    self.waits_in[model] = self.round;
                    if view.instance().models[model].gpus > 1 {
                        self.reserved.reserve(view, model, &self.windows[model]);
                    }
                }
            }
        }
        let (model, gpus) = chosen?;
        let task = self.ready.pop(model)?;
        let request = view.instance().request_of(task);
        if request.index() >= self.server.len() {
            self.server.resize(request.index() + 1, NO_SERVER);
        }
        self.server[request] = view.instance().cluster.server_of(gpus.first.0);
        Some(Decision::Start { task, gpus })
    }

    fn freed(&mut self, _gpus: Gpus, _view: &View<'_>) {
        self.new_round();
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.given_up(task, view);
    }

    fn returned(&mut self, _gpu: GpuId, view: &View<'_>) {
        self.new_round();
        // A model that had nowhere left to go may have somewhere again.
        for (model, windows) in self.windows.iter_mut_enumerated().filter(|(_, windows)| windows.is_empty()) {
            let alive =
                view.instance().models[model].windows().filter(|&gpus| view.alive().contains_all(gpus));
            windows.extend(alive);
        }
    }

    /// A model that lost its last replica gets the windows that are left, and is switched like any other.
    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        self.new_round();
        self.to_load.retain(|(_, gpus)| !gpus.contains(gpu));
        for (model, windows) in self.windows.iter_mut_enumerated() {
            let had_some = !windows.is_empty();
            windows.retain(|gpus| !gpus.contains(gpu));
            if had_some && windows.is_empty() {
                let alive =
                    view.instance().models[model].windows().filter(|&gpus| view.alive().contains_all(gpus));
                windows.extend(alive);
                self.fits = false;
            }
        }
    }
}
