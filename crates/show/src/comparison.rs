//! The page about a comparison's rows: who did best, a table and charts for each problem. Rows are all that it needs: the
//! runs of a sweep leave no logs.

use crate::chart::{Axis, Chart, Mark};
use crate::number::grouped;
use crate::page::{Block, Card, Cell, Page, PageTable, Section};
use crate::report::slow_table;
use gswarm_core::compare::{
    ComparisonLine, FIGURES, SweepRow, figure_at, judged, lines, same_table, verdict,
};

/// Policies with a line each on one chart; more cannot be told apart.
const MOST_LINES: usize = 6;

/// The page about these rows, in which the speedups are filled in.
#[must_use]
pub fn page(rows: &[SweepRow]) -> Page {
    let lines = lines(rows);
    let problems: Vec<&[ComparisonLine<'_>]> =
        lines.chunk_by(|one, other| same_table(one.first, other.first)).collect();
    let ran = rows.iter().filter(|row| row.infeasible.is_none()).count();
    let left_out = rows.len() - ran;
    let sections = problems.iter().enumerate().map(|(number, lines)| section(number, lines));
    Page {
        title: format!("{ran} runs compared"),
        lead: "A line for each policy and number of GPUs, the mean over all seeds. Every log was checked as it was made; docs/metrics.md \
               defines each figure."
            .to_owned(),
        cards: cards(&lines, ran, left_out, problems.len()),
        sections: sections.collect(),
    }
}

fn cards(lines: &[ComparisonLine<'_>], ran: usize, left_out: usize, problems: usize) -> Vec<Card> {
    let note = match left_out {
        0 => String::new(),
        count => format!("{count} more cannot run on so few GPUs"),
    };
    let mut cards = vec![
        Card::new("Runs", ran.to_string(), note),
        Card::new("Problems", problems.to_string(), "each has a section below"),
    ];
    for (mode, label) in
        [("online", "Lowest P99 latency of streams"), ("offline", "Shortest makespan of batches")]
    {
        let of_mode: Vec<&ComparisonLine<'_>> = lines.iter().filter(|line| line.first.mode == mode).collect();
        if let Some((policy, times, of)) = winner(&of_mode, judged(mode)) {
            cards.push(Card::new(label, policy, format!("in {times} of {of} cases")));
        }
    }
    if let Some(line) = lines
        .iter()
        .filter(|line| line.means[1].is_some() && line.first.mode == "offline")
        .max_by(|one, other| one.means[1].unwrap_or_default().total_cmp(&other.means[1].unwrap_or_default()))
    {
        let speedup = line.means[1].unwrap_or_default();
        let SweepRow { policy, gpus, input, mode, .. } = line.first;
        cards.push(Card::new(
            "Largest speedup",
            format!("{speedup:.2} times"),
            format!("{policy} over baseline: {input}, {mode}, {gpus} GPUs"),
        ));
    }
    cards
}

/// The policy that is best at a figure in most cases; how often, and of how many.
fn winner<'r>(lines: &[&ComparisonLine<'r>], figure: usize) -> Option<(&'r str, usize, usize)> {
    let mut best: Vec<(&str, usize)> = Vec::new();
    for line in lines.iter().filter(|line| line.best[figure]) {
        match best.iter_mut().find(|(policy, _)| *policy == line.first.policy) {
            Some((_, times)) => *times += 1,
            None => best.push((&line.first.policy, 1)),
        }
    }
    let mut cases: Vec<_> = lines
        .iter()
        .filter(|line| line.means[figure].is_some())
        .map(|line| (&line.first.input, &line.first.mode, line.first.batching, line.first.gpus))
        .collect();
    cases.sort();
    cases.dedup();
    let (policy, times) = best.into_iter().rev().max_by_key(|&(_, times)| times)?;
    Some((policy, times, cases.len()))
}

fn section(number: usize, lines: &[ComparisonLine<'_>]) -> Section {
    let Some(SweepRow { input, mode, batching, .. }) = lines.first().map(|line| line.first) else {
        return Section { title: String::new(), blocks: Vec::new() };
    };
    let without = if *batching { "" } else { ", without batching" };
    let mut blocks: Vec<Block> = verdict(lines)
        .map(|verdict| Block::Text(verdict.sentence(|seconds| grouped(seconds, 1))))
        .into_iter()
        .collect();
    let drawn = charts(lines).into_iter().filter(|chart| !chart.is_empty()).map(|mut chart| {
        chart.name = format!("{}-{}", chart.name, number + 1);
        Block::Chart(Box::new(chart))
    });
    blocks.extend(drawn);
    if policies(lines).len() > MOST_LINES {
        blocks.push(Block::Text(format!(
            "Charts have the {MOST_LINES} best policies and `baseline`; the table has all."
        )));
    }
    blocks.push(Block::Table(table(number, lines)));
    blocks.extend(requests(lines).map(Block::Table));
    Section { title: format!("{input}, {mode}{without}"), blocks }
}

fn table(number: usize, lines: &[ComparisonLine<'_>]) -> PageTable {
    let mut head = vec!["GPUs".to_owned(), "policy".to_owned()];
    let known: Vec<usize> =
        (0..FIGURES.len()).filter(|&at| lines.iter().any(|line| line.means[at].is_some())).collect();
    head.extend(known.iter().map(|&at| FIGURES[at].name.to_owned()));
    let rows = lines.iter().map(|line| {
        let mut row = vec![Cell::number(Some(f64::from(line.first.gpus)), 0), Cell::text(&line.first.policy)];
        row.extend(known.iter().map(|&at| {
            let (factor, digits) = FIGURES[at].shown;
            Cell { best: line.best[at], ..Cell::number(line.means[at].map(|mean| mean * factor), digits) }
        }));
        if let (Some(why), Some(cell)) = (&line.first.infeasible, row.get_mut(1)) {
            cell.text = format!("{} (cannot run: {why})", cell.text);
        }
        row
    });
    PageTable {
        caption: "The best of a column for each number of GPUs is bold; click a heading to sort.".to_owned(),
        head,
        rows: rows.collect(),
        id: format!("comparison-{}", number + 1),
    }
}

/// The slowest requests of the winner on the most GPUs.
fn requests(lines: &[ComparisonLine<'_>]) -> Option<PageTable> {
    let wins = verdict(lines)?.wins;
    let win = wins.last()?;
    let line = lines.iter().find(|line| line.first.gpus == win.gpus && line.first.policy == win.policy)?;
    slow_table(&line.first.slowest, &format!("{} on {}", win.policy, win.gpus))
}

/// The policies, the best first.
fn policies<'r>(lines: &[ComparisonLine<'r>]) -> Vec<&'r str> {
    let mut all: Vec<(&str, f64, usize)> = Vec::new();
    let figure = lines.first().map_or(0, |line| judged(&line.first.mode));
    for line in lines {
        let Some(value) = line.means[figure] else { continue };
        let shortest = lines.iter().filter(|other| other.first.gpus == line.first.gpus);
        let shortest = shortest.filter_map(|other| other.means[figure]).fold(f64::INFINITY, f64::min);
        // In proportion to the best on as many GPUs: else those that ran on few would look slow.
        let share = if shortest > 0.0 { value / shortest } else { 1.0 };
        match all.iter_mut().find(|(policy, ..)| *policy == line.first.policy) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + share, *count + 1),
            None => all.push((&line.first.policy, share, 1)),
        }
    }
    let mean = |&(_, sum, count): &(&str, f64, usize)| sum / count as f64;
    all.sort_by(|one, other| mean(one).total_cmp(&mean(other)));
    all.into_iter().map(|(policy, ..)| policy).collect()
}

fn charts(lines: &[ComparisonLine<'_>]) -> Vec<Chart> {
    let all = policies(lines);
    let mut shown: Vec<&str> = all.iter().copied().take(MOST_LINES).collect();
    if all.contains(&"baseline") && !shown.contains(&"baseline") {
        shown.push("baseline");
    }
    let by_gpus = |name, title, unit, about, figure: usize| {
        let mut chart =
            Chart::new(name, title, Axis::new("GPUs").whole(), Axis::new(unit).from_zero()).about(about);
        for &policy in &shown {
            let of_it = lines.iter().filter(|line| line.first.policy == policy);
            let points = of_it.filter_map(|line| {
                Some((f64::from(line.first.gpus), line.means[figure]? * FIGURES[figure].shown.0))
            });
            chart.line(policy, points.collect());
        }
        chart
    };
    let mut makespan = by_gpus(
        "makespan",
        "Makespan by number of GPUs",
        "seconds",
        "No schedule goes below the bound, which is drawn in grey.",
        0,
    );
    let bound = bound(lines);
    if !bound.is_empty() {
        makespan.reference("lower bound", bound);
    }
    let mut speedup = by_gpus(
        "speedup",
        "Speedup over baseline",
        "times as fast",
        "The makespan of `baseline` over that of each policy, on the same GPUs.",
        1,
    );
    // What differs is seen around one, not from zero on.
    speedup.y.from_zero = false;
    if !speedup.is_empty() {
        speedup.marks.push(Mark::Across { at: 1.0, label: "baseline".to_owned() });
    }
    let p99 = by_gpus(
        "p99",
        "P99 latency by number of GPUs",
        "seconds",
        "Of requests that completed.",
        figure_at("P99 s"),
    );
    let loads = by_gpus(
        "overhead",
        "Time that went into loads",
        "% of all GPU time",
        "Each load counts on all its GPUs.",
        figure_at("load %"),
    );
    // What decides comes first.
    match lines.first().is_some_and(|line| line.first.mode == "online") {
        true => vec![p99, makespan, speedup, loads],
        false => vec![makespan, speedup, p99, loads],
    }
}

/// The largest bound that any run claims, for each number of GPUs.
fn bound(lines: &[ComparisonLine<'_>]) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for line in lines {
        let Some(bound) = line.first.lower_bound_seconds else { continue };
        let gpus = f64::from(line.first.gpus);
        match points.iter_mut().find(|(at, _)| *at == gpus) {
            Some((_, best)) => *best = best.max(bound),
            None => points.push((gpus, bound)),
        }
    }
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Series;
    use crate::page::{html, markdown};
    use gswarm_core::compare::{RunKey, fill_in_speedups};

    fn row(policy: &str, mode: &str, gpus: u32, makespan: Option<f64>) -> SweepRow {
        let key = RunKey {
            input: "work".to_owned(),
            mode: mode.to_owned(),
            batching: true,
            gpus,
            policy: policy.to_owned(),
            seed: 1,
        };
        let row = SweepRow::infeasible(&key, "f", "too large".to_owned());
        match makespan {
            None => row,
            Some(_) => SweepRow {
                infeasible: None,
                makespan_seconds: makespan,
                lower_bound_seconds: Some(90.0),
                latency_p99_seconds: makespan,
                switch_overhead: Some(0.125),
                ..row
            },
        }
    }

    #[test]
    fn a_comparison_becomes_a_page_with_a_section_for_each_problem() {
        let mut rows = Vec::new();
        for mode in ["offline", "online"] {
            for (gpus, factor) in [(4, 1.0), (8, 0.5)] {
                rows.push(row("baseline", mode, gpus, Some(400.0 * factor)));
                rows.push(row("planned", mode, gpus, Some(200.0 * factor)));
            }
        }
        rows.push(row("planned", "online", 1, None));
        fill_in_speedups(&mut rows);
        let page = page(&rows);
        assert_eq!(page.sections.len(), 2);
        assert_eq!(page.charts().count(), 8, "makespan, speedup, P99 and overhead for each");
        let (html, text) = (html(&page), markdown(&page, None));
        assert!(
            text.contains("8 runs compared") && text.contains("planned (cannot run: too large)"),
            "{text}"
        );
        assert!(text.contains("in 2 of 2 cases") && text.contains("2.00 times"), "{text}");
        assert!(text.contains("12.5"), "shares are shown in percent: {text}");
        assert!(html.contains("id=\"comparison-2\""));
    }

    #[test]
    fn charts_keep_the_best_policies_and_the_baseline() {
        let mut rows: Vec<SweepRow> =
            (0..8).map(|at| row(&format!("p{at}"), "offline", 4, Some(100.0 + f64::from(at)))).collect();
        rows.push(row("baseline", "offline", 4, Some(500.0)));
        let lines = lines(&rows);
        assert_eq!(policies(&lines)[..2], ["p0", "p1"]);
        let names: Vec<String> = charts(&lines)[0]
            .series
            .iter()
            .map(|series| match series {
                Series::Line { name, .. } => name.clone(),
                _ => String::new(),
            })
            .collect();
        assert_eq!(names, ["p0", "p1", "p2", "p3", "p4", "p5", "baseline", "lower bound"]);
    }
}
