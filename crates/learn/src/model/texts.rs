//! What a text says of the target: the mean of its rows, drawn towards the mean of all.
//!
//! Of a text with few rows that mean is mostly those rows' own targets, and a model that were shown it in training would
//! take the answer for the question: an id that comes twice would seem to explain everything. So the rows of such texts are cut into parts by
//! lot, and in training a row is shown the mean of its text's rows in the *other* parts (cross-fitting): of a text that comes
//! once there are none, and it says nothing. A text of many rows hangs on none of them, and is shown as it will be later.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// A text's mean target is drawn towards the mean of all by as many rows as this.
const PRIOR_ROWS: f64 = 5.0;
/// From so many rows on, a text's mean is one that no single row changes much.
const MANY_ROWS: f64 = 30.0;
/// How many parts the rows of rare texts are cut into.
const PARTS: usize = 10;

/// The means of the texts of one feature.
pub struct TextMeans {
    /// Of each text, over all of its rows; the mean of all where it has none.
    pub of_text: Vec<f64>,
    /// How many rows each text has.
    pub rows: Vec<f64>,
    /// What each row is shown in training; NaN where its text is missing.
    pub of_row: Vec<f64>,
}

impl TextMeans {
    /// Of rows whose text is the one of this number, out of `texts`; NaN is none.
    pub fn new(codes: &[f64], targets: &[f64], texts: usize) -> TextMeans {
        let mean = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
        let smoothed = |(sum, rows): (f64, f64)| (sum + mean * PRIOR_ROWS) / (rows + PRIOR_ROWS);
        let add = |sums: &mut [(f64, f64)], code: f64, target: f64| {
            let sum = &mut sums[code as usize];
            *sum = (sum.0 + target, sum.1 + 1.0);
        };
        let mut all = vec![(0.0, 0.0); texts];
        for (&code, &target) in codes.iter().zip(targets).filter(|(code, _)| !code.is_nan()) {
            add(&mut all, code, target);
        }
        let of_text: Vec<f64> = all.iter().map(|&sum| smoothed(sum)).collect();
        let mut of_row: Vec<f64> =
            codes.iter().map(|&code| if code.is_nan() { f64::NAN } else { of_text[code as usize] }).collect();
        let is_few = |code: f64| !code.is_nan() && all[code as usize].1 < MANY_ROWS;
        // Not in the order of the table, which may be sorted by anything, the target included.
        let mut order: Vec<usize> = (0..codes.len()).filter(|&row| is_few(codes[row])).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(0x7e47));
        let mut of_part = vec![(0.0, 0.0); texts];
        for part in 0..PARTS {
            let rows = || order.iter().skip(part).step_by(PARTS).map(|&row| (row, codes[row] as usize));
            rows().for_each(|(row, _)| add(&mut of_part, codes[row], targets[row]));
            for (row, text) in rows() {
                of_row[row] = smoothed((all[text].0 - of_part[text].0, all[text].1 - of_part[text].1));
            }
            rows().for_each(|(_, text)| of_part[text] = (0.0, 0.0));
        }
        TextMeans { of_text, rows: all.into_iter().map(|(_, rows)| rows).collect(), of_row }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_a_rare_text_is_not_shown_its_own_target() {
        // Ten texts of ten rows, and one of many.
        let codes: Vec<f64> =
            (0..400).map(|row| if row < 100 { f64::from(row / 10) } else { 10.0 }).collect();
        let targets: Vec<f64> = (0..400).map(f64::from).collect();
        let means = TextMeans::new(&codes, &targets, 11);
        for row in [0, 55, 99] {
            let mut other = targets.clone();
            other[row] += 1e6;
            let moved = TextMeans::new(&codes, &other, 11);
            // The mean of all moves with any row; of a text that comes first nothing else is known.
            let own = moved.of_row[row] - means.of_row[row];
            assert!(own <= 1e6 / 400.0 + 1e-6, "row {row} moves its own text by {own}");
            assert!(moved.of_text[codes[row] as usize] - means.of_text[codes[row] as usize] > 1e4);
        }
        assert_eq!(means.of_row[250], means.of_text[10]);
        assert!(TextMeans::new(&[f64::NAN; 3], &[1.0, 2.0, 3.0], 1).of_row.iter().all(|mean| mean.is_nan()));
    }
}
