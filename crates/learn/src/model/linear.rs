//! A weighted sum of the features: ridge regression on standardised numbers, and on the mean target of each text.

use super::schema::{Feature, FeatureKind, Rows};
use super::texts::TextMeans;
use serde::{Deserialize, Serialize};

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
        self.standard(match &self.codes {
            Some(codes) if !value.is_nan() => codes.get(value as usize).copied().unwrap_or(f64::NAN),
            _ => value,
        })
    }

    fn standard(&self, value: f64) -> f64 {
        if value.is_nan() { 0.0 } else { (value - self.mean) / self.deviation }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    base: f64,
    weights: Vec<Weight>,
}

impl Linear {
    pub fn fit(features: &[Feature], rows: &Rows, targets: &[f64]) -> Linear {
        let base = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
        let (mut weights, shown): (Vec<Weight>, Vec<Option<Vec<f64>>>) = features
            .iter()
            .enumerate()
            .map(|(place, feature)| standard(feature, place, rows, targets))
            .unzip();
        let width = weights.len();
        let ridge = 1e-6 * targets.len() as f64 + 1e-9;
        let (mut products, mut sums) = (vec![0.0; width * width], vec![0.0; width]);
        let mut values = vec![0.0; width];
        for (at, (row, &target)) in rows.iter().zip(targets).enumerate() {
            for (place, weight) in weights.iter().enumerate() {
                values[place] = match &shown[place] {
                    Some(shown) => weight.standard(shown[at]),
                    None => weight.value(row[place]),
                };
            }
            for (one, sum) in sums.iter_mut().enumerate() {
                *sum += values[one] * (target - base);
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

/// The mean and the deviation of a feature; its weight is still open. Beside it, for texts, what each row is shown in training.
fn standard(feature: &Feature, place: usize, rows: &Rows, targets: &[f64]) -> (Weight, Option<Vec<f64>>) {
    let cells: Vec<f64> = rows.iter().map(|row| row[place]).collect();
    let (codes, shown) = match &feature.kind {
        FeatureKind::Number => (None, None),
        FeatureKind::Category(names) => {
            let means = TextMeans::new(&cells, targets, names.len());
            (Some(means.of_text), Some(means.of_row))
        }
    };
    let values: Vec<f64> =
        shown.as_ref().unwrap_or(&cells).iter().copied().filter(|value| !value.is_nan()).collect();
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    // What is the same in every row but for rounding says nothing, and must not be divided by its rounding.
    let deviation = if variance.sqrt() > 1e-12 * mean.abs() { variance.sqrt() } else { f64::INFINITY };
    (Weight { codes, mean, deviation, weight: 0.0 }, shown)
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
