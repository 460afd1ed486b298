//! The features that a model knows, and rows of them as numbers.

use crate::table::{NO_TEXT, Table, TableFaults, Values, nearest};
use gswarm_core::input::{Code, Diagnostic};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What kind of values a feature has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeatureKind {
    /// Numbers.
    Number,
    /// One of these texts; in a row, its index. Texts that were not seen in training are like a missing value.
    Category(Vec<String>),
}

/// One feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    /// The column's name.
    pub name: String,
    /// What its values are.
    pub kind: FeatureKind,
}

impl Feature {
    /// The number that stands for a text in a row; NaN, which is "missing", for one that training did not see.
    pub fn code(&self, text: &str) -> f64 {
        match &self.kind {
            FeatureKind::Number => text.parse().unwrap_or(f64::NAN),
            FeatureKind::Category(names) => {
                names.iter().position(|name| name == text).map_or(f64::NAN, |code| code as f64)
            }
        }
    }
}

/// Rows of features, one after the other. A missing value is NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    width: usize,
    values: Vec<f64>,
}

impl Rows {
    /// No rows yet, each to be `width` wide.
    pub fn new(width: usize) -> Rows {
        Rows { width, values: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it is of another width.
    pub fn push(&mut self, row: &[f64]) {
        assert_eq!(row.len(), self.width, "a row of another width");
        self.values.extend_from_slice(row);
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How many features each has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// One of them.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.width..(row + 1) * self.width]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.width.max(1))
    }

    /// The rows of these numbers, in their order.
    pub fn select(&self, rows: &[usize]) -> Rows {
        let mut selected = Rows::new(self.width);
        selected.values.reserve(rows.len() * self.width);
        rows.iter().for_each(|&row| selected.values.extend_from_slice(self.row(row)));
        selected
    }
}

/// The columns of these names as features, with the texts that they hold.
pub fn features(table: &Table, names: &[String]) -> Result<Vec<Feature>, Vec<Diagnostic>> {
    let mut faults = TableFaults::new(table.file());
    let mut features = Vec::new();
    for name in names {
        let Some(column) = table.column(name) else {
            let hint = nearest(name, table.columns().iter().map(|column| column.name.as_str()));
            faults.add(Code::Missing, Some(1), name, format!("there is no column `{name}`"), hint);
            continue;
        };
        let kind = match &column.values {
            Values::Numbers(_) => FeatureKind::Number,
            Values::Texts { names, .. } => FeatureKind::Category(names.clone()),
        };
        features.push(Feature { name: name.clone(), kind });
    }
    if faults.is_empty() { Ok(features) } else { Err(faults.into_diagnostics()) }
}

/// The table's rows as these features, whatever the order of its columns.
pub fn encode(features: &[Feature], table: &Table) -> Result<Rows, Vec<Diagnostic>> {
    let mut faults = TableFaults::new(table.file());
    let mut rows = Rows { width: features.len(), values: vec![f64::NAN; features.len() * table.rows()] };
    for (place, feature) in features.iter().enumerate() {
        let cells = rows.values.iter_mut().skip(place).step_by(features.len().max(1));
        match (table.column(&feature.name).map(|column| &column.values), &feature.kind) {
            (Some(Values::Numbers(numbers)), FeatureKind::Number) => {
                cells.zip(numbers).for_each(|(cell, &number)| *cell = number);
            }
            (Some(Values::Texts { codes, names }), FeatureKind::Category(known)) => {
                let known: HashMap<&str, usize> =
                    known.iter().enumerate().map(|(code, name)| (name.as_str(), code)).collect();
                let translated: Vec<f64> = names
                    .iter()
                    .map(|name| known.get(name.as_str()).map_or(f64::NAN, |&code| code as f64))
                    .collect();
                let value = |code: u32| if code == NO_TEXT { f64::NAN } else { translated[code as usize] };
                cells.zip(codes).for_each(|(cell, &code)| *cell = value(code));
            }
            (None, _) => {
                let hint = nearest(&feature.name, table.columns().iter().map(|column| column.name.as_str()));
                let message = format!("the model needs a column `{}`", feature.name);
                faults.add(Code::OtherFeatures, Some(1), &feature.name, message, hint);
            }
            (Some(found), _) => {
                // A column of text that is empty throughout has no kind of its own.
                if matches!(found, Values::Texts { names, .. } if names.is_empty()) {
                    continue;
                }
                let (is, was) = match found {
                    Values::Numbers(_) => ("numbers", "text"),
                    Values::Texts { .. } => ("text", "numbers"),
                };
                let message = format!("`{}` holds {is}, but held {was} in training", feature.name);
                faults.add(Code::OtherFeatures, Some(1), &feature.name, message, None);
            }
        }
    }
    if faults.is_empty() { Ok(rows) } else { Err(faults.into_diagnostics()) }
}
