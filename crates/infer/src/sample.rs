//! The next token from the model's scores.

use crate::error::{Error, Result};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Chooses tokens for one request, with a random stream of its own.
pub(crate) struct Sampler {
    temperature: f64,
    top_p: f64,
    random: ChaCha8Rng,
}

impl Sampler {
    /// `temperature` 0 always takes the best; `top_p` keeps the likeliest tokens that together have this share.
    pub(crate) fn new(temperature: f64, top_p: f64, seed: u64) -> Sampler {
        Sampler { temperature, top_p, random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// The next token.
    pub(crate) fn next(&mut self, scores: &[f32]) -> Result<u32> {
        if scores.iter().any(|score| score.is_nan()) {
            return Err(Error::Compute("the model's scores are not numbers".to_string()));
        }
        let best = best(scores);
        let top = f64::from(scores[best]);
        if self.temperature == 0.0 || !top.is_finite() {
            return Ok(best as u32);
        }
        let weight = |score: f32| ((f64::from(score) - top) / self.temperature).exp();
        let mut likely: Vec<(u32, f64)> =
            scores.iter().enumerate().map(|(token, &score)| (token as u32, weight(score))).collect();
        let mut total: f64 = likely.iter().map(|(_, weight)| weight).sum();
        if self.top_p < 1.0 {
            // Equal weights go by token, so that the choice depends on nothing else.
            likely.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let (mut kept, mut sum) = (0, 0.0);
            while kept < likely.len() && (kept == 0 || sum < self.top_p * total) {
                sum += likely[kept].1;
                kept += 1;
            }
            likely.truncate(kept);
            total = sum;
        }
        let mut left = self.random.random::<f64>() * total;
        for &(token, weight) in &likely {
            left -= weight;
            if left < 0.0 {
                return Ok(token);
            }
        }
        // Rounding can leave a trace beyond the last.
        Ok(best as u32)
    }
}

/// The first of the best.
fn best(scores: &[f32]) -> usize {
    let better = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (0..scores.len()).fold(0, better)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCORES: [f32; 4] = [1.0, 3.0, 2.0, 3.0];

    fn draw(temperature: f64, top_p: f64, seed: u64) -> Vec<u32> {
        let mut sampler = Sampler::new(temperature, top_p, seed);
        (0..400).map(|_| sampler.next(&SCORES).unwrap()).collect()
    }

    #[test]
    fn zero_temperature_takes_the_first_of_the_best() {
        assert!(draw(0.0, 1.0, 7).iter().all(|&token| token == 1));
    }

    #[test]
    fn a_seed_repeats_itself_and_another_differs() {
        assert_eq!(draw(1.0, 1.0, 7), draw(1.0, 1.0, 7));
        assert_ne!(draw(1.0, 1.0, 7), draw(1.0, 1.0, 8));
    }

    #[test]
    fn shares_follow_the_scores() {
        let drawn = draw(1.0, 1.0, 3);
        let share = |token| drawn.iter().filter(|&&t| t == token).count() as f64 / drawn.len() as f64;
        let total: f64 = SCORES.iter().map(|&score| f64::from(score).exp()).sum();
        for (token, &score) in SCORES.iter().enumerate() {
            let expected = f64::from(score).exp() / total;
            assert!(
                (share(token as u32) - expected).abs() < 0.1,
                "{token}: {} {expected}",
                share(token as u32)
            );
        }
    }

    #[test]
    fn top_p_leaves_out_the_unlikely() {
        assert!(draw(1.0, 0.5, 3).iter().all(|&token| token == 1 || token == 3));
        assert!(draw(1.0, 0.0, 3).iter().all(|&token| token == 1));
        assert!(draw(1.0, 1.0, 3).contains(&2));
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        assert!(Sampler::new(1.0, 1.0, 0).next(&[0.0, f32::NAN]).is_err());
        assert_eq!(Sampler::new(1.0, 1.0, 0).next(&[f32::NEG_INFINITY; 3]).unwrap(), 0);
    }
}
