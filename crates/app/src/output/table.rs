//! Tables that read well on a terminal and paste well into a page.

use comfy_table::{CellAlignment, Table, presets};

/// A table with a header row; the columns after the first `left` are aligned to the right.
pub fn table(header: &[&str], left: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.to_vec());
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// A number with a comma between thousands, as in 26,866.1.
pub fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut out = String::from(sign);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) && digit.is_ascii_digit() {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let cases = [(0.0, "0.0"), (999.94, "999.9"), (1000.0, "1,000.0"), (-1234567.0, "-1,234,567.0")];
        for (value, expected) in cases {
            assert_eq!(grouped(value, 1), expected);
        }
        assert_eq!(grouped(12345.0, 0), "12,345");
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let text = table(&["name", "n"], 1, [vec!["a".into(), "1".into()], vec!["bb".into(), "100".into()]]);
        assert!(text.contains("| a    |   1 |"), "{text}");
    }
}
