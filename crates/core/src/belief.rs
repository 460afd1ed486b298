//! Beliefs about run times: an estimate for every task, its uncertainty, and what finished executions teach.
//!
//! The [`Instance`] holds the estimates and their intervals, which do not change. A [`Learner`] watches the actual
//! times and reports how far a model's times currently deviate from the estimates. The engine puts the two together:
//! policies ask [`View::expected`](crate::engine::View::expected) and
//! [`View::quantile`](crate::engine::View::quantile), in estimates and in live runs alike.

mod recent;

pub use crate::estimate::{Estimate, TAIL, Uncertain, sigma_of, spread_of};
pub use recent::Recent;

use crate::id::{Gpus, ModelId, TaskId};
use crate::instance::Instance;
use crate::time::Span;

/// What a learner sees when an execution completes.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The task.
    pub task: TaskId,
    /// Its model.
    pub model: ModelId,
    /// Where it ran.
    pub gpus: Gpus,
    /// The estimate before anything was learned.
    pub estimated: Span,
    /// Its time as if it had run alone: the slowdown of the batch is divided out with the model's curve.
    pub took: Span,
    /// Executions on the replica just after it started, itself included.
    pub batch: u32,
}

/// How the times of a model compare with their estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// Mean ratio of actual to estimated time.
    pub factor: f64,
    /// The standard deviation of the logarithm around that, where enough was seen to know it.
    pub spread: Option<f64>,
}

impl Belief {
    /// Nothing was learned.
    pub const NONE: Belief = Belief { factor: 1.0, spread: None };
}

/// Something that learns from the ends of executions.
pub trait Learner: Send + Sync {
    /// An execution gave its result.
    fn observe(&mut self, instance: &Instance, seen: &Observation);

    /// What is believed of a model now; on the GPUs of a window, where that makes a difference.
    fn belief(&self, model: ModelId, gpus: Option<Gpus>) -> Belief;

    /// What a task that starts on these GPUs now is expected to take at batch 1: what the log keeps, so that it can be told
    /// afterwards how well was learned.
    fn estimate(&self, instance: &Instance, task: TaskId, gpus: Gpus) -> Estimate {
        let belief = self.belief(instance.model_of(task), Some(gpus));
        let told = instance.estimate(task);
        let spread = belief.spread.unwrap_or(told.spread);
        let time = Uncertain { mean: told.mean.times(belief.factor), spread };
        Estimate { mean: time.mean, low: time.quantile(TAIL), high: time.quantile(1.0 - TAIL) }
    }
}

impl<L: Learner + ?Sized> Learner for &mut L {
    fn observe(&mut self, instance: &Instance, seen: &Observation) {
        (**self).observe(instance, seen);
    }

    fn belief(&self, model: ModelId, gpus: Option<Gpus>) -> Belief {
        (**self).belief(model, gpus)
    }

    fn estimate(&self, instance: &Instance, task: TaskId, gpus: Gpus) -> Estimate {
        (**self).estimate(instance, task, gpus)
    }
}
