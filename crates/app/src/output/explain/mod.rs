//! Explanations for people.

mod node;

pub use node::node;

use super::table::{ending_in_text, fitted, grouped, table};
use super::{count, heading, width, wrapped};
use gswarm_core::explain::{CauseShare, Gap, GpuStory, IdleStory, RequestStory, SlowRequest};
use gswarm_core::log_file::shown;
use gswarm_core::{Span, Time};
use std::fmt::Write;

/// `12.4 s`, with thousands set apart.
fn s(seconds: f64) -> String {
    format!("{} s", grouped(seconds, 1))
}

fn at(time: Time) -> String {
    s(time.seconds())
}

fn long(span: Span) -> String {
    s(span.seconds())
}

fn percent(part: Span, whole: Span) -> String {
    format!("{:.1}", if whole.0 == 0 { 0.0 } else { 100.0 * part.0 as f64 / whole.0 as f64 })
}

/// `GPU 3`, `GPUs 0-7`.
fn gpus(all: &[u32]) -> String {
    match all {
        [one] => format!("GPU {one}"),
        [first, .., last] => format!("GPUs {first}-{last}"),
        [] => "no GPU".to_string(),
    }
}

fn paragraph(text: &str) -> String {
    format!("{}\n", wrapped(&shown(text), 0, width()))
}

/// Where a request's time went.
pub fn request(story: &RequestStory) -> String {
    let (name, workflow) = (shown(&story.request), shown(&story.workflow));
    let title = format!(
        "{name} ({workflow}): {} from {} to {}",
        long(story.latency),
        at(story.arrival),
        at(story.end)
    );
    let mut out = format!("{}\n\n", heading(&title));
    let part = |what: &str, span: Span| {
        (span.0 > 0).then(|| format!("{what} {} ({}%)", long(span), percent(span, story.latency)))
    };
    let parts = [
        part("waiting", story.waiting),
        part("switching", story.switching),
        part("executing", story.executing),
        part("failed and lost attempts, and the waits for them", story.retrying),
    ];
    out += &paragraph(&format!(
        "On its critical path: {}.",
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    ));
    out += &paragraph(&format!("Without any waiting it would have taken {}.", long(story.undisturbed)));
    if let Some(late) = story.late_by_seconds {
        let text = if late > 0.0 {
            format!("It missed its deadline by {}.", s(late))
        } else {
            format!("It met its deadline with {} to spare.", s(-late))
        };
        out += &paragraph(&text);
    }
    if !story.completed {
        out += &paragraph("It never completed: what follows leads to the last node that ran.");
    }
    let rows = story.path.iter().map(|step| {
        vec![
            shown(&step.node).into_owned(),
            shown(&step.model).into_owned(),
            gpus(&step.gpus).replace("GPUs ", "").replace("GPU ", ""),
            grouped(step.start.seconds(), 1),
            grouped(step.waiting.seconds(), 1),
            grouped(step.switching.seconds(), 1),
            grouped(step.executing.seconds(), 1),
            percent(Span(step.end.since(step.inputs).0), story.latency),
        ]
    });
    let header = ["node", "model", "GPUs", "start s", "wait s", "switch s", "run s", "% of all"];
    let _ = write!(out, "\n{}\n", fitted(&header, 3, rows.collect(), width()));
    let slack = |one: &gswarm_core::explain::NodeSlack| format!("{} ({})", shown(&one.node), long(one.slack));
    if !story.others.is_empty() {
        let list: Vec<String> = story.others.iter().map(slack).collect();
        let _ = write!(
            out,
            "\n{}",
            paragraph(&format!("Off the critical path, with slack: {}.", list.join(", ")))
        );
    }
    out
}

/// The slowest requests, a line each: where their time went, and main cause.
pub fn slowest(all: &[SlowRequest]) -> String {
    let late_by = |one: &SlowRequest| one.late_by_seconds.filter(|&late| late > 0.0);
    let late = all.iter().any(|one| late_by(one).is_some());
    let mut header = vec!["request", "latency s", "wait s", "load s", "run s"];
    header.extend(late.then_some("late s"));
    header.push("main cause");
    let rows = all.iter().map(|one| {
        let mut row = vec![
            shown(&one.request).into_owned(),
            grouped(one.latency_seconds, 1),
            grouped(one.waiting_seconds + one.retrying_seconds, 1),
            grouped(one.switching_seconds, 1),
            grouped(one.executing_seconds, 1),
        ];
        if late {
            row.push(late_by(one).map_or_else(|| "-".to_owned(), |late| grouped(late, 1)));
        }
        row.push(shown(&format!("{} {}", one.node, one.why)).into_owned());
        row
    });
    let title = match all.len() {
        0 => return String::new(),
        1 => "The slowest request".to_owned(),
        many => format!("The {many} slowest requests"),
    };
    format!("{}\n\n{}\n", heading(&title), ending_in_text(&header, rows.collect(), width()))
}

pub fn gpu(story: &GpuStory) -> String {
    let share = |span| percent(span, story.makespan);
    let mut out = format!("{}\n\n", heading(&format!("GPU {} over {}", story.gpu, long(story.makespan))));
    let lost = if story.lost.0 > 0 { format!(", lost {}%", share(story.lost)) } else { String::new() };
    out += &paragraph(&format!(
        "Executing {}%, switching {}%, idle {}% ({}){lost}.",
        share(story.executing),
        share(story.switching),
        share(story.idle),
        long(story.idle)
    ));
    let rows = story.models.iter().map(|one| {
        vec![
            shown(&one.model).into_owned(),
            grouped(one.executions as f64, 0),
            grouped(one.executing.seconds(), 1),
            share(one.executing),
            grouped(one.loads as f64, 0),
            grouped(one.switching.seconds(), 1),
            share(one.switching),
        ]
    });
    let header = ["model", "executions", "run s", "%", "loads", "load s", "%"];
    let _ = write!(out, "\n{}\n", fitted(&header, 1, rows.collect(), width()));
    if story.idle.0 > 0 {
        let _ = write!(out, "\n{}\n\n{}", heading("Why it was idle"), causes(&story.causes));
        out += &gaps(&story.gaps, story.gap_count, false);
    }
    out
}

pub fn idle(story: &IdleStory) -> String {
    let title = format!(
        "{} idle {:.1}% of {}: {} GPU-seconds in {}",
        number_of_gpus(story.gpus),
        100.0 * story.idle_share,
        long(story.makespan),
        grouped(story.idle_gpu_seconds, 1),
        count(story.gap_count as u64, "gap")
    );
    let mut out = format!("{}\n\n{}", heading(&title), causes(&story.causes));
    out += &gaps(&story.gaps, story.gap_count, true);
    out
}

fn number_of_gpus(number: u32) -> String {
    if number == 1 { "1 GPU,".to_string() } else { format!("{number} GPUs,") }
}

fn causes(all: &[CauseShare]) -> String {
    let rows = all.iter().filter(|one| one.gpu_seconds > 0.0).map(|one| {
        vec![one.cause.title().to_string(), grouped(one.gpu_seconds, 1), format!("{:.2}", 100.0 * one.share)]
    });
    format!("{}\n", table(&["reason", "GPU-seconds", "% of all"], 1, rows))
}

fn gaps(all: &[Gap], total: usize, with_gpu: bool) -> String {
    if all.is_empty() {
        return String::new();
    }
    let title = if all.len() < total {
        format!("The {} longest of {total} gaps", all.len())
    } else {
        "All gaps".to_string()
    };
    let mut out = format!("\n{}\n\n", heading(&title));
    // A model on several GPUs leaves the same gap on all of them.
    let same = |one: &Gap, next: &Gap| {
        next.gpu == one.gpu + 1 && (one.from, one.to, one.cause) == (next.from, next.to, next.cause)
    };
    for alike in all.chunk_by(same) {
        let gap = &alike[0];
        let ids: Vec<u32> = alike.iter().map(|gap| gap.gpu).collect();
        let gpu = if with_gpu { format!("{:<12} ", gpus(&ids)) } else { String::new() };
        let _ = writeln!(out, "{gpu}{:>10}  from {} to {}", long(gap.length), at(gap.from), at(gap.to));
        let most = if gap.for_this < gap.length {
            format!(" ({} of it)", long(gap.for_this))
        } else {
            String::new()
        };
        let reason = format!("{}{most}{}", gap.cause.title(), example(gap));
        let _ = writeln!(out, "{}", wrapped(&shown(&reason), 4, width()));
    }
    out
}

fn example(gap: &Gap) -> String {
    gap.example.as_ref().map_or(String::new(), |one| {
        let needs = if one.gpus_needed > 1 { format!(" on {} GPUs", one.gpus_needed) } else { String::new() };
        let node = format!("{} ({}{needs})", one.node, one.model);
        let ready = at(one.ready);
        if one.waited {
            format!("; {node} was ready from {ready}")
        } else {
            format!("; next {node}, ready at {ready}")
        }
    })
}
