//! The comparison: a row a run.

use crate::page::{Cell, PageTable};
use crate::report::shape::groups;
use crate::run::ReportRun;

/// The table. The best of a column is marked where all runs are of one configuration.
#[must_use]
pub fn comparison(runs: &[ReportRun]) -> PageTable {
    let groups = groups(runs);
    let several = groups.len() > 1;
    let mut head = vec!["policy"];
    if several {
        head.push("configuration");
    }
    let has_deadlines = runs.iter().any(|run| run.metrics.requests_with_deadline > 0);
    // What the runs are judged by comes first.
    let latency_first = runs.iter().any(ReportRun::is_stream);
    let mut latencies = vec!["P99 s", "mean s", "P50 s"];
    if has_deadlines {
        latencies.push("late");
    }
    let makespans = vec!["makespan s", "speedup", "gap %"];
    head.push("GPUs");
    head.extend(if latency_first { [latencies, makespans] } else { [makespans, latencies] }.concat());
    head.extend(["switches", "load %", "busy %", "done"]);
    let names = head.clone();
    let mut table = PageTable {
        caption: "One row per run; click a heading to sort. Speedup: over baseline on the same GPUs."
            .to_owned(),
        head: head.into_iter().map(str::to_owned).collect(),
        rows: Vec::new(),
        id: "comparison".to_owned(),
    };
    for group in &groups {
        for run in &group.runs {
            let metrics = &run.metrics;
            let base = group.best("baseline", run.gpus).map(|base| base.makespan() / run.makespan());
            let percent = |share: f64| Cell::number(Some(share * 100.0), 1);
            let mut row = vec![Cell::text(&run.policy)];
            if several {
                row.push(Cell::text(&group.name));
            }
            let latency = &metrics.request_latency;
            row.push(Cell::number(Some(f64::from(run.gpus)), 0));
            let mut latencies: Vec<Cell> = [latency.p99, latency.mean, latency.median]
                .map(|value| Cell::number(Some(value), 1))
                .to_vec();
            if has_deadlines {
                latencies.push(Cell::number(Some(metrics.deadline_misses as f64), 0));
            }
            let makespans = vec![
                Cell::number(Some(run.makespan()), 1),
                Cell::number(base, 2),
                Cell::number(run.gap(), 1),
            ];
            row.extend(if latency_first { [latencies, makespans] } else { [makespans, latencies] }.concat());
            row.extend([
                Cell::number(Some(metrics.model_switches as f64), 0),
                percent(metrics.switch_overhead),
                percent(metrics.utilisation.mean),
                Cell {
                    text: format!("{}/{}", metrics.completed_requests, metrics.total_requests),
                    number: Some(metrics.completed_requests as f64),
                    best: false,
                },
            ]);
            table.rows.push(row);
        }
    }
    if !several && groups.first().is_some_and(|group| group.gpu_counts().len() == 1) {
        let most = ["speedup"];
        // GPUs that load are busy too, so that being busy is no merit.
        let judged = |name: &&str| !["policy", "configuration", "GPUs", "busy %", "done"].contains(name);
        for (column, name) in names.iter().enumerate().filter(|(_, name)| judged(name)) {
            table.mark_best(column, !most.contains(name));
        }
    }
    table
}

/// What few people look for: a row a run.
#[must_use]
pub fn details(runs: &[ReportRun]) -> PageTable {
    let head = ["policy", "GPUs", "bound s", "P90 s", "spread points", "one server %", "cold loads", "log"];
    let row = |run: &ReportRun| {
        let metrics = &run.metrics;
        vec![
            Cell::text(&run.policy),
            Cell::number(Some(f64::from(run.gpus)), 0),
            Cell::number(run.bound, 1),
            Cell::number(Some(metrics.request_latency.p90), 1),
            Cell::number(Some(metrics.utilisation.spread_points), 1),
            Cell::number(Some(metrics.servers.server_efficiency * 100.0), 1),
            Cell::number(Some(metrics.cold_loads as f64), 0),
            Cell::text(&run.log),
        ]
    };
    PageTable {
        caption:
            "P90: of the latency. Spread: busiest minus idlest GPU. One server: requests that stayed on one."
                .to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: runs.iter().map(row).collect(),
        id: "details".to_owned(),
    }
}
