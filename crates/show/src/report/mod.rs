//! The report of one or more runs: cards, the comparison, a panel for each configuration, and a Gantt chart for each run.

mod panels;
mod shape;
mod table;

pub use table::comparison;

use crate::number::grouped;
use crate::page::{Block, Card, Page, Section};
use crate::run::ReportRun;

/// Runs with a curve each on one chart; more cannot be told apart.
pub(crate) const MOST_CURVES: usize = 6;
/// Runs with a Gantt chart each.
pub const MOST_GANTTS: usize = 8;

/// The page about these runs, in the order of the comparison: by configuration, GPUs and makespan.
#[must_use]
pub fn page(runs: &mut [ReportRun]) -> Page {
    runs.sort_by(|a, b| {
        let key = |run: &ReportRun| {
            (run.configuration.clone(), run.mode, run.gpus, run.metrics.makespan, run.policy.clone())
        };
        key(a).cmp(&key(b))
    });
    let runs: &[ReportRun] = runs;
    let mut sections =
        vec![Section { title: "Comparison".to_owned(), blocks: vec![Block::Table(comparison(runs))] }];
    sections[0].blocks.extend(faults(runs).map(Block::Text));
    for panel in panels::panels(runs) {
        sections.push(panel);
    }
    let gantts: Vec<Block> =
        runs.iter().filter_map(|run| run.gantt.clone()).map(|gantt| Block::Gantt(Box::new(gantt))).collect();
    if !gantts.is_empty() {
        let mut blocks = Vec::new();
        if gantts.len() < runs.len() {
            blocks.push(Block::Text(format!(
                "{} of the {} runs are drawn: the shortest of each configuration first. A report of one log draws that log.",
                gantts.len(),
                runs.len()
            )));
        }
        blocks.extend(gantts);
        sections.push(Section { title: "What ran where and when".to_owned(), blocks });
    }
    Page { title: title(runs), lead: lead(runs), cards: cards(runs), sections }
}

/// Which runs get a Gantt chart where not all can: the shortest of each configuration and number of GPUs in turn.
#[must_use]
pub fn drawn(runs: &[ReportRun], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    let group = |run: &ReportRun| (run.configuration.clone(), run.mode, run.gpus);
    let rank = |at: usize| {
        let same = |other: &&ReportRun| group(other) == group(&runs[at]);
        runs.iter().filter(same).filter(|other| other.metrics.makespan < runs[at].metrics.makespan).count()
    };
    order.sort_by_key(|&at| (rank(at), at));
    order.truncate(most);
    order.sort_unstable();
    order
}

fn title(runs: &[ReportRun]) -> String {
    match runs {
        [one] => format!("{} on {} GPUs", one.policy, one.gpus),
        _ => format!("{} runs compared", runs.len()),
    }
}

fn lead(runs: &[ReportRun]) -> String {
    let mut names: Vec<&str> = runs.iter().map(|run| run.configuration.as_str()).collect();
    names.dedup();
    let executions: u64 = runs.iter().map(|run| run.metrics.completed_nodes).sum();
    format!(
        "{} of {}; {} executions. Every figure is reckoned from the execution logs and their inputs; docs/metrics.md defines each.",
        if runs.len() == 1 { "A run".to_owned() } else { format!("{} runs", runs.len()) },
        names.join(", "),
        grouped(executions as f64, 0)
    )
}

/// The shortest run of all, or the one there is. Of several configurations no one run is the best.
fn cards(runs: &[ReportRun]) -> Vec<Card> {
    let groups = shape::groups(runs).len();
    let Some(best) = runs.iter().min_by_key(|run| run.metrics.makespan).filter(|_| groups == 1) else {
        let complete = runs.iter().filter(|run| run.metrics.failed_requests == 0).count();
        let valid = runs.iter().filter(|run| run.violations.is_empty()).count();
        return vec![
            Card::new("Runs", runs.len().to_string(), ""),
            Card::new("Configurations", groups.to_string(), "each has a panel below"),
            Card::new("Complete", format!("{complete} of {}", runs.len()), "every request was done"),
            Card::new("Valid", format!("{valid} of {}", runs.len()), "by the independent check"),
        ];
    };
    let metrics = &best.metrics;
    let whose = if runs.len() == 1 { String::new() } else { best.label() };
    let mut cards = vec![Card::new(
        if runs.len() == 1 { "Makespan" } else { "Shortest makespan" },
        format!("{} s", grouped(best.makespan(), 1)),
        whose.clone(),
    )];
    if let (Some(bound), Some(gap)) = (best.bound, best.gap()) {
        let note = format!("the makespan is {gap:.1}% above it");
        cards.push(Card::new("No schedule is shorter than", format!("{} s", grouped(bound, 1)), note));
    }
    let failed = metrics.failed_requests;
    let note = if failed == 0 { "all of them done".to_owned() } else { format!("{failed} not done") };
    cards.push(Card::new("Requests", grouped(metrics.total_requests as f64, 0), note));
    cards.push(Card::new("Executions", grouped(metrics.completed_nodes as f64, 0), ""));
    let latency = &metrics.request_latency;
    let middle = format!("half within {} s", grouped(latency.median, 1));
    cards.push(Card::new("P99 latency", format!("{} s", grouped(latency.p99, 1)), middle));
    let spread =
        format!("from {:.1}% to {:.1}%", metrics.utilisation.min * 100.0, metrics.utilisation.max * 100.0);
    cards.push(Card::new("GPUs busy", format!("{:.1}%", metrics.utilisation.mean * 100.0), spread));
    let overhead = format!("loading took {:.1}% of the GPU time", metrics.switch_overhead * 100.0);
    cards.push(Card::new("Model switches", grouped(metrics.model_switches as f64, 0), overhead));
    cards
}

/// What the checker found, run by run.
fn faults(runs: &[ReportRun]) -> impl Iterator<Item = String> + '_ {
    runs.iter().filter(|run| !run.violations.is_empty()).map(|run| {
        let more = match run.violations.len() {
            0..=3 => String::new(),
            count => format!("; and {} more", count - 3),
        };
        let first: Vec<&str> = run.violations.iter().take(3).map(String::as_str).collect();
        format!("Not a valid run: {} ({}){more}", run.log, first.join("; "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{html, markdown};
    use crate::testing;
    use gswarm_core::log_file::LogFile;

    fn runs(policies: &[&str]) -> Vec<ReportRun> {
        let of = |policy: &&str| {
            let (instance, log) = testing::run(policy, 30);
            let mut run =
                ReportRun::of(&format!("{policy}.json"), "work", &instance, &log, &LogFile::default());
            (run.policy, run.bound) = ((*policy).to_owned(), Some(100.0));
            run
        };
        policies.iter().map(of).collect()
    }

    #[test]
    fn the_page_shows_the_metrics_of_its_logs() {
        let mut all = runs(&["baseline", "planned", "sticky"]);
        let page = page(&mut all);
        let (html, text) = (html(&page), markdown(&page, None));
        for run in &all {
            let shown = grouped(run.makespan(), 1);
            assert!(html.contains(&shown) && text.contains(&shown), "{shown}");
            assert!(text.contains(&grouped(run.metrics.request_latency.p99, 1)));
        }
        assert_eq!(html.matches("<tr>").count(), 1 + 3);
        assert!(page.charts().count() >= 6, "{}", page.charts().count());
        assert!(text.contains("| planned |") && text.contains("No schedule is shorter than"), "{text}");
    }

    #[test]
    fn a_damaged_run_is_shown_and_said_to_be_invalid() {
        let mut all = runs(&["baseline"]);
        all[0].violations = vec!["C-TIME: no".to_owned(); 5];
        let text = markdown(&page(&mut all), None);
        assert!(
            text.contains("Not a valid run: baseline.json (C-TIME: no") && text.contains("and 2 more"),
            "{text}"
        );
    }

    #[test]
    fn the_shortest_of_each_group_are_drawn_first() {
        let mut all = runs(&["random", "planned", "baseline"]);
        all.push(ReportRun { configuration: "other".to_owned(), ..all[0].clone() });
        assert_eq!(drawn(&all, 2), [1, 3]);
        assert_eq!(drawn(&all, 9).len(), 4);
    }
}
