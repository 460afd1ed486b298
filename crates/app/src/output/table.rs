//! Tables that read well on a terminal and paste well into a page.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

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

/// As [`table`], in `width` columns: where that is too few, the longest names of the columns on the left are cut.
pub fn fitted(header: &[&str], left: usize, mut rows: Vec<Vec<String>>, width: usize) -> String {
    const LEAST: usize = 10;
    let columns = header.len();
    let longest = |rows: &[Vec<String>], column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(header[column].chars().count())
    };
    let mut widths: Vec<usize> = (0..columns).map(|column| longest(&rows, column)).collect();
    // Borders: `| ` before, ` ` behind each cell, and one `|` at the end.
    while widths.iter().sum::<usize>() + 3 * columns + 1 > width {
        let Some(widest) = (0..left.min(columns)).max_by_key(|&column| widths[column]) else { break };
        if widths[widest] <= LEAST {
            break;
        }
        widths[widest] -= 1;
    }
    for row in &mut rows {
        for (cell, &width) in row.iter_mut().zip(&widths) {
            if cell.chars().count() > width {
                *cell = cell.chars().take(width.saturating_sub(2)).chain("..".chars()).collect();
            }
        }
    }
    table(header, left, rows)
}

/// A table in `width` columns whose last column is text: it wraps where there is no room for it.
pub fn ending_in_text(header: &[&str], rows: Vec<Vec<String>>, width: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.to_vec()).add_rows(rows);
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.try_into().unwrap_or(u16::MAX));
    for column in table.column_iter_mut().take(header.len().saturating_sub(1)).skip(1) {
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
    fn names_are_cut_where_the_table_is_too_wide() {
        let rows = vec![vec!["a-name-that-is-quite-long".into(), "12".into()]];
        let text = fitted(&["name", "n"], 1, rows.clone(), 24);
        assert!(text.contains("| a-name-that-i.. | 12 |"), "{text}");
        assert_eq!(fitted(&["name", "n"], 1, rows.clone(), 80), table(&["name", "n"], 1, rows));
    }

    #[test]
    fn text_at_the_end_wraps() {
        let why = "review waited 31.0 s: its GPUs executed other nodes";
        let rows = vec![vec!["q80".into(), "84.0".into(), why.into()]];
        let text = ending_in_text(&["request", "latency s", "main cause"], rows, 50);
        assert!(text.contains("| q80     |      84.0 | review waited 31.0 s"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 50), "{text}");
        let words: Vec<&str> =
            text.split_whitespace().filter(|word| why.split(' ').any(|one| one == *word)).collect();
        assert_eq!(words.join(" "), why, "no word is lost or broken: {text}");
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let text = table(&["name", "n"], 1, [vec!["a".into(), "1".into()], vec!["bb".into(), "100".into()]]);
        assert!(text.contains("| a    |   1 |"), "{text}");
    }
}
