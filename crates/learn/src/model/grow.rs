//! Grows one tree: at each node, the sums of the residuals by bin say which split leaves the least behind.
//!
//! Only the smaller child's sums are added up; the other's are what is left of the parent's. A node of few rows sorts
//! them instead: most bins of its sums would be empty.

use super::bins::Bins;
use super::flat::Trees;
use std::ops::Range;

/// Up to this many rows, sorting is quicker than adding up by bin.
const FEW_ROWS: usize = 40;

/// When a node is split no further.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub depth: usize,
    pub min_leaf: usize,
    /// Draws the answers of small leaves towards zero.
    pub l2: f64,
    /// What the answers are multiplied with.
    pub rate: f64,
}

/// The residuals of one bin: their sum and how many they are.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    sum: f64,
    rows: f64,
}

impl Sum {
    fn plus(self, other: Sum) -> Sum {
        Sum { sum: self.sum + other.sum, rows: self.rows + other.rows }
    }

    fn minus(self, other: Sum) -> Sum {
        Sum { sum: self.sum - other.sum, rows: self.rows - other.rows }
    }

    /// How much less is left behind once these rows get their mean.
    fn worth(self, l2: f64) -> f64 {
        self.sum * self.sum / (self.rows + l2)
    }
}

/// The rows as bins, and room to work in.
pub struct Grower<'d> {
    bins: &'d [u8],
    width: usize,
    /// Where each feature's sums begin; then where the last one's end.
    offsets: Vec<usize>,
    pool: Vec<Vec<Sum>>,
    spare: Vec<u32>,
    few: Vec<(u8, f64)>,
}

struct Best {
    gain: f64,
    feature: usize,
    /// The last bin that goes left, missing values not counted.
    bin: u8,
    missing_right: bool,
}

/// A node that is still to be split.
struct Open {
    node: u32,
    rows: Range<usize>,
    depth: usize,
    total: Sum,
    sums: Option<Vec<Sum>>,
}

impl<'d> Grower<'d> {
    /// For rows that were cut by `cuts`.
    pub fn new(cuts: &Bins, bins: &'d [u8]) -> Grower<'d> {
        let mut offsets = vec![0];
        for feature in 0..cuts.width() {
            offsets.push(offsets[feature] + cuts.count(feature));
        }
        Grower { bins, width: cuts.width(), offsets, pool: Vec::new(), spare: Vec::new(), few: Vec::new() }
    }

    /// Adds a tree that is fitted to the residuals of `rows`, which are put in the order of the leaves; `at_leaf` is
    /// told each leaf's rows and answer.
    pub fn grow(
        &mut self,
        rows: &mut [u32],
        residuals: &[f64],
        limits: &Limits,
        trees: &mut Trees,
        mut at_leaf: impl FnMut(&[u32], f64),
    ) {
        let node = trees.plant();
        let mut total = Sum::default();
        let mut squares = 0.0;
        for &row in rows.iter() {
            let residual = residuals[row as usize];
            total = total.plus(Sum { sum: residual, rows: 1.0 });
            squares += residual * residual;
        }
        // Less than rounding could make up.
        let least = squares * 1e-10;
        let mut open = vec![Open { node, rows: 0..rows.len(), depth: 0, total, sums: None }];
        while let Some(mut at) = open.pop() {
            let best = if at.depth < limits.depth && at.rows.len() >= 2 * limits.min_leaf.max(1) {
                self.best(&mut at, rows, residuals, limits)
            } else {
                None
            };
            let Some(best) = best.filter(|best| best.gain > least) else {
                let value = limits.rate * at.total.sum / (at.total.rows + limits.l2);
                trees.set(at.node, value);
                at_leaf(&rows[at.rows.clone()], value);
                self.pool.extend(at.sums);
                continue;
            };
            let shift = u8::from(best.missing_right);
            let cut = best.bin - shift;
            let left = trees.split(at.node, at.depth as u8, best.feature as u16, cut, shift, best.gain);
            let goes_left =
                |row: u32| self.bins[row as usize * self.width + best.feature].wrapping_sub(shift) <= cut;
            let mut spare = std::mem::take(&mut self.spare);
            let middle = at.rows.start + partition(&mut rows[at.rows.clone()], &mut spare, goes_left);
            self.spare = spare;
            self.children(at, left, middle, rows, residuals, &mut open);
        }
    }

    /// Opens both children of a node; the larger one's sums are the parent's less the smaller one's.
    fn children(
        &mut self,
        parent: Open,
        left: u32,
        middle: usize,
        rows: &[u32],
        residuals: &[f64],
        open: &mut Vec<Open>,
    ) {
        let (left_rows, right_rows) = (parent.rows.start..middle, middle..parent.rows.end);
        let left_smaller = left_rows.len() <= right_rows.len();
        let (small, large) = if left_smaller { (left_rows, right_rows) } else { (right_rows, left_rows) };
        let mut small_total = Sum::default();
        for &row in &rows[small.clone()] {
            small_total = small_total.plus(Sum { sum: residuals[row as usize], rows: 1.0 });
        }
        let large_total = parent.total.minus(small_total);
        let (mut small_sums, mut large_sums) = (None, None);
        if let Some(mut sums) = parent.sums {
            if large.len() > FEW_ROWS {
                let less = self.sums(&rows[small.clone()], residuals);
                for (sum, less) in sums.iter_mut().zip(&less) {
                    *sum = sum.minus(*less);
                }
                large_sums = Some(sums);
                small_sums = Some(less);
            } else {
                self.pool.push(sums);
            }
        }
        let (small_node, large_node) = if left_smaller { (left, left + 1) } else { (left + 1, left) };
        let depth = parent.depth + 1;
        open.push(Open { node: large_node, rows: large, depth, total: large_total, sums: large_sums });
        open.push(Open { node: small_node, rows: small, depth, total: small_total, sums: small_sums });
    }

    /// The residuals' sums by feature and bin.
    fn sums(&mut self, rows: &[u32], residuals: &[f64]) -> Vec<Sum> {
        let size = self.offsets[self.width];
        let mut sums = self.pool.pop().unwrap_or_default();
        sums.clear();
        sums.resize(size, Sum::default());
        for &row in rows {
            let residual = residuals[row as usize];
            let bins = &self.bins[row as usize * self.width..(row as usize + 1) * self.width];
            for (&bin, &offset) in bins.iter().zip(&self.offsets) {
                let sum = &mut sums[offset + usize::from(bin)];
                *sum = Sum { sum: sum.sum + residual, rows: sum.rows + 1.0 };
            }
        }
        sums
    }

    fn best(&mut self, at: &mut Open, rows: &[u32], residuals: &[f64], limits: &Limits) -> Option<Best> {
        let mut best: Option<Best> = None;
        let rows = &rows[at.rows.clone()];
        if rows.len() <= FEW_ROWS {
            let mut few = std::mem::take(&mut self.few);
            for feature in 0..self.width {
                few.clear();
                few.extend(
                    rows.iter().map(|&row| {
                        (self.bins[row as usize * self.width + feature], residuals[row as usize])
                    }),
                );
                few.sort_unstable_by_key(|&(bin, _)| bin);
                let groups = few.chunk_by(|a, b| a.0 == b.0).map(|group| {
                    let sum = group.iter().map(|&(_, residual)| residual).sum();
                    (group[0].0, Sum { sum, rows: group.len() as f64 })
                });
                scan(groups, feature, at.total, limits, &mut best);
            }
            self.few = few;
        } else {
            let sums = match at.sums.take() {
                Some(sums) => sums,
                None => self.sums(rows, residuals),
            };
            for feature in 0..self.width {
                let bins = &sums[self.offsets[feature]..self.offsets[feature + 1]];
                let groups = bins.iter().enumerate().map(|(bin, &sum)| (bin as u8, sum));
                scan(groups.filter(|(_, sum)| sum.rows > 0.5), feature, at.total, limits, &mut best);
            }
            at.sums = Some(sums);
        }
        best
    }
}

/// Tries every cut between two bins of a feature, with missing values on either side.
fn scan(
    mut groups: impl Iterator<Item = (u8, Sum)>,
    feature: usize,
    total: Sum,
    limits: &Limits,
    best: &mut Option<Best>,
) {
    let Some(mut group) = groups.next() else { return };
    let mut missing = Sum::default();
    if group.0 == 0 {
        missing = group.1;
        let Some(next) = groups.next() else { return };
        group = next;
    }
    let whole = total.worth(limits.l2);
    let least = limits.min_leaf.max(1) as f64 - 0.5;
    let mut left = missing;
    let has_missing = missing.rows > 0.5;
    let mut consider = |left: Sum, bin: u8, missing_right: bool| {
        let right = total.minus(left);
        if left.rows < least || right.rows < least {
            return;
        }
        let gain = left.worth(limits.l2) + right.worth(limits.l2) - whole;
        if best.as_ref().is_none_or(|best| gain > best.gain) {
            // Where no value was missing in training, one that is goes with the many.
            let missing_right = if has_missing { missing_right } else { right.rows > left.rows };
            *best = Some(Best { gain, feature, bin, missing_right });
        }
    };
    loop {
        left = left.plus(group.1);
        consider(left, group.0, false);
        if has_missing {
            consider(left.minus(missing), group.0, true);
        }
        match groups.next() {
            Some(next) => group = next,
            None => return,
        }
    }
}

/// Puts the rows that go left before the others, each in their order; how many they are.
fn partition(rows: &mut [u32], spare: &mut Vec<u32>, goes_left: impl Fn(u32) -> bool) -> usize {
    spare.clear();
    let mut kept = 0;
    for place in 0..rows.len() {
        let row = rows[place];
        if goes_left(row) {
            rows[kept] = row;
            kept += 1;
        } else {
            spare.push(row);
        }
    }
    rows[kept..].copy_from_slice(spare);
    kept
}
