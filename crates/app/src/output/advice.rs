//! Advice as text.

use super::table::{grouped, table};
use super::{heading, width, wrapped};
use gswarm_core::size::{AdviceReport, PolicyTried, Reached, TargetReport, TriedPoint, policy_title};
use std::fmt::Write;

/// The answer, what it rests on, and the numbers that were tried.
pub fn text(report: &AdviceReport) -> String {
    let mut out = String::new();
    if report.verdict == "met" {
        let _ = writeln!(out, "{}\n", heading(&report.headline()));
        for sentence in report.sentences() {
            let _ = writeln!(out, "{}", wrapped(&sentence, 0, width()));
        }
    }
    for warning in &report.warnings {
        let _ = writeln!(out, "{}", wrapped(&format!("warning: {warning}"), 0, width()));
    }
    if !report.points.is_empty() {
        let _ = write!(out, "\n{}\n", points(report));
    }
    if report.policies.len() > 1 {
        let _ = write!(out, "\n{}\n\n{}\n", heading("Policies"), policies(report));
    }
    if !report.deployment.is_empty() {
        let _ = write!(out, "\n{}\n\n{}\n", heading("A permanent placement"), placement(report));
    }
    out.trim_end().to_owned()
}

fn value(target: &TargetReport, reached: &Reached) -> String {
    match (reached.value, target.at_most_missed) {
        (None, _) => "-".to_owned(),
        (Some(value), Some(_)) => format!("{:.2}%", 100.0 * value),
        (Some(value), None) => grouped(value, 1),
    }
}

fn spread(target: &TargetReport, reached: &Reached) -> String {
    let factor = if target.at_most_missed.is_some() { 100.0 } else { 1.0 };
    grouped(factor * reached.plus_minus, 1)
}

fn points(report: &AdviceReport) -> String {
    let mut head = vec!["GPUs".to_owned(), "traces".to_owned()];
    for target in &report.targets {
        head.extend([target.title(), "+-".to_owned()]);
    }
    head.extend(["busy %".to_owned(), "loads".to_owned()]);
    let row = |TriedPoint { traces, point }: &TriedPoint| {
        let mark = match (Some(point.gpus) == report.gpus, point.met) {
            (true, _) => " *",
            (_, true) => " +",
            _ => "  ",
        };
        let mut row = vec![format!("{}{mark}", point.gpus), traces.to_string()];
        for (target, reached) in report.targets.iter().zip(&point.targets) {
            row.extend([value(target, reached), spread(target, reached)]);
        }
        row.extend([format!("{:.1}", 100.0 * point.utilisation), grouped(point.switches as f64, 0)]);
        row
    };
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows = table(&head, 0, report.points.iter().map(row));
    format!("{rows}\n\n* the answer   + meets the target too   +- 95% confidence")
}

fn policies(report: &AdviceReport) -> String {
    let mut head = vec!["policy".to_owned(), "GPUs".to_owned()];
    head.extend(report.targets.iter().map(TargetReport::title));
    let row = |tried: &PolicyTried| {
        let at = tried.points.iter().find(|point| Some(point.gpus) == report.gpus);
        let mut row =
            vec![policy_title(&tried.policy), tried.gpus.map_or("more".to_owned(), |gpus| gpus.to_string())];
        let cells = report.targets.iter().enumerate();
        row.extend(cells.map(|(place, target)| {
            at.and_then(|point| point.targets.get(place)).map_or("-".to_owned(), |one| value(target, one))
        }));
        row
    };
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows = table(&head, 1, report.policies.iter().map(row));
    let answer = report.gpus.unwrap_or_default();
    format!("{rows}\n\nGPUs: the fewest that meet the target; the other columns are for {answer} GPUs")
}

fn placement(report: &AdviceReport) -> String {
    let rows = report.deployment.iter().map(|one| {
        let windows: Vec<String> = one
            .replicas
            .iter()
            .map(|gpus| match (gpus.first(), gpus.last()) {
                (Some(first), Some(last)) if first != last => format!("{first}-{last}"),
                (Some(first), _) => first.to_string(),
                _ => String::new(),
            })
            .collect();
        vec![one.model.clone(), one.replicas.len().to_string(), shortened(windows)]
    });
    table(&["model", "replicas", "GPUs"], 3, rows)
}

/// The first windows, where there are many.
fn shortened(mut windows: Vec<String>) -> String {
    const MOST: usize = 12;
    let more = windows.len().saturating_sub(MOST);
    windows.truncate(MOST);
    let shown = windows.join(" ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
