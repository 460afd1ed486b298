//! Intervals: a model of how far predictions are off, and how far they were off on rows that were kept back.
//!
//! The scale of a prediction is what its error is expected to be. The errors on rows that no model had seen, each
//! divided by its scale, are sorted once; a quantile of them times the scale gives a quantile of the truth (split
//! conformal prediction), whatever the errors' distribution is.

use super::bins::Bins;
use super::boost::{self, Boost};
use super::flat::Trees;
use super::schema::{Feature, Rows};
use serde::{Deserialize, Serialize};

/// The loss of a value that is said to be the quantile `p`: each unit that the truth lies above it costs `p`, each
/// unit below it `1 - p`.
#[must_use]
pub fn pinball(truth: f64, value: f64, p: f64) -> f64 {
    let above = truth - value;
    if above >= 0.0 { p * above } else { (p - 1.0) * above }
}

/// How many of the sorted scores are kept.
const MAX_SCORES: usize = 2_001;

/// Means below this share of the average target are near zero.
const NEAR_ZERO: f64 = 0.1;
/// Quantiles up to this far from the ends are outer ones.
const OUTER: f64 = 0.1;

/// What is expected of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The expected value.
    pub mean: f64,
    /// How far from it the truth is expected to be.
    pub scale: f64,
    /// What [`super::Online`] has multiplied the model's own answer with.
    pub correction: f64,
}

/// How far predictions are off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorSpread {
    /// Where errors grow with the mean: the smallest mean that they are taken to grow from.
    relative_from: Option<f64>,
    bins: Bins,
    trees: Trees,
    scores: Vec<f64>,
}

impl ErrorSpread {
    /// Learns it from predictions of rows that were not in the training of what predicted them.
    ///
    /// The errors of run times grow with them; those of targets that are often zero, or that take a few values only, do
    /// not, and seen beside a mean near zero they would be huge. Both are tried, and what gave the better quantiles of
    /// these rows is kept; the scores see to it that either holds as many truths as it says.
    pub fn fit(
        features: &[Feature],
        rows: &Rows,
        means: &[f64],
        truths: &[f64],
        non_negative: bool,
    ) -> ErrorSpread {
        let absolute = || ErrorSpread::fit_from(features, rows, means, truths, None);
        if !non_negative {
            return absolute().0;
        }
        let average = truths.iter().map(|truth| truth.abs()).sum::<f64>() / truths.len().max(1) as f64;
        let from = Some((average * 0.01).max(f64::MIN_POSITIVE));
        let relative = ErrorSpread::fit_from(features, rows, means, truths, from);
        // Where every mean is well above what errors grow from, nothing can be blown up.
        if means.iter().all(|&mean| mean > average * NEAR_ZERO) {
            return relative.0;
        }
        let absolute = absolute();
        if absolute.1 < relative.1 { absolute.0 } else { relative.0 }
    }

    /// The same, errors being taken to grow with the mean from `relative_from` on, or not at all; and what its
    /// quantiles of these rows lose (pinball).
    fn fit_from(
        features: &[Feature],
        rows: &Rows,
        means: &[f64],
        truths: &[f64],
        relative_from: Option<f64>,
    ) -> (ErrorSpread, f64) {
        let errors: Vec<f64> = means.iter().zip(truths).map(|(mean, truth)| truth - mean).collect();
        let mean_error = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len().max(1) as f64;
        let bases: Vec<f64> = means.iter().map(|&mean| base(relative_from, mean)).collect();
        let relative = mean_error / (bases.iter().sum::<f64>() / bases.len().max(1) as f64);
        let floor = (relative * 1e-2).max(if relative_from.is_some() { 1e-9 } else { f64::MIN_POSITIVE });
        let targets: Vec<f64> =
            errors.iter().zip(&bases).map(|(error, base)| (error.abs() / base + floor).ln()).collect();
        let settings = Boost { trees: 40, depth: 4, learning_rate: 0.1, min_leaf: 30, l2: 5.0 };
        // Scores are of rows that the scale's model had not seen either: each half is scored by the other's model.
        let (mut scores, mut widths) = (vec![0.0; errors.len()], vec![0.0; errors.len()]);
        for half in 0..2 {
            let inside = |row: &usize| row % 2 == half;
            let (kept, fitted): (Vec<usize>, Vec<usize>) = (0..errors.len()).partition(inside);
            if fitted.is_empty() {
                continue;
            }
            let part: Vec<f64> = fitted.iter().map(|&row| targets[row]).collect();
            let (bins, trees) = boost::fit(features, &rows.select(&fitted), &part, &settings);
            let mut scales = vec![0.0; kept.len()];
            trees.predict(&bins, &rows.select(&kept), &mut scales);
            for (&row, scale) in kept.iter().zip(scales) {
                widths[row] = scale.exp() * bases[row];
                scores[row] = errors[row] / widths[row];
            }
        }
        let (bins, trees) = boost::fit(features, rows, &targets, &settings);
        scores.sort_by(f64::total_cmp);
        let spread = ErrorSpread { relative_from, bins, trees, scores: thinned(scores) };
        let losses = [0.05, 0.25, 0.75, 0.95].map(|p| {
            let score = spread.score(p);
            let loss = |row: usize| pinball(truths[row], (means[row] + widths[row] * score).max(0.0), p);
            (0..truths.len()).map(loss).sum::<f64>()
        });
        (spread, losses.iter().sum())
    }

    /// Nothing known: every scale is zero.
    pub fn none(width: usize) -> ErrorSpread {
        let (bins, _) = Bins::fit(&[], &Rows::new(width), &[]);
        ErrorSpread {
            relative_from: None,
            bins,
            trees: Trees::new(f64::NEG_INFINITY, width),
            scores: Vec::new(),
        }
    }

    /// The predictions with these means.
    pub fn around(&self, rows: &Rows, means: &[f64]) -> Vec<Prediction> {
        let mut scales = vec![0.0; means.len()];
        self.trees.predict(&self.bins, rows, &mut scales);
        means.iter().zip(scales).map(|(&mean, scale)| self.prediction(mean, scale)).collect()
    }

    /// The prediction of one row with this mean.
    pub fn around_row(&self, row: &[f64], mean: f64) -> Prediction {
        self.prediction(mean, self.trees.predict_row(&self.bins, row))
    }

    fn prediction(&self, mean: f64, log_scale: f64) -> Prediction {
        Prediction { mean, scale: log_scale.exp() * base(self.relative_from, mean), correction: 1.0 }
    }

    /// The score that a share `p` of the scores lies below; the outer ones have the mean between them. Where nearly all
    /// targets are alike, errors differ by a hair, and all intervals would lie a hair beside the truth.
    pub fn score(&self, p: f64) -> f64 {
        let score = quantile_of(&self.scores, p);
        if p <= OUTER {
            score.min(0.0)
        } else if p >= 1.0 - OUTER {
            score.max(0.0)
        } else {
            score
        }
    }

    /// Whether it fits rows of this width.
    pub fn is_sound(&self, width: usize) -> bool {
        self.bins.width() == width && self.trees.is_sound(width)
    }

    /// All that were kept, sorted.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }
}

fn base(relative_from: Option<f64>, mean: f64) -> f64 {
    relative_from.map_or(1.0, |from| mean.abs().max(from))
}

/// The value that a share `p` of the sorted values lies below, as wide as so few values ask for: of `n` values, the
/// quantile of the next one stands at `p * (n + 1)`.
pub fn quantile_of(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = (p * (sorted.len() + 1) as f64 - 1.0).clamp(0.0, last as f64);
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// At most as many as are kept, evenly over all.
fn thinned(sorted: Vec<f64>) -> Vec<f64> {
    if sorted.len() <= MAX_SCORES {
        return sorted;
    }
    (0..MAX_SCORES).map(|place| sorted[place * (sorted.len() - 1) / (MAX_SCORES - 1)]).collect()
}
