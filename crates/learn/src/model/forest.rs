//! A random forest: the mean of trees that are each grown on rows drawn with replacement.

use super::bins::Bins;
use super::flat::Trees;
use super::grow::{Grower, Limits};
use super::schema::{Feature, Rows};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// How a forest is grown.
#[derive(Clone, Copy, Debug)]
pub struct Forest {
    pub trees: usize,
    pub depth: usize,
    pub min_leaf: usize,
    pub seed: u64,
}

pub fn fit(features: &[Feature], rows: &Rows, targets: &[f64], settings: &Forest) -> (Bins, Trees) {
    let (cuts, bins) = Bins::fit(features, rows, targets);
    let count = targets.len();
    let base = targets.iter().sum::<f64>() / count.max(1) as f64;
    let residuals: Vec<f64> = targets.iter().map(|target| target - base).collect();
    let rate = 1.0 / settings.trees.max(1) as f64;
    let limits = Limits { depth: settings.depth, min_leaf: settings.min_leaf, l2: 0.0, rate };
    let grown: Vec<Trees> = (0..settings.trees)
        .into_par_iter()
        .map(|tree| {
            // Each tree has its own stream, so that the forest does not depend on how many threads there are.
            let mut random = ChaCha8Rng::seed_from_u64(settings.seed);
            random.set_stream(tree as u64 + 1);
            let mut drawn = vec![0_u32; count];
            for _ in 0..count {
                drawn[random.random_range(0..count)] += 1;
            }
            let times = |(row, &times): (usize, &u32)| std::iter::repeat_n(row as u32, times as usize);
            let mut order: Vec<u32> = drawn.iter().enumerate().flat_map(times).collect();
            let mut trees = Trees::new(0.0, rows.width());
            Grower::new(&cuts, &bins).grow(&mut order, &residuals, &limits, &mut trees, |_, _| {});
            trees
        })
        .collect();
    let mut forest = Trees::new(base, rows.width());
    grown.iter().for_each(|trees| forest.append(trees));
    (cuts, forest)
}
