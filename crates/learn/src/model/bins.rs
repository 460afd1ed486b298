//! Values as small whole numbers: each feature is cut into at most 254 bins, and bin 0 is "missing".
//!
//! Numbers are cut where equally many rows lie between two cuts. Texts are put in the order of their mean target, so
//! that a tree can part the slow from the quick ones with one cut, as if they were numbers.

use super::schema::{Feature, FeatureKind, Rows};
use super::texts::TextMeans;
use serde::{Deserialize, Serialize};

/// The most bins of a feature, "missing" not counted.
pub const MAX_BINS: usize = 254;
/// The most features of a model: a row's bins are held on the stack.
pub const MAX_FEATURES: usize = 1024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Cut {
    /// A value is in the first bin whose edge it does not exceed.
    Edges(Vec<f64>),
    /// The bin of each text.
    Codes(Vec<u8>),
}

/// How each feature is cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bins {
    cuts: Vec<Cut>,
}

impl Bins {
    /// Cuts numbers by rank and texts by their mean target. `features` may be empty where all are numbers. Beside it the
    /// bins of the rows that it was fitted to, one row after the other: as [`Bins::apply`] gives them, but for rows of rare texts, of which
    /// training is not shown what their own targets make of them.
    pub fn fit(features: &[Feature], rows: &Rows, targets: &[f64]) -> (Bins, Vec<u8>) {
        let mut shown = Vec::new();
        let cuts = (0..rows.width()).map(|place| {
            let values = || rows.iter().map(move |row| row[place]);
            match features.get(place).map(|feature| &feature.kind) {
                Some(FeatureKind::Category(names)) => {
                    let values: Vec<f64> = values().collect();
                    let means = TextMeans::new(&values, targets, names.len());
                    let (bins, of_rows) = codes(&means);
                    shown.push((place, of_rows));
                    Cut::Codes(bins)
                }
                _ => Cut::Edges(edges(values())),
            }
        });
        let bins = Bins { cuts: cuts.collect() };
        let mut applied = bins.apply(rows);
        for (place, of_rows) in shown {
            let cells = applied.iter_mut().skip(place).step_by(rows.width().max(1));
            cells.zip(of_rows).for_each(|(cell, bin)| *cell = bin);
        }
        (bins, applied)
    }

    /// How many bins a feature has, "missing" counted.
    pub fn count(&self, feature: usize) -> usize {
        match &self.cuts[feature] {
            Cut::Edges(edges) => edges.len() + 2,
            Cut::Codes(codes) => codes.iter().map(|&bin| usize::from(bin) + 1).max().unwrap_or(1),
        }
    }

    /// How many features there are.
    pub fn width(&self) -> usize {
        self.cuts.len()
    }

    /// The bin of one value.
    pub fn bin(&self, feature: usize, value: f64) -> u8 {
        if value.is_nan() {
            return 0;
        }
        match &self.cuts[feature] {
            Cut::Edges(edges) => 1 + rank(edges, value) as u8,
            Cut::Codes(codes) => codes.get(value as usize).copied().unwrap_or(0),
        }
    }

    /// The bins of all rows, one row after the other.
    pub fn apply(&self, rows: &Rows) -> Vec<u8> {
        let bins =
            rows.iter().flat_map(|row| row.iter().enumerate().map(|(place, &value)| self.bin(place, value)));
        bins.collect()
    }
}

/// How many edges lie below the value, by halving without a branch that depends on the data.
fn rank(edges: &[f64], value: f64) -> usize {
    let (mut from, mut size) = (0, edges.len());
    while size > 0 {
        let half = size / 2;
        let middle = from + half;
        let above = value > edges[middle];
        from = if above { middle + 1 } else { from };
        size = if above { size - half - 1 } else { half };
    }
    from
}

fn edges(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let mut different = values.clone();
    different.dedup();
    let middle = |pair: &[f64]| pair[0] + (pair[1] - pair[0]) / 2.0;
    if different.len() <= MAX_BINS {
        return different.windows(2).map(middle).collect();
    }
    // Values that many rows share get bins of their own, since all cuts that fall on them are one.
    let mut edges = Vec::with_capacity(MAX_BINS - 1);
    for cut in 1..MAX_BINS {
        let place = cut * values.len() / MAX_BINS;
        let value = values[place - 1];
        let next = values[place..].iter().copied().find(|&next| next > value);
        if let Some(next) = next {
            edges.push(middle(&[value, next]));
        }
    }
    edges.dedup();
    edges
}

/// The bin of each text, and of each row in training.
fn codes(means: &TextMeans) -> (Vec<u8>, Vec<u8>) {
    let texts = means.of_text.len();
    let mut order: Vec<usize> = (0..texts).filter(|&code| means.rows[code] > 0.0).collect();
    order.sort_by(|&a, &b| means.of_text[a].total_cmp(&means.of_text[b]).then(a.cmp(&b)));
    let mut bins = vec![0; texts];
    if order.len() <= MAX_BINS {
        order.iter().enumerate().for_each(|(place, &code)| bins[code] = place as u8 + 1);
    } else {
        // Too many: neighbours share a bin, so that each holds about as many rows.
        let total: f64 = means.rows.iter().sum();
        let mut before = 0.0;
        for &code in &order {
            let place = before / total * (MAX_BINS - 1) as f64;
            bins[code] = place as u8 + 1;
            before += means.rows[code];
        }
    }
    // A row is where the text would be whose mean is the one that the row is shown.
    let of_row = |&mean: &f64| {
        if mean.is_nan() {
            return 0;
        }
        let place = order.partition_point(|&code| means.of_text[code] < mean);
        order.get(place).or(order.last()).map_or(0, |&code| bins[code])
    };
    let of_rows = means.of_row.iter().map(of_row).collect();
    (bins, of_rows)
}
