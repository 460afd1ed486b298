//! Losing a GPU: what ran on it goes back to the queue, what it held is gone, and nothing is put on it again.

use super::Engine;
use super::state::{Effect, News};
use crate::id::{GpuId, Gpus};
use crate::log::{Loss, Status};
use crate::time::Span;

impl Engine<'_> {
    pub(super) fn lose(&mut self, gpu: GpuId) {
        if !self.alive.contains(gpu) {
            return;
        }
        self.alive.remove(gpu);
        self.log.losses.push(Loss { gpu, at: self.now });
        self.news.push(News::Lost(gpu));
        let cut_short = self.gpus[gpu].load;
        if let Some(lead) = self.gpus[gpu].run {
            let gpus = self.runs[lead].gpus;
            if self.runs[lead].loading {
                // They never began: their record is a point in time, with the part of the load that was paid.
                let paid = self.loads[lead].as_ref().map_or(Span::ZERO, |load| self.now - load.start);
                for member in &mut self.runs[lead].members {
                    member.start = self.now;
                    member.switch = member.switch.min(paid);
                }
                self.runs[lead].count_batch(self.now);
                self.runs[lead].loading = false;
            }
            while let Some(member) = self.runs[lead].members.first() {
                let task = member.task;
                self.effects.push(Effect::AbortTask { task, gpus });
                self.leave(task, Status::Lost);
                self.becomes_ready(task);
            }
        }
        if let Some(lead) = cut_short {
            self.abort_load(lead);
        }
        self.evict_where(gpu, |_| true);
        self.idle.remove(gpu);
        self.empty.remove(gpu);
    }

    /// A load that will never end: its window holds neither the new model nor what was evicted for it.
    fn abort_load(&mut self, lead: GpuId) {
        let Some(load) = self.loads[lead].take() else { return };
        let (gpus, model): (Gpus, _) = (load.gpus, load.model);
        self.effects.push(Effect::AbortLoad { gpus });
        for gpu in gpus.iter() {
            self.evict_where(gpu, |resident| resident == model);
            let state = &mut self.gpus[gpu];
            state.load = None;
            if self.alive.contains(gpu) && state.run.is_none() {
                self.idle.insert(gpu);
                state.idle_since = self.now;
            }
            if self.alive.contains(gpu) && state.residents.is_empty() {
                self.empty.insert(gpu);
            }
        }
        self.memory_changed(gpus);
        if !load.for_run {
            self.record_load(load, true);
        }
    }
}
