//! Recent demand for each model: the only forecast that is used.

use crate::id::{IdVec, ModelId};
use crate::time::Time;

pub(super) struct Demand {
    /// Tasks that became ready, each worth less the longer ago it was, and when they were last added up.
    recent: IdVec<ModelId, (f64, Time)>,
    /// Seconds after which a task counts a third.
    pub memory: f64,
}

impl Demand {
    pub fn new(models: usize, memory: f64) -> Demand {
        Demand { recent: vec![(0.0, Time::ZERO); models].into(), memory: memory.max(1e-3) }
    }

    pub fn asked(&mut self, model: ModelId, now: Time) {
        self.recent[model] = (self.recent(model, now) + 1.0, now);
    }

    fn recent(&self, model: ModelId, now: Time) -> f64 {
        let (count, at) = self.recent[model];
        count * (-now.since(at).seconds() / self.memory).exp()
    }

    /// The chance that a replica which is idle since `idle`, one of `spare` of its model, is wanted again soon.
    pub fn wanted_again(&self, model: ModelId, idle: Time, spare: u32, now: Time) -> f64 {
        let comes = 1.0 - (-self.recent(model, now) / f64::from(spare.max(1))).exp();
        comes * (-now.since(idle).seconds() / self.memory).exp()
    }
}
