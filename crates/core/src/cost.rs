//! Costs: the only place where GB, tokens and bandwidth become a [`Span`]. Each value is rounded once, here.

use crate::scenario::ModelSpec;
pub use crate::scenario::SwitchRule;
use crate::time::Span;

/// What has to leave a GPU before a model can be loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Leaving {
    /// The size of it, in GB.
    pub gb: f64,
    /// Measured unload time in seconds; only used under [`SwitchRule::Measured`].
    pub seconds: f64,
    /// Whether some of it has executed nothing since it was loaded. The GPU then counts as empty: loading a small model
    /// first must not make the next load cheaper than a cold one.
    pub unused: bool,
}

impl std::ops::Add for Leaving {
    type Output = Leaving;

    fn add(self, other: Leaving) -> Leaving {
        Leaving {
            gb: self.gb + other.gb,
            seconds: self.seconds + other.seconds,
            unused: self.unused || other.unused,
        }
    }
}

/// The parameters of switching.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchCost {
    /// Which rule.
    pub rule: SwitchRule,
    /// Host to GPU.
    pub pcie_gb_per_s: f64,
    /// Added to every switch under [`SwitchRule::Transfer`].
    pub overhead_seconds: f64,
}

impl SwitchCost {
    /// One GPU's share in bringing in a model: `leaving` is what has to leave it, `None` where nothing has to.
    #[must_use]
    pub fn of(&self, leaving: Option<Leaving>, new_gb: f64, load_seconds: f64) -> Span {
        let switch = match (leaving, self.rule) {
            (None, _) => load_seconds,
            (Some(old), SwitchRule::Transfer) => {
                (old.gb + new_gb) / self.pcie_gb_per_s + self.overhead_seconds
            }
            (Some(old), SwitchRule::LoadTime) => load_seconds + old.gb / self.pcie_gb_per_s,
            (Some(old), SwitchRule::Measured) => load_seconds + old.seconds,
        };
        let is_cold = leaving.is_some_and(|old| old.unused);
        Span::from_seconds(if is_cold { switch.max(load_seconds) } else { switch })
    }
}

/// The execution time that a model gives where the request gives none.
#[must_use]
pub fn default_execution(model: &ModelSpec) -> Option<Span> {
    let seconds = match (model.inference_time_mean, model.token_mean, model.tokens_per_second) {
        (Some(mean), _, _) => mean,
        (None, Some(tokens), Some(rate)) => tokens / rate,
        _ => return None,
    };
    Some(execution_span(seconds))
}

/// The standard deviation of the execution time that a model gives, as a share of that time.
#[must_use]
pub fn deviation(model: &ModelSpec) -> f64 {
    let share =
        |deviation: Option<f64>, mean: f64| if mean > 0.0 { deviation.unwrap_or(0.0) / mean } else { 0.0 };
    match (model.inference_time_mean, model.token_mean, model.tokens_per_second) {
        (Some(mean), _, _) => share(model.inference_time_std, mean),
        (None, Some(tokens), Some(_)) => share(model.token_std, tokens),
        _ => 0.0,
    }
}

/// An execution time: at least one microsecond, so that every execution moves time forward.
#[must_use]
pub fn execution_span(seconds: f64) -> Span {
    Span::from_seconds(seconds).max(Span(1))
}

/// Megabytes of GPU memory, rounded up, as compared when models share a GPU.
#[must_use]
pub fn megabytes(gb: f64) -> u64 {
    (gb * 1000.0).ceil() as u64
}

/// Slowdown per batch size, in millionths: index b - 1 for batch b. Piecewise linear between the points of the file.
#[must_use]
pub fn slowdown_table(points: &[(u32, f64)], max_batch: u32) -> Vec<u32> {
    (1..=max_batch).map(|batch| (slowdown_at(points, batch) * 1e6).round() as u32).collect()
}

fn slowdown_at(points: &[(u32, f64)], batch: u32) -> f64 {
    let after = points.partition_point(|&(b, _)| b < batch);
    match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
        (_, Some(&(b, slow))) if b == batch => slow,
        (Some((b0, s0)), Some(&(b1, s1))) => s0 + (s1 - s0) * f64::from(batch - b0) / f64::from(b1 - b0),
        // Past the last point the last slope goes on: a curve that ends early must not promise free batching.
        (Some((b1, s1)), None) => {
            let (b0, s0) = if points.len() > 1 { points[points.len() - 2] } else { (1, 1.0) };
            let slope = if b1 > b0 { (s1 - s0) / f64::from(b1 - b0) } else { 0.0 };
            s1 + slope * f64::from(batch - b1)
        }
        (None, Some(&(_, slow))) => slow,
        (None, None) => 1.0,
    }
}
