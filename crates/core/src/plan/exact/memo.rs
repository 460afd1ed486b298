//! States that were searched: one with the same tasks placed that is no better in any time need not be searched again.

use super::problem::{ExactProblem, MOST_MODELS};
use super::symmetry::Canonical;
use rustc_hash::FxHashMap;

pub(super) struct Memo {
    /// What the GPUs held, and the times, of all states with the same tasks placed, one behind the other.
    seen: FxHashMap<u64, Vec<u64>>,
    room: usize,
}

impl Memo {
    /// Room for so many times.
    pub fn new(room: usize) -> Memo {
        Memo { seen: FxHashMap::default(), room }
    }

    /// Whether a state is no better than one that was seen; if it may be, it is remembered.
    ///
    /// The old one may have its last start later: what the new one could still start before that was found from a step that
    /// comes earlier in the order of the search.
    pub fn covers(&mut self, problem: &ExactProblem, state: &Canonical) -> bool {
        let length = state.times.len() + 1;
        let seen = self.seen.entry(state.placed).or_default();
        let mut at = 0;
        while at < seen.len() {
            let (held, old) = (seen[at], &seen[at + 1..at + length]);
            if no_later(problem, (held, old), (state.held, &state.slack)) {
                return true;
            }
            if no_later(problem, (state.held, &state.times), (held, old)) {
                // The new one says all that the old one did.
                let last = seen.len() - length;
                seen.copy_within(last.., at);
                seen.truncate(last);
                self.room += length;
            } else {
                at += length;
            }
        }
        if self.room >= length {
            seen.push(state.held);
            seen.extend_from_slice(&state.times);
            self.room -= length;
        }
        false
    }
}

/// Whether one state is as good as another: every input is there no later, and every GPU could by then hold what it holds
/// in the other.
fn no_later(problem: &ExactProblem, these: (u64, &[u64]), those: (u64, &[u64])) -> bool {
    let gpus = problem.gpus;
    if these.1[gpus..].iter().zip(&those.1[gpus..]).any(|(one, other)| one > other) {
        return false;
    }
    let (mut held, mut other_held) = (these.0, those.0);
    for gpu in (0..gpus).rev() {
        let hop = problem.hops[(held & 15) as usize * (MOST_MODELS + 1) + (other_held & 15) as usize];
        if these.1[gpu] + hop > those.1[gpu] {
            return false;
        }
        (held, other_held) = (held >> 4, other_held >> 4);
    }
    true
}
