//! The state as text: cells and lines shared by the screen and the plain output.

use crate::output::table::table;
use gswarm_core::log_file::shown;
use gswarm_exec::wire::{
    BackendStatus, GpuStatus, Happening, ModelStatus, Overview, RunState, SlowRequestRow, WorkflowLatency,
};

/// Heads of the GPUs' columns.
pub const GPU_HEADS: [&str; 7] = ["GPU", "server", "state", "models", "memory", "batch", "free in"];
/// Heads of the queue's columns.
pub const QUEUE_HEADS: [&str; 5] = ["model", "waiting", "longest", "on GPUs", "why"];

pub fn gpu(one: &GpuStatus) -> Vec<String> {
    let models = match &one.loading {
        Some(model) => format!("loading {}", shown(model)),
        None if one.models.is_empty() => "-".to_owned(),
        None => shown(&one.models.join(", ")).into_owned(),
    };
    let memory = match one.memory_total_gb {
        Some(total) => format!("{:.1}/{total:.1} GB", one.memory_gb),
        None => format!("{:.1} GB", one.memory_gb),
    };
    let batch = if one.batch > 0 { one.batch.to_string() } else { String::new() };
    let free = match (one.free_in, one.overdue) {
        (left, _) if left >= 0.05 => seconds(left),
        (_, late) if late >= 0.05 => format!("overdue {}", seconds(late)),
        _ => String::new(),
    };
    vec![
        one.gpu.to_string(),
        one.server.to_string(),
        one.state.name().to_owned(),
        models,
        memory,
        batch,
        free,
    ]
}

pub fn model(one: &ModelStatus) -> Vec<String> {
    let on: Vec<String> = one.resident_on.iter().take(8).map(u32::to_string).collect();
    let more = if one.resident_on.len() > 8 { ".." } else { "" };
    vec![
        shown(&one.name).into_owned(),
        one.waiting.to_string(),
        if one.waiting > 0 { seconds(one.longest_wait) } else { String::new() },
        if on.is_empty() { "-".to_owned() } else { on.join(",") + more },
        one.why.as_deref().map(shown).unwrap_or_default().into_owned(),
    ]
}

/// `3.2 s`, `5 min 10 s`, `2 h 5 min`.
pub fn seconds(value: f64) -> String {
    let whole = value.round() as u64;
    match whole {
        0..100 => format!("{value:.1} s"),
        100..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Its state and uptime.
pub fn state(of: &Overview) -> String {
    let why = of.why.as_deref().map_or_else(String::new, |why| format!(" ({})", shown(why)));
    let speed = if of.speed == 1.0 { String::new() } else { format!(" at {}x real time", of.speed) };
    let time = if of.state == RunState::Finished { "took" } else { "for" };
    format!("{}{why}, policy {}, {time} {}{speed}", of.state.name(), of.policy, seconds(of.now))
}

/// The counts that matter most, in 80 columns.
pub fn few_counts(of: &Overview) -> String {
    let counts = &of.counts;
    let failed = if counts.failed > 0 { format!(", {} failed", counts.failed) } else { String::new() };
    format!(
        "requests: {} open, {} completed{failed} | nodes: {} waiting, {} running",
        counts.open, counts.completed, counts.waiting_nodes, counts.running_nodes
    )
}

/// Rates, in 80 columns.
pub fn few_rates(of: &Overview) -> String {
    let (minutes, latency) = (&of.minutes, &of.latency);
    let told = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), seconds);
    let latencies = format!("latency P50 {}, P99 {}", told(latency.p50), told(latency.p99));
    if latency.window_seconds.is_none() {
        return format!("whole run: {latencies}");
    }
    let (requests, nodes) = (minutes.rate(&minutes.completed), minutes.rate(&minutes.executions));
    format!("last minute: {requests:.2} requests/s, {nodes:.2} nodes/s, {latencies}")
}

/// Heads of the slowest requests' columns.
pub const SLOW_HEADS: [&str; 4] = ["request", "workflow", "latency", "main cause"];

pub fn slow(one: &SlowRequestRow) -> Vec<String> {
    vec![
        shown(&one.request).into_owned(),
        shown(&one.workflow).into_owned(),
        seconds(one.latency),
        shown(&one.why).into_owned(),
    ]
}

/// Heads of the workflows' columns.
pub const WORKFLOW_HEADS: [&str; 5] = ["workflow", "completed", "mean", "P50", "P99"];

pub fn workflow(one: &WorkflowLatency) -> Vec<String> {
    let times = [one.mean, one.p50, one.p99].map(seconds);
    [vec![shown(&one.workflow).into_owned(), one.completed.to_string()], times.to_vec()].concat()
}

/// Everything that is counted, in a line.
pub fn counts(of: &Overview) -> String {
    let counts = &of.counts;
    let broken = match counts.violations {
        0 => String::new(),
        rules => format!(" | {rules} violations of the check: a bug in gswarm"),
    };
    format!(
        "requests: {} open, {} completed, {} failed, {} cancelled | nodes: {} waiting, {} running, {} executed, {} retries | {} loads, {} evictions{broken}",
        counts.open,
        counts.completed,
        counts.failed,
        counts.cancelled,
        counts.waiting_nodes,
        counts.running_nodes,
        counts.executions,
        counts.retries,
        counts.loads,
        counts.evictions
    )
}

/// Recent rates.
pub fn rates(of: &Overview) -> String {
    let (minutes, latency) = (&of.minutes, &of.latency);
    let shown = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), seconds);
    let whole = if latency.window_seconds.is_none() { " of the whole run" } else { "" };
    format!(
        "last minute: {:.2} requests/s, {:.2} nodes/s, {:.1} loads/min, latency{whole} P50 {} P99 {}",
        minutes.rate(&minutes.completed),
        minutes.rate(&minutes.executions),
        60.0 * minutes.rate(&minutes.loads),
        shown(latency.p50),
        shown(latency.p99)
    )
}

/// The servers and what is thought of each, if there are any.
pub fn servers(of: &Overview) -> Option<String> {
    let told = |one: &BackendStatus| {
        let since = one.down_seconds.map_or(String::new(), |since| format!(" for {}", seconds(since)));
        let why = one.why.as_ref().map_or(String::new(), |why| format!(" ({})", shown(why)));
        format!("{} {}{since}{why}", shown(&one.name), one.state.name())
    };
    let all: Vec<String> = of.backends.iter().map(told).collect();
    (!all.is_empty()).then(|| format!("servers: {}", all.join(", ")))
}

pub fn happening(one: &Happening) -> String {
    format!("{:>9.1} s  {:<9} {}", one.t, one.kind.name(), shown(&one.text))
}

/// All of it as plain text.
pub fn text(of: &Overview, happenings: &[Happening]) -> String {
    const LATEST: usize = 10;
    let mut lines = vec![format!("{}: {}", shown(&of.title), state(of)), counts(of), rates(of)];
    lines.extend(servers(of));
    lines.push(String::new());
    lines.push(table(&GPU_HEADS, 4, of.gpus.iter().map(gpu)));
    lines.push(String::new());
    lines.push(table(&QUEUE_HEADS, 1, of.models.iter().map(model)));
    if !of.workflow_latency.is_empty() {
        lines.push(String::new());
        lines.push(table(&WORKFLOW_HEADS, 1, of.workflow_latency.iter().map(workflow)));
        lines.push(String::new());
        lines.push(table(&SLOW_HEADS, 2, of.slowest.iter().map(slow)));
    }
    if !happenings.is_empty() {
        lines.push(String::new());
        lines.extend(happenings[happenings.len().saturating_sub(LATEST)..].iter().map(happening));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn lengths_of_time_are_easy_to_read() {
        let cases = [(0.04, "0.0 s"), (99.4, "99.4 s"), (310.0, "5 min 10 s"), (7500.0, "2 h 5 min")];
        for (value, expected) in cases {
            assert_eq!(seconds(value), expected);
        }
    }
}
