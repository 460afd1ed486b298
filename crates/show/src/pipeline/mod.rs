//! The report of a pipeline, from the files that its phases left and from nothing else.

mod files;
mod model;
mod policies;
mod profile;
mod workload;

pub use files::{Files, MEASURED, device, read};

use crate::number::grouped;
use crate::page::{Block, Card, Cell, Page, PageTable, Section};

/// What the published description expects of its own run.
pub mod expected {
    /// Test R2.
    pub const R2: (f64, f64) = (0.78, 0.82);
    /// Mean absolute error, of a share of work.
    pub const MAE: (f64, f64) = (0.05, 0.15);
    /// Speedup over round robin.
    pub const OVER_ROUND_ROBIN: (f64, f64) = (1.2, 1.4);
    /// Speedup over greedy.
    pub const OVER_GREEDY: (f64, f64) = (1.05, 1.15);
    /// Load balance.
    pub const BALANCE: (f64, f64) = (0.90, 0.95);
}

/// What every page about a pipeline begins with.
const TITLE: &str = "Results of a pipeline";

/// Whether this is such a page as Markdown, whatever pipeline it is of.
#[must_use]
pub fn is_markdown(text: &[u8]) -> bool {
    text.strip_prefix(b"# ").is_some_and(|text| text.starts_with(TITLE.as_bytes()))
}

/// The page of a pipeline.
#[must_use]
pub fn page(files: &Files) -> Page {
    let sections = vec![
        Section {
            title: "Comparison with the published description".to_owned(),
            blocks: vec![Block::Table(beside(files))],
        },
        profile::section(files),
        workload::section(files),
        model::section(files),
        policies::section(files),
    ];
    Page {
        title: TITLE.to_owned(),
        lead: format!(
            "{} tasks on the {} machine; {} runs compared, every one of them checked. Written by `gswarm tasks pipeline` from the \
             files of the run: every figure is in one of them.",
            grouped(files.workload.rows() as f64, 0),
            files.used.source,
            grouped(files.comparison.rows.len() as f64, 0),
        ),
        cards: cards(files),
        sections,
    }
}

/// The load that the description's own comparison is nearest to: more comes than can be done.
fn headline(files: &Files) -> Option<f64> {
    files.comparison.loads().into_iter().reduce(f64::max)
}

fn cards(files: &Files) -> Vec<Card> {
    let mut cards = Vec::new();
    for model in &files.models {
        cards.push(Card::new(
            format!("Test R2, {}", device(model)),
            model.test.r2.map_or("-".to_owned(), |r2| format!("{r2:.3}")),
            format!("{} on {} tasks never seen", model.model, grouped(model.test.rows as f64, 0)),
        ));
    }
    let Some(load) = headline(files) else { return cards };
    let comparison = &files.comparison;
    for (label, other) in [("Speedup over round_robin", "round_robin"), ("Speedup over greedy", "greedy")] {
        if let Some(speedup) = comparison.speedup(load, "learned", other) {
            cards.push(Card::new(label, format!("{speedup:.2}x"), format!("learned, at a load of {load}")));
        }
    }
    if let Some(one) = comparison.summary(load, "learned") {
        let above = (one.to_bound - 1.0) * 100.0;
        cards.push(Card::new(
            "Above the bound",
            format!("{above:.1}%"),
            format!("learned, at a load of {load}"),
        ));
    }
    cards
}

/// The description's own table, with what came of it here.
fn beside(files: &Files) -> PageTable {
    let mut table = PageTable {
        caption: "Published expectations and measured values".to_owned(),
        head: ["figure", "expected", "here", "how"].map(str::to_owned).to_vec(),
        ..PageTable::default()
    };
    let mut row = |name: String, (low, high): (f64, f64), here: Option<f64>, how: &str| {
        let verdict = match here {
            Some(value) if value < low => "below",
            Some(value) if value > high => "above",
            Some(_) => "within",
            None => "not measured",
        };
        table.rows.push(vec![
            Cell::text(name),
            Cell::text(format!("{low} to {high}")),
            Cell::number(here, 3),
            Cell::text(format!("{verdict}; {how}")),
        ]);
    };
    for model in &files.models {
        row(
            format!("test R2, {}", device(model)),
            expected::R2,
            model.test.r2,
            "run times, not shares of work",
        );
    }
    for model in &files.models {
        let how = "in seconds; the description's is of a share of work";
        row(format!("MAE, {}", device(model)), expected::MAE, Some(model.test.mae), how);
    }
    for load in files.comparison.loads() {
        for (name, other, range) in [
            ("round_robin", "round_robin", expected::OVER_ROUND_ROBIN),
            ("greedy", "greedy", expected::OVER_GREEDY),
        ] {
            let speedup = files.comparison.speedup(load, "learned", other);
            row(
                format!("speedup over {name}, load {load}"),
                range,
                speedup,
                "mean makespans of the seeds, learned",
            );
        }
    }
    if let Some(load) = headline(files) {
        let balance = files.comparison.summary(load, "learned").map(|one| one.balance);
        row(
            format!("load balance of the GPUs, load {load}"),
            expected::BALANCE,
            balance,
            "mean over maximum busy time, learned",
        );
    }
    table
}
