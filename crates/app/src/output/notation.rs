//! Number formats for columns: all numbers of a column are written alike.

/// Digits that count in the largest number, and in the smallest.
const DIGITS: (i32, i32) = (4, 3);
/// From this power of ten on, and with more decimals than this, a number is no longer read at a glance.
const LONGEST: i32 = 9;

/// How the numbers of a column are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Notation {
    /// With so many decimals.
    Fixed(usize),
    /// With a power of ten.
    Powers,
}

impl Notation {
    /// One in which the digits of all of these numbers can be read.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Notation {
        let powers = powers(values);
        let Some((smallest, largest)) = powers else { return Notation::Fixed(4) };
        let decimals = (DIGITS.0 - 1 - largest).max(DIGITS.1 - 1 - smallest).max(0);
        match largest >= LONGEST || decimals > LONGEST {
            true => Notation::Powers,
            false => Notation::Fixed(decimals as usize),
        }
    }

    /// So many decimals, unless one of the numbers is too long for that.
    pub fn fixed(decimals: usize, values: impl IntoIterator<Item = f64>) -> Notation {
        match powers(values) {
            Some((_, largest)) if largest >= LONGEST => Notation::Powers,
            _ => Notation::Fixed(decimals),
        }
    }

    pub fn show(self, value: f64) -> String {
        match self {
            Notation::Fixed(decimals) => format!("{value:.decimals$}"),
            Notation::Powers => format!("{value:.3e}"),
        }
    }
}

/// The powers of ten of the smallest and the largest number; zeros have none.
fn powers(values: impl IntoIterator<Item = f64>) -> Option<(i32, i32)> {
    let sizes = values.into_iter().map(f64::abs).filter(|size| *size > 0.0 && size.is_finite());
    let powers = sizes.map(|size| size.log10().floor() as i32);
    powers.fold(None, |found, power| {
        let (low, high) = found.unwrap_or((power, power));
        Some((low.min(power), high.max(power)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_column_are_written_alike() {
        let shown = |values: &[f64]| {
            let notation = Notation::of(values.iter().copied());
            values.iter().map(|&value| notation.show(value)).collect::<Vec<_>>()
        };
        assert_eq!(shown(&[8.5292e-4, 0.0022]), ["0.000853", "0.002200"]);
        assert_eq!(shown(&[0.98765, -0.5]), ["0.9877", "-0.5000"]);
        assert_eq!(shown(&[1234.56, 0.98765, 0.0]), ["1234.560", "0.988", "0.000"]);
        assert_eq!(shown(&[123_456.7, 99_999.0]), ["123457", "99999"]);
        assert_eq!(shown(&[1e-12, 5.0]), ["1.000e-12", "5.000e0"]);
        assert_eq!(shown(&[1e300, 0.0]), ["1.000e300", "0.000e0"]);
        assert_eq!(shown(&[0.0]), ["0.0000"]);
    }

    #[test]
    fn shares_have_as_many_decimals_as_they_are_given() {
        assert_eq!(Notation::fixed(4, [0.99, 1e-9]), Notation::Fixed(4));
        assert_eq!(Notation::fixed(4, [0.99, -1e12]), Notation::Powers);
        assert_eq!(Notation::fixed(4, []).show(0.5), "0.5000");
    }
}
