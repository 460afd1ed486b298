//! The page about advice on capacity: the answer, the curve of each target, and the policies.

use crate::chart::{Axis, Chart, Mark, Series, colour};
use crate::page::{Block, Card, Cell, Page, PageTable, Section};
use gswarm_core::size::{AdviceReport, Point, Reached, TargetReport, policy_title};

/// The page about an answer.
#[must_use]
pub fn page(report: &AdviceReport) -> Page {
    let mut sections = Vec::new();
    let sentences =
        report.sentences().into_iter().chain(report.warnings.iter().map(|text| format!("Warning: {text}.")));
    sections.push(Section { title: "The answer".to_owned(), blocks: sentences.map(Block::Text).collect() });
    if !report.points.is_empty() {
        let charts = (0..report.targets.len()).map(|place| Block::Chart(Box::new(curve(report, place))));
        let blocks = charts.chain([Block::Table(points(report))]).collect();
        sections.push(Section { title: "By number of GPUs".to_owned(), blocks });
    }
    if report.policies.len() > 1 {
        let blocks = vec![Block::Table(policies(report))];
        sections.push(Section { title: "Policies".to_owned(), blocks });
    }
    if !report.deployment.is_empty() {
        let blocks = vec![Block::Table(placement(report))];
        sections.push(Section { title: "A permanent placement".to_owned(), blocks });
    }
    Page {
        title: report.headline(),
        lead:
            "Every figure is simulated on traces resampled from the given requests. Every run was checked. \
               docs/advise.md says how."
                .to_owned(),
        cards: cards(report),
        sections,
    }
}

fn cards(report: &AdviceReport) -> Vec<Card> {
    let mut cards = Vec::new();
    if let Some(gpus) = report.gpus {
        let interval = match (report.gpus_low, report.gpus_high) {
            (Some(low), Some(high)) if report.traces > 1 => {
                format!("{low} to {high} over {} traces", report.traces)
            }
            _ => String::new(),
        };
        cards.push(Card::new("GPUs", gpus.to_string(), interval));
    }
    if let Some(policy) = &report.policy {
        cards.push(Card::new("Policy", policy_title(policy), ""));
    }
    for target in &report.targets {
        cards.push(Card::new("Target", target.limit(), target.title()));
    }
    if let Some(cost) = &report.cost {
        let each = cost.per_thousand_requests.map(|each| format!("{each:.2} per thousand requests"));
        cards.push(Card::new("Cost an hour", format!("{:.2}", cost.per_hour), each.unwrap_or_default()));
    }
    if let Some(floor) = &report.floor {
        cards.push(Card::new("Floor", format!("{:.1} s", floor.floor), floor.target.title()));
    }
    cards
}

/// A target's measure by number of GPUs, with its confidence interval.
fn curve(report: &AdviceReport, place: usize) -> Chart {
    let target = &report.targets[place];
    let (unit, factor) = unit(target);
    let title = format!("{} by number of GPUs", target.title());
    let about = "The line is the measure over all traces, the points its 95% confidence interval, the horizontal line the target.";
    let name = format!("curve-{}", place + 1);
    let mut chart = Chart::new(name, title, Axis::new("GPUs"), Axis::new(unit).from_zero()).about(about);
    let reached: Vec<(f64, &Reached)> = report
        .points
        .iter()
        .filter_map(|tried| Some((f64::from(tried.point.gpus), tried.point.targets.get(place)?)))
        .collect();
    let at = |shift: f64| {
        let value = move |one: &Reached| Some(factor * (one.value? + shift * one.plus_minus));
        reached.iter().filter_map(|&(gpus, one)| Some((gpus, value(one)?))).collect::<Vec<_>>()
    };
    chart.line(target.title(), at(0.0));
    let ends = at(-1.0).into_iter().chain(at(1.0)).collect();
    chart.series.push(Series::Points { name: "95% confidence".to_owned(), points: ends, colour: colour(1) });
    let limit = factor * target.at_most_seconds.or(target.at_most_missed).unwrap_or(0.0);
    chart.marks.push(Mark::Across { at: limit, label: "target".to_owned() });
    if let Some(gpus) = report.gpus {
        chart.marks.push(Mark::Upright { at: f64::from(gpus), label: "answer".to_owned() });
    }
    chart
}

fn unit(target: &TargetReport) -> (&'static str, f64) {
    if target.at_most_missed.is_some() { ("% missed", 100.0) } else { ("seconds", 1.0) }
}

/// A cell for each target, and one for its spread.
fn cells(report: &AdviceReport, point: &Point) -> Vec<Cell> {
    let of = |(target, reached): (&TargetReport, &Reached)| {
        let factor = unit(target).1;
        [
            Cell { best: reached.met, ..Cell::number(reached.value.map(|value| factor * value), 2) },
            Cell::number(Some(factor * reached.plus_minus), 2),
        ]
    };
    report.targets.iter().zip(&point.targets).flat_map(of).collect()
}

fn points(report: &AdviceReport) -> PageTable {
    let mut head = vec!["GPUs".to_owned(), "traces".to_owned()];
    for target in &report.targets {
        head.extend([format!("{}, {}", target.title(), unit(target).0), "+-".to_owned()]);
    }
    head.extend(["busy %".to_owned(), "loads".to_owned()]);
    let rows = report.points.iter().map(|tried| {
        let point = &tried.point;
        let mut row = vec![
            Cell::number(Some(f64::from(point.gpus)), 0),
            Cell::number(Some(f64::from(tried.traces)), 0),
        ];
        row.extend(cells(report, point));
        row.push(Cell::number(Some(100.0 * point.utilisation), 1));
        row.push(Cell::number(Some(point.switches as f64), 0));
        row
    });
    PageTable {
        caption: "Values that meet their target are bold.".to_owned(),
        head,
        rows: rows.collect(),
        id: "points".to_owned(),
    }
}

fn policies(report: &AdviceReport) -> PageTable {
    let mut head = vec!["policy".to_owned(), "fewest GPUs".to_owned()];
    for target in &report.targets {
        head.extend([format!("{}, {}", target.title(), unit(target).0), "+-".to_owned()]);
    }
    let rows = report.policies.iter().map(|tried| {
        let mut row =
            vec![Cell::text(policy_title(&tried.policy)), Cell::number(tried.gpus.map(f64::from), 0)];
        let at = tried.points.iter().find(|point| Some(point.gpus) == report.gpus);
        row.extend(at.map_or_else(Vec::new, |point| cells(report, point)));
        row.resize(head.len(), Cell::text("-"));
        row
    });
    let rows = rows.collect();
    PageTable {
        caption: format!("Measured with {} GPUs.", report.gpus.unwrap_or_default()),
        head,
        rows,
        id: "policies".to_owned(),
    }
}

fn placement(report: &AdviceReport) -> PageTable {
    let rows = report.deployment.iter().map(|one| {
        let windows: Vec<String> = one.replicas.iter().map(|gpus| format!("{gpus:?}")).collect();
        vec![
            Cell::text(&one.model),
            Cell::number(Some(one.replicas.len() as f64), 0),
            Cell::text(windows.join(" ")),
        ]
    });
    PageTable {
        caption: "Where `static` places each model on these GPUs.".to_owned(),
        head: ["model", "replicas", "GPUs of each"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        id: "placement".to_owned(),
    }
}
