//! The curve over numbers of GPUs, as text.

use super::table::{grouped, table};
use super::{heading, width, wrapped};
use gswarm_core::Span;
use gswarm_core::size::{Measure, Point, SizeQuestion, Sizing, Target, Verdict};
use std::fmt::Write;

/// `1 ms`, `90 s`, `1 h 30 min`.
pub fn time(span: Span) -> String {
    let seconds = span.seconds();
    if seconds > 0.0 && seconds < 0.1 {
        return format!("{} ms", seconds * 1e3);
    }
    if seconds < 120.0 {
        let text = format!("{seconds:.1}");
        return format!("{} s", text.strip_suffix(".0").unwrap_or(&text));
    }
    let minutes = (seconds / 60.0).round() as u64;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min ({} s)", grouped(seconds, 0)),
        (hours, 0) => format!("{hours} h ({} s)", grouped(seconds, 0)),
        (hours, minutes) => format!("{hours} h {minutes} min ({} s)", grouped(seconds, 0)),
    }
}

/// The limit of a target: a time, or the share of deadlines that may be missed.
pub fn limit_of(target: &Target) -> String {
    match target.measure {
        Measure::Deadline => format!("{:.2}% missed", 100.0 * target.at_most),
        _ => time(target.span()),
    }
}

/// The table, the plot and the recommendation.
pub fn text(question: &SizeQuestion<'_>, sizing: &Sizing) -> String {
    let chosen = match sizing.verdict {
        Verdict::Met { gpus, .. } => Some(gpus),
        _ => None,
    };
    // The traces of a stream run one after the other: their makespan says nothing.
    let of_batch = sizing.points.iter().any(|point| point.bound.is_some());
    let row = |point: &Point| {
        let mark = match (Some(point.gpus) == chosen, point.met) {
            (true, _) => " *",
            (_, true) => " +",
            _ => "  ",
        };
        let mut row = vec![format!("{}{mark}", point.gpus)];
        row.extend(of_batch.then(|| grouped(point.makespan, 1)));
        row.extend([
            grouped(point.mean, 1),
            grouped(point.p99, 1),
            grouped(point.switches as f64, 0),
            format!("{:.1}", 100.0 * point.utilisation),
        ]);
        row.extend(of_batch.then(|| point.bound.map_or("-".to_owned(), |bound| grouped(bound, 1))));
        row
    };
    let mut header = vec!["GPUs", "mean s", "P99 s", "switches", "busy %"];
    let mut legend = "* the fewest found   + meets the target too".to_owned();
    if of_batch {
        header.insert(1, "makespan s");
        header.push("bound s");
        legend.push_str("   bound: no makespan is shorter");
    }
    let mut out = format!("{}\n\n", table(&header, 0, sizing.points.iter().map(row)));
    let _ = writeln!(out, "{legend}");
    for (place, target) in question.targets.iter().enumerate() {
        let _ = write!(out, "\n{}", plot(&sizing.points, place, target));
    }
    if let Some(text) = recommendation(question, sizing) {
        let _ = write!(out, "\n{}", text);
    }
    out.trim_end().to_string()
}

/// A bar for each number of GPUs; the target is a line through them.
fn plot(points: &[Point], place: usize, target: &Target) -> String {
    let title = heading(&format!("{}, and the target of {}", target.title(), limit_of(target)));
    let mut out = format!("{title}\n\n");
    let (factor, limit) = match target.measure {
        Measure::Deadline => (100.0, 100.0 * target.at_most),
        _ => (1.0, target.at_most),
    };
    let value_at = |point: &Point| factor * point.targets.get(place).and_then(|one| one.value).unwrap_or(0.0);
    let largest = points.iter().map(value_at).fold(limit, f64::max);
    let columns = width().saturating_sub(24).clamp(20, 60);
    let column_of = |value: f64| ((value / largest * columns as f64).round() as usize).min(columns);
    let line = column_of(limit).min(columns - 1);
    for point in thinned(points) {
        let value = value_at(point);
        let filled = column_of(value);
        let bar: String = (0..columns)
            .map(|column| match column {
                column if column == line => '|',
                column if column < filled => '=',
                _ => ' ',
            })
            .collect();
        let _ = writeln!(out, "{:>6} {bar} {}", point.gpus, grouped(value, 1));
    }
    out
}

/// Enough rows to see the shape.
const ROWS: usize = 16;

/// The first, the last, the fewest that do, the one before, and others between where there are many.
fn thinned(points: &[Point]) -> impl Iterator<Item = &Point> {
    let stride = points.len().div_ceil(ROWS).max(1);
    let first_met = points.iter().position(|point| point.met).unwrap_or(points.len());
    points.iter().enumerate().filter_map(move |(place, point)| {
        let edge = place + 1 == points.len() || place == first_met || place + 1 == first_met;
        (edge || place % stride == 0).then_some(point)
    })
}

fn recommendation(question: &SizeQuestion<'_>, sizing: &Sizing) -> Option<String> {
    let Verdict::Met { gpus, untried } = sizing.verdict else { return None };
    let policy = question.policy.name();
    let below = if gpus == sizing.least && sizing.least == sizing.least_possible {
        "Fewer GPUs cannot hold the models.".to_string()
    } else if gpus == sizing.least {
        "With fewer, no schedule meets it.".to_string()
    } else if untried == 0 {
        format!(
            "With fewer than {}, no schedule meets it; the numbers in between fail under this policy.",
            sizing.least
        )
    } else {
        format!(
            "With fewer than {}, no schedule meets it; of the {} numbers in between, {} were tried and fail.",
            sizing.least,
            gpus - sizing.least,
            gpus - sizing.least - untried
        )
    };
    let better = sizing.points.iter().filter(|point| point.gpus > gpus && !point.met).map(|point| point.gpus);
    let better: Vec<String> = better.map(|gpus| gpus.to_string()).collect();
    let warning = if better.is_empty() {
        String::new()
    } else {
        format!(" More is not always better: {} GPUs miss it.", better.join(", "))
    };
    let tried: Vec<String> = sizing.tried.iter().map(u32::to_string).collect();
    Some(format!(
        "{}\n{}\n{}",
        heading(&format!(
            "{gpus} GPU{} meet the target, under `{policy}`.",
            if gpus == 1 { "" } else { "s" }
        )),
        wrapped(&format!("{below}{warning}"), 0, width()),
        wrapped(&format!("Tried in the search: {}.", tried.join(", ")), 0, width())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_do() {
        let rows = [
            (90.0, "90 s"),
            (0.001, "1 ms"),
            (0.25, "0.2 s"),
            (7200.0, "2 h (7,200 s)"),
            (5400.0, "1 h 30 min (5,400 s)"),
            (600.0, "10 min (600 s)"),
        ];
        for (seconds, text) in rows {
            assert_eq!(time(Span::from_seconds(seconds)), text);
        }
    }
}
