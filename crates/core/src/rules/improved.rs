//! `improved`: one batch after the other, chosen as GPUs fall free.
//!
//! Optimises switches under a changing backlog. Whenever GPUs fall free, the model whose ready batch is worth most is
//! served first: 100 x ready tasks + their total time + 5 x GPUs that hold it x its load time, as published. It goes to the
//! idle GPUs where it is there soonest. If the model worth most needs more GPUs than are idle together, the window that will
//! be clear soonest is held back for it, and the others share the rest: a model that cannot run now must not stop those that
//! can, nor be stopped by them for ever.
//!
//! Cost: O(log n) per task and O(models x windows) per decision.

use super::info::without_params;
use super::ready::ReadyByModel;
use super::reserve::Reservations;
use super::{Policy, place, sketch};
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;

without_params!(
    "improved",
    BOTH,
    "loads the model whose ready batch gains most whenever GPUs become free; for changing backlogs",
    |instance, _| Improved::new(instance)
);

/// Serves the model whose batch is worth most.
pub struct Improved {
    ready: ReadyByModel,
    tiles: IdVec<ModelId, Vec<Gpus>>,
    reserved: Reservations,
    round: u64,
    waits_in: IdVec<ModelId, u64>,
}

impl Improved {
    /// With nothing ready.
    pub fn new(instance: &Instance) -> Improved {
        let models = instance.models.len();
        Improved {
            ready: ReadyByModel::new(models),
            tiles: instance.models.iter().map(sketch::tiles).collect(),
            reserved: Reservations::new(instance.cluster.gpus),
            round: 1,
            waits_in: vec![0; models].into(),
        }
    }

    fn worth(&self, view: &View<'_>, model: ModelId) -> f64 {
        let holding = f64::from(view.holding(model).len());
        let load = view.instance().models[model].load_seconds;
        100.0 * self.ready.count(model) as f64 + self.ready.work(model).seconds() + 5.0 * holding * load
    }

    /// GPUs that hold a model with ready tasks keep it while its batch is worth half the best: switching to and fro as
    /// batches shrink by turns would cost more than it gains.
    fn goes_on(&self, view: &View<'_>) -> Option<(ModelId, Gpus)> {
        let idle = self.reserved.unheld(view);
        if idle.is_empty() {
            return None;
        }
        let mut keepers: Vec<(ModelId, f64)> =
            self.ready.models().map(|model| (model, self.worth(view, model))).collect();
        let best = keepers.iter().map(|&(_, worth)| worth).fold(0.0, f64::max);
        keepers
            .retain(|&(model, worth)| worth >= best / 2.0 && idle.both(view.holding(model)).next().is_some());
        keepers.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        keepers.into_iter().find_map(|(model, _)| {
            let mut there = self.tiles[model].iter().copied().filter(|&gpus| idle.contains_all(gpus));
            there.find(|&gpus| view.holding(model).contains_all(gpus)).map(|gpus| (model, gpus))
        })
    }

    fn new_round(&mut self) {
        self.round += 1;
        self.reserved.clear();
    }

    fn start(&mut self, model: ModelId, gpus: Gpus) -> Option<Decision> {
        self.ready.pop(model).map(|task| Decision::Start { task, gpus })
    }
}

impl Policy for Improved {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.push_by_arrival(task, view);
        self.new_round();
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        if let Some((model, gpus)) = self.goes_on(view) {
            return self.start(model, gpus);
        }
        loop {
            let open = self.ready.models().filter(|&model| self.waits_in[model] != self.round);
            let best = open.map(|model| (model, self.worth(view, model)));
            let (model, _) = best.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
            let found = place::joinable(view, model).or_else(|| {
                let idle = self.reserved.unheld(view);
                place::cheapest_within(view, model, &idle, &self.tiles[model]).map(|(gpus, _)| gpus)
            });
            if let Some(gpus) = found {
                return self.start(model, gpus);
            }
            self.waits_in[model] = self.round;
            if view.instance().models[model].gpus > 1 && !view.idle().is_empty() {
                self.reserved.reserve(view, model, &self.tiles[model]);
            }
        }
    }

    fn freed(&mut self, _gpus: Gpus, _view: &View<'_>) {
        self.new_round();
    }

    fn lost(&mut self, _gpu: GpuId, view: &View<'_>) {
        self.tiles = sketch::tiles_left(view.instance(), view.alive());
        self.new_round();
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lost(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.given_up(task, view);
    }
}
