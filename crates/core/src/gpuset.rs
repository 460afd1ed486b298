//! Sets of GPUs as bits, optimised for finding `n` consecutive GPUs.

use crate::id::{GpuId, Gpus};

/// A set of GPUs of a cluster of fixed size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSet {
    words: Vec<u64>,
    size: u32,
}

impl GpuSet {
    /// No GPU, of a cluster of `size`.
    #[must_use]
    pub fn empty(size: u32) -> GpuSet {
        GpuSet { words: vec![0; size.div_ceil(64) as usize], size }
    }

    /// All GPUs of a cluster of `size`.
    pub(crate) fn full(size: u32) -> GpuSet {
        let mut set = GpuSet::empty(size);
        set.insert_all(Gpus::new(0, size));
        set
    }

    /// Adds one.
    pub fn insert(&mut self, gpu: GpuId) {
        debug_assert!(gpu.0 < self.size);
        self.words[gpu.index() / 64] |= 1 << (gpu.0 % 64);
    }

    /// Takes one out.
    pub fn remove(&mut self, gpu: GpuId) {
        self.words[gpu.index() / 64] &= !(1 << (gpu.0 % 64));
    }

    /// Adds several.
    pub(crate) fn insert_all(&mut self, gpus: Gpus) {
        gpus.iter().for_each(|gpu| self.insert(gpu));
    }

    /// Takes several out.
    pub(crate) fn remove_all(&mut self, gpus: Gpus) {
        gpus.iter().for_each(|gpu| self.remove(gpu));
    }

    /// Whether `gpu` is in the set.
    #[must_use]
    pub fn contains(&self, gpu: GpuId) -> bool {
        self.words[gpu.index() / 64] >> (gpu.0 % 64) & 1 == 1
    }

    /// Whether all of `gpus` are in the set.
    #[must_use]
    pub fn contains_all(&self, gpus: Gpus) -> bool {
        gpus.iter().all(|gpu| self.contains(gpu))
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.words.iter().map(|w| w.count_ones()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// The GPUs, in order.
    pub fn iter(&self) -> impl Iterator<Item = GpuId> + '_ {
        self.words.iter().enumerate().flat_map(|(place, &word)| bits(place, word))
    }

    /// Those in both sets.
    pub fn both<'a>(&'a self, other: &'a GpuSet) -> impl Iterator<Item = GpuId> + 'a {
        let pairs = self.words.iter().zip(&other.words);
        pairs.enumerate().flat_map(|(place, (&a, &b))| bits(place, a & b))
    }

    /// Keeps only what `other` holds too.
    pub fn keep(&mut self, other: &GpuSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, &b)| *a &= b);
    }

    /// The windows of `width` that start in this set and lie inside `cell`, counted from the first GPU of the cell.
    pub(crate) fn within(&self, cell: Gpus, width: u32) -> GpuSet {
        let mut inside = GpuSet::empty(cell.count);
        let fits = |first: u32| first + width <= cell.count && self.contains(GpuId(cell.first.0 + first));
        (0..cell.count).filter(|&first| fits(first)).for_each(|first| inside.insert(GpuId(first)));
        inside
    }

    /// What is in this set and not in `other`.
    pub(crate) fn without(&self, other: &GpuSet) -> GpuSet {
        let words = self.words.iter().zip(&other.words).map(|(&a, &b)| a & !b).collect();
        GpuSet { words, size: self.size }
    }

    /// The GPUs at which `width` consecutive members start.
    #[must_use]
    pub fn starts(&self, width: u32) -> GpuSet {
        let mut runs = self.clone();
        let mut have = 1;
        // `runs` marks starts of `have` members; doubling reaches `width` in log2 steps.
        while have < width {
            let step = have.min(width - have);
            runs.and_shifted_down(step);
            have += step;
        }
        runs
    }

    /// self &= self >> by: keeps a GPU only if the one `by` places above is a member too.
    fn and_shifted_down(&mut self, by: u32) {
        let (whole, part) = ((by / 64) as usize, by % 64);
        for place in 0..self.words.len() {
            let low = self.words.get(place + whole).copied().unwrap_or(0);
            let high = self.words.get(place + whole + 1).copied().unwrap_or(0);
            let shifted = if part == 0 { low } else { low >> part | high << (64 - part) };
            self.words[place] &= shifted;
        }
    }
}

fn bits(place: usize, mut word: u64) -> impl Iterator<Item = GpuId> {
    std::iter::from_fn(move || {
        (word != 0).then(|| {
            let bit = word.trailing_zeros();
            word &= word - 1;
            GpuId(place as u32 * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn starts_agree_with_the_plain_definition(
            size in 1u32..300, members in proptest::collection::vec(any::<bool>(), 300), width in 1u32..80,
        ) {
            let mut set = GpuSet::empty(size);
            (0..size).filter(|&g| members[g as usize]).for_each(|g| set.insert(GpuId(g)));
            let expected: Vec<u32> = (0..size)
                .filter(|&g| g + width <= size && (g..g + width).all(|x| members[x as usize]))
                .collect();
            let found: Vec<u32> = set.starts(width).iter().map(|g| g.0).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
