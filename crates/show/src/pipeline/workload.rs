//! The workload: what tasks are like, and when they come.

use super::Files;
use super::files::{numbers, words};
use crate::chart::{Axis, Chart, Series, colour, histogram};
use crate::page::{Block, Cell, PageTable, Section};
use gswarm_tasks::profile::quantile;
use std::collections::BTreeMap;

pub fn section(files: &Files) -> Section {
    let column = |name: &str| numbers(&files.workload, name).unwrap_or_default();
    let chart = |name: &str, title: &str, label: &str, values: &[f64], bins: usize, number: usize| {
        let mut chart = Chart::new(name, title, Axis::new(label), Axis::new("tasks").from_zero());
        if let Some((edges, counts)) = histogram(values.iter().copied(), bins) {
            chart.series.push(Series::Histogram { edges, counts, colour: colour(number) });
        }
        chart.height = 320.0;
        chart
    };
    let arrivals = column("arrival_time");
    let arrived = chart("workload_arrivals", "Arrivals", "seconds", arrivals, 50, 2);
    let mut blocks: Vec<Block> = vec![
        Block::Table(statistics(files)),
        Block::Chart(Box::new(chart("workload_sizes", "Sizes", "size", column("size"), 40, 3))),
        Block::Chart(Box::new(arrived)),
    ];
    let logs: Vec<f64> = column("true_gpu_seconds").iter().map(|time| time * 1e3).collect();
    blocks.push(Block::Chart(Box::new(chart(
        "workload_gpu_times",
        "True times on a GPU",
        "milliseconds",
        &logs,
        40,
        // As on the charts of the models.
        0,
    ))));
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    words(&files.workload, "task_type").into_iter().for_each(|kind| *kinds.entry(kind).or_default() += 1);
    let dependent = words(&files.workload, "dependencies")
        .iter()
        .filter(|list| !list.is_empty() && list.as_str() != "NaN")
        .count();
    let parts: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    blocks.insert(
        0,
        Block::Text(match dependent {
            1 => format!("{}; 1 task waits for others.", parts.join(", ")),
            _ => format!("{}; {dependent} tasks wait for others.", parts.join(", ")),
        }),
    );
    Section { title: "Workload".to_owned(), blocks }
}

fn statistics(files: &Files) -> PageTable {
    let mut table = PageTable {
        caption: "Task properties".to_owned(),
        head: ["column", "least", "median", "mean", "largest"].map(str::to_owned).to_vec(),
        ..PageTable::default()
    };
    for name in [
        "size",
        "compute_intensity",
        "memory_required",
        "duration_estimate",
        "true_cpu_seconds",
        "true_gpu_seconds",
    ] {
        let mut values: Vec<f64> = numbers(&files.workload, name).unwrap_or_default().to_vec();
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let (Some(&least), Some(&largest)) = (values.first(), values.last()) else { continue };
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let mut row = vec![Cell::text(name)];
        row.extend([least, quantile(&values, 0.5), mean, largest].map(|value| Cell::number(Some(value), 4)));
        table.rows.push(row);
    }
    table
}
