//! `sticky`: a GPU keeps its model while there is work for it, a yardstick for switching.
//!
//! Optimises switches and nothing else. Free GPUs serve the model that they hold while tasks of it are ready, first come,
//! first served (higher priority first). Where none are, they take the model with most ready work for each of its replicas at
//! work, models on few GPUs first. A further replica of a model is made only for one and a half loads' worth of work.
//! Nothing limits how long a model waits.
//!
//! Cost: O(log n + models x windows) per decision.

use super::info::without_params;
use super::pools::Pools;
use super::ready::ReadyByModel;
use super::{Policy, place, sketch};
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;

without_params!(
    "sticky",
    BOTH,
    "every GPU keeps its model while it has work, no matter what else waits; a yardstick",
    yardstick(),
    |instance, _| Pools::new(instance, false, |_| Sticky::new(instance))
);

/// Serves what is loaded.
pub struct Sticky {
    ready: ReadyByModel,
    tiles: IdVec<ModelId, Vec<Gpus>>,
}

/// Loads' worth of waiting work for which a further replica is made.
const WORTH_A_REPLICA: f64 = 1.5;

impl Sticky {
    /// With nothing ready.
    pub fn new(instance: &Instance) -> Sticky {
        let models = instance.models.len();
        Sticky {
            ready: ReadyByModel::new(models),
            tiles: instance.models.iter().map(sketch::tiles).collect(),
        }
    }

    fn start(&mut self, model: ModelId, gpus: Gpus) -> Option<Decision> {
        self.ready.pop(model).map(|task| Decision::Start { task, gpus })
    }

    /// Replicas of a model: windows all of whose GPUs hold it.
    fn replicas(&self, view: &View<'_>, model: ModelId) -> usize {
        let tiles = self.tiles[model].iter();
        tiles.filter(|&&window| view.holding(model).contains_all(window)).count()
    }
}

impl Policy for Sticky {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.push_fifo(task, view);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        let stays = self.ready.models().find_map(|model| {
            let mut there = self.tiles[model].iter().copied().filter(|&gpus| view.idle().contains_all(gpus));
            let there = there.find(|&gpus| view.holding(model).contains_all(gpus));
            there.or_else(|| place::joinable(view, model)).map(|gpus| (model, gpus))
        });
        if let Some((model, gpus)) = stays {
            return self.start(model, gpus);
        }
        if view.idle().is_empty() {
            return None;
        }
        let nothing_runs = view.idle().len() == view.alive().len();
        let mut best: Option<((u32, f64), ModelId, Gpus)> = None;
        for model in self.ready.models() {
            let idle = view.idle();
            let Some((gpus, cost)) = place::cheapest_within(view, model, idle, &self.tiles[model]) else {
                continue;
            };
            let (work, replicas) = (self.ready.work(model).seconds(), self.replicas(view, model) as f64);
            if replicas > 0.0 && !nothing_runs && work < WORTH_A_REPLICA * cost.seconds() * replicas {
                continue;
            }
            let rank = (view.instance().models[model].gpus, -work / (replicas + 1.0));
            if best.is_none_or(|(found, ..)| rank < found) {
                best = Some((rank, model, gpus));
            }
        }
        let (_, model, gpus) = best?;
        self.start(model, gpus)
    }

    fn lost(&mut self, _gpu: GpuId, view: &View<'_>) {
        self.tiles = sketch::tiles_left(view.instance(), view.alive());
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lost(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.given_up(task, view);
    }
}
