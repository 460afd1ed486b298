//! Averages and percentiles of lengths of time.

use crate::time::Span;
use serde::{Deserialize, Serialize};

/// A sample of lengths of time, in seconds. All zero where the sample is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Size of the sample.
    pub count: u64,
    /// Average.
    pub mean: f64,
    /// Half are at most this.
    pub median: f64,
    /// 90% are at most this (linear interpolation between neighbours).
    pub p90: f64,
    /// 99% are at most this (linear interpolation between neighbours).
    pub p99: f64,
    /// Least.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Stats {
    /// Of a sample, which is put in order.
    #[must_use]
    pub fn of(mut sample: Vec<Span>) -> Stats {
        sample.sort_unstable();
        let (Some(min), Some(max)) = (sample.first(), sample.last()) else { return Stats::default() };
        let total: u128 = sample.iter().map(|span| u128::from(span.0)).sum();
        Stats {
            count: sample.len() as u64,
            mean: total as f64 / sample.len() as f64 / 1e6,
            median: percentile(&sample, 0.5),
            p90: percentile(&sample, 0.9),
            p99: percentile(&sample, 0.99),
            min: min.seconds(),
            max: max.seconds(),
        }
    }
}

/// Linear interpolation: the value at place `share * (n - 1)` of the sorted sample.
fn percentile(sorted: &[Span], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (low, high) = (sorted[below].seconds(), sorted[above].seconds());
    low + (high - low) * (place - below as f64)
}

/// Writes a length of time as seconds.
pub(super) mod as_seconds {
    use super::Span;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(span.seconds())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        f64::deserialize(deserializer).map(Span::from_seconds)
    }
}
