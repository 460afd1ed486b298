//! Which models each GPU serves: every further one costs a switch, and all work has to fit.
//!
//! For each GPU a set of models is chosen; what the loads of the set leave of its time can go to any of them. If for no
//! choice the work fits (that is, for some models it exceeds what the GPUs that serve any of them have left), then no
//! schedule ends in time. Work is treated as divisible, so what fits here may still be impossible.

use super::problem::{ExactProblem, MOST_GPUS, State};

/// The most models for which sets are tried.
pub(super) const MOST_SHARED: usize = 5;

/// The loads that a set of models takes on a GPU, by what the GPU holds and the set, at the least.
pub(super) struct Setups {
    /// All of them.
    total: Vec<u64>,
    /// All but the first.
    rest: Vec<u64>,
    sets: usize,
}

impl Setups {
    /// `entry` is the shortest way from what a GPU holds to a model.
    pub fn new(models: usize, entry: impl Fn(usize, usize) -> u64) -> Setups {
        let sets = if models <= MOST_SHARED { 1 << models } else { 0 };
        // The shortest way through all models of a set that ends with one of them, by set and last model.
        let through = |held: usize| {
            let mut ways = vec![(u64::MAX, u64::MAX); sets * models];
            for set in 1..sets {
                for last in (0..models).filter(|&last| set >> last & 1 == 1) {
                    let before = set & !(1 << last);
                    ways[set * models + last] = if before == 0 {
                        (entry(held, last), 0)
                    } else {
                        let from = (0..models).filter(|&from| before >> from & 1 == 1);
                        from.fold((u64::MAX, u64::MAX), |best, from| {
                            let (total, rest) = ways[before * models + from];
                            let more = entry(from + 1, last);
                            (best.0.min(total + more), best.1.min(rest + more))
                        })
                    };
                }
            }
            ways
        };
        let mut setups = Setups { total: Vec::new(), rest: Vec::new(), sets };
        for held in 0..=models {
            let ways = through(held);
            for set in 0..sets {
                let ends =
                    (0..models).filter(|&last| set >> last & 1 == 1).map(|last| ways[set * models + last]);
                setups.total.push(ends.clone().map(|end| end.0).min().unwrap_or(0));
                setups.rest.push(ends.map(|end| end.1).min().unwrap_or(0));
            }
        }
        setups
    }
}

/// What is left of each model.
#[derive(Clone, Copy, Default)]
pub(super) struct Need {
    /// Execution time.
    pub time: u64,
    /// The earliest start of any of its tasks.
    pub earliest: u64,
    /// The least that comes after any of its tasks.
    pub tail: u64,
}

/// Whether no choice of models for the GPUs leaves room for all work by `latest`.
pub(super) fn exceed(problem: &ExactProblem, state: &State, needs: &[Need], latest: u64) -> bool {
    let setups = &problem.setups;
    let used = (0..needs.len()).filter(|&model| needs[model].time > 0).map(|model| 1 << model).sum::<usize>();
    if setups.sets == 0 || used == 0 {
        return false;
    }
    let mut sets = [Set { time: 0, work: 0, earliest: u64::MAX, tail: u64::MAX }; 1 << MOST_SHARED];
    for set in subsets(used) {
        let first = set.trailing_zeros() as usize;
        let (others, need) = (sets[set & (set - 1)], &needs[first]);
        sets[set] = Set {
            time: others.time + need.time,
            work: others.work + need.time * problem.models[first].width as u64,
            earliest: others.earliest.min(need.earliest),
            tail: others.tail.min(need.tail),
        };
    }
    let mut choice = Choice {
        gpus: problem.gpus,
        used,
        sets: &sets,
        room: [NO_ROOM; MOST_GPUS],
        chosen: [0; MOST_GPUS],
        tries: 0,
    };
    let mut most = 0;
    for gpu in 0..problem.gpus {
        let row = usize::from(state.held[gpu]) * setups.sets;
        let forced = problem.forced[gpu] & used;
        let mut best = None;
        for set in subsets(used).filter(|set| forced & !set == 0) {
            let begun = state.now.max(sets[set].earliest) + setups.rest[row + set];
            let begins = begun.max(state.free[gpu] + setups.total[row + set]);
            let room = latest.saturating_sub(sets[set].tail).saturating_sub(begins);
            if room >= sets[forced].time {
                choice.room[gpu][set] = Some(room);
                best = best.max(Some(room));
            }
        }
        let Some(best) = best else { return true };
        most += best;
    }
    !choice.fits(0, most)
}

/// The sets of some of the models of a set, but not of none.
fn subsets(of: usize) -> impl Iterator<Item = usize> {
    (1..=of).filter(move |set| set & !of == 0)
}

/// What is left of some models together.
#[derive(Clone, Copy)]
struct Set {
    /// Execution time.
    time: u64,
    /// Execution time x GPUs.
    work: u64,
    earliest: u64,
    tail: u64,
}

/// What a GPU has left for a set of models, by set; `None` where it cannot serve just that set.
type Room = [Option<u64>; 1 << MOST_SHARED];

const NO_ROOM: Room = [None; 1 << MOST_SHARED];

struct Choice<'a> {
    gpus: usize,
    used: usize,
    sets: &'a [Set; 1 << MOST_SHARED],
    room: [Room; MOST_GPUS],
    chosen: [usize; MOST_GPUS],
    tries: u32,
}

/// Choices that are tried before it is taken to be possible: a bound may give up, and must not take long.
const MOST_TRIES: u32 = 500;

impl Choice<'_> {
    /// Whether sets for the GPUs from `gpu` on can be found; `most` is the room of those chosen and the most of the others.
    fn fits(&mut self, gpu: usize, most: u64) -> bool {
        if most < self.sets[self.used].work {
            return false;
        }
        if gpu == self.gpus {
            return self.holds_all();
        }
        let best = self.room[gpu].iter().flatten().copied().max().unwrap_or(0);
        for set in subsets(self.used) {
            let Some(room) = self.room[gpu][set] else { continue };
            self.tries += 1;
            self.chosen[gpu] = set;
            if self.tries > MOST_TRIES || self.fits(gpu + 1, most - (best - room)) {
                return true;
            }
        }
        false
    }

    /// Whether every group of models finds room on the GPUs that serve any of them. A GPU takes part in each execution of a
    /// model once at most.
    fn holds_all(&self) -> bool {
        subsets(self.used).all(|models| {
            let of_gpu = |gpu: usize| {
                let served = self.chosen[gpu] & models;
                self.sets[served].time.min(self.room[gpu][self.chosen[gpu]].unwrap_or(0))
            };
            (0..self.gpus).map(of_gpu).sum::<u64>() >= self.sets[models].work
        })
    }
}
