//! How good predictions are.

use super::Intervals;
use crate::model::{Prediction, Predictor, pinball};

/// The quantiles that the pinball loss is taken over.
const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// The share of the variance that the predictions explain: 1 is perfect, 0 no better than the mean. `None` of truths that
/// are all the same, or of none: there is no variance to explain.
pub fn r2(truths: &[f64], means: &[f64]) -> Option<f64> {
    let average = truths.iter().sum::<f64>() / truths.len().max(1) as f64;
    // In units of the farthest truth: squares of numbers that are very small would all be zero.
    let unit = truths.iter().map(|truth| (truth - average).abs()).fold(0.0, f64::max);
    // Truths that are the same may still lie a rounding away from their average.
    if unit <= 0.0 || truths.iter().all(|truth| *truth == truths[0]) {
        return None;
    }
    let total: f64 = truths.iter().map(|truth| ((truth - average) / unit).powi(2)).sum();
    let errors = truths.iter().zip(means).map(|(truth, mean)| ((truth - mean) / unit).powi(2));
    Some(1.0 - errors.sum::<f64>() / total)
}

/// How far predictions are off on the average.
pub fn mean_absolute_error(truths: &[f64], means: &[f64]) -> f64 {
    let sum: f64 = truths.iter().zip(means).map(|(truth, mean)| (truth - mean).abs()).sum();
    sum / truths.len().max(1) as f64
}

/// The share of the truths that lie between two quantiles.
pub fn coverage(truths: &[f64], between: impl Iterator<Item = (f64, f64)>) -> f64 {
    let inside = truths.iter().zip(between).filter(|(truth, (low, high))| low <= truth && *truth <= high);
    inside.count() as f64 / truths.len().max(1) as f64
}

/// All of it for a predictor's intervals.
pub fn intervals(predictor: &Predictor, predictions: &[Prediction], truths: &[f64]) -> Intervals {
    let between = |low: f64, high: f64| {
        predictions.iter().map(move |one| (predictor.quantile(one, low), predictor.quantile(one, high)))
    };
    let count = truths.len().max(1) as f64;
    let loss: f64 = predictions
        .iter()
        .zip(truths)
        .flat_map(|(one, &truth)| QUANTILES.map(|p| pinball(truth, predictor.quantile(one, p), p)))
        .sum();
    Intervals {
        coverage_50: coverage(truths, between(0.25, 0.75)),
        coverage_90: coverage(truths, between(0.05, 0.95)),
        width_90: between(0.05, 0.95).map(|(low, high)| high - low).sum::<f64>() / count,
        pinball: loss / count / QUANTILES.len() as f64,
    }
}
