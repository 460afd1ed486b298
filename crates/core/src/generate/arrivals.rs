//! When requests arrive. Each process is drawn given the number of requests: that many moments in `[0, duration)`,
//! spread as the process spreads them.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::Exp1;

named! {
    /// How requests are spread over time.
    #[derive(Default)]
    pub enum Arrivals {
        /// Independent of each other, at a constant rate.
        #[default]
        Poisson = "poisson",
        /// Calm and bursts in turn (a Markov-modulated Poisson process): bursts are `BURST_RATE` times as busy.
        Bursty = "bursty",
        /// A rate that swings like a day does: a sine of `SWING` around its mean, lowest at the start.
        Diurnal = "diurnal",
    }
}

/// How many times busier a burst is than the calm between bursts.
const BURST_RATE: f64 = 10.0;
/// Calm and burst, each from its start to its end, as mean shares of the whole duration.
const DWELL: [f64; 2] = [0.08, 0.02];
/// The amplitude of the daily swing, as a share of the mean rate.
const SWING: f64 = 0.8;
/// The longest period of the daily swing; a shorter duration is one whole swing.
const DAY_SECONDS: f64 = 86_400.0;

impl Arrivals {
    /// `count` moments in seconds, in order.
    pub(super) fn draw(self, count: usize, duration: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
        match self {
            Arrivals::Poisson => uniform_in_order(count, duration, rng),
            Arrivals::Bursty => bursty(count, duration, rng),
            Arrivals::Diurnal => diurnal(count, duration, rng),
        }
    }
}

/// The arrivals of a Poisson process, given how many there are: exponential gaps, scaled to the duration.
fn uniform_in_order(count: usize, end: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut at = 0.0;
    let mut moments: Vec<f64> = (0..count)
        .map(|_| {
            at += rng.sample::<f64, _>(Exp1);
            at
        })
        .collect();
    let total = at + rng.sample::<f64, _>(Exp1);
    moments.iter_mut().for_each(|moment| *moment *= end / total);
    moments
}

/// Draws the turns of calm and burst first, then arrivals that are uniform in the work that has come in so far.
fn bursty(count: usize, duration: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
    // Each turn: where it starts, in time and in expected arrivals, and its rate.
    let mut turns = Vec::new();
    let (mut at, mut work, mut state) = (0.0, 0.0, 0);
    while at < duration {
        let rate = if state == 0 { 1.0 } else { BURST_RATE };
        turns.push((at, work, rate));
        let length = (rng.sample::<f64, _>(Exp1) * DWELL[state] * duration).min(duration - at);
        // A turn too short to move the clock would keep the loop from ending.
        at += length.max(duration * 1e-9);
        work += length * rate;
        state = 1 - state;
    }
    let mut turn = 0;
    let mut moments = uniform_in_order(count, work, rng);
    for moment in &mut moments {
        while turns.get(turn + 1).is_some_and(|&(_, next, _)| next <= *moment) {
            turn += 1;
        }
        let (start, before, rate) = turns[turn];
        *moment = (start + (*moment - before) / rate).min(duration);
    }
    moments
}

/// Thinning: moments at a constant rate, each kept with the chance that the rate then has against the highest rate.
fn diurnal(count: usize, duration: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let period = duration.min(DAY_SECONDS);
    let mut moments = Vec::with_capacity(count);
    while moments.len() < count {
        let moment = rng.random::<f64>() * duration;
        let rate = 1.0 - SWING * libm::cos(std::f64::consts::TAU * moment / period);
        if rng.random::<f64>() * (1.0 + SWING) < rate {
            moments.push(moment);
        }
    }
    moments.sort_unstable_by(f64::total_cmp);
    moments
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn draw(kind: Arrivals, count: usize, seed: u64) -> Vec<f64> {
        kind.draw(count, 1000.0, &mut ChaCha8Rng::seed_from_u64(seed))
    }

    /// Variance over mean of the number of arrivals in windows of 10 s: 1 for a Poisson process.
    fn dispersion(moments: &[f64]) -> f64 {
        let mut counts = [0.0_f64; 100];
        moments.iter().for_each(|moment| counts[((moment / 10.0) as usize).min(99)] += 1.0);
        let mean = counts.iter().sum::<f64>() / 100.0;
        counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 100.0 / mean
    }

    #[test]
    fn every_process_gives_the_count_in_order_and_inside_the_duration() {
        for kind in Arrivals::ALL {
            for count in [0, 1, 2, 5000] {
                let moments = draw(kind, count, 7);
                assert_eq!(moments.len(), count);
                assert!(moments.is_sorted(), "{kind:?}");
                assert!(moments.iter().all(|moment| (0.0..=1000.0).contains(moment)), "{kind:?}");
            }
        }
    }

    #[test]
    fn poisson_is_even_and_bursty_is_not() {
        let even = dispersion(&draw(Arrivals::Poisson, 10_000, 1));
        assert!((0.6..1.6).contains(&even), "{even}");
        let bursts = dispersion(&draw(Arrivals::Bursty, 10_000, 1));
        assert!(bursts > 10.0, "{bursts}");
    }

    #[test]
    fn diurnal_swings_by_the_amplitude() {
        let moments = draw(Arrivals::Diurnal, 100_000, 3);
        let between = |from: f64, to: f64| {
            moments.iter().filter(|&&at| at >= from && at < to).count() as f64 / 100_000.0
        };
        // The share of a window around the middle of the swing, and of one at its start, by integration.
        assert!((between(450.0, 550.0) - 0.1787).abs() < 0.005, "{}", between(450.0, 550.0));
        assert!((between(0.0, 50.0) - 0.0107).abs() < 0.002, "{}", between(0.0, 50.0));
    }

    #[test]
    fn the_seed_decides() {
        for kind in Arrivals::ALL {
            assert_eq!(draw(kind, 100, 5), draw(kind, 100, 5));
            assert_ne!(draw(kind, 100, 5), draw(kind, 100, 6));
        }
    }
}
