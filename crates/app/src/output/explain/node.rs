//! A node's explanation.

use super::{at, gpus, long, paragraph, s};
use crate::output::table::{fitted, grouped};
use crate::output::{count, heading, width};
use gswarm_core::Span;
use gswarm_core::explain::{Alternative, Holder, NodeStory, Wait};
use gswarm_core::log_file::shown;
use std::fmt::Write;

/// Why a node started when it did.
pub fn node(story: &NodeStory) -> String {
    let (name, model) = (shown(&story.node), shown(&story.model));
    let mut out = format!(
        "{}\n\n",
        heading(&format!(
            "{name}: {model} on {}, {} to {}",
            gpus(&story.gpus),
            at(story.start),
            at(story.end)
        ))
    );
    if story.status != "completed" || story.attempt > 1 {
        let _ = writeln!(out, "Attempt {}, {}.", story.attempt, story.status);
    }
    out += &paragraph(&ready(story));
    out += &paragraph(&waited(story));
    if let Some(text) = queued(story) {
        out += &paragraph(&text);
    }
    if !story.held_by.is_empty() {
        let _ = write!(out, "\n{}\n\n{}\n", heading("What its GPUs were doing"), holders(&story.held_by));
        if story.holders_left_out > 0 {
            let _ = writeln!(out, "and {} before these", story.holders_left_out);
        }
    }
    if let Some(text) = switched(story) {
        let _ = write!(out, "\n{}\n\n{}", heading("The switch"), paragraph(&text));
    }
    let _ = write!(out, "\n{}\n\n{}\n\n", heading("Where it could have run"), windows(&story.alternatives));
    out += &paragraph(&verdict(story));
    out
}

fn ready(story: &NodeStory) -> String {
    match story.inputs.as_slice() {
        _ if story.attempt > 1 => {
            let before = if story.attempt == 2 {
                "its first attempt".to_owned()
            } else {
                format!("attempt {}", story.attempt - 1)
            };
            format!("Ready again at {}: {before} failed or lost a GPU then.", at(story.ready))
        }
        [] => format!("It waits for no other node: ready when its request arrived, at {}.", at(story.ready)),
        [last, others @ ..] if last.end >= story.arrival => {
            let rest = others.first().map_or(String::new(), |next| {
                let more =
                    if others.len() > 1 { format!(" and {} more", others.len() - 1) } else { String::new() };
                format!(", after {}{more} ({} before)", next.node, long(last.end.since(next.end)))
            });
            format!("Ready at {}: its last input, {}, ended then{rest}.", at(story.ready), last.node)
        }
        _ => format!("Ready at {}.", at(story.ready)),
    }
}

fn waited(story: &NodeStory) -> String {
    let Wait { total, executing, loading, switching, idle } = story.wait;
    if total == Span::ZERO {
        return "It started at once: its GPUs were free and its model was on them.".to_string();
    }
    let part = |span: Span, what: &str| (span.0 > 0).then(|| format!("{} {what}", long(span)));
    let parts = [
        part(executing, "while others executed on its GPUs"),
        part(loading, "while models were loaded there for others"),
        part(switching, "for its own model to be loaded"),
        part(idle, "with its GPUs idle"),
    ];
    format!("It waited {}: {}.", long(total), parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Who else waited, where that has to do with its wait.
fn queued(story: &NodeStory) -> Option<String> {
    let (before, overtook) = (story.queue.before as u64, story.queue.overtook as u64);
    if story.wait.total == story.wait.switching || before + overtook == 0 {
        return None;
    }
    let were = |number: u64| if number == 1 { "was" } else { "were" };
    let later = match overtook {
        0 => "none that was ready later took GPUs before it".to_string(),
        _ => format!("{} that {} ready later took GPUs before it", count(overtook, "node"), were(overtook)),
    };
    Some(format!("{} {} already waiting when it was ready; {later}.", count(before, "node"), were(before)))
}

fn holders(all: &[Holder]) -> String {
    let row = |one: &Holder| {
        let order = match (one.overtook, one.went_first) {
            (true, _) => "overtook it",
            (_, true) => "went first",
            _ => "was there",
        };
        vec![
            shown(one.node.as_deref().unwrap_or("(load ahead)")).into_owned(),
            shown(&one.model).into_owned(),
            gpus(&one.gpus).replace("GPUs ", "").replace("GPU ", ""),
            order.to_string(),
            grouped(one.from.seconds(), 1),
            grouped(one.to.seconds(), 1),
            if one.load.0 > 0 { grouped(one.load.seconds(), 1) } else { "-".to_string() },
        ]
    };
    let header = ["node", "model", "GPUs", "order", "from s", "to s", "load s"];
    fitted(&header, 4, all.iter().map(row).collect(), width())
}

fn switched(story: &NodeStory) -> Option<String> {
    let length = story.wait.switching;
    let old: Vec<String> = story
        .replaced
        .iter()
        .map(|one| match one.waiting_nodes {
            0 => format!("{}, for which no node was ready", one.model),
            nodes => format!(
                "{}, for which {} ({} of execution) could have continued without a load",
                one.model,
                count(nodes as u64, "ready node"),
                long(one.waiting_work)
            ),
        })
        .collect();
    match (old.is_empty(), length.0) {
        (false, _) => {
            Some(format!("Loading {} took {} and evicted {}.", story.model, long(length), old.join(" and ")))
        }
        (true, 0) => None,
        (true, _) => Some(format!("Loading {} took {} and evicted nothing.", story.model, long(length))),
    }
}

fn windows(all: &[Alternative]) -> String {
    let row = |one: &Alternative| {
        let mut name = gpus(&one.gpus).replace("GPUs ", "").replace("GPU ", "");
        if one.alike > 0 {
            let _ = write!(name, " (+{})", one.alike);
        }
        let later = one.later_by as f64 / 1e6;
        vec![
            name,
            if one.holds.is_empty() {
                "nothing".to_string()
            } else {
                shown(&one.holds.join(", ")).into_owned()
            },
            match (one.chosen, one.free_room) {
                (true, _) => "chosen",
                (_, true) => "room",
                _ => "used next",
            }
            .to_string(),
            grouped(one.free_at.seconds(), 1),
            grouped(one.load.seconds(), 1),
            grouped(one.could_start.seconds(), 1),
            if later == 0.0 {
                "0.0".to_string()
            } else {
                format!("{}{}", if later > 0.0 { "+" } else { "" }, grouped(later, 1))
            },
        ]
    };
    let header = ["GPUs", "held", "", "free s", "load s", "start s", "later s"];
    fitted(&header, 3, all.iter().map(row).collect(), width())
}

/// What the table comes to.
fn verdict(story: &NodeStory) -> String {
    let others = || story.alternatives.iter().filter(|one| !one.chosen);
    let sooner = |one: &&Alternative| one.later_by < 0;
    let critical = if story.critical {
        "The node is on its request's critical path."
    } else {
        "The node is not on its request's critical path: its request would not have ended sooner."
    };
    let best = if let Some(room) = others().filter(sooner).find(|one| one.free_room) {
        format!(
            "On {} it could have started {} sooner, with everything else unchanged.",
            gpus(&room.gpus),
            s(-room.later_by as f64 / 1e6)
        )
    } else if let Some(best) = others().find(sooner) {
        let order = if best.taken_by_was_first {
            "which was ready before it or with it"
        } else {
            "which was ready later"
        };
        let instead =
            best.taken_by.as_deref().map_or(String::new(), |next| format!(", ahead of {next}, {order}"));
        format!(
            "{} would have served it {} sooner{instead}.",
            gpus(&best.gpus),
            s(-best.later_by as f64 / 1e6)
        )
    } else if let Some(own) = story.alternatives.iter().find(|one| one.chosen && one.later_by < 0) {
        format!(
            "No other GPUs would have been sooner. On its own GPUs it could have started {} sooner by going first.",
            s(-own.later_by as f64 / 1e6)
        )
    } else if let Some(next) = others().min_by_key(|one| one.later_by) {
        match next.later_by {
            0 => "Other GPUs would have been as good, but none better.".to_string(),
            later => format!(
                "No choice was better; the next best would have been {} later.",
                s(later as f64 / 1e6)
            ),
        }
    } else {
        "There were no other GPUs to choose from.".to_string()
    };
    format!("{best} {critical}")
}
