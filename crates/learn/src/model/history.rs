//! What executions of a model took of late, beside what was predicted of them. Where times hang together (a server that is
//! slow for a while), the last ones tell of the next.

use serde::{Deserialize, Serialize};

/// Ratios of truth to prediction stay between this and its inverse, however wrong a prediction was.
const MOST: f64 = 10.0;

/// How much the last executions tell of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The share of the newest execution in what is remembered.
    pub newest: f64,
    /// The share of what is remembered that carries over to the next one.
    pub carries: f64,
}

impl Memory {
    pub(super) fn is_sound(&self) -> bool {
        [self.newest, self.carries].iter().all(|share| (0.0..=1.0).contains(share))
    }
}

/// A moving mean of truth by prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct History {
    ratio: f64,
}

impl Default for History {
    fn default() -> History {
        History { ratio: 1.0 }
    }
}

impl History {
    /// One more execution: what it took, and what was predicted of it.
    pub fn add(&mut self, truth: f64, predicted: f64, newest: f64) {
        let ratio = truth / predicted;
        if ratio.is_finite() {
            self.ratio += newest * (ratio.clamp(1.0 / MOST, MOST) - self.ratio);
        }
    }

    /// How many times as long as predicted, in the mean.
    pub fn ratio(&self) -> f64 {
        self.ratio
    }

    /// How many times as long as predicted the next one is expected to take.
    pub fn factor(&self, memory: &Memory) -> f64 {
        1.0 + memory.carries * (self.ratio - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_fades_and_carries_over_in_part() {
        let (mut history, memory) = (History::default(), Memory { newest: 0.5, carries: 0.8 });
        assert_eq!(history.factor(&memory), 1.0);
        history.add(6.0, 2.0, memory.newest);
        assert_eq!(history.ratio(), 2.0);
        assert!((history.factor(&memory) - 1.8).abs() < 1e-12);
        history.add(2.0, 2.0, memory.newest);
        assert_eq!(history.ratio(), 1.5);
    }

    #[test]
    fn shares_are_between_nothing_and_all() {
        let sound = |newest, carries| Memory { newest, carries }.is_sound();
        assert!(sound(0.5, 1.0));
        assert!(!sound(1.5, 0.5) && !sound(0.5, f64::NAN));
    }

    #[test]
    fn what_was_predicted_to_take_no_time_tells_nothing() {
        let mut history = History::default();
        history.add(1.0, 0.0, 0.5);
        history.add(0.0, 0.0, 0.5);
        assert_eq!(history.ratio(), 1.0);
        history.add(1e9, 1.0, 1.0);
        assert_eq!(history.ratio(), MOST);
    }
}
