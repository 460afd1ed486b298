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
    let first = head.len();
    head.extend([
        "GPUs",
        "makespan s",
        "speedup",
        "bound s",
        "gap %",
        "switches",
        "switch overhead %",
        "P50 s",
        "P99 s",
        "busy %",
        "spread points",
        "server efficiency %",
        "done",
        "log",
    ]);
    let mut table = PageTable {
        caption: "A row a run; a click on a heading sorts. Speedup: over baseline on the same GPUs."
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
            row.extend([
                Cell::number(Some(f64::from(run.gpus)), 0),
                Cell::number(Some(run.makespan()), 1),
                Cell::number(base, 2),
                Cell::number(run.bound, 1),
                Cell::number(run.gap(), 1),
                Cell::number(Some(metrics.model_switches as f64), 0),
                percent(metrics.switch_overhead),
                Cell::number(Some(metrics.request_latency.median), 1),
                Cell::number(Some(metrics.request_latency.p99), 1),
                percent(metrics.utilisation.mean),
                Cell::number(Some(metrics.utilisation.spread_points), 1),
                percent(metrics.servers.server_efficiency),
                Cell {
                    text: format!("{}/{}", metrics.completed_requests, metrics.total_requests),
                    number: Some(metrics.completed_requests as f64),
                    best: false,
                },
                Cell::text(&run.log),
            ]);
            table.rows.push(row);
        }
    }
    if !several && groups.first().is_some_and(|group| group.gpu_counts().len() == 1) {
        for (offset, least) in
            [(1, true), (2, false), (5, true), (6, true), (7, true), (8, true), (9, false), (10, true)]
        {
            table.mark_best(first + offset, least);
        }
    }
    table
}
