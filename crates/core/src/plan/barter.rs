//! Which requests two cells should swap to balance their work, computed from the requests' needs without trials.

use crate::id::RequestId;

/// A request that one gives, and one that it takes for it or `None`, by place.
pub(super) type Swap = (usize, Option<usize>);

/// The swap after which two cells that differ by `difference` differ least; `None` where none brings them nearer.
/// Requests come with what they need.
pub(super) fn best(full: &[(u64, RequestId)], other: &[(u64, RequestId)], difference: u64) -> Option<Swap> {
    ranked(full, other, difference, 1).into_iter().next()
}

/// The best `count` swaps, best first, each with another request given away.
pub(super) fn ranked(
    full: &[(u64, RequestId)],
    other: &[(u64, RequestId)],
    difference: u64,
    count: usize,
) -> Vec<Swap> {
    // Giving away half the difference makes them even; giving all of it away changes nothing.
    let target = (difference / 2) as i64;
    let mut by_need: Vec<(u64, Option<usize>)> =
        other.iter().enumerate().map(|(at, &(need, _))| (need, Some(at))).collect();
    by_need.push((0, None));
    by_need.sort_unstable();
    let closest = |gives: usize| {
        let wanted = full[gives].0 as i64 - target;
        let at = by_need.partition_point(|&(need, _)| (need as i64) < wanted);
        let near = by_need[at.saturating_sub(1)..(at + 1).min(by_need.len())].iter();
        let swaps = near.map(|&(need, takes)| ((need as i64 - wanted).unsigned_abs(), gives, takes));
        swaps.min()
    };
    let mut swaps: Vec<(u64, usize, Option<usize>)> = (0..full.len()).filter_map(closest).collect();
    swaps.sort_unstable();
    let nearer = swaps.into_iter().take_while(|&(off, ..)| (off as i64) < target);
    nearer.take(count).map(|(_, gives, takes)| (gives, takes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(of: &[u64]) -> Vec<(u64, RequestId)> {
        of.iter().zip(0..).map(|(&need, id)| (need, RequestId(id))).collect()
    }

    #[test]
    fn swaps_make_cells_even() {
        // 30 against 20: a swap of 9 for 4 makes both 25; moving the 5 does as well, and nothing is better.
        let (full, other) = (needs(&[9, 5, 16]), needs(&[4, 16]));
        assert_eq!(ranked(&full, &other, 10, 9), [(0, Some(0)), (1, None), (2, Some(1))][..2]);
    }

    #[test]
    fn nothing_is_swapped_that_does_not_help() {
        assert_eq!(best(&needs(&[10]), &needs(&[10]), 0), None);
        assert_eq!(best(&needs(&[10]), &needs(&[]), 4), None);
    }
}
