//! The models: predicted against actual, what they look at, what more data would bring, and whether intervals hold.

use super::Files;
use super::files::{device, numbers};
use crate::chart::{Axis, Chart, ChartBar, Mark, Series, Stroke, colour};
use crate::number::grouped;
use crate::page::{Block, Cell, PageTable, Section};
use gswarm_learn::train::{Importance, TrainingReport};

/// The most points of a cloud.
const MOST_POINTS: usize = 600;

pub fn section(files: &Files) -> Section {
    let mut blocks = vec![
        Block::Text(
            "Trained on tasks that are not scheduled below. A fifth of them is held out to test the models that are used."
                .to_owned(),
        ),
        Block::Table(quality(&files.models)),
    ];
    let charts = ["gpu", "cpu"].into_iter().map(|device| predicted(files, device));
    blocks.extend(charts.map(|chart| Block::Chart(Box::new(chart))));
    blocks.push(Block::Chart(Box::new(learning(&files.models))));
    blocks.push(Block::Chart(Box::new(coverage(&files.models))));
    blocks.extend(files.models.iter().map(|model| Block::Chart(Box::new(importances(model)))));
    Section { title: "Model".to_owned(), blocks }
}

/// The number of a device's colour, the same on every chart.
fn shade(device: &str) -> usize {
    usize::from(device.eq_ignore_ascii_case("cpu"))
}

fn quality(models: &[TrainingReport]) -> PageTable {
    let mut table = PageTable {
        caption: "Model accuracy; MAE and pinball loss in seconds".to_owned(),
        head: [
            "device",
            "model",
            "training R2",
            "cross-validated R2",
            "+-",
            "test R2",
            "test MAE",
            "pinball",
            "within 50%",
            "within 90%",
            "fit s",
        ]
        .map(str::to_owned)
        .to_vec(),
        ..PageTable::default()
    };
    for model in models {
        let mut row = vec![Cell::text(device(model)), Cell::text(&model.model)];
        let (validated, intervals) = (&model.cross_validation, &model.intervals);
        for (value, decimals) in [
            (model.train.r2, 4),
            (validated.mean, 4),
            (validated.deviation, 4),
            (model.test.r2, 4),
            (Some(model.test.mae), 5),
            (Some(intervals.pinball), 5),
            (Some(intervals.coverage_50 * 100.0), 1),
            (Some(intervals.coverage_90 * 100.0), 1),
            (Some(model.fit_seconds), 2),
        ] {
            row.push(Cell::number(value, decimals));
        }
        table.rows.push(row);
    }
    table
}

/// The scheduled tasks: what was predicted of them, and what they really take.
fn predicted(files: &Files, device: &str) -> Chart {
    let name = device.to_uppercase();
    let mut chart = Chart::new(
        format!("model_predicted_{device}"),
        format!("Predicted and actual times, {name}"),
        Axis::new("predicted seconds").log(),
        Axis::new("actual seconds").log(),
    );
    let said = numbers(&files.results, &format!("predicted_{device}_seconds")).unwrap_or_default();
    let was = numbers(&files.scheduled, &format!("true_{device}_seconds")).unwrap_or_default();
    let pairs: Vec<(f64, f64)> = said
        .iter()
        .zip(was)
        .map(|(said, was)| (*said, *was))
        .filter(|pair| pair.0 > 0.0 && pair.1 > 0.0)
        .collect();
    let step = pairs.len().div_ceil(MOST_POINTS).max(1);
    let points: Vec<(f64, f64)> = pairs.iter().step_by(step).copied().collect();
    let (low, high) = points
        .iter()
        .flat_map(|point| [point.0, point.1])
        .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    if points.is_empty() {
        return chart;
    }
    chart.about = format!(
        "{} of the {} scheduled tasks. On the line, the prediction was right; noise and interference cannot be predicted.",
        points.len(),
        grouped(pairs.len() as f64, 0)
    );
    let number = shade(device);
    chart.series.push(Series::Points { name: String::new(), points, colour: colour(number) });
    chart.reference("", vec![(low, low), (high, high)]);
    chart
}

fn learning(models: &[TrainingReport]) -> Chart {
    let mut chart = Chart::new(
        "model_learning_curve",
        "Learning curve",
        Axis::new("training tasks"),
        Axis::new("test R2"),
    )
    .about("R2 on the same test tasks, by number of training tasks.");
    for model in models {
        let points = model.learning_curve.iter();
        let points = points.filter_map(|point| Some((point.rows as f64, point.test_r2?)));
        let number = shade(device(model));
        chart.series.push(Series::Line {
            name: device(model).to_owned(),
            points: points.collect(),
            colour: colour(number),
            stroke: Stroke::of(number),
            stairs: false,
            dots: true,
        });
    }
    chart
}

fn coverage(models: &[TrainingReport]) -> Chart {
    let mut chart = Chart::new(
        "model_coverage",
        "Interval coverage",
        Axis::new("test tasks within the interval").percent().from_zero().up_to(1.0),
        Axis::new(""),
    )
    .about("The share of the test tasks whose true time lay within the 50% and the 90% interval. The lines mark 50% and 90%.");
    let bar = |model: &TrainingReport, of: &str, value: f64, number: usize| ChartBar {
        name: format!("{of} interval, {}", device(model)),
        value,
        spread: 0.0,
        colour: colour(number),
    };
    let bars: Vec<ChartBar> = models
        .iter()
        .flat_map(|model| {
            let number = shade(device(model));
            [
                bar(model, "50%", model.intervals.coverage_50, number),
                bar(model, "90%", model.intervals.coverage_90, number),
            ]
        })
        .collect();
    chart.height = 130.0 + 30.0 * bars.len() as f64;
    chart.series.push(Series::Bars(bars));
    for at in [0.5, 0.9] {
        chart.marks.push(Mark::Upright { at, label: format!("{:.0}%", at * 100.0) });
    }
    chart
}

fn importances(model: &TrainingReport) -> Chart {
    let device = device(model);
    let mut chart = Chart::new(
        format!("model_importances_{}", device.to_lowercase()),
        format!("Feature importance of the {device} model"),
        Axis::new("share of the total gain of its splits").percent().from_zero(),
        Axis::new(""),
    );
    let number = shade(device);
    let bar = |one: &Importance| ChartBar {
        name: one.feature.clone(),
        value: one.share,
        spread: 0.0,
        colour: colour(number),
    };
    chart.height = 130.0 + 26.0 * model.importances.len() as f64;
    chart.series.push(Series::Bars(model.importances.iter().map(bar).collect()));
    chart
}
