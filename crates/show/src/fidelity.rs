//! The page about predictions of a run: what was predicted against what was measured.

use crate::chart::{Axis, Chart, Series, colour, histogram};
use crate::page::{Block, Card, Cell, Page, PageTable, Section};
use gswarm_core::fidelity::{Compared, Errors, Fidelity, One};

/// Points on one chart; of more, some are left out evenly.
const MOST_POINTS: usize = 2000;
/// Bins of the histogram.
const BINS: usize = 30;

/// The page about predictions of one run, each with its name.
#[must_use]
pub fn page(run: &str, predictions: &[(&str, &Fidelity)]) -> Page {
    let sections = predictions.iter().map(|(name, found)| section(name, found));
    Page {
        title: format!("{run}: predicted and measured"),
        lead: "An error is the prediction minus the measurement, in percent of the measurement. Medians and percentiles are of absolute errors."
            .to_owned(),
        cards: predictions.iter().flat_map(|(name, found)| cards(name, found)).collect(),
        sections: sections.collect(),
    }
}

fn cards(name: &str, found: &Fidelity) -> Vec<Card> {
    let makespan = &found.makespan;
    vec![
        Card::new(
            format!("Makespan, {name}"),
            percent(makespan),
            format!("{:.2} s predicted, {:.2} s measured", makespan.predicted, makespan.measured),
        ),
        Card::new(
            format!("Median request, {name}"),
            format!("{:.2}%", found.requests.median),
            format!("P90 {:.2}%, worst {:.2}%", found.requests.p90, found.requests.worst),
        ),
    ]
}

fn percent(compared: &Compared) -> String {
    compared.error_percent.map_or("-".to_owned(), |error| format!("{error:+.2}%"))
}

fn section(name: &str, found: &Fidelity) -> Section {
    let stem = name.replace(' ', "-");
    Section {
        title: format!("Prediction {name}"),
        blocks: vec![
            Block::Table(figures(name, found)),
            Block::Chart(Box::new(scatter(
                &format!("{stem}-requests"),
                "Requests",
                "latency",
                &found.latencies,
            ))),
            Block::Chart(Box::new(scatter(
                &format!("{stem}-nodes"),
                "Nodes",
                "execution time",
                &found.executions,
            ))),
            Block::Chart(Box::new(errors(&stem, found))),
            Block::Table(models(name, found)),
            Block::Table(worst(
                &format!("{stem}-worst-requests"),
                "Requests with the largest errors",
                &found.worst_requests,
            )),
            Block::Table(worst(
                &format!("{stem}-worst-nodes"),
                "Nodes with the largest errors",
                &found.worst_nodes,
            )),
        ],
    }
}

fn compared(name: &str, compared: &Compared, decimals: usize) -> Vec<Cell> {
    vec![
        Cell::text(name),
        Cell::number(Some(compared.predicted), decimals),
        Cell::number(Some(compared.measured), decimals),
        Cell::number(compared.error_percent, 2),
    ]
}

fn figures(name: &str, found: &Fidelity) -> PageTable {
    let loads =
        Compared { predicted: found.loads.0 as f64, measured: found.loads.1 as f64, error_percent: None };
    PageTable {
        caption: format!("The run as a whole, prediction {name}"),
        head: ["", "predicted", "measured", "error, %"].map(str::to_owned).to_vec(),
        rows: vec![
            compared("Makespan, s", &found.makespan, 3),
            compared("Median latency, s", &found.median_latency, 3),
            compared("Loads", &loads, 0),
            compared("Switch time, s", &found.switch_time, 3),
        ],
        id: format!("{}-figures", name.replace(' ', "-")),
    }
}

fn of_errors(errors: &Errors) -> Vec<Cell> {
    let cells = [errors.median, errors.p90, errors.worst, errors.mean_signed];
    cells.map(|value| Cell::number(Some(value), 2)).to_vec()
}

fn models(name: &str, found: &Fidelity) -> PageTable {
    let head = [
        "model",
        "nodes",
        "median error, %",
        "P90, %",
        "worst, %",
        "mean with sign, %",
        "loads predicted",
        "loads measured",
        "load predicted, s",
        "load measured, s",
    ];
    let rows = found.models.iter().map(|one| {
        let mut row = vec![Cell::text(&one.model), Cell::number(Some(one.errors.count as f64), 0)];
        row.extend(of_errors(&one.errors));
        row.push(Cell::number(Some(one.loads.0 as f64), 0));
        row.push(Cell::number(Some(one.loads.1 as f64), 0));
        row.push(Cell::number(Some(one.load.predicted), 3));
        row.push(Cell::number(Some(one.load.measured), 3));
        row
    });
    PageTable {
        caption: "Execution times and loads by model".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        id: format!("{}-models", name.replace(' ', "-")),
    }
}

fn worst(id: &str, caption: &str, all: &[One]) -> PageTable {
    let row = |one: &One| {
        let mut row = compared(&one.name, &one.seconds, 3);
        row.insert(1, Cell::text(one.model.clone().unwrap_or_default()));
        row
    };
    PageTable {
        caption: caption.to_owned(),
        head: ["", "model", "predicted, s", "measured, s", "error, %"].map(str::to_owned).to_vec(),
        rows: all.iter().map(row).collect(),
        id: id.to_owned(),
    }
}

/// Predicted against measured, with the line on which both are the same.
fn scatter(name: &str, of: &str, what: &str, pairs: &[(f64, f64)]) -> Chart {
    let every = pairs.len().div_ceil(MOST_POINTS).max(1);
    let points: Vec<(f64, f64)> =
        pairs.iter().step_by(every).map(|&(predicted, measured)| (measured, predicted)).collect();
    let most = pairs.iter().map(|&(one, other)| one.max(other)).fold(0.0, f64::max);
    let mut chart = Chart::new(
        name,
        format!("{of}: predicted and measured {what}"),
        Axis::new("measured, s").from_zero(),
        Axis::new("predicted, s").from_zero(),
    )
    .about(format!("One point each; on the line, the predicted {what} was right."));
    chart.series.push(Series::Points { name: of.to_lowercase(), points, colour: colour(0) });
    chart.reference("predicted = measured", vec![(0.0, 0.0), (most, most)]);
    chart
}

fn errors(stem: &str, found: &Fidelity) -> Chart {
    let mut chart = Chart::new(
        format!("{stem}-errors"),
        "Errors of execution times",
        Axis::new("error, %"),
        Axis::new("nodes").from_zero(),
    )
    .about("The number of nodes by error: below zero the prediction was too short, above zero too long.");
    let all = found.executions.iter().filter(|(_, measured)| *measured > 0.0);
    let all = all.map(|(predicted, measured)| 100.0 * (predicted - measured) / measured);
    if let Some((edges, counts)) = histogram(all, BINS) {
        chart.series.push(Series::Histogram { edges, counts, colour: colour(0) });
    }
    chart
}
