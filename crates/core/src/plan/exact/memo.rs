//! States that were searched: one that is no better in any time, with the same tasks placed and the same models held, need
//! not be searched again.

use super::symmetry::Canonical;
use rustc_hash::FxHashMap;

pub(super) struct Memo {
    /// The times of all states with the same tasks placed and the same models held, one behind the other.
    seen: FxHashMap<(u64, u64), Vec<u64>>,
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
    pub fn covers(&mut self, state: &Canonical) -> bool {
        let length = state.times.len();
        let key = (state.placed, state.held);
        let seen = self.seen.entry(key).or_default();
        let mut at = 0;
        while at < seen.len() {
            let old = &seen[at..at + length];
            if no_later(old, &state.slack) {
                return true;
            }
            if no_later(&state.times, old) {
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
            seen.extend_from_slice(&state.times);
            self.room -= length;
        }
        false
    }
}

fn no_later(these: &[u64], those: &[u64]) -> bool {
    these.iter().zip(those).all(|(one, other)| one <= other)
}
