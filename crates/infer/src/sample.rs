//! The next token from the model's scores.

use crate::error::{Error, Result};
use crate::form::Guide;
use crate::request::SamplingTuning;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Chooses tokens for one request, with a random stream of its own.
pub(crate) struct Sampler {
    temperature: f64,
    top_p: f64,
    random: ChaCha8Rng,
    tuning: SamplingTuning,
    /// Tokens of the prompt, where they bear on the answer.
    prompt: BTreeSet<u32>,
    /// Tokens that end an answer.
    ends: Vec<u32>,
    /// How often the answer has each token, where that bears on it.
    written: BTreeMap<u32, u32>,
    count: usize,
    /// Holds the answer to a form.
    guide: Option<Guide>,
}

impl Sampler {
    /// `temperature` 0 always takes the best; `top_p` keeps the likeliest tokens that together have this share.
    pub(crate) fn new(temperature: f64, top_p: f64, seed: u64) -> Sampler {
        Sampler {
            temperature,
            top_p,
            random: ChaCha8Rng::seed_from_u64(seed),
            tuning: SamplingTuning::default(),
            prompt: BTreeSet::new(),
            ends: Vec::new(),
            written: BTreeMap::new(),
            count: 0,
            guide: None,
        }
    }

    /// With further settings, for an answer to this prompt that these tokens end.
    pub(crate) fn tuned(mut self, tuning: SamplingTuning, prompt: &[u32], ends: &[u32]) -> Sampler {
        if tuning.repetition_penalty != 1.0 {
            self.prompt = prompt.iter().copied().collect();
        }
        self.ends = ends.to_vec();
        self.tuning = tuning;
        self
    }

    /// With answers of one form only.
    pub(crate) fn guided(self, guide: Option<Guide>) -> Sampler {
        Sampler { guide, ..self }
    }

    /// Whether the answer has its form, and nothing can follow.
    pub(crate) fn is_over(&mut self) -> Result<bool> {
        self.guide.as_mut().map_or(Ok(false), Guide::is_over)
    }

    /// The next token.
    pub(crate) fn next(&mut self, scores: &[f32]) -> Result<u32> {
        if scores.iter().any(|score| score.is_nan()) {
            return Err(Error::Compute("the model's scores are not numbers".to_string()));
        }
        let token = if self.leaves_scores() {
            self.draw(scores)
        } else {
            let mut scores = self.changed(scores);
            if let Some(guide) = &mut self.guide {
                guide.mask(&mut scores, &self.ends)?;
            }
            self.draw(&scores)
        };
        if let Some(guide) = &mut self.guide {
            guide.accept(token)?;
        }
        self.count += 1;
        if self.remembers() {
            *self.written.entry(token).or_default() += 1;
        }
        Ok(token)
    }

    /// Whether what was written bears on what follows.
    fn remembers(&self) -> bool {
        let SamplingTuning { presence_penalty, frequency_penalty, repetition_penalty, .. } = self.tuning;
        (presence_penalty, frequency_penalty, repetition_penalty) != (0.0, 0.0, 1.0)
    }

    fn leaves_scores(&self) -> bool {
        self.guide.is_none()
            && !self.remembers()
            && self.tuning.logit_bias.is_empty()
            && self.count >= self.tuning.min_tokens
    }

    /// The scores with penalties, biases, and no end before its time.
    fn changed(&self, scores: &[f32]) -> Vec<f32> {
        let tuning = &self.tuning;
        let mut scores = scores.to_vec();
        let seen = self.prompt.iter().chain(self.written.keys().filter(|token| !self.prompt.contains(token)));
        for &token in seen.filter(|_| tuning.repetition_penalty != 1.0) {
            let (score, penalty) = (&mut scores[token as usize], tuning.repetition_penalty as f32);
            *score = if *score > 0.0 { *score / penalty } else { *score * penalty };
        }
        for (&token, &times) in &self.written {
            let off = tuning.presence_penalty + tuning.frequency_penalty * f64::from(times);
            scores[token as usize] -= off as f32;
        }
        for &(token, bias) in &tuning.logit_bias {
            scores[token as usize] += bias;
        }
        if self.count < tuning.min_tokens {
            self.ends.iter().for_each(|&token| scores[token as usize] = f32::NEG_INFINITY);
        }
        scores
    }

    fn draw(&mut self, scores: &[f32]) -> u32 {
        let best = best(scores);
        let top = f64::from(scores[best]);
        if self.temperature == 0.0 || !top.is_finite() {
            return best as u32;
        }
        let weight = |score: f32| ((f64::from(score) - top) / self.temperature).exp();
        let mut likely: Vec<(u32, f64)> =
            scores.iter().enumerate().map(|(token, &score)| (token as u32, weight(score))).collect();
        let (top_k, min_p) = (self.tuning.top_k, self.tuning.min_p);
        if self.top_p < 1.0 || top_k > 0 {
            // Equal weights go by token, so that the choice depends on nothing else.
            likely.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        }
        if top_k > 0 {
            likely.truncate(top_k);
        }
        let mut total: f64 = likely.iter().map(|(_, weight)| weight).sum();
        if self.top_p < 1.0 {
            let (mut kept, mut sum) = (0, 0.0);
            while kept < likely.len() && (kept == 0 || sum < self.top_p * total) {
                sum += likely[kept].1;
                kept += 1;
            }
            likely.truncate(kept);
            total = sum;
        }
        if min_p > 0.0 {
            // The likeliest has the weight 1.
            likely.retain(|&(_, weight)| weight >= min_p);
            total = likely.iter().map(|(_, weight)| weight).sum();
        }
        let mut left = self.random.random::<f64>() * total;
        for &(token, weight) in &likely {
            left -= weight;
            if left < 0.0 {
                return token;
            }
        }
        // Rounding can leave a trace beyond the last.
        best as u32
    }
}

/// The logarithm of a token's probability, and the likeliest tokens with theirs.
pub(crate) fn logprobs(scores: &[f32], token: u32, most: usize) -> (f32, Vec<(u32, f32)>) {
    let top = f64::from(scores[best(scores)]);
    let sum: f64 = scores.iter().map(|&score| (f64::from(score) - top).exp()).sum();
    let logprob = |score: f32| (f64::from(score) - top - sum.ln()) as f32;
    let mut order: Vec<u32> = (0..scores.len() as u32).collect();
    let by_score = |a: &u32, b: &u32| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b));
    let most = most.min(order.len());
    if most > 0 && most < order.len() {
        order.select_nth_unstable_by(most - 1, by_score);
    }
    order.truncate(most);
    order.sort_by(by_score);
    let likeliest = order.into_iter().map(|token| (token, logprob(scores[token as usize]))).collect();
    (logprob(scores[token as usize]), likeliest)
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

    fn tuned(tuning: SamplingTuning) -> Vec<u32> {
        let mut sampler = Sampler::new(1.0, 1.0, 3).tuned(tuning, &[0], &[1]);
        (0..200).map(|_| sampler.next(&SCORES).unwrap()).collect()
    }

    #[test]
    fn top_k_and_min_p_leave_out_the_unlikely() {
        assert!(
            tuned(SamplingTuning { top_k: 1, ..SamplingTuning::default() }).iter().all(|&token| token == 1)
        );
        assert!(
            tuned(SamplingTuning { top_k: 2, ..SamplingTuning::default() })
                .iter()
                .all(|&token| token == 1 || token == 3)
        );
        // The third has e^-1 = 0.37 of the best.
        assert!(
            tuned(SamplingTuning { min_p: 0.4, ..SamplingTuning::default() })
                .iter()
                .all(|&token| token == 1 || token == 3)
        );
        assert!(tuned(SamplingTuning { min_p: 0.3, ..SamplingTuning::default() }).contains(&2));
    }

    #[test]
    fn penalties_biases_and_early_ends_change_the_scores() {
        let greedy = |tuning: SamplingTuning, steps: usize| {
            let mut sampler = Sampler::new(0.0, 1.0, 0).tuned(tuning, &[1], &[1]);
            (0..steps).map(|_| sampler.next(&SCORES).unwrap()).collect::<Vec<u32>>()
        };
        // 3.0 - 0.5 is above 2.0, 3.0 - 2 * 0.5 is not: ties go to the first.
        let frequency = SamplingTuning { frequency_penalty: 0.5, ..SamplingTuning::default() };
        assert_eq!(greedy(frequency, 6), [1, 3, 1, 3, 1, 2]);
        let presence = SamplingTuning { presence_penalty: 1.5, ..SamplingTuning::default() };
        assert_eq!(greedy(presence, 4), [1, 3, 2, 1]);
        // Token 1 is in the prompt: 3.0 / 2.
        let repetition = SamplingTuning { repetition_penalty: 2.0, ..SamplingTuning::default() };
        assert_eq!(greedy(repetition, 3), [3, 2, 1]);
        let bias = SamplingTuning { logit_bias: vec![(0, 5.0), (1, -100.0)], ..SamplingTuning::default() };
        assert_eq!(greedy(bias, 2), [0, 0]);
        let late = SamplingTuning { min_tokens: 2, ..SamplingTuning::default() };
        assert_eq!(greedy(late, 3), [3, 3, 1]);
    }

    #[test]
    fn logarithms_of_probabilities_are_those_of_the_scores() {
        let (own, top) = logprobs(&SCORES, 2, 3);
        let total: f64 = SCORES.iter().map(|&score| f64::from(score).exp()).sum();
        assert!((f64::from(own) - (2.0 - total.ln())).abs() < 1e-6);
        assert_eq!(top.iter().map(|&(token, _)| token).collect::<Vec<_>>(), [1, 3, 2]);
        assert_eq!(logprobs(&SCORES, 0, 0).1, []);
        let all: f64 = logprobs(&SCORES, 0, 9).1.iter().map(|&(_, log)| f64::from(log).exp()).sum();
        assert!((all - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        assert!(Sampler::new(1.0, 1.0, 0).next(&[0.0, f32::NAN]).is_err());
        assert_eq!(Sampler::new(1.0, 1.0, 0).next(&[f32::NEG_INFINITY; 3]).unwrap(), 0);
    }
}
