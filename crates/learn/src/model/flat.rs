//! Trees as flat arrays, walked by many rows at once.
//!
//! A leaf leads to itself, so every row takes the same number of steps through a tree: the loop has no branch that
//! depends on the data, and several rows are on their way at the same time.

use super::bins::{Bins, MAX_FEATURES};
use super::schema::Rows;
use serde::{Deserialize, Serialize};

/// Rows that are cut into bins together.
const BLOCK: usize = 256;
/// Rows that walk through a tree together.
const LANES: usize = 16;

/// One node. The left child is `left`, the right one stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Left if the bin, less `shift`, is `cut` or below.
    pub left: u32,
    pub feature: u16,
    pub cut: u8,
    /// 1 where missing values go right: their bin 0 becomes 255. Else 0.
    pub shift: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trees {
    /// What the trees' answers are added to.
    pub base: f64,
    nodes: Vec<Node>,
    /// The answer of each node that is a leaf.
    values: Vec<f64>,
    /// The root of each tree, and the steps to its lowest leaf.
    roots: Vec<(u32, u8)>,
    /// What the splits by each feature were worth.
    gains: Vec<f64>,
}

impl Trees {
    pub fn new(base: f64, features: usize) -> Trees {
        Trees { base, gains: vec![0.0; features], ..Trees::default() }
    }

    /// Adds a node that is a leaf so far.
    fn leaf(&mut self) -> u32 {
        let at = self.nodes.len() as u32;
        self.nodes.push(Node { left: at, feature: 0, cut: u8::MAX, shift: 0 });
        self.values.push(0.0);
        at
    }

    /// Starts a tree; its root is a leaf so far.
    pub fn plant(&mut self) -> u32 {
        let root = self.leaf();
        self.roots.push((root, 0));
        root
    }

    /// Gives a leaf of the last tree its answer.
    pub fn set(&mut self, leaf: u32, value: f64) {
        self.values[leaf as usize] = value;
    }

    /// Splits a leaf of the last tree, which is `depth` steps from the root, and gives its left child.
    pub fn split(&mut self, leaf: u32, depth: u8, feature: u16, cut: u8, shift: u8, gain: f64) -> u32 {
        let left = self.leaf();
        self.leaf();
        self.nodes[leaf as usize] = Node { left, feature, cut, shift };
        self.gains[usize::from(feature)] += gain;
        if let Some((_, steps)) = self.roots.last_mut() {
            *steps = (*steps).max(depth + 1);
        }
        left
    }

    /// The same trees behind these.
    pub fn append(&mut self, other: &Trees) {
        let from = self.nodes.len() as u32;
        self.nodes.extend(other.nodes.iter().map(|node| Node { left: node.left + from, ..*node }));
        self.values.extend(&other.values);
        self.roots.extend(other.roots.iter().map(|&(root, steps)| (root + from, steps)));
        self.gains.iter_mut().zip(&other.gains).for_each(|(gain, other)| *gain += other);
    }

    /// The answer for a row of bins that is given one by one.
    fn walk(&self, bin: impl Fn(usize) -> u8) -> f64 {
        let mut sum = self.base;
        for &(root, steps) in &self.roots {
            let mut at = root;
            for _ in 0..steps {
                let node = self.nodes[at as usize];
                at =
                    node.left + u32::from(bin(usize::from(node.feature)).wrapping_sub(node.shift) > node.cut);
            }
            sum += self.values[at as usize];
        }
        sum
    }

    /// The answer for one row, without any allocation.
    pub fn predict_row(&self, bins: &Bins, row: &[f64]) -> f64 {
        let mut buffer = [0_u8; MAX_FEATURES];
        for (place, (&value, bin)) in row.iter().zip(&mut buffer).enumerate() {
            *bin = bins.bin(place, value);
        }
        self.walk(|feature| buffer[feature])
    }

    /// The answers for many rows.
    pub fn predict(&self, bins: &Bins, rows: &Rows, out: &mut [f64]) {
        let mut binned = vec![0_u8; bins.width().max(1) * BLOCK];
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            // One feature after the other, so that a bin's place is the feature's and the row's, put together.
            for lane in 0..out.len() {
                let row = rows.row(block * BLOCK + lane);
                row.iter()
                    .enumerate()
                    .for_each(|(place, &v)| binned[place * BLOCK + lane] = bins.bin(place, v));
            }
            self.predict_block(&binned, out);
        }
    }

    fn predict_block(&self, binned: &[u8], out: &mut [f64]) {
        let mut sums = [self.base; BLOCK];
        for &(root, steps) in &self.roots {
            for first in (0..out.len()).step_by(LANES) {
                let mut at = [root; LANES];
                for _ in 0..steps {
                    for (lane, at) in at.iter_mut().enumerate() {
                        let node = self.nodes[*at as usize];
                        let bin = binned[usize::from(node.feature) * BLOCK + first + lane];
                        *at = node.left + u32::from(bin.wrapping_sub(node.shift) > node.cut);
                    }
                }
                for (sum, at) in sums[first..].iter_mut().zip(at) {
                    *sum += self.values[at as usize];
                }
            }
        }
        out.copy_from_slice(&sums[..out.len()]);
    }

    /// Shares of the features in what all splits were worth.
    pub fn importances(&self, features: usize) -> Vec<f64> {
        let total: f64 = self.gains.iter().sum();
        let share = |feature: usize| self.gains.get(feature).map_or(0.0, |gain| gain / total);
        if total > 0.0 { (0..features).map(share).collect() } else { vec![0.0; features] }
    }

    /// Whether every node leads to nodes that are there, behind it, by features that are there.
    pub fn is_sound(&self, features: usize) -> bool {
        let sound = |(at, node): (usize, &Node)| {
            let left = node.left as usize;
            left == at || (left > at && left + 1 < self.nodes.len() && usize::from(node.feature) < features)
        };
        self.nodes.len() == self.values.len()
            && self.gains.len() <= features
            && self.roots.iter().all(|&(root, _)| (root as usize) < self.nodes.len())
            && self.nodes.iter().enumerate().all(sound)
    }
}
