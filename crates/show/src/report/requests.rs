//! Which requests are slow: by workflow, and one by one with why.

use super::MOST_CURVES;
use super::shape::Group;
use crate::page::{Cell, PageTable};
use crate::run::ReportRun;
use gswarm_core::explain::SlowRequest;
use gswarm_core::report::WorkflowMetrics;

/// The latency of each workflow under the best policy, with the P99 of the next best beside it. Nothing where there is one.
pub fn workflows(group: &Group<'_>) -> Option<PageTable> {
    let runs = group.few(MOST_CURVES);
    let (best, others) = runs.split_first()?;
    let same = others.iter().filter(|run| run.gpus == best.gpus && run.policy != best.policy);
    let others: Vec<&&ReportRun> = same.take(3).collect();
    let all = &best.metrics.workflows;
    if all.len() < 2 {
        return None;
    }
    let late = best.metrics.requests_with_deadline > 0;
    let mut head: Vec<String> =
        ["workflow", "requests", "P99 s", "mean s", "P50 s", "longest s"].map(str::to_owned).to_vec();
    if late {
        head.push("late".to_owned());
    }
    head.extend(others.iter().map(|run| format!("{}: P99 s", run.policy)));
    let row = |one: &WorkflowMetrics| {
        let latency = &one.latency;
        let mut row = vec![Cell::text(&one.workflow), Cell::number(Some(one.requests as f64), 0)];
        row.extend(
            [latency.p99, latency.mean, latency.median, latency.max]
                .map(|value| Cell::number(Some(value), 1)),
        );
        if late {
            row.push(Cell::number(Some(one.deadline_misses as f64), 0));
        }
        let theirs = |run: &&&ReportRun| {
            let found = run.metrics.workflows.iter().find(|other| other.workflow == one.workflow);
            Cell::number(found.map(|other| other.latency.p99), 1)
        };
        row.extend(others.iter().map(theirs));
        row
    };
    let mut rows: Vec<Vec<Cell>> = all.iter().map(row).collect();
    rows.sort_by(|one, other| {
        other[2].number.unwrap_or_default().total_cmp(&one[2].number.unwrap_or_default())
    });
    Some(PageTable {
        caption: format!("Latency by workflow under {}, the highest P99 first.", best.label()),
        head,
        rows,
        id: String::new(),
    })
}

/// The slowest requests of a run.
pub fn slowest(run: &ReportRun) -> Option<PageTable> {
    slow_table(&run.slowest, &run.label())
}

/// Slow requests of a run of this name.
pub(crate) fn slow_table(all: &[SlowRequest], run: &str) -> Option<PageTable> {
    if all.is_empty() {
        return None;
    }
    let late_by = |one: &SlowRequest| one.late_by_seconds.filter(|&late| late > 0.0);
    let late = all.iter().any(|one| late_by(one).is_some());
    let mut head = vec!["request", "workflow", "arrived s", "latency s", "wait s", "load s", "run s"];
    if late {
        head.push("late s");
    }
    head.push("main cause");
    let rows = all.iter().map(|one| {
        let mut row = vec![Cell::text(&one.request), Cell::text(&one.workflow)];
        let waiting = one.waiting_seconds + one.retrying_seconds;
        let seconds =
            [one.arrival_seconds, one.latency_seconds, waiting, one.switching_seconds, one.executing_seconds];
        row.extend(seconds.map(|value| Cell::number(Some(value), 1)));
        if late {
            row.push(Cell::number(late_by(one), 1));
        }
        row.push(Cell::text(format!("{} {}", one.node, one.why)));
        row
    });
    Some(PageTable {
        caption: format!(
            "The {} slowest requests, {}. `gswarm explain LOG --request ID` says more.",
            all.len(),
            run
        ),
        head: head.into_iter().map(str::to_owned).collect(),
        rows: rows.collect(),
        id: String::new(),
    })
}
