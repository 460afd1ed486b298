//! The comparison of two runs, as text.

use super::table::{fitted, grouped};
use super::{count, heading, width, wrapped};
use gswarm_core::diff::{
    Diff, FigureChange, FirstDifference, LatencyParts, NodePlacement, RequestChanges, RequestMove,
};
use gswarm_core::log_file::shown;

/// The whole comparison; `names` are those of the runs.
pub fn diff(diff: &Diff, names: &[String; 2]) -> String {
    let [first, second] = names.each_ref().map(|name| shown(name).into_owned());
    let mut out = format!("{}\n\n", heading(&format!("first: {first}; second: {second}")));
    if diff.nodes.parts_at.is_none() && diff.requests.not_in_both_inputs == 0 {
        return out
            + "The two runs are the same: every node ran on the same GPUs and started at the same time.\n";
    }
    let figures = diff.figures.iter().chain(&diff.gpu_time).map(row).collect();
    out += &fitted(&["", "first", "second", "change", "%"], 1, figures, width());
    out += "\n\n";
    out += &moved(diff);
    out += &models(diff);
    out += &requests(&diff.requests);
    out
}

fn digits(figure: &FigureChange) -> usize {
    usize::from(!figure.unit.is_empty())
}

fn row(figure: &FigureChange) -> Vec<String> {
    let unit = if figure.unit.is_empty() { String::new() } else { format!(" ({})", figure.unit) };
    let digits = digits(figure);
    let verdict = match (figure.less_is_better, figure.change()) {
        (_, 0.0) | (None, _) => "",
        (Some(less), change) if (change < 0.0) == less => " better",
        _ => " worse",
    };
    let percent = figure.percent().map_or_else(String::new, |percent| signed(percent, 1));
    vec![
        format!("{}{unit}", figure.name),
        grouped(figure.first, digits),
        grouped(figure.second, digits),
        format!("{}{verdict}", signed(figure.change(), digits)),
        percent,
    ]
}

fn signed(value: f64, digits: usize) -> String {
    let text = grouped(value, digits);
    let is_zero = text.chars().all(|one| !one.is_ascii_digit() || one == '0');
    match () {
        () if is_zero => grouped(0.0, digits),
        () if value > 0.0 => format!("+{text}"),
        () => text,
    }
}

fn paragraph(text: &str) -> String {
    format!("{}\n", wrapped(&shown(text), 0, width()))
}

fn s(seconds: f64) -> String {
    format!("{} s", grouped(seconds, 1))
}

/// Changes of the nodes.
fn moved(diff: &Diff) -> String {
    let nodes = &diff.nodes;
    let mut out = format!("{}\n", heading("What moved"));
    let mut parts =
        vec![format!("{} ran on the same GPUs at the same time", grouped(nodes.unmoved as f64, 0))];
    let mut add = |number: u64, what: String| {
        if number > 0 {
            parts.push(format!("{} {what}", grouped(number as f64, 0)));
        }
    };
    add(nodes.on_other_gpus, "ran on other GPUs".to_owned());
    add(nodes.earlier, format!("started earlier, by {} on average", s(nodes.earlier_by_seconds)));
    add(nodes.later, format!("started later, by {} on average", s(nodes.later_by_seconds)));
    let executing = signed(nodes.executing_change_seconds, 1);
    add(nodes.other_length, format!("took a different time to execute ({executing} s in total)"));
    out += &paragraph(&format!(
        "Of {} that completed in both, {}.",
        count(nodes.in_both, "node"),
        parts.join("; ")
    ));
    if nodes.only_first + nodes.only_second > 0 {
        out += &paragraph(&format!(
            "{} completed in the first run alone, {} in the second alone.",
            count(nodes.only_first, "node"),
            grouped(nodes.only_second as f64, 0)
        ));
    }
    if let Some(apart) = &nodes.parts_at {
        out += &paragraph(&parting(apart));
    }
    out + "\n"
}

fn parting(apart: &FirstDifference) -> String {
    let placed = |side: &Option<NodePlacement>| match side {
        None => "did not complete".to_owned(),
        Some(NodePlacement { gpus, start_seconds, switch_seconds }) => {
            let gpus = match gpus.as_slice() {
                [one] => format!("GPU {one}"),
                [first, .., last] => format!("GPUs {first}-{last}"),
                [] => "no GPU".to_owned(),
            };
            let load = if *switch_seconds > 0.0 {
                format!(" after a load of {}", s(*switch_seconds))
            } else {
                String::new()
            };
            format!("started at {} on {gpus}{load}", s(*start_seconds))
        }
    };
    let (at, first, second) = (s(apart.at_seconds), placed(&apart.first), placed(&apart.second));
    format!(
        "The runs diverge at {at}: {} ({}) {first} in the first run, but {second} in the second.",
        apart.node, apart.model
    )
}

/// Models with different loads or placement.
fn models(diff: &Diff) -> String {
    const LISTED: usize = 12;
    if diff.models.is_empty() {
        return String::new();
    }
    let rows = diff.models.iter().take(LISTED).map(|one| {
        let [first, second] = one.loads;
        let [from, to] = one.load_gpu_seconds;
        let arrow = |from: u64, to: u64| format!("{} -> {}", grouped(from as f64, 0), grouped(to as f64, 0));
        vec![
            shown(&one.model).into_owned(),
            arrow(first, second),
            arrow(one.gpus[0], one.gpus[1]),
            signed(to - from, 1),
        ]
    });
    let rows = rows.collect();
    let mut out = format!("{}\n", heading("Models with different loads or placement"));
    out += &fitted(&["model", "loads", "on GPUs", "load time (GPU s)"], 1, rows, width());
    out += "\n";
    if diff.models.len() > LISTED {
        out += &format!("and {} more; --json has all\n", diff.models.len() - LISTED);
    }
    out + "\n"
}

/// Changes of the requests.
fn requests(all: &RequestChanges) -> String {
    let mut out = format!("{}\n", heading("Effect on requests"));
    let same = all.in_both - all.sooner - all.later;
    out += &paragraph(&format!(
        "Of {} that completed in both, {} had a lower latency, {} a higher one, {} the same.",
        count(all.in_both, "request"),
        grouped(all.sooner as f64, 0),
        grouped(all.later as f64, 0),
        grouped(same as f64, 0)
    ));
    if all.only_first + all.only_second > 0 {
        out += &paragraph(&format!(
            "{} completed in the first run alone, {} in the second alone.",
            count(all.only_first, "request"),
            all.only_second
        ));
    }
    if all.not_in_both_inputs > 0 {
        let alone = count(all.not_in_both_inputs, "request");
        out +=
            &paragraph(&format!("{alone} of one run's inputs are missing in the other's and are omitted."));
    }
    let [first, second] = all.mean_parts;
    let rows = named(&first).into_iter().zip(named(&second)).filter(|(one, other)| one.1 + other.1 > 0.0);
    let rows = rows.map(|((name, first), (_, second))| {
        vec![name.to_owned(), grouped(first, 1), grouped(second, 1), signed(second - first, 1)]
    });
    out += &fitted(&["mean of a request (s)", "first", "second", "change"], 1, rows.collect(), width());
    out += "\n\n";
    out += &listed("Lost most", &all.lost);
    out += &listed("Gained most", &all.gained);
    out
}

fn named(parts: &LatencyParts) -> [(&'static str, f64); 4] {
    [
        ("waiting for a turn", parts.waiting_seconds),
        ("own loads", parts.switching_seconds),
        ("executing", parts.executing_seconds),
        ("failed attempts", parts.retrying_seconds),
    ]
}

fn listed(title: &str, moves: &[RequestMove]) -> String {
    if moves.is_empty() {
        return String::new();
    }
    let header = ["request", "first (s)", "second (s)", "change", "waiting", "loads", "executing", "retries"];
    // Retries are seldom there.
    let columns = if moves.iter().any(|one| one.parts.retrying_seconds != 0.0) { 8 } else { 7 };
    let rows = moves.iter().map(|one| {
        let [first, second] = one.latency_seconds.map(|seconds| grouped(seconds, 1));
        let mut row = vec![shown(&one.request).into_owned(), first, second, signed(one.change_seconds, 1)];
        row.extend(named(&one.parts).iter().map(|(_, change)| signed(*change, 1)));
        row.truncate(columns);
        row
    });
    let table = fitted(&header[..columns], 1, rows.collect(), width());
    format!("{}\n{table}\n\n", heading(title))
}

#[cfg(test)]
mod tests {
    use super::signed;

    #[test]
    fn changes_have_a_sign_unless_they_are_none() {
        let cases = [(1234.5, "+1,234.5"), (-0.04, "0.0"), (0.0, "0.0"), (-3.0, "-3.0")];
        for (value, expected) in cases {
            assert_eq!(signed(value, 1), expected);
        }
    }
}
