//! Times that can be believed: warmed up, repeated until they agree, within a budget.

use super::types::{Measurement, Operation};
use std::time::{Duration, Instant};

/// How much trouble to take over one operation at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Runs that do not count.
    pub warm_up: u32,
    /// The fewest that do.
    pub least: u32,
    /// The most.
    pub most: u32,
    /// Enough, where the quartiles are no farther apart than this share of the median.
    pub spread: f64,
    /// After this no further run is begun, once the fewest are done.
    pub budget: Duration,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { warm_up: 2, least: 5, most: 60, spread: 0.05, budget: Duration::from_millis(1500) }
    }
}

/// Runs `once`, which says how many seconds it took, until its times agree.
pub fn repeat<E>(
    effort: &Effort,
    operation: Operation,
    size: u32,
    mut once: impl FnMut() -> Result<f64, E>,
) -> Result<Measurement, E> {
    let since = Instant::now();
    let mut warm = 0;
    // One slow warm-up is enough: it has touched all that there is to touch.
    while warm < effort.warm_up && (warm == 0 || since.elapsed() < effort.budget / 4) {
        once()?;
        warm += 1;
    }
    let since = Instant::now();
    let mut times = Vec::new();
    loop {
        times.push(once()?);
        let done = times.len() as u32;
        // A run that takes the whole budget is not run five times over.
        let least = if since.elapsed() > 2 * effort.budget { done.min(3) } else { effort.least };
        let enough = done >= least && (spread(&times) <= effort.spread || since.elapsed() >= effort.budget);
        if enough || done >= effort.most {
            break;
        }
    }
    Ok(Measurement {
        operation,
        size,
        median_seconds: quantile(&times, 0.5).max(1e-9),
        spread: spread(&times),
        repetitions: times.len() as u32,
    })
}

/// A quantile of times in any order, between two where it falls between them.
pub fn quantile(times: &[f64], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let at = share * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// The distance of the quartiles as a share of the median.
fn spread(times: &[f64]) -> f64 {
    let median = quantile(times, 0.5);
    if median > 0.0 { (quantile(times, 0.75) - quantile(times, 0.25)) / median } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_times_stop_early_and_wild_ones_go_on() {
        let effort = Effort { budget: Duration::from_secs(100), ..Effort::default() };
        let steady = repeat(&effort, Operation::Sort, 1, || Ok::<_, ()>(0.5)).unwrap();
        assert_eq!((steady.repetitions, steady.median_seconds, steady.spread), (5, 0.5, 0.0));
        let mut next = 0.0;
        let wild = repeat(&effort, Operation::Sort, 1, || {
            next += 1.0;
            Ok::<_, ()>(next)
        });
        assert_eq!(wild.unwrap().repetitions, 60);
        assert_eq!(repeat(&effort, Operation::Sort, 1, || Err::<f64, _>("gone")), Err("gone"));
    }

    #[test]
    fn quantiles_are_those_by_hand() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.5), 1.5);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
