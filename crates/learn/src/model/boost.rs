//! Gradient boosting: each tree is fitted to what the ones before it left over.

use super::bins::Bins;
use super::flat::Trees;
use super::grow::{Grower, Limits};
use super::schema::{Feature, Rows};

#[derive(Clone, Copy, Debug)]
pub struct Boost {
    pub trees: usize,
    pub depth: usize,
    pub learning_rate: f64,
    pub min_leaf: usize,
    pub l2: f64,
}

/// Boosted trees on these features.
pub fn fit(features: &[Feature], rows: &Rows, targets: &[f64], settings: &Boost) -> (Bins, Trees) {
    let (cuts, bins) = Bins::fit(features, rows, targets);
    let base = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
    let mut trees = Trees::new(base, rows.width());
    let mut residuals: Vec<f64> = targets.iter().map(|target| target - base).collect();
    let mut order: Vec<u32> = Vec::with_capacity(targets.len());
    let limits = Limits {
        depth: settings.depth,
        min_leaf: settings.min_leaf,
        l2: settings.l2,
        rate: settings.learning_rate,
    };
    let mut grower = Grower::new(&cuts, &bins);
    let mut answers = vec![0.0; targets.len()];
    for _ in 0..settings.trees {
        order.clear();
        order.extend(0..targets.len() as u32);
        grower.grow(&mut order, &residuals, &limits, &mut trees, |rows, value| {
            rows.iter().for_each(|&row| answers[row as usize] = value);
        });
        residuals.iter_mut().zip(&answers).for_each(|(residual, answer)| *residual -= answer);
    }
    (cuts, trees)
}
