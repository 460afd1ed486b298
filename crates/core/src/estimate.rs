//! Estimates of run times: a mean, an interval around it, and the remaining time of an overdue execution.

use crate::time::Span;

/// The share of the times of a model that lies below the lower end of an interval, and above its upper end.
pub const TAIL: f64 = 0.05;

/// An estimate: the expected time of a task at batch 1, and its 90% interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The mean.
    pub mean: Span,
    /// One in twenty takes less.
    pub low: Span,
    /// One in twenty takes more.
    pub high: Span,
}

/// A time of which mean and spread are known, taken to be lognormal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uncertain {
    /// The mean.
    pub mean: Span,
    /// The standard deviation of the logarithm; 0 where the time is certain.
    pub spread: f64,
}

impl Uncertain {
    /// The time that a share `p` of such executions do not exceed.
    #[must_use]
    pub fn quantile(self, p: f64) -> Span {
        if self.spread <= 0.0 {
            return self.mean;
        }
        self.mean.times((self.spread * normal_quantile(p) - self.spread * self.spread / 2.0).exp())
    }

    /// What one that has run for `elapsed` still takes, with chance `p` not more.
    pub(crate) fn quantile_after(self, elapsed: Span, p: f64) -> Span {
        if self.spread <= 0.0 {
            return Span(self.mean.0.saturating_sub(elapsed.0));
        }
        let middle = (self.mean.0.max(1) as f64).ln() - self.spread * self.spread / 2.0;
        let over = match elapsed.0 {
            0 => 0.0,
            elapsed => 1.0 - normal_above(((elapsed as f64).ln() - middle) / self.spread),
        };
        let whole = self.quantile(over + p * (1.0 - over));
        // Past all that was to be expected, what is left is as long as is usual there.
        if over > 1.0 - 1e-6 {
            self.left_after(elapsed).times(p)
        } else {
            Span(whole.0.saturating_sub(elapsed.0))
        }
    }

    /// The expected remaining time after `elapsed`: an overdue execution is probably a long one.
    #[must_use]
    pub fn left_after(self, elapsed: Span) -> Span {
        let plain = Span(self.mean.0.saturating_sub(elapsed.0));
        if self.spread <= 0.0 || elapsed == Span::ZERO {
            return plain;
        }
        let (mean, elapsed) = (self.mean.0.max(1) as f64, elapsed.0 as f64);
        let middle = mean.ln() - self.spread * self.spread / 2.0;
        let at = (elapsed.ln() - middle) / self.spread;
        let still_runs = normal_above(at);
        if still_runs < 1e-9 {
            // So far out that the formula divides nothing by nothing: there the rest grows in proportion.
            return Span((elapsed * self.spread / at.max(1.0)) as u64);
        }
        let whole = mean * normal_above(at - self.spread) / still_runs;
        Span((whole - elapsed).max(0.0) as u64)
    }
}

/// The standard deviation of the logarithm of a lognormal time, from its standard deviation as a share of the mean.
#[must_use]
pub fn sigma_of(deviation: f64) -> f64 {
    (deviation * deviation).ln_1p().sqrt()
}

/// The spread of a lognormal time with these 5% and 95% points.
#[must_use]
pub fn spread_of(low: Span, high: Span) -> f64 {
    if low.0 == 0 || high <= low {
        return 0.0;
    }
    (high.0 as f64 / low.0 as f64).ln() / (2.0 * normal_quantile(1.0 - TAIL))
}

/// The chance that a standard normal draw is above `z`.
fn normal_above(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

/// The standard normal value that a share `p` of draws do not exceed; `p` is kept between one in a million and the rest.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    let p = p.clamp(1e-6, 1.0 - 1e-6);
    // The logistic curve is close enough for Newton's steps to end within rounding.
    let mut z = (p / (1.0 - p)).ln() / 1.702;
    for _ in 0..8 {
        let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let step = (1.0 - normal_above(z) - p) / density.max(1e-12);
        z -= step.clamp(-0.5, 0.5);
        if step.abs() < 1e-12 {
            break;
        }
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_normal_are_those_of_the_tables() {
        let rows = [
            (0.5, 0.0),
            (0.95, 1.644_853_627),
            (0.9, 1.281_551_566),
            (0.05, -1.644_853_627),
            (0.999, 3.090_232_306),
        ];
        for (p, z) in rows {
            assert!((normal_quantile(p) - z).abs() < 1e-7, "{p}: {}", normal_quantile(p));
        }
    }

    #[test]
    fn quantiles_lie_around_the_mean_and_certain_times_have_none() {
        let time = Uncertain { mean: Span(1_000_000), spread: 0.5 };
        assert!(time.quantile(0.05) < time.quantile(0.5) && time.quantile(0.5) < time.mean);
        assert!(time.mean < time.quantile(0.95));
        assert!((spread_of(time.quantile(0.05), time.quantile(0.95)) - 0.5).abs() < 1e-4);
        let certain = Uncertain { spread: 0.0, ..time };
        assert_eq!(
            (certain.quantile(0.95), certain.left_after(Span(400_000))),
            (certain.mean, Span(600_000))
        );
    }

    #[test]
    fn what_is_late_is_expected_to_take_longer_still() {
        let time = Uncertain { mean: Span(1_000_000), spread: 0.5 };
        assert!(time.left_after(Span(1)).0.abs_diff(1_000_000) < 10);
        let mut last = Span::ZERO;
        for elapsed in [1_000_000, 2_000_000, 4_000_000, 40_000_000, 4_000_000_000] {
            let left = time.left_after(Span(elapsed));
            assert!(left > Span(elapsed / 50) && left < Span(elapsed), "{elapsed}: {left}");
            assert!(left > last, "{elapsed}");
            last = left;
        }
    }
}
