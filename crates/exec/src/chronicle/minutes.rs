//! Recent counts, in a fixed number of short time buckets.

use crate::wire::{ActivitySeries, LatencySummary};
use gswarm_core::{Span, Time};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::sync::Arc;

/// Stretches that are kept.
const KEPT: usize = 180;
/// Significant digits of latencies.
const DIGITS: u8 = 3;

/// The usual stretch: with 180 of them, a quarter of an hour is kept.
pub const USUAL: Span = Span(5_000_000);

/// Counts of the last while.
#[derive(Clone)]
pub struct Minutes {
    each: Span,
    /// The number of the first stretch that is kept, from the start of the run.
    first: u64,
    kept: VecDeque<Stretch>,
    /// What waited when it was last looked at: a stretch in which nobody looked begins with it.
    waiting: usize,
}

#[derive(Clone, Default)]
struct Stretch {
    completed: u32,
    executions: u32,
    loads: u32,
    /// The most that waited.
    waiting: usize,
    /// In microseconds. Those who look share it with the stretch, so that a copy of all stretches is cheap.
    latencies: Option<Arc<Histogram<u32>>>,
}

impl Minutes {
    /// Nothing has happened.
    #[must_use]
    pub fn new(each: Span) -> Minutes {
        Minutes { each: each.max(Span(1)), first: 0, kept: VecDeque::from([Stretch::default()]), waiting: 0 }
    }

    /// An execution ended.
    pub fn executed(&mut self, at: Time) {
        self.at(at).executions += 1;
    }

    /// A load ended.
    pub fn loaded(&mut self, at: Time) {
        self.at(at).loads += 1;
    }

    /// A request ended after so long.
    pub fn ended(&mut self, at: Time, completed: bool, took: Span) {
        // Latencies are those of completed requests, as in the report of a run.
        if !completed {
            return;
        }
        let stretch = self.at(at);
        stretch.completed += 1;
        if stretch.latencies.is_none() {
            stretch.latencies = histogram().map(Arc::new);
        }
        if let Some(latencies) = &mut stretch.latencies {
            // It grows with its values; there is nothing to be done where it cannot.
            let _ = Arc::make_mut(latencies).record(took.0.max(1));
        }
    }

    /// So many nodes wait.
    pub fn waiting(&mut self, at: Time, count: usize) {
        self.waiting = count;
        let stretch = self.at(at);
        stretch.waiting = stretch.waiting.max(count);
    }

    /// All that is kept, oldest first, with stretches in which nothing happened up to `now`.
    #[must_use]
    pub fn series(mut self, now: Time) -> ActivitySeries {
        self.at(now);
        let counts = |count: fn(&Stretch) -> u64| self.kept.iter().map(count).collect();
        let quantiles = |part| {
            self.kept.iter().map(|one| one.latencies.as_deref().and_then(|all| quantile(all, part))).collect()
        };
        ActivitySeries {
            bucket_seconds: self.each.seconds(),
            from: self.first as f64 * self.each.seconds(),
            completed: counts(|one| one.completed.into()),
            executions: counts(|one| one.executions.into()),
            loads: counts(|one| one.loads.into()),
            p50: quantiles(0.5),
            p99: quantiles(0.99),
            waiting: counts(|one| one.waiting as u64),
        }
    }

    /// The latency of requests that ended within a while before `now`, or of all that is kept.
    #[must_use]
    pub fn latency(&self, now: Time, within: Option<Span>) -> LatencySummary {
        let late = within.map_or(0, |within| now.0.saturating_sub(within.0) / self.each.0);
        let stretches = (self.first..).zip(&self.kept).filter(|&(number, _)| number >= late);
        let mut all = histogram();
        for latencies in stretches.filter_map(|(_, one)| one.latencies.as_deref()) {
            let _ = all.as_mut().map(|all| all.add(latencies));
        }
        let quantile = |part| all.as_ref().and_then(|all| quantile(all, part));
        LatencySummary { window_seconds: within.map(Span::seconds), p50: quantile(0.5), p99: quantile(0.99) }
    }

    /// The stretch of a moment; of one before all that is kept, the oldest.
    fn at(&mut self, at: Time) -> &mut Stretch {
        let number = at.0 / self.each.0;
        let behind = number.saturating_sub(self.first + self.kept.len() as u64 - 1);
        if behind > KEPT as u64 {
            self.kept.clear();
            self.first = number + 1 - KEPT as u64;
            let fresh = Stretch { waiting: self.waiting, ..Stretch::default() };
            self.kept.resize(KEPT, fresh);
        } else {
            for _ in 0..behind {
                self.kept.push_back(Stretch { waiting: self.waiting, ..Stretch::default() });
            }
            let over = self.kept.len().saturating_sub(KEPT);
            self.kept.drain(..over);
            self.first += over as u64;
        }
        let place = number.saturating_sub(self.first) as usize;
        &mut self.kept[place]
    }
}

/// Nothing yet; it grows to the largest value. (It is only refused for more digits than there are.)
fn histogram() -> Option<Histogram<u32>> {
    Histogram::new(DIGITS).ok()
}

/// In seconds. As everywhere: linear interpolation between the two values around place `part * (n - 1)` in the order of
/// size, each of them in the middle of what the histogram cannot tell apart.
fn quantile(latencies: &Histogram<u32>, part: f64) -> Option<f64> {
    let count = latencies.len();
    let place = part * count.checked_sub(1)? as f64;
    // Half a place more, so that rounding does not end up at a neighbour.
    let at = |place: f64| {
        let value = latencies.value_at_quantile((place + 0.5) / count as f64);
        Span(latencies.median_equivalent(value)).seconds()
    };
    let (low, high) = (at(place.floor()), at(place.ceil()));
    Some(low + (high - low) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Time {
        Time(seconds * 1_000_000)
    }

    /// Within the histogram's three digits.
    fn is_near(value: Option<f64>, expected: f64) {
        let value = value.unwrap();
        assert!((value / expected - 1.0).abs() <= 1e-3, "{value} is not {expected}");
    }

    #[test]
    fn a_quarter_of_an_hour_is_kept_and_no_more() {
        let mut minutes = Minutes::new(USUAL);
        for at in 0..3600 {
            minutes.executed(seconds(at));
        }
        let shown = minutes.clone().series(seconds(3600));
        assert_eq!(shown.from, 3605.0 - 900.0);
        assert_eq!(shown.executions, [vec![5; 179], vec![0]].concat());
        // After a long silence nothing of before is left.
        assert_eq!(minutes.series(seconds(1_000_000)).executions, [0; 180]);
    }

    #[test]
    fn the_latency_of_the_last_minute_is_of_all_that_ended_in_it() {
        let mut minutes = Minutes::new(USUAL);
        minutes.ended(seconds(10), true, Span(500_000_000));
        (1..=99).for_each(|took| minutes.ended(seconds(100 + took % 50), true, Span(took * 1_000_000)));
        let late = minutes.latency(seconds(150), Some(Span(60_000_000)));
        assert_eq!(late.window_seconds, Some(60.0));
        is_near(late.p50, 50.0);
        is_near(late.p99, 98.02);
        let all = minutes.latency(seconds(150), None);
        is_near(all.p99, 102.97);
        assert_eq!(all.window_seconds, None);
        assert_eq!(minutes.latency(seconds(900), Some(Span(60_000_000))).p50, None);
        // However many end in a stretch, all of them count.
        (0..5120).for_each(|_| minutes.ended(seconds(160), true, Span(7_000_000)));
        is_near(minutes.latency(seconds(160), Some(Span(60_000_000))).p50, 7.0);
    }

    #[test]
    fn latencies_are_those_of_the_stretch_in_which_requests_ended() {
        let mut minutes = Minutes::new(USUAL);
        (1..=100).for_each(|took| minutes.ended(seconds(1), true, Span(took * 1_000_000)));
        minutes.ended(seconds(6), false, Span(7_000_000));
        minutes.waiting(seconds(6), 4);
        let shown = minutes.clone().series(seconds(12));
        for (of, first) in [(&shown.p50, 50.5), (&shown.p99, 99.01)] {
            is_near(of[0], first);
            assert_eq!(of[1..], [None, None], "one that failed has no latency, as in the report of a run");
        }
        assert_eq!((shown.completed, shown.waiting), (vec![100, 0, 0], vec![0, 4, 4]));
        (1..=100_000u64).for_each(|took| minutes.ended(seconds(14), true, Span(took * 1_000)));
        is_near(minutes.series(seconds(14)).p50[2], 50.0);
    }
}
