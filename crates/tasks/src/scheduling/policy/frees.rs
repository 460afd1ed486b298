//! When each GPU is expected to be free, in an order that outlasts the moment.
//!
//! There may be a thousand GPUs, and a decision looks for the one that is free first and for the sum of all waits. Of most of them
//! nothing changes from one decision to the next: those with nothing to do are free now, and those that wait for data, or run
//! what is known to the microsecond, are free at a moment that stands. Only where something runs whose time is in doubt does what is left
//! of it hang on the clock.

use std::collections::BTreeSet;

/// What a GPU has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Empty,
    /// Something until a moment, or until now if that is past, and then work behind it.
    Until {
        /// The moment, in microseconds.
        at: u64,
        /// The work, in microseconds.
        behind: u64,
    },
    /// Something of which nobody knows when it ends.
    Doubtful,
}

/// A moment, the parts on a GPU that is free then, and the GPU's number: the order in which GPUs are preferred.
pub type Free = (u64, u32, usize);

#[derive(Default)]
pub struct Frees {
    standings: Vec<(Standing, u32)>,
    empty: BTreeSet<usize>,
    /// Those whose moment is to come, by when they are free, and by that moment.
    later: BTreeSet<Free>,
    due: BTreeSet<(u64, usize)>,
    /// Those whose moment is past, by the work behind it.
    past: BTreeSet<Free>,
    doubtful: BTreeSet<usize>,
    /// The moments at which those of `later` are free, and the work of those of `past`, all together.
    sums: (u128, u128),
    now: u64,
}

impl Frees {
    /// Makes room for so many GPUs. They have nothing to do before anybody says otherwise.
    pub fn fit(&mut self, gpus: usize) {
        for gpu in self.standings.len()..gpus {
            self.standings.push((Standing::Empty, 0));
            self.put(gpu);
        }
    }

    /// What a GPU has to do from now on, and how many parts that are.
    pub fn set(&mut self, gpu: usize, standing: Standing, placed: u32) {
        if self.standings[gpu] != (standing, placed) {
            self.take(gpu);
            self.standings[gpu] = (standing, placed);
            self.put(gpu);
        }
    }

    pub fn advance(&mut self, now: u64) {
        self.now = now;
        while let Some(&(at, gpu)) = self.due.first()
            && at <= now
        {
            let (standing, placed) = self.standings[gpu];
            let Standing::Until { behind, .. } = standing else { break };
            self.due.pop_first();
            self.later.remove(&(at + behind, placed, gpu));
            self.sums.0 -= u128::from(at + behind);
            self.past.insert((behind, placed, gpu));
            self.sums.1 += u128::from(behind);
        }
    }

    /// GPUs of which has to be asked what is left.
    pub fn doubtful(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.doubtful.iter().map(|&gpu| (gpu, self.standings[gpu].1))
    }

    /// Of all others, the one that is free first.
    pub fn first(&self) -> Option<Free> {
        let empty = self.empty.first().map(|&gpu| (self.now, 0, gpu));
        let past = self.past.first().map(|&(behind, placed, gpu)| (self.now + behind, placed, gpu));
        [empty, past, self.later.first().copied()].into_iter().flatten().min()
    }

    /// Of all others, the time until each of them is free, all together.
    pub fn wait(&self) -> u64 {
        let later = self.sums.0 - self.later.len() as u128 * u128::from(self.now);
        u64::try_from(later + self.sums.1).unwrap_or(u64::MAX)
    }

    fn put(&mut self, gpu: usize) {
        let (standing, placed) = self.standings[gpu];
        match standing {
            Standing::Empty => {
                self.empty.insert(gpu);
            }
            Standing::Doubtful => {
                self.doubtful.insert(gpu);
            }
            Standing::Until { at, behind } if at > self.now => {
                self.due.insert((at, gpu));
                self.later.insert((at + behind, placed, gpu));
                self.sums.0 += u128::from(at + behind);
            }
            Standing::Until { behind, .. } => {
                self.past.insert((behind, placed, gpu));
                self.sums.1 += u128::from(behind);
            }
        }
    }

    fn take(&mut self, gpu: usize) {
        let (standing, placed) = self.standings[gpu];
        match standing {
            Standing::Empty => {
                self.empty.remove(&gpu);
            }
            Standing::Doubtful => {
                self.doubtful.remove(&gpu);
            }
            Standing::Until { at, behind } if self.due.remove(&(at, gpu)) => {
                self.later.remove(&(at + behind, placed, gpu));
                self.sums.0 -= u128::from(at + behind);
            }
            Standing::Until { behind, .. } => {
                self.past.remove(&(behind, placed, gpu));
                self.sums.1 -= u128::from(behind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    /// The first GPU and the sum of waits as looking at all of them gives them.
    fn looked_at(standings: &[(Standing, u32)], now: u64) -> (Option<Free>, u64) {
        let of = |(gpu, &(standing, placed)): (usize, &(Standing, u32))| match standing {
            Standing::Empty => Some((now, 0, gpu)),
            Standing::Until { at, behind } => Some((at.max(now) + behind, placed, gpu)),
            Standing::Doubtful => None,
        };
        let all: Vec<Free> = standings.iter().enumerate().filter_map(of).collect();
        (all.iter().min().copied(), all.iter().map(|(at, ..)| at - now).sum())
    }

    #[test]
    fn the_first_and_all_waits_are_those_of_looking_at_every_gpu() {
        for seed in 0..20 {
            let mut draw = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let (mut frees, mut now) = (Frees::default(), 0_u64);
            let gpus = draw.random_range(1..12);
            frees.fit(gpus);
            let mut standings = vec![(Standing::Empty, 0); gpus];
            for _ in 0..400 {
                now += draw.random_range(0..4);
                let (gpu, placed) = (draw.random_range(0..gpus), draw.random_range(1..4));
                standings[gpu] = match draw.random_range(0..4) {
                    0 => (Standing::Empty, 0),
                    1 => (Standing::Doubtful, placed),
                    // Some of them are past already.
                    _ => {
                        let at = (now + draw.random_range(0..20)).saturating_sub(5);
                        (Standing::Until { at, behind: draw.random_range(0..6) }, placed)
                    }
                };
                // Whether the clock or the news come first.
                let early = draw.random_range(0..2) == 0;
                if early {
                    frees.advance(now);
                }
                let (standing, placed) = standings[gpu];
                frees.set(gpu, standing, placed);
                frees.advance(now);
                assert_eq!(
                    (frees.first(), frees.wait()),
                    looked_at(&standings, now),
                    "{standings:?} at {now}"
                );
                let doubtful: Vec<usize> = frees.doubtful().map(|(gpu, _)| gpu).collect();
                let is_doubtful = |gpu: &usize| standings[*gpu].0 == Standing::Doubtful;
                assert_eq!(doubtful, (0..gpus).filter(is_doubtful).collect::<Vec<_>>());
            }
        }
    }
}
