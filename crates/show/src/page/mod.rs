//! A page as data: cards, sections, charts and tables. The same page becomes one HTML file or a Markdown text.

mod html;
mod markdown;

pub use html::html;
pub use markdown::markdown;

use crate::chart::Chart;
use crate::gantt::Gantt;
use crate::number::grouped;

/// A figure that is seen first.
#[derive(Clone, Debug)]
pub struct Card {
    /// What it is.
    pub label: String,
    /// What it comes to, with its unit.
    pub value: String,
    /// What to make of it; may be empty.
    pub note: String,
}

impl Card {
    /// A card.
    pub fn new(label: impl Into<String>, value: impl Into<String>, note: impl Into<String>) -> Card {
        Card { label: label.into(), value: value.into(), note: note.into() }
    }
}

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// As it is shown.
    pub text: String,
    /// What it is sorted by, where that is a number.
    pub number: Option<f64>,
    /// The best of its column.
    pub best: bool,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// A number with so many decimals; nothing where there is none.
    #[must_use]
    pub fn number(value: Option<f64>, decimals: usize) -> Cell {
        let shown = value.filter(|value| value.is_finite());
        Cell {
            text: shown.map_or("-".to_owned(), |value| grouped(value, decimals)),
            number: shown,
            best: false,
        }
    }

    /// Whether it stands in a column of numbers.
    #[must_use]
    pub fn numeric(&self) -> bool {
        self.number.is_some() || self.text == "-"
    }

    /// Whether it holds a sentence, which needs room to wrap in.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.text.contains(' ') && self.text.len() > 30
    }

    /// What a table of the page is sorted by.
    #[must_use]
    pub fn key(&self) -> String {
        self.number.map_or_else(String::new, |number| number.to_string())
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct PageTable {
    /// What it shows.
    pub caption: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// For a test or a script to find it by.
    pub id: String,
}

impl PageTable {
    /// Whether a column holds numbers.
    #[must_use]
    pub fn numeric(&self, column: &usize) -> bool {
        self.rows.iter().any(|row| row.get(*column).is_some_and(|cell| cell.number.is_some()))
    }

    /// Marks the least or the largest of a column, where there are at least two numbers to compare.
    pub fn mark_best(&mut self, column: usize, least: bool) {
        let numbers = || self.rows.iter().filter_map(|row| row.get(column)?.number);
        if numbers().count() < 2 {
            return;
        }
        let best = numbers()
            .fold(f64::NAN, |best: f64, value| if least { best.min(value) } else { best.max(value) });
        for cell in self.rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            cell.best = cell.number == Some(best);
        }
    }
}

/// A part of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A chart.
    Chart(Box<Chart>),
    /// A table.
    Table(PageTable),
    /// A Gantt chart to move about in; Markdown leaves it out.
    Gantt(Box<Gantt>),
}

/// A part of a page, with a heading.
#[derive(Clone, Debug)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What is in it.
    pub blocks: Vec<Block>,
}

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its name.
    pub title: String,
    /// What it is about.
    pub lead: String,
    /// What is seen first.
    pub cards: Vec<Card>,
    /// The rest.
    pub sections: Vec<Section>,
}

impl Page {
    /// All charts, in their order.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        blocks.filter_map(|block| match block {
            Block::Chart(chart) => Some(&**chart),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_marked() {
        let row = |value| vec![Cell::number(value, 1)];
        let mut table =
            PageTable { rows: vec![row(Some(3.0)), row(Some(2.0)), row(None)], ..PageTable::default() };
        table.mark_best(0, true);
        let best: Vec<bool> = table.rows.iter().map(|row| row[0].best).collect();
        assert_eq!(best, [false, true, false]);
        table.rows.truncate(1);
        table.rows[0][0].best = false;
        table.mark_best(0, true);
        assert!(!table.rows[0][0].best, "one alone is not the best of anything");
    }
}
