//! From points that were measured to what calls take at any length: least squares of the relative error, with no cost below
//! zero.

use super::types::{Cost, MeasuredPoint, Quartiles, Work};

/// What one more term has to take off the sum of squared relative errors to be believed: 0.3% squared.
const WORTH: f64 = 1e-5;
const TERMS: usize = 4;

/// Median and quartiles, by linear interpolation. Nothing of no values.
pub fn summarise(seconds: &[f64]) -> Quartiles {
    if seconds.is_empty() {
        return Quartiles::default();
    }
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |p: f64| {
        let place = p * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        low + (high - low) * place.fract()
    };
    Quartiles { median: at(0.5), q1: at(0.25), q3: at(0.75), n: sorted.len() as u32 }
}

/// What calls take among `batch`, by the observations of that batch; `None` where there are none.
pub fn fit(work: Work, batch: u32, observations: &[MeasuredPoint]) -> Option<Cost> {
    let seen: Vec<&MeasuredPoint> =
        observations.iter().filter(|one| one.batch == batch && one.seconds.median > 0.0).collect();
    if seen.is_empty() {
        return None;
    }
    let allowed: [bool; TERMS] = match work {
        Work::Text => [true; TERMS],
        Work::Embedding => [true, true, false, false],
        Work::Image => [true, false, true, false],
    };
    let terms = |one: &MeasuredPoint| {
        let MeasuredPoint { prompt, output, .. } = *one;
        [1.0, prompt, output, output * (prompt + output / 2.0)]
    };
    // Relative errors count: each row is a share of what was measured.
    let rows: Vec<[f64; TERMS]> =
        seen.iter().map(|one| terms(one).map(|term| term / one.seconds.median)).collect();
    let mut best: Option<(f64, [f64; TERMS])> = None;
    for chosen in 1u32..1 << TERMS {
        let columns: Vec<usize> = (0..TERMS).filter(|at| chosen & 1 << at != 0).collect();
        if columns.iter().any(|&at| !allowed[at]) {
            continue;
        }
        let Some(found) = solve(&rows, &columns) else { continue };
        if columns.iter().any(|&at| found[at] < 0.0) {
            continue;
        }
        let error = |row: &[f64; TERMS]| row.iter().zip(&found).map(|(x, b)| x * b).sum::<f64>() - 1.0;
        let score = rows.iter().map(|row| error(row).powi(2)).sum::<f64>() + WORTH * columns.len() as f64;
        if best.is_none_or(|(least, _)| score < least) {
            best = Some((score, found));
        }
    }
    let (_, [fixed, prompt, output, context]) = best?;
    let mut cost = Cost { batch, fixed, prompt, output, context, ..Cost::default() };
    let off = |one: &&MeasuredPoint| {
        100.0 * (cost.seconds(one.prompt, one.output) / one.seconds.median - 1.0).abs()
    };
    let mut off: Vec<f64> = seen.iter().map(off).collect();
    off.sort_by(f64::total_cmp);
    cost.residual_percent = (summarise(&off).median, off[off.len() - 1]);
    Some(cost)
}

/// The coefficients of some columns that come nearest to a row sum of one; `None` where the columns cannot be told apart.
fn solve(rows: &[[f64; TERMS]], columns: &[usize]) -> Option<[f64; TERMS]> {
    let n = columns.len();
    if rows.len() < n {
        return None;
    }
    // Columns of very different size would drown one another.
    let scale: Vec<f64> =
        columns.iter().map(|&at| rows.iter().map(|row| row[at] * row[at]).sum::<f64>().sqrt()).collect();
    if scale.iter().any(|&size| size <= 0.0 || !size.is_finite()) {
        return None;
    }
    let mut matrix = vec![vec![0.0; n + 1]; n];
    for (i, line) in matrix.iter_mut().enumerate() {
        for (j, cell) in line.iter_mut().take(n).enumerate() {
            *cell =
                rows.iter().map(|row| row[columns[i]] * row[columns[j]]).sum::<f64>() / scale[i] / scale[j];
        }
        line[n] = rows.iter().map(|row| row[columns[i]]).sum::<f64>() / scale[i];
    }
    for at in 0..n {
        let pivot = (at..n).max_by(|&a, &b| matrix[a][at].abs().total_cmp(&matrix[b][at].abs()))?;
        matrix.swap(at, pivot);
        if matrix[at][at].abs() < 1e-9 {
            return None;
        }
        let upper = matrix[at].clone();
        for line in matrix.iter_mut().skip(at + 1) {
            let factor = line[at] / upper[at];
            line.iter_mut().zip(&upper).skip(at).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    let mut found = [0.0; TERMS];
    for at in (0..n).rev() {
        let known: f64 = (at + 1..n).map(|j| matrix[at][j] * found[columns[j]] * scale[j]).sum();
        found[columns[at]] = (matrix[at][n] - known) / matrix[at][at] / scale[at];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(truth: &Cost, prompts: &[f64], outputs: &[f64], noise: f64) -> Vec<MeasuredPoint> {
        let mut sign = 1.0;
        let points = prompts.iter().flat_map(|&prompt| outputs.iter().map(move |&output| (prompt, output)));
        points
            .map(|(prompt, output)| {
                sign = -sign;
                let median = truth.seconds(prompt, output) * (1.0 + sign * noise);
                let seconds = Quartiles { median, q1: median, q3: median, n: 3 };
                MeasuredPoint { batch: truth.batch, prompt, output, seconds }
            })
            .collect()
    }

    #[test]
    fn what_was_put_in_comes_out() {
        let truth =
            Cost { batch: 8, fixed: 0.02, prompt: 1e-4, output: 9e-3, context: 2e-7, ..Cost::default() };
        let seen = observed(&truth, &[40.0, 300.0, 900.0], &[16.0, 64.0, 200.0], 0.0);
        let found = fit(Work::Text, 8, &seen).unwrap();
        for (prompt, output) in [(100.0, 100.0), (900.0, 16.0), (10.0, 300.0)] {
            let (want, got) = (truth.seconds(prompt, output), found.seconds(prompt, output));
            assert!((got / want - 1.0).abs() < 1e-3, "{want} {got}");
        }
        assert!(found.residual_percent.1 < 0.1, "{found:?}");
        assert_eq!(fit(Work::Text, 4, &seen), None, "nothing was measured at this batch");
    }

    #[test]
    fn terms_that_only_explain_noise_are_left_out_and_none_is_negative() {
        let truth = Cost { batch: 1, output: 0.02, ..Cost::default() };
        let seen = observed(&truth, &[100.0, 2000.0], &[16.0, 128.0], 0.0005);
        let found = fit(Work::Text, 1, &seen).unwrap();
        assert!((found.output / 0.02 - 1.0).abs() < 0.002, "{found:?}");
        assert_eq!((found.fixed, found.prompt, found.context), (0.0, 0.0, 0.0));
        let images = fit(Work::Image, 1, &observed(&truth, &[10.0], &[10.0, 40.0], 0.0)).unwrap();
        assert!((images.seconds(0.0, 20.0) - 0.4).abs() < 1e-6, "{images:?}");
    }

    #[test]
    fn quartiles_are_interpolated() {
        let spread = summarise(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!((spread.q1, spread.median, spread.q3, spread.n), (1.75, 2.5, 3.25, 4));
        assert_eq!(summarise(&[]).n, 0);
    }
}
