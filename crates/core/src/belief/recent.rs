//! The latest executions of each model compared with their estimates: a learner that needs no training.
//!
//! The factor of a model is the ratio of what its executions took to what was estimated, the latest counting most and a few
//! made-up ones that took what was estimated before all. Page's test, a running sum of errors, detects a lasting
//! change. Earlier executions are then discarded, and the next few determine the factor. GPUs that are slower or faster
//! than others appear in the ratio of a model on their window to its overall ratio.

use super::{Belief, Learner, Observation};
use crate::id::{Gpus, ModelId};
use crate::instance::Instance;
use rustc_hash::FxHashMap;

/// Learns each model's factor and spread from its latest executions.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    models: Vec<Seen>,
    /// By model and first GPU.
    windows: FxHashMap<(ModelId, u32), Seen>,
}

/// Executions that took what was estimated, before any was seen.
const MADE_UP: f64 = 2.0;
/// How much an execution counts once the next has been seen: about the last fifty make the factor.
const KEEP: f64 = 0.98;
/// Executions that must have been seen before their spread is believed, and before changes are looked for.
const ENOUGH: u32 = 8;
/// Surprises smaller than this many deviations are noise; when the others add up to so many, times have changed.
const SLACK: f64 = 0.5;
const ALARM: f64 = 6.0;
/// After a change, this many of the latest executions are kept.
const KEPT: usize = 4;

#[derive(Clone, Debug, Default)]
struct Seen {
    /// Sums of what was estimated and of what it took, in units of the mean estimate so that long ones do not drown others.
    estimated: f64,
    took: f64,
    count: u32,
    /// Of the logarithm of the ratio.
    mean: f64,
    square: f64,
    weight: f64,
    /// Sums of surprises upward and downward.
    longer: f64,
    shorter: f64,
    last: [f64; KEPT],
}

impl Seen {
    fn add(&mut self, ratio: f64) {
        let log = ratio.ln();
        if self.count >= ENOUGH {
            let surprise = (log - self.mean) / self.deviation().max(0.02);
            self.longer = (self.longer + surprise - SLACK).max(0.0);
            self.shorter = (self.shorter - surprise - SLACK).max(0.0);
            if self.longer > ALARM || self.shorter > ALARM {
                return self.begin_anew(ratio);
            }
        }
        self.last.rotate_left(1);
        self.last[KEPT - 1] = ratio;
        self.count += 1;
        self.estimated = self.estimated * KEEP + 1.0;
        self.took = self.took * KEEP + ratio;
        self.weight = self.weight * KEEP + 1.0;
        let step = (log - self.mean) / self.weight;
        self.square = self.square * KEEP + (log - self.mean) * (log - self.mean - step);
        self.mean += step;
    }

    /// Times have changed: only the latest executions say anything of what is to come.
    fn begin_anew(&mut self, ratio: f64) {
        let mut last = self.last;
        last.rotate_left(1);
        last[KEPT - 1] = ratio;
        *self = Seen::default();
        last.into_iter().for_each(|ratio| self.add(ratio));
    }

    fn deviation(&self) -> f64 {
        (self.square / self.weight.max(1.0)).sqrt()
    }

    /// The ratio, drawn towards `usual` by made-up executions.
    fn factor(&self, usual: f64) -> f64 {
        (self.took + MADE_UP * usual) / (self.estimated + MADE_UP)
    }
}

impl Recent {
    /// With nothing seen.
    #[must_use]
    pub fn new() -> Recent {
        Recent::default()
    }
}

impl Learner for Recent {
    fn observe(&mut self, instance: &Instance, seen: &Observation) {
        if self.models.len() < instance.models.len() {
            self.models.resize(instance.models.len(), Seen::default());
        }
        let ratio = seen.took.0.max(1) as f64 / seen.estimated.0.max(1) as f64;
        self.models[seen.model.index()].add(ratio);
        self.windows.entry((seen.model, seen.gpus.first.0)).or_default().add(ratio);
    }

    fn belief(&self, model: ModelId, gpus: Option<Gpus>) -> Belief {
        let Some(seen) = self.models.get(model.index()).filter(|seen| seen.count > 0) else {
            return Belief::NONE;
        };
        let everywhere = seen.factor(1.0);
        let here = gpus.and_then(|gpus| self.windows.get(&(model, gpus.first.0)));
        // A window has to differ by more than chance before it is believed to be another machine.
        let here = here.filter(|here| {
            let chance = 3.0 * seen.deviation() / here.weight.max(1.0).sqrt();
            here.count >= ENOUGH && (here.mean - seen.mean).abs() > chance.max(0.05)
        });
        Belief {
            factor: here.map_or(everywhere, |here| here.factor(everywhere)),
            spread: (seen.count >= ENOUGH).then(|| seen.deviation()),
        }
    }
}
