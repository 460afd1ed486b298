//! Time in whole microseconds. A moment and a length are different types, so adding two moments does not compile.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A moment, in microseconds from the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A length of time, in microseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Span(pub u64);

/// The longest length of time that an input may give: about 100 years. Sums of a billion of them still fit.
pub const MAX_SECONDS: f64 = 3.2e9;

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const NEVER: Time = Time(u64::MAX);

    /// The time since `earlier`, zero where `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// As seconds, for people and files.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// From seconds, rounded to the nearest microsecond. Negative values and NaN become zero: inputs are validated before.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Span {
        Span((seconds * 1e6).round() as u64)
    }

    /// So many times as long, at most as long as can be counted.
    #[must_use]
    pub fn times(self, factor: f64) -> Span {
        Span((self.0 as f64 * factor).round() as u64)
    }

    /// As seconds, for people and files.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Time> for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        debug_assert!(self >= earlier, "a span would be negative");
        self.since(earlier)
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Add::add)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}s", self.seconds())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}s", self.seconds())
    }
}

/// A length of time above zero, as people write it: seconds, or as in `90s`, `20min`, `2h`.
///
/// # Errors
/// What is wrong with it.
pub fn duration(text: &str) -> Result<Span, String> {
    let seconds = match text.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => text
            .parse::<jiff::SignedDuration>()
            .map_err(|_| "give seconds, or a time such as 90s, 20min or 2h".to_string())?
            .as_secs_f64(),
    };
    if seconds.is_finite() && seconds > 0.0 && seconds <= MAX_SECONDS {
        Ok(Span::from_seconds(seconds))
    } else {
        Err(format!("give a time above zero and at most {MAX_SECONDS} seconds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, seconds) in [("90", 90.0), ("1.5", 1.5), ("90s", 90.0), ("20min", 1200.0), ("2h", 7200.0)]
        {
            assert_eq!(duration(text), Ok(Span::from_seconds(seconds)), "{text}");
        }
        for bad in ["", "0", "-1", "nan", "soon", "1e99", "-5min"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
