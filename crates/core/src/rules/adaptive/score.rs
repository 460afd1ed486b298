//! What an objective makes of the figures of a look.

use super::{LatencyTarget, Objective};
use crate::sim::Played;
use crate::time::Span;

/// A candidate that does not come to its end counts as so far behind.
pub(super) const HOPELESS: f64 = 2.0;

/// The tail is the power mean of this order: a look has too few requests for a percentile.
const TAIL: i32 = 10;

/// What missing a target weighs, beside the logarithm of a ratio of latencies.
const LATE: f64 = 5.0;

/// The part of the objective that counts beside a target.
const BESIDE_TARGET: f64 = 0.3;

/// A look is short, and a target has to be met in the long run: it is taken to be so much tighter.
const TIGHTER: f64 = 0.9;

/// The weights of what a rule is judged by.
#[derive(Clone, Copy, Default)]
struct Weights {
    /// The mean latency and its tail.
    mean: f64,
    tail: f64,
    /// Loads, beside a quarter of the requests: few loads more are no fault.
    loads: f64,
}

/// What counts.
#[derive(Clone, Copy)]
pub(super) struct Score {
    weights: Weights,
    target: Option<LatencyTarget>,
}

/// What came of a candidate.
#[derive(Clone, Copy)]
pub(super) struct Figures {
    /// The mean latency and its tail, in seconds.
    mean: f64,
    tail: f64,
    loads: f64,
    /// How far the target is missed.
    missed: f64,
}

impl Score {
    pub fn of(objective: Objective, target: Option<LatencyTarget>) -> Score {
        let weights = match objective {
            Objective::Mean => Weights { mean: 1.0, ..Weights::default() },
            Objective::P99 => Weights { tail: 1.0, mean: 0.1, ..Weights::default() },
            Objective::Balanced => Weights { mean: 1.0, tail: 1.5, loads: 0.1 },
        };
        Score { weights, target }
    }

    pub fn figures(&self, played: &Played) -> Figures {
        let seconds = || played.latencies.iter().map(|one| one.seconds());
        let (count, most) = (played.latencies.len().max(1) as f64, seconds().fold(1e-6, f64::max));
        let powers: f64 = seconds().map(|one| (one / most).powi(TAIL)).sum();
        let mean = (seconds().sum::<f64>() / count).max(1e-6);
        let above = |limit: Span| played.latencies.iter().filter(|&&one| one > limit).count() as f64 / count;
        let missed = match self.target {
            None => 0.0,
            Some(LatencyTarget { quantile: None, latency }) => {
                (mean / (TIGHTER * latency.seconds())).ln().max(0.0)
            }
            Some(LatencyTarget { quantile: Some(quantile), latency }) => {
                let limit = Span((latency.0 as f64 * TIGHTER) as u64);
                LATE * (above(limit) - TIGHTER * (1.0 - quantile)).max(0.0)
            }
        };
        Figures {
            mean,
            tail: most * (powers / count).powf(1.0 / f64::from(TAIL)),
            loads: played.loads as f64 + count / 4.0,
            missed,
        }
    }

    /// How far each candidate is behind the best of a look; `None` where it did not come to its end.
    pub fn behind(&self, found: &[Option<Figures>]) -> Vec<f64> {
        let least = |of: fn(&Figures) -> f64| found.iter().flatten().map(of).fold(f64::INFINITY, f64::min);
        let (mean, tail) = (least(|one| one.mean), least(|one| one.tail));
        let (loads, missed) = (least(|one| one.loads), least(|one| one.missed));
        let ratio = |own: f64, least: f64| (own / least).ln().min(HOPELESS);
        let weights = &self.weights;
        let of_objective = |own: &Figures| {
            weights.mean * ratio(own.mean, mean)
                + weights.tail * ratio(own.tail, tail)
                + weights.loads * ratio(own.loads, loads)
        };
        let score = |own: &Figures| match self.target {
            None => of_objective(own),
            Some(_) => BESIDE_TARGET * of_objective(own) + LATE * (own.missed - missed),
        };
        found.iter().map(|own| own.as_ref().map_or(HOPELESS, score)).collect()
    }
}
