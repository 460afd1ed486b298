//! Numbers for people.

/// A number with commas between its thousands.
#[must_use]
pub fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text
        .split_once('.')
        .map_or((text.as_str(), String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) { "-" } else { "" };
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!(grouped(1_234_567.891, 2), "1,234,567.89");
        assert_eq!(grouped(-0.001, 2), "0.00");
        assert_eq!(grouped(-1234.0, 0), "-1,234");
    }
}
