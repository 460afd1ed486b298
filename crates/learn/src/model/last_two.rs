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
    pub fn new(features: &[Feature], first: f64) -> LastTwo {
        let is_text =
            features.iter().map(|feature| matches!(feature.kind, FeatureKind::Category(_))).collect();
        LastTwo { is_text, seen: BTreeMap::new(), all: Runs { last: first, before: first } }
    }

    /// Sees the rows in their order.
    pub fn fit(features: &[Feature], rows: &Rows, targets: &[f64]) -> LastTwo {
        let mut model = LastTwo::new(features, targets.first().copied().unwrap_or(0.0));
        rows.iter().zip(targets).for_each(|(row, &target)| model.see(row, target));
        model
    }

    /// What would be predicted of each row if all the others had been seen.
    pub fn of_the_others(features: &[Feature], rows: &Rows, targets: &[f64]) -> Vec<f64> {
        let model = LastTwo::new(features, 0.0);
        let keys = |row: &[f64]| [Some(model.key(row, true)), Some(model.key(row, false)), None];
        // One more than counts: the row itself may be one of them.
        let mut last: BTreeMap<Option<u64>, Vec<usize>> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            for key in keys(row) {
                let seen = last.entry(key).or_default();
                seen.push(at);
                if seen.len() > 3 {
                    seen.remove(0);
                }
            }
        }
        let of_others = |(at, row): (usize, &[f64])| {
            let mut means = keys(row).into_iter().filter_map(|key| {
                let mut others = last[&key].iter().rev().filter(|&&other| other != at);
                let last = targets[*others.next()?];
                Some(Runs { last, before: others.next().map_or(last, |&other| targets[other]) }.mean())
            });
            means.next().unwrap_or(0.0)
        };
        rows.iter().enumerate().map(of_others).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_predicted_from_all_others_as_if_it_had_not_been() {
        let features = ["model", "size"].map(|name| Feature {
            name: name.to_owned(),
            kind: if name == "size" {
                FeatureKind::Number
            } else {
                FeatureKind::Category(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()])
            },
        });
        let mut rows = Rows::new(2);
        for row in 0..40_u32 {
            // The last is the only one of its text, and some have no other of their size.
            let model = if row == 39 { 2.0 } else { f64::from(row * 7 % 2) };
            rows.push(&[model, f64::from(1 << (row * 5 % 11))]);
        }
        let targets: Vec<f64> = (0..40).map(|row| f64::from(row * row % 17)).collect();
        let found = LastTwo::of_the_others(&features, &rows, &targets);
        for (row, mean) in found.into_iter().enumerate() {
            let others: Vec<usize> = (0..40).filter(|&other| other != row).collect();
            let part: Vec<f64> = others.iter().map(|&other| targets[other]).collect();
            let model = LastTwo::fit(&features, &rows.select(&others), &part);
            assert_eq!(mean, model.predict(rows.row(row)), "row {row}");
        }
    }
}
