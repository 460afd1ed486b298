//! The figures of a comparison, and a line of them for each policy.

use super::{RunKey, SweepRow, same_problem};
use std::collections::BTreeMap;

/// A figure by which runs are compared.
#[derive(Clone, Copy)]
pub struct Figure {
    /// Its heading.
    pub name: &'static str,
    /// Where it is in a row.
    pub get: fn(&SweepRow) -> Option<f64>,
    /// Whether higher or lower is better.
    pub better: Better,
    /// What it is multiplied by to be shown, and with how many digits after the point.
    pub shown: (f64, usize),
}

/// Whether higher or lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less of it.
    Less,
    /// More of it.
    More,
}

/// The figures of a comparison.
pub const FIGURES: [Figure; 13] = [
    figure("makespan s", |row| row.makespan_seconds, Better::Less, (1.0, 1)),
    figure("speedup", |row| row.speedup_over_baseline, Better::More, (1.0, 2)),
    figure("gap %", |row| row.gap_percent, Better::Less, (1.0, 1)),
    figure("switches", |row| row.model_switches.map(|count| count as f64), Better::Less, (1.0, 0)),
    figure("load %", |row| row.switch_overhead, Better::Less, (100.0, 1)),
    figure("mean s", |row| row.latency_mean_seconds, Better::Less, (1.0, 1)),
    figure("P50 s", |row| row.latency_p50_seconds, Better::Less, (1.0, 1)),
    figure("P99 s", |row| row.latency_p99_seconds, Better::Less, (1.0, 1)),
    figure("late %", late, Better::Less, (100.0, 1)),
    figure("busy %", |row| row.utilisation, Better::More, (100.0, 1)),
    figure("spread", |row| row.utilisation_spread_points, Better::Less, (1.0, 1)),
    figure("servers %", |row| row.server_efficiency, Better::More, (100.0, 1)),
    figure("plan ms", |row| row.planning_seconds, Better::Less, (1e3, 1)),
];

/// The share of the requests with a deadline that missed it; none where no request has one.
fn late(row: &SweepRow) -> Option<f64> {
    let (with, missed) = row.requests_with_deadline.zip(row.deadline_misses)?;
    (with > 0).then(|| missed as f64 / with as f64)
}

/// The place of a figure, by its name.
///
/// # Panics
/// Where there is no such figure: names are written in code only.
#[must_use]
pub fn figure_at(name: &str) -> usize {
    let found = FIGURES.iter().position(|figure| figure.name == name);
    found.unwrap_or_else(|| unreachable!("there is no figure `{name}`"))
}

/// The figure that decides which policy is better: the latency of a stream, the makespan of a batch.
#[must_use]
pub fn judged(mode: &str) -> usize {
    figure_at(if mode == "online" { "P99 s" } else { "makespan s" })
}

/// The figures that a narrow table of a mode shows, the one that decides first. `late %` only where requests have deadlines.
#[must_use]
pub fn columns(lines: &[ComparisonLine<'_>]) -> Vec<usize> {
    let mode = lines.first().map_or("", |line| line.first.mode.as_str());
    let names: &[&str] = match mode {
        "online" => &["P99 s", "mean s", "P50 s", "late %", "switches", "load %", "makespan s"],
        _ => &["makespan s", "gap %", "speedup", "late %", "switches", "load %", "P99 s"],
    };
    let is_known =
        |&at: &usize| at != figure_at("late %") || lines.iter().any(|line| line.means[at].is_some());
    names.iter().map(|name| figure_at(name)).filter(is_known).collect()
}

const fn figure(
    name: &'static str,
    get: fn(&SweepRow) -> Option<f64>,
    better: Better,
    shown: (f64, usize),
) -> Figure {
    Figure { name, get, better, shown }
}

/// The runs of one policy on one problem, over all seeds.
pub struct ComparisonLine<'r> {
    /// One of them, for what they have in common.
    pub first: &'r SweepRow,
    /// The mean of each of [`FIGURES`], where all of them have it.
    pub means: [Option<f64>; FIGURES.len()],
    /// Whether no other policy does better at it on the same problem.
    pub best: [bool; FIGURES.len()],
}

/// A line for each policy on each problem. Problems come in the order of the rows, the lines of each by the figure that
/// decides, the best first.
#[must_use]
pub fn lines(rows: &[SweepRow]) -> Vec<ComparisonLine<'_>> {
    let mut lines: Vec<ComparisonLine<'_>> = Vec::new();
    let mut seeds: BTreeMap<RunKey, Vec<&SweepRow>> = BTreeMap::new();
    let mut order = Vec::new();
    for row in rows {
        let of_all_seeds = RunKey { seed: 0, ..row.key() };
        let group = seeds.entry(of_all_seeds.clone()).or_default();
        if group.is_empty() {
            order.push(of_all_seeds);
        }
        group.push(row);
    }
    for group in order.iter().filter_map(|key| seeds.get(key)) {
        let Some(&first) = group.first() else { continue };
        let means = FIGURES.map(|figure| {
            let values: Option<Vec<f64>> = group.iter().map(|row| (figure.get)(row)).collect();
            values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
        });
        lines.push(ComparisonLine { first, means, best: [false; FIGURES.len()] });
    }
    for of_one in lines.chunk_by_mut(|one, other| same_problem(one.first, other.first)) {
        of_one.sort_by(|one, other| {
            let value =
                |line: &ComparisonLine<'_>| line.means[judged(&line.first.mode)].unwrap_or(f64::INFINITY);
            value(one).total_cmp(&value(other))
        });
    }
    for at in 0..lines.len() {
        for (number, figure) in FIGURES.iter().enumerate() {
            let rivals = lines.iter().filter(|line| same_problem(line.first, lines[at].first));
            let rivals = rivals.filter_map(|line| line.means[number]);
            let best = match figure.better {
                Better::Less => rivals.min_by(f64::total_cmp),
                Better::More => rivals.max_by(f64::total_cmp),
            };
            lines[at].best[number] = best.is_some() && best == lines[at].means[number];
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn seeds_are_averaged_and_the_best_is_marked_for_each_number_of_gpus() {
        let rows = [
            row("baseline", 4, 1, 100.0, 2),
            row("baseline", 4, 2, 110.0, 2),
            row("planned", 4, 1, 50.0, 4),
            row("planned", 4, 2, 60.0, 6),
            row("planned", 8, 1, 90.0, 7),
        ];
        let lines = lines(&rows);
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0].means[0], lines[1].means[0]), (Some(55.0), Some(105.0)));
        assert_eq!(lines.iter().map(|line| line.best[0]).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(lines.iter().map(|line| line.best[3]).collect::<Vec<_>>(), [false, true, true]);
        assert!(lines.iter().all(|line| !line.best[5]), "nobody is best at what nobody has");
    }

    #[test]
    fn a_stream_is_ordered_by_latency_and_shows_deadlines_where_there_are_any() {
        let stream = |policy: &str, makespan, p99| SweepRow {
            mode: "online".to_owned(),
            latency_p99_seconds: Some(p99),
            ..row(policy, 4, 0, makespan, 1)
        };
        let mut rows = [stream("lru", 90.0, 60.0), stream("adaptive", 100.0, 20.0)];
        let order =
            |rows: &[SweepRow]| lines(rows).iter().map(|line| line.first.policy.clone()).collect::<Vec<_>>();
        assert_eq!(order(&rows), ["adaptive", "lru"]);
        let names =
            |rows: &[SweepRow]| columns(&lines(rows)).iter().map(|&at| FIGURES[at].name).collect::<Vec<_>>();
        assert_eq!(names(&rows)[0], "P99 s");
        assert!(!names(&rows).contains(&"late %"));
        for row in &mut rows {
            (row.requests_with_deadline, row.deadline_misses) = (Some(4), Some(1));
        }
        assert!(names(&rows).contains(&"late %"));
        assert_eq!(lines(&rows)[0].means[figure_at("late %")], Some(0.25));
        // A batch of the same runs is ordered by makespan.
        rows.iter_mut().for_each(|row| row.mode = "offline".to_owned());
        assert_eq!(order(&rows), ["lru", "adaptive"]);
    }
}
