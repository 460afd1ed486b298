//! The tables of `gswarm compare` for each problem: runs, best first, the winner, and the latency of each workflow.

use crate::output::{self, explain, table};
use gswarm_core::compare::{ComparisonLine, FIGURES, SweepRow, columns, same_problem, verdict};
use gswarm_core::log_file::shown;

/// A problem on several numbers of GPUs.
pub fn of_one(lines: &[ComparisonLine<'_>]) -> String {
    let Some(SweepRow { input, mode, batching, .. }) = lines.first().map(|line| line.first) else {
        return String::new();
    };
    let batching = if *batching { "" } else { ", without batching" };
    let title = output::heading(&format!("{}, {mode}{batching}", shown(input)));
    let mut parts = vec![format!("{title}\n{}", figures(lines))];
    if let Some(verdict) = verdict(lines) {
        parts.push(output::wrapped(
            &verdict.sentence(|seconds| table::grouped(seconds, 1)),
            0,
            output::width(),
        ));
    }
    parts.extend(workflows(lines));
    parts.extend(slowest(lines));
    parts.join("\n\n") + "\n"
}

/// The figures that matter in this mode; the files and the report have all of them.
fn figures(lines: &[ComparisonLine<'_>]) -> String {
    let columns = columns(lines);
    let mut header = vec!["GPUs", "policy"];
    header.extend(columns.iter().map(|&at| FIGURES[at].name));
    let cells = lines.iter().map(|line| {
        let mut cells = vec![line.first.gpus.to_string(), line.first.policy.clone()];
        if line.first.infeasible.is_some() {
            cells.push("cannot run".to_owned());
        }
        cells.extend(columns.iter().skip(cells.len() - 2).map(|&at| match line.means[at] {
            None => String::new(),
            Some(mean) => {
                let (factor, digits) = FIGURES[at].shown;
                let mark = if line.best[at] { "*" } else { " " };
                format!("{}{mark}", table::grouped(mean * factor, digits))
            }
        }));
        cells
    });
    table::table(&header, 2, cells)
}

/// Policies and workflows of one table; more do not fit a terminal.
const MOST_POLICIES: usize = 5;
const MOST_WORKFLOWS: usize = 5;

/// The P99 latency of each workflow on the most GPUs, under the best policies. Of several seeds, the first.
fn workflows(lines: &[ComparisonLine<'_>]) -> Option<String> {
    let problem = on_most_gpus(lines)?;
    let names: Vec<&str> = problem.first()?.first.workflows.iter().map(|one| one.workflow.as_str()).collect();
    if names.len() < 2 {
        return None;
    }
    let shown_names: Vec<String> =
        names.iter().take(MOST_WORKFLOWS).map(|name| shown(name).into_owned()).collect();
    let mut header = vec!["policy"];
    header.extend(shown_names.iter().map(String::as_str));
    let rows =
        problem.iter().filter(|line| line.first.infeasible.is_none()).take(MOST_POLICIES).map(|line| {
            let mut row = vec![line.first.policy.clone()];
            let of = line.first.workflows.iter().take(MOST_WORKFLOWS);
            row.extend(of.map(|one| table::grouped(one.latency.p99, 1)));
            row
        });
    let more = if names.len() > MOST_WORKFLOWS { ", the first five of them" } else { "" };
    let title = format!("P99 latency by workflow on {} GPUs, s{more}", problem.first()?.first.gpus);
    Some(format!(
        "{}\n{}",
        output::heading(&title),
        table::fitted(&header, 1, rows.collect(), output::width())
    ))
}

/// Those of the winner on the most GPUs.
fn slowest(lines: &[ComparisonLine<'_>]) -> Option<String> {
    let wins = verdict(lines)?.wins;
    let win = wins.last()?;
    let line = lines.iter().find(|line| line.first.gpus == win.gpus && line.first.policy == win.policy)?;
    let text = explain::slowest(&line.first.slowest);
    let title = format!("under {} on {} GPUs", win.policy, win.gpus);
    (!text.is_empty()).then(|| {
        text.replacen("slowest requests", &format!("slowest requests {title}"), 1).trim_end().to_owned()
    })
}

/// The lines of the most GPUs.
fn on_most_gpus<'l, 'r>(lines: &'l [ComparisonLine<'r>]) -> Option<&'l [ComparisonLine<'r>]> {
    lines.chunk_by(|one, other| same_problem(one.first, other.first)).last()
}
