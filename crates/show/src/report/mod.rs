//! The report of one or more runs: cards, the comparison, a panel for each configuration, and a Gantt chart for each run.

mod panels;
mod requests;
mod shape;
mod table;

pub(crate) use requests::slow_table;
pub use table::{comparison, details};

use crate::number::grouped;
use crate::page::{Block, Card, Page, Section};
use crate::run::ReportRun;

/// Runs with a curve each on one chart; more cannot be told apart.
pub(crate) const MOST_CURVES: usize = 6;
/// Runs with a Gantt chart each.
pub const MOST_GANTTS: usize = 8;

/// The page about these runs, in the order of the comparison: by configuration and GPUs, then the best first.
#[must_use]
pub fn page(runs: &mut [ReportRun]) -> Page {
    runs.sort_by(|a, b| {
        let key = |run: &ReportRun| (run.configuration.clone(), run.mode, run.gpus);
        let judged = a.judged().total_cmp(&b.judged());
        key(a).cmp(&key(b)).then(judged).then_with(|| a.policy.cmp(&b.policy))
    });
    let runs: &[ReportRun] = runs;
    let mut sections =
        vec![Section { title: "Comparison".to_owned(), blocks: vec![Block::Table(comparison(runs))] }];
    sections[0].blocks.extend(faults(runs).map(Block::Text));
    for panel in panels::panels(runs) {
        sections.push(panel);
    }
    let best = shape::groups(runs).into_iter().flat_map(|group| group.few(1));
    let blocks: Vec<Block> = best.filter_map(requests::slowest).map(Block::Table).collect();
    if !blocks.is_empty() {
        sections.push(Section { title: "Slowest requests".to_owned(), blocks });
    }
    let gantts: Vec<Block> =
        runs.iter().filter_map(|run| run.gantt.clone()).map(|gantt| Block::Gantt(Box::new(gantt))).collect();
    if !gantts.is_empty() {
        let mut blocks = Vec::new();
        if gantts.len() < runs.len() {
            blocks.push(Block::Text(format!(
                "{} of the {} runs are drawn: the best of each configuration first. A report of one log draws that log.",
                gantts.len(),
                runs.len()
            )));
        }
        blocks.extend(gantts);
        sections.push(Section { title: "Gantt chart".to_owned(), blocks });
    }
    sections.push(Section { title: "More figures".to_owned(), blocks: vec![Block::Table(details(runs))] });
    Page { title: title(runs), lead: lead(runs), cards: cards(runs), sections }
}

/// Which runs get a Gantt chart where not all can: the best of each configuration and number of GPUs in turn.
#[must_use]
pub fn drawn(runs: &[ReportRun], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    let group = |run: &ReportRun| (run.configuration.clone(), run.mode, run.gpus);
    let rank = |at: usize| {
        let same = |other: &&ReportRun| group(other) == group(&runs[at]);
        runs.iter().filter(same).filter(|other| other.judged() < runs[at].judged()).count()
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
        "{} of {}; {} executions. All figures are computed from the logs and their inputs; docs/metrics.md defines them.",
        if runs.len() == 1 { "A run".to_owned() } else { format!("{} runs", runs.len()) },
        names.join(", "),
        grouped(executions as f64, 0)
    )
}

/// The best run of all, or the one there is: the lowest P99 of a stream, the shortest makespan of a batch. Of several configurations no one run is the best.
fn cards(runs: &[ReportRun]) -> Vec<Card> {
    let groups = shape::groups(runs).len();
    let Some(best) =
        runs.iter().min_by(|one, other| one.judged().total_cmp(&other.judged())).filter(|_| groups == 1)
    else {
        let complete = runs.iter().filter(|run| run.metrics.failed_requests == 0).count();
        let valid = runs.iter().filter(|run| run.violations.is_empty()).count();
        return vec![
            Card::new("Runs", runs.len().to_string(), ""),
            Card::new("Configurations", groups.to_string(), "each has a panel below"),
            Card::new("Complete", format!("{complete} of {}", runs.len()), "every request completed"),
            Card::new("Valid", format!("{valid} of {}", runs.len()), "by the independent check"),
        ];
    };
    let metrics = &best.metrics;
    let whose = if runs.len() == 1 { String::new() } else { best.label() };
    let latency = &metrics.request_latency;
    let of_several = |one: &str, many: &str| if runs.len() == 1 { one.to_owned() } else { many.to_owned() };
    let seconds = |value: f64| format!("{} s", grouped(value, 1));
    let mut cards = Vec::new();
    if best.is_stream() {
        let name = of_several("P99 latency", "Lowest P99 latency");
        cards.push(Card::new(name, seconds(latency.p99), whose.clone()));
        let middle = format!("half within {}", seconds(latency.median));
        cards.push(Card::new("Mean latency", seconds(latency.mean), middle));
    }
    if metrics.requests_with_deadline > 0 {
        let (missed, with) = (metrics.deadline_misses, metrics.requests_with_deadline);
        let note = format!("of {} with a deadline", grouped(with as f64, 0));
        cards.push(Card::new("Deadlines missed", grouped(missed as f64, 0), note));
    }
    let failed = metrics.failed_requests;
    let note = if failed == 0 { "all of them done".to_owned() } else { format!("{failed} not done") };
    let requests = Card::new("Requests", grouped(metrics.total_requests as f64, 0), note);
    let name = if best.is_stream() {
        of_several("Makespan", "Its makespan")
    } else {
        of_several("Makespan", "Shortest makespan")
    };
    let makespan =
        Card::new(name, seconds(best.makespan()), if best.is_stream() { String::new() } else { whose });
    if best.is_stream() {
        cards.extend([requests, makespan]);
    } else {
        cards.push(makespan);
        if let (Some(bound), Some(gap)) = (best.bound, best.gap()) {
            let note = format!("the makespan is {gap:.1}% above it");
            cards.push(Card::new("No schedule is shorter than", seconds(bound), note));
        }
        cards.push(requests);
        let middle = format!("half within {}", seconds(latency.median));
        cards.push(Card::new("P99 latency", seconds(latency.p99), middle));
    }
    cards.push(Card::new("Executions", grouped(metrics.completed_nodes as f64, 0), ""));
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

    /// The rows of the latency by workflow, which is there where there are several workflows.
    fn workflow_rows(all: &[ReportRun]) -> usize {
        let count = all[0].metrics.workflows.len();
        if count < 2 { 0 } else { 1 + count }
    }

    #[test]
    fn a_stream_is_judged_by_its_latency() {
        let mut all = runs(&["baseline", "lru"]);
        // The one that ends first has the higher latency.
        let (first, second) = all.split_at_mut(1);
        (first[0].mode, second[0].mode) = ("online", "online");
        first[0].metrics.makespan = gswarm_core::Span(1_000_000);
        first[0].metrics.request_latency.p99 = 99.0;
        second[0].metrics.request_latency.p99 = 9.0;
        let page = page(&mut all);
        let card = &page.cards[0];
        assert_eq!((card.label.as_str(), card.value.as_str()), ("Lowest P99 latency", "9.0 s"));
        assert!(card.note.starts_with("lru"), "{}", card.note);
        assert!(page.charts().next().unwrap().title.contains("P99"), "the first chart is about latency");
        assert_eq!((all[0].policy.as_str(), drawn(&all, 1)), ("lru", vec![0]));
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
        // Heads and rows: the comparison, more figures, and the slowest requests of the best run.
        assert_eq!(html.matches("<tr>").count(), 2 * (1 + 3) + 1 + 10 + workflow_rows(&all));
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
