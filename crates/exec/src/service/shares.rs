//! Fair shares of a bounded number of places, so that one caller cannot starve others.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// One place in so many is kept for callers who have less than their share.
const RESERVE: usize = 8;

/// How many places each caller has taken.
#[derive(Debug, Default)]
pub struct Shares {
    taken: FxHashMap<Arc<str>, usize>,
    all: usize,
}

impl Shares {
    /// Whether a caller may take one more of so many places. Whoever has less than an equal share may take the last one;
    /// others leave some free for them.
    #[must_use]
    pub fn may_take(&self, caller: &str, places: usize) -> bool {
        let mine = self.of(caller);
        let callers = self.taken.len() + usize::from(mine == 0);
        let is_modest = callers > 1 && mine < places / callers;
        let kept_for_others = if is_modest { 0 } else { places / RESERVE };
        self.all < places - kept_for_others
    }

    /// How many are taken in all.
    #[must_use]
    pub fn all(&self) -> usize {
        self.all
    }

    /// How many a caller has taken.
    #[must_use]
    pub fn of(&self, caller: &str) -> usize {
        self.taken.get(caller).copied().unwrap_or(0)
    }

    /// A caller takes a place.
    pub fn add(&mut self, caller: &Arc<str>) {
        *self.taken.entry(Arc::clone(caller)).or_default() += 1;
        self.all += 1;
    }

    /// A caller gives a place back.
    pub fn remove(&mut self, caller: &Arc<str>) {
        if let Some(taken) = self.taken.get_mut(caller) {
            *taken -= 1;
            self.all -= 1;
            if *taken == 0 {
                self.taken.remove(caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn caller(number: usize) -> Arc<str> {
        format!("caller {number}").into()
    }

    #[test]
    fn one_who_takes_all_that_is_free_leaves_room() {
        let (greedy, modest, mut shares) = (caller(0), caller(1), Shares::default());
        while shares.may_take(&greedy, 100) {
            shares.add(&greedy);
        }
        assert_eq!(shares.of(&greedy), 88);
        while shares.may_take(&modest, 100) {
            shares.add(&modest);
        }
        assert_eq!(shares.of(&modest), 12);
        // Whatever the first gives back goes to the second until both have the same.
        for _ in 0..38 {
            shares.remove(&greedy);
            assert!(!shares.may_take(&greedy, 100) && shares.may_take(&modest, 100));
            shares.add(&modest);
        }
        assert_eq!((shares.of(&greedy), shares.of(&modest)), (50, 50));
    }

    proptest! {
        /// However places are taken and given back, there are never more taken than there are, and a newcomer whom one
        /// caller alone has kept waiting finds a place.
        #[test]
        fn nobody_is_shut_out_by_one(places in 8_usize..200, steps in prop::collection::vec((0_usize..4, any::<bool>()), 0..600)) {
            let mut shares = Shares::default();
            for (number, takes) in steps {
                let one = caller(number);
                if takes && shares.may_take(&one, places) {
                    shares.add(&one);
                } else if !takes {
                    shares.remove(&one);
                }
                prop_assert!(shares.all() <= places);
                let sum: usize = (0..4).map(|number| shares.of(&caller(number))).sum();
                prop_assert_eq!(sum, shares.all());
            }
            let mut alone = Shares::default();
            while alone.may_take("greedy", places) {
                alone.add(&"greedy".into());
            }
            prop_assert!(alone.may_take("newcomer", places));
        }
    }
}
