//! The cheapest way to pair every leaving with an entering (a transportation problem), and prices that prove it.

/// The cost of the cheapest pairing, and prices under which no pairing can be cheaper: what leaving a row and entering a
/// column are worth together is never more than the pair costs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pairing {
    pub cost: i128,
    pub leave: Vec<i64>,
    pub enter: Vec<i64>,
}

/// `costs[row][column]` are at least 0; rows leave and columns enter so often, as often in all.
pub(super) fn cheapest(costs: &[Vec<i64>], leaves: &[u64], enters: &[u64]) -> Pairing {
    debug_assert_eq!(leaves.iter().sum::<u64>(), enters.iter().sum::<u64>());
    let mut pairs = Pairs {
        costs,
        left: leaves.to_vec(),
        open: enters.to_vec(),
        flow: vec![vec![0; enters.len()]; leaves.len()],
        leave: vec![0; leaves.len()],
        enter: vec![0; enters.len()],
    };
    while pairs.left.iter().any(|&left| left > 0) {
        pairs.pair_some();
    }
    let worth = |count: &[u64], prices: &[i64]| -> i128 {
        count.iter().zip(prices).map(|(&count, &price)| i128::from(count) * i128::from(price)).sum()
    };
    let cost = worth(leaves, &pairs.leave) + worth(enters, &pairs.enter);
    Pairing { cost, leave: pairs.leave, enter: pairs.enter }
}

struct Pairs<'c> {
    costs: &'c [Vec<i64>],
    left: Vec<u64>,
    open: Vec<u64>,
    flow: Vec<Vec<u64>>,
    leave: Vec<i64>,
    enter: Vec<i64>,
}

impl Pairs<'_> {
    /// One shortest augmenting path: from a row with something left to a column that is open.
    fn pair_some(&mut self) {
        let (rows, columns) = (self.left.len(), self.open.len());
        let mut row_far: Vec<i64> =
            self.left.iter().map(|&left| if left > 0 { 0 } else { i64::MAX }).collect();
        let mut column_far = vec![i64::MAX; columns];
        let mut row_done = vec![false; rows];
        // The column through which a row was reached, and the row from which a column was.
        let (mut row_from, mut column_from) = (vec![usize::MAX; rows], vec![usize::MAX; columns]);
        while let Some(row) =
            (0..rows).filter(|&row| !row_done[row] && row_far[row] < i64::MAX).min_by_key(|&row| row_far[row])
        {
            row_done[row] = true;
            for column in 0..columns {
                let spare = self.costs[row][column] - self.leave[row] - self.enter[column];
                let far = row_far[row] + spare;
                if far >= column_far[column] {
                    continue;
                }
                (column_far[column], column_from[column]) = (far, row);
                // What another row put into this column can go elsewhere instead, at no spare cost.
                for other in 0..rows {
                    if self.flow[other][column] > 0 && far < row_far[other] {
                        (row_far[other], row_from[other]) = (far, column);
                    }
                }
            }
        }
        let open = (0..columns).filter(|&column| self.open[column] > 0);
        let end = open.min_by_key(|&column| column_far[column]).expect("as many enter as leave");
        let far = column_far[end];
        (0..rows).for_each(|row| self.leave[row] += far.saturating_sub(row_far[row]).max(0));
        (0..columns).for_each(|column| self.enter[column] -= far.saturating_sub(column_far[column]).max(0));
        self.augment(end, &row_from, &column_from);
    }

    fn augment(&mut self, end: usize, row_from: &[usize], column_from: &[usize]) {
        let (mut column, mut amount) = (end, self.open[end]);
        let start = loop {
            let row = column_from[column];
            if row_from[row] == usize::MAX {
                break row;
            }
            column = row_from[row];
            amount = amount.min(self.flow[row][column]);
        };
        amount = amount.min(self.left[start]);
        self.left[start] -= amount;
        self.open[end] -= amount;
        column = end;
        loop {
            let row = column_from[column];
            self.flow[row][column] += amount;
            if row == start {
                return;
            }
            column = row_from[row];
            self.flow[row][column] -= amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The cheapest pairing by trying all of them.
    fn by_trying(costs: &[Vec<i64>], leaves: &mut [u64], enters: &mut [u64]) -> i128 {
        let Some(row) = leaves.iter().position(|&left| left > 0) else { return 0 };
        leaves[row] -= 1;
        let mut best = i128::MAX;
        for column in 0..enters.len() {
            if enters[column] > 0 {
                enters[column] -= 1;
                best = best.min(i128::from(costs[row][column]) + by_trying(costs, leaves, enters));
                enters[column] += 1;
            }
        }
        leaves[row] += 1;
        best
    }

    proptest! {
        #[test]
        fn pairings_are_cheapest_and_their_prices_prove_it(
            costs in proptest::collection::vec(proptest::collection::vec(0i64..20, 3), 3),
            leaves in proptest::collection::vec(0u64..3, 3),
            shift in 0usize..3,
        ) {
            let mut enters = leaves.clone();
            enters.rotate_left(shift);
            let found = cheapest(&costs, &leaves, &enters);
            prop_assert_eq!(found.cost, by_trying(&costs, &mut leaves.clone(), &mut enters));
            for (row, costs) in costs.iter().enumerate() {
                for (column, &cost) in costs.iter().enumerate() {
                    prop_assert!(found.leave[row] + found.enter[column] <= cost);
                }
            }
        }
    }
}
