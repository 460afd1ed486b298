//! A weighted sum of the features: ridge regression on standardised numbers, and on the mean target of each text.

use super::schema::{Feature, FeatureKind, Rows};
use serde::{Deserialize, Serialize};

/// A text's mean target is drawn towards the mean of all by as many rows as this.
const PRIOR_ROWS: f64 = 5.0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Weight {
    /// For texts: what each stands for.
    codes: Option<Vec<f64>>,
    mean: f64,
    deviation: f64,
    weight: f64,
}

impl Weight {
    /// The standardised value; a missing one is the mean.
    fn value(&self, value: f64) -> f64 {
        let value = match &self.codes {
            Some(codes) if !value.is_nan() => codes.get(value as usize).copied().unwrap_or(f64::NAN),
            _ => value,
        };
        if value.is_nan() { 0.0 } else { (value - self.mean) / self.deviation }
    }
}

/// The weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    base: f64,
    weights: Vec<Weight>,
}

impl Linear {
    /// Fits the weights.
    pub fn fit(features: &[Feature], rows: &Rows, targets: &[f64]) -> Linear {
        let base = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
        let mut weights: Vec<Weight> = features
            .iter()
            .enumerate()
            .map(|(place, feature)| standard(feature, place, rows, targets, base))
            .collect();
        let width = weights.len();
        let ridge = 1e-6 * targets.len() as f64 + 1e-9;
        let (mut products, mut sums) = (vec![0.0; width * width], vec![0.0; width]);
        let mut values = vec![0.0; width];
        for (row, &target) in rows.iter().zip(targets) {
            values
                .iter_mut()
                .zip(&weights)
                .zip(row)
                .for_each(|((to, weight), &value)| *to = weight.value(value));
            for one in 0..width {
                sums[one] += values[one] * (target - base);
                for other in 0..=one {
                    products[one * width + other] += values[one] * values[other];
                }
            }
        }
        (0..width).for_each(|at| products[at * width + at] += ridge);
        let solved = solve(&mut products, sums, width);
        weights.iter_mut().zip(solved).for_each(|(weight, solved)| weight.weight = solved);
        Linear { base, weights }
    }

    /// The answer for a row.
    pub fn predict(&self, row: &[f64]) -> f64 {
        self.weights
            .iter()
            .zip(row)
            .fold(self.base, |sum, (weight, &value)| sum + weight.weight * weight.value(value))
    }

    /// How many features it was fitted to.
    pub fn width(&self) -> usize {
        self.weights.len()
    }

    /// Shares of the features in the sizes of the standardised weights.
    pub fn importances(&self) -> Vec<f64> {
        let total: f64 = self.weights.iter().map(|weight| weight.weight.abs()).sum();
        self.weights.iter().map(|weight| weight.weight.abs() / total.max(f64::MIN_POSITIVE)).collect()
    }
}

/// The mean and the deviation of a feature; its weight is still open.
fn standard(feature: &Feature, place: usize, rows: &Rows, targets: &[f64], base: f64) -> Weight {
    let codes = match &feature.kind {
        FeatureKind::Number => None,
        FeatureKind::Category(names) => {
            let mut sums = vec![(base * PRIOR_ROWS, PRIOR_ROWS); names.len()];
            for (row, target) in rows.iter().zip(targets).filter(|(row, _)| !row[place].is_nan()) {
                let sum = &mut sums[row[place] as usize];
                *sum = (sum.0 + target, sum.1 + 1.0);
            }
            Some(sums.into_iter().map(|(sum, rows)| sum / rows).collect())
        }
    };
    let plain = Weight { codes, mean: 0.0, deviation: 1.0, weight: 0.0 };
    let known = rows.iter().map(|row| row[place]).filter(|value| !value.is_nan());
    let values: Vec<f64> = known.map(|value| plain.value(value)).collect();
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
    Weight { mean, deviation, ..plain }
}

/// Solves a symmetric, positive system, of which the lower half is given, by Cholesky's decomposition.
fn solve(matrix: &mut [f64], mut right: Vec<f64>, width: usize) -> Vec<f64> {
    for row in 0..width {
        for column in 0..=row {
            let dot: f64 = (0..column).map(|k| matrix[row * width + k] * matrix[column * width + k]).sum();
            let rest = matrix[row * width + column] - dot;
            matrix[row * width + column] =
                if row == column { rest.max(1e-300).sqrt() } else { rest / matrix[column * width + column] };
        }
    }
    for row in 0..width {
        let dot: f64 = (0..row).map(|k| matrix[row * width + k] * right[k]).sum();
        right[row] = (right[row] - dot) / matrix[row * width + row];
    }
    for row in (0..width).rev() {
        let dot: f64 = (row + 1..width).map(|k| matrix[k * width + row] * right[k]).sum();
        right[row] = (right[row] - dot) / matrix[row * width + row];
    }
    right
}
