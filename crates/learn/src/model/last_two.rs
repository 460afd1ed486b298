//! The mean of the last two runs of the same kind: the baseline that any learning has to beat.
//!
//! Runs are of the same kind if their texts are the same and their numbers of the same order (between two powers of
//! two). Where no such run was seen, those with the same texts count; then all.

use super::schema::{Feature, FeatureKind, Rows};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The last of a kind, and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Runs {
    last: f64,
    before: f64,
}

impl Runs {
    fn mean(self) -> f64 {
        (self.last + self.before) / 2.0
    }
}

/// The last runs of every kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastTwo {
    is_text: Vec<bool>,
    /// By kind, and by texts alone.
    seen: BTreeMap<u64, Runs>,
    all: Runs,
}

impl LastTwo {
    /// Nothing seen yet.
    pub fn new(features: &[Feature], first: f64) -> LastTwo {
        let is_text =
            features.iter().map(|feature| matches!(feature.kind, FeatureKind::Category(_))).collect();
        LastTwo { is_text, seen: BTreeMap::new(), all: Runs { last: first, before: first } }
    }

    /// Sees the rows in their order; what it would have predicted of each, before it saw it.
    pub fn fit(features: &[Feature], rows: &Rows, targets: &[f64]) -> (LastTwo, Vec<f64>) {
        let mut model = LastTwo::new(features, targets.first().copied().unwrap_or(0.0));
        let predicted = rows.iter().zip(targets).map(|(row, &target)| {
            let predicted = model.predict(row);
            model.see(row, target);
            predicted
        });
        let predicted = predicted.collect();
        (model, predicted)
    }

    /// How many features it was fitted to.
    pub fn width(&self) -> usize {
        self.is_text.len()
    }

    fn see(&mut self, row: &[f64], target: f64) {
        for key in [self.key(row, true), self.key(row, false)] {
            let runs = self.seen.entry(key).or_insert(Runs { last: target, before: target });
            *runs = Runs { last: target, before: runs.last };
        }
        self.all = Runs { last: target, before: self.all.last };
    }

    /// The mean of the last two.
    pub fn predict(&self, row: &[f64]) -> f64 {
        let runs = self.seen.get(&self.key(row, true)).or_else(|| self.seen.get(&self.key(row, false)));
        runs.unwrap_or(&self.all).mean()
    }

    /// A number for the kind of a row: FNV over the texts and, if `numbers`, the orders of the numbers.
    fn key(&self, row: &[f64], numbers: bool) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(numbers);
        for (&value, &is_text) in row.iter().zip(&self.is_text) {
            let part = match (is_text, numbers) {
                (_, _) if value.is_nan() => u64::MAX,
                (true, _) => value as u64,
                // Sign and exponent: the same for all between two powers of two.
                (false, true) => value.to_bits() >> 52,
                (false, false) => 0,
            };
            hash = (hash ^ part).wrapping_mul(0x0000_0100_0000_01b3);
            hash ^= hash >> 29;
        }
        hash
    }
}
