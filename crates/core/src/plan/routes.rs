//! Ways by which a model can come onto a GPU: straight, or by way of another model that is loaded first and runs nothing.
//!
//! A detour pays where an empty GPU loads a large model slowly but a small one fast, and replacing a model is cheaper than a
//! cold load; and where a GPU waits for its neighbours: with a small model on it meanwhile, the load of the wide one that
//! they wait for is shorter. A detour by a one-GPU model can be made on any GPU by itself, so plans use those only. A proof
//! that no schedule is shorter must allow for every chain of every model: [`Routes::relaxed`].

use super::decode::{EMPTY, SwitchTable};
use crate::id::ModelId;
use crate::instance::Instance;

/// A way onto a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The model to load first; `None` for the straight way.
    pub via: Option<ModelId>,
    /// What comes before the load of the model itself: the GPU can make it alone, ahead of its neighbours.
    pub before: u64,
    /// This GPU's share in the load itself.
    pub last: u64,
}

/// The ways from every state of a GPU to every model; none that is no better than another in both parts.
pub(super) struct Routes {
    models: usize,
    straight: Vec<Way>,
    ways: Vec<Vec<Way>>,
}

/// Which GPUs may be brought a model by a detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detours {
    /// None.
    Never,
    /// Those that hold nothing yet.
    Empty,
    /// All.
    Always,
}

impl Routes {
    /// What a plan can do: detours by one model that needs one GPU.
    pub fn new(instance: &Instance, table: &SwitchTable) -> Routes {
        let detours: Vec<ModelId> =
            instance.models.iter_enumerated().filter(|(_, spec)| spec.gpus == 1).map(|(id, _)| id).collect();
        let before = |held: u32, via: ModelId| table.span(held, via).0;
        Routes::by(instance, table, &detours, before)
    }

    /// At least what any schedule can do: chains of any models, each GPU by itself.
    pub fn relaxed(instance: &Instance, table: &SwitchTable) -> Routes {
        let all: Vec<ModelId> = instance.models.keys().collect();
        let count = all.len();
        let at = |held: u32, model: ModelId| held as usize * count + model.index();
        let states = 0..=count as u32;
        let mut least: Vec<u64> =
            states.clone().flat_map(|held| all.iter().map(move |&model| table.span(held, model).0)).collect();
        // Shortest chains (Floyd and Warshall): by way of each model in turn.
        for &middle in &all {
            for held in states.clone() {
                for &model in &all {
                    let by = least[at(held, middle)].saturating_add(least[at(middle.0 + 1, model)]);
                    let place = at(held, model);
                    least[place] = least[place].min(by);
                }
            }
        }
        Routes::by(instance, table, &all, |held, via| least[at(held, via)])
    }

    fn by(
        instance: &Instance,
        table: &SwitchTable,
        detours: &[ModelId],
        before: impl Fn(u32, ModelId) -> u64,
    ) -> Routes {
        let models = instance.models.len();
        let mut routes = Routes { models, straight: Vec::new(), ways: Vec::new() };
        for held in 0..=models as u32 {
            for (model, spec) in instance.models.iter_enumerated() {
                let straight = Way { via: None, before: 0, last: table.span(held, model).0 };
                let round = detours.iter().filter(|via| held != via.0 + 1).map(|&via| Way {
                    via: Some(via),
                    before: before(held, via),
                    last: table.span(via.0 + 1, model).0,
                });
                routes.ways.push(undominated(straight, round, spec.gpus == 1));
                routes.straight.push(straight);
            }
        }
        routes
    }

    /// The ways to a model from what a GPU holds, as in [`SwitchTable`].
    pub fn ways(&self, held: u32, model: ModelId, detours: Detours) -> &[Way] {
        let at = held as usize * self.models + model.index();
        match detours {
            Detours::Always => &self.ways[at],
            Detours::Empty if held == EMPTY => &self.ways[at],
            _ => std::slice::from_ref(&self.straight[at]),
        }
    }

    /// The soonest that a model can be on GPUs that are free from `free` on and hold `held`, and the time that its load may
    /// take on each of them for that: which way each GPU takes follows from it.
    pub fn soonest(&self, model: ModelId, free: &[u64], held: &[u32], detours: Detours) -> (u64, u64) {
        if let ([free], [held]) = (free, held) {
            let times = self.ways(*held, model, detours).iter();
            return times.map(|way| (free + way.before + way.last, way.last)).min().unwrap_or_default();
        }
        let mut best = (u64::MAX, u64::MAX);
        // The load takes as long as on the GPU where it takes longest: try every length, and let each GPU take the way that
        // is ready soonest among those no longer than it.
        for limit in held.iter().flat_map(|&held| self.ways(held, model, detours)).map(|way| way.last) {
            let begins = free.iter().zip(held).try_fold(0, |latest: u64, (&free, &held)| {
                Some(latest.max(free + self.within(held, model, detours, limit)?.before))
            });
            if let Some(begins) = begins.filter(|begins| begins + limit < best.0) {
                best = (begins + limit, limit);
            }
        }
        best
    }

    /// The way that is ready soonest among those whose load takes no longer than `limit`.
    pub fn within(&self, held: u32, model: ModelId, detours: Detours, limit: u64) -> Option<&Way> {
        // They stand by rising load and falling time before it.
        self.ways(held, model, detours).iter().rfind(|way| way.last <= limit)
    }
}

/// Ways by rising load and falling time before it: the straight one last.
fn undominated(straight: Way, round: impl Iterator<Item = Way>, alone: bool) -> Vec<Way> {
    let mut all: Vec<Way> = round.collect();
    all.push(straight);
    if alone {
        // A GPU that waits for no neighbour needs only the shortest way.
        let total = |way: &Way| way.before + way.last;
        let best = all.iter().copied().min_by_key(|way| (total(way), way.via.is_some(), way.via));
        return best.into_iter().collect();
    }
    let mut kept: Vec<Way> = Vec::new();
    all.sort_by_key(|way| (way.last, way.before, way.via.is_some(), way.via));
    for way in all {
        if kept.last().is_none_or(|shorter| way.before < shorter.before) {
            kept.push(way);
        }
    }
    kept
}
