//! Unloads without a successor: models that are idle for too long, or that a user unloads.

use super::Engine;
use super::state::{Effect, News};
use crate::id::{GpuId, Gpus, ModelId};
use crate::log::Unload;

impl Engine<'_> {
    /// Whether a model is on some GPU, and neither executes nor loads anywhere.
    pub(super) fn may_dismiss(&self, model: ModelId) -> bool {
        let executes = self.runs.iter().any(|run| run.is_active() && run.model == model);
        let loads = self.loads.iter().flatten().any(|load| load.model == model);
        !self.holding[model].is_empty() && !executes && !loads
    }

    /// Takes a model off all GPUs. One that is in use stays: what happened in the same moment may have put it there.
    pub(super) fn dismissed(&mut self, model: ModelId) {
        if !self.may_dismiss(model) {
            return;
        }
        let gpus: Vec<GpuId> = self.holding[model].iter().collect();
        // Whom it was loaded for finds it no longer: then its load is one that nobody bears.
        let made: Vec<_> =
            self.prepared.iter().filter(|(_, load)| load.model == model).map(|(&task, _)| task).collect();
        for task in made {
            self.log.loads.extend(self.prepared.remove(&task));
        }
        self.effects.push(Effect::Unload { model });
        for gpu in gpus {
            let one = Gpus { first: gpu, count: 1 };
            self.evict_where(gpu, |resident| resident == model);
            self.log.unloads.push(Unload { model, gpu, at: self.now });
            let state = &self.gpus[gpu];
            if self.alive.contains(gpu) && state.residents.is_empty() && state.load.is_none() {
                self.empty.insert(gpu);
            }
            self.memory_changed(one);
            self.news.push(News::Freed(one));
        }
    }
}
