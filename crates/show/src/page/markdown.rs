//! A page as Markdown.

use super::{Block, Page, PageTable};
use std::fmt::Write;

/// The page as text; charts are pictures in the folder `charts`, or left out where there is none.
#[must_use]
pub fn markdown(page: &Page, charts: Option<&str>) -> String {
    let mut text = format!("# {}\n\n{}\n", plain(&page.title), plain(&page.lead));
    if !page.cards.is_empty() {
        text.push('\n');
        for card in &page.cards {
            let note = if card.note.is_empty() { String::new() } else { format!(" ({})", plain(&card.note)) };
            let _ = writeln!(text, "- {}: **{}**{note}", plain(&card.label), plain(&card.value));
        }
    }
    for section in &page.sections {
        let _ = writeln!(text, "\n## {}", plain(&section.title));
        for block in &section.blocks {
            match block {
                Block::Text(paragraph) => {
                    let _ = writeln!(text, "\n{}", plain(paragraph));
                }
                Block::Table(table) => add_table(&mut text, table),
                Block::Chart(chart) => {
                    if let Some(folder) = charts.filter(|_| !chart.is_empty()) {
                        let _ = writeln!(text, "\n![{}]({folder}/{}.svg)", plain(&chart.title), chart.name);
                        if !chart.about.is_empty() {
                            let _ = writeln!(text, "\n{}", plain(&chart.about));
                        }
                    }
                }
                Block::Gantt(_) => {}
            }
        }
    }
    text
}

fn add_table(text: &mut String, table: &PageTable) {
    if !table.caption.is_empty() {
        let _ = writeln!(text, "\n{}", plain(&table.caption));
    }
    let head: Vec<String> = table.head.iter().map(|name| cell(name)).collect();
    let rule: Vec<&str> =
        (0..head.len()).map(|column| if table.numeric(&column) { "---:" } else { "---" }).collect();
    let _ = writeln!(text, "\n| {} |\n|{}|", head.join(" | "), rule.join("|"));
    for row in &table.rows {
        let cells: Vec<String> = row
            .iter()
            .map(|one| if one.best { format!("**{}**", cell(&one.text)) } else { cell(&one.text) })
            .collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

/// Text on one line, with what Markdown would take for markup of pages written as it is.
fn plain(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    line.join(" ").replace('<', "&lt;")
}

fn cell(text: &str) -> String {
    plain(text).replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Chart};
    use crate::page::{Card, Cell, Section};

    #[test]
    fn a_page_becomes_text_with_pictures_where_there_is_a_folder() {
        let mut chart = Chart::new("c", "Chart", Axis::new("x"), Axis::new("y")).about("What it shows.");
        chart.line("", vec![(0.0, 1.0)]);
        let table = PageTable {
            head: vec!["name".into(), "s".into()],
            rows: vec![vec![Cell::text("a|b"), Cell { best: true, ..Cell::number(Some(1.5), 1) }]],
            ..PageTable::default()
        };
        let page = Page {
            title: "T".into(),
            lead: "Lead <b>.".into(),
            cards: vec![Card::new("Makespan", "1.5 s", "")],
            sections: vec![Section {
                title: "S".into(),
                blocks: vec![Block::Chart(Box::new(chart)), Block::Table(table)],
            }],
        };
        let text = markdown(&page, Some("charts"));
        assert!(text.contains("![Chart](charts/c.svg)") && text.contains("| a\\|b | **1.5** |"), "{text}");
        assert!(text.contains("|---|---:|") && text.contains("Lead &lt;b>."), "{text}");
        assert!(!markdown(&page, None).contains("!["));
    }
}
