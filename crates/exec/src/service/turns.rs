//! Turns between callers. Policies serve first come, first served, so a caller with thousands of requests at once would
//! delay all later callers. Instead, the n-th request of a caller counts as having arrived with the n-th request of
//! others.

use gswarm_core::{RequestId, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Places in line that are looked at: whoever has more open waits like everybody.
const PLACES: usize = 256;

/// The open requests of each caller, in the order in which they count as having come.
#[derive(Default)]
pub(super) struct Turns {
    open: FxHashMap<Arc<str>, BTreeSet<(Time, RequestId)>>,
}

impl Turns {
    /// When the next request of a caller counts as having come.
    pub fn arrival(&self, caller: &str, now: Time) -> Time {
        let mine = self.open.get(caller).map_or(0, BTreeSet::len);
        if mine >= PLACES {
            return now;
        }
        let others = self.open.iter().filter(|(other, open)| &***other != caller && open.len() > mine);
        let in_this_place = others.filter_map(|(_, open)| open.iter().nth(mine));
        in_this_place.map(|&(at, _)| at).min().unwrap_or(now).min(now)
    }

    /// A request is open from here on.
    pub fn opens(&mut self, caller: &Arc<str>, at: Time, id: RequestId) {
        self.open.entry(Arc::clone(caller)).or_default().insert((at, id));
    }

    /// A request has ended.
    pub fn closes(&mut self, caller: &Arc<str>, at: Time, id: RequestId) {
        if let Some(open) = self.open.get_mut(caller) {
            open.remove(&(at, id));
            if open.is_empty() {
                self.open.remove(caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_brings_little_is_served_among_the_first() {
        let (many, few): (Arc<str>, Arc<str>) = ("many".into(), "few".into());
        let mut turns = Turns::default();
        for number in 0..1000 {
            assert_eq!(turns.arrival(&many, Time(number)), Time(number), "nobody else is there");
            turns.opens(&many, Time(number), RequestId(number as u32));
        }
        for number in 0..10 {
            let at = turns.arrival(&few, Time(5000));
            assert_eq!(at, Time(number), "as the one of the same place in line");
            turns.opens(&few, at, RequestId(5000 + number as u32));
        }
        assert_eq!(turns.arrival(&many, Time(6000)), Time(6000), "whoever has the most waits behind all");
        for number in 0..1000 {
            turns.closes(&many, Time(number), RequestId(number as u32));
        }
        assert_eq!(turns.arrival("third", Time(7000)), Time(0));
        assert_eq!(turns.arrival(&few, Time(7000)), Time(7000));
    }
}
