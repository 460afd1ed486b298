//! GPU memory of executions, in addition to the weights of the models.
//!
//! Where models share a GPU, a load leaves room for one execution of whichever of them runs next, so that a model that is
//! there can always start; how many can join it depends on who else is there.

use super::Engine;
use super::state::Rejected;
use crate::cost;
use crate::id::{GpuId, Gpus, ModelId};

impl Engine<'_> {
    /// What a GPU has to hold with these models on it: their weights, and the executions that run there or one of any.
    pub(super) fn memory_of(&self, gpu: GpuId, models: impl Iterator<Item = ModelId>) -> u64 {
        let running = self.gpus[gpu].run.map_or(0, |lead| {
            let run = &self.runs[lead];
            self.instance.models[run.model].slot_per_gpu * run.members.len() as u64
        });
        let (weights, slot) =
            models.map(|model| &self.instance.models[model]).fold((0, running), |(weights, slot), model| {
                (weights + model.memory_per_gpu, slot.max(model.slot_per_gpu))
            });
        weights + slot
    }

    /// Whether `count` executions of a model that is there, or comes, fit beside all weights on each of its GPUs.
    pub(super) fn check_slot(&self, model: ModelId, gpus: Gpus, count: u64) -> Result<(), Rejected> {
        let slot = self.instance.models[model].slot_per_gpu;
        if !self.slots_count || slot == 0 {
            return Ok(());
        }
        let room = cost::megabytes(self.instance.cluster.gpu_memory_gb);
        match gpus.iter().find(|&gpu| self.weights_on(gpu) + slot * count > room) {
            Some(gpu) => Err(Rejected::NoSlot { model, gpu }),
            None => Ok(()),
        }
    }

    /// Weights on a GPU, those that are on their way included.
    fn weights_on(&self, gpu: GpuId) -> u64 {
        let state = &self.gpus[gpu];
        let coming = state.load.and_then(|lead| self.loads[lead].as_ref()).map(|load| load.model);
        let coming = coming.filter(|&model| !self.holding[model].contains(gpu));
        let there = state.residents.iter().map(|resident| resident.model);
        there.chain(coming).map(|model| self.instance.models[model].memory_per_gpu).sum()
    }

    /// Weights came or went: batches that run on these GPUs may have gained or lost room.
    pub(super) fn memory_changed(&mut self, gpus: Gpus) {
        if !self.slots_count {
            return;
        }
        for gpu in gpus.iter() {
            if let Some(lead) = self.gpus[gpu].run {
                self.update_joinable(lead);
            }
        }
    }
}
