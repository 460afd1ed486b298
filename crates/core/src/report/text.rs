//! The metrics for the console: plain and aligned.

use super::gpus::GpuMetrics;
use super::metrics::{Metrics, ModelMetrics};
use super::requests::WorkflowMetrics;
use super::stats::Stats;
use crate::log_file::{Summary, shown};
use std::borrow::Cow;
use std::fmt::Write;

/// More GPUs than this are not listed one by one.
const LISTED: usize = 32;

/// No line is longer, in characters.
const COLUMNS: usize = 80;

/// The metrics block. The summary adds the bound, and for static runs the deployment.
#[must_use]
pub fn render_text(metrics: &Metrics, summary: Option<&Summary>) -> String {
    let mut text = Text(String::new());
    text.head("Run");
    if let Some(summary) = summary {
        text.row("Policy", format!("{} ({})", summary.policy, summary.mode.name()));
    }
    text.row("Makespan", seconds(metrics.makespan.seconds()));
    if let Some((bound, gap)) = summary.and_then(|summary| summary.lower_bound.zip(summary.gap_percent())) {
        text.row("Lower bound", format!("{} (gap {gap:.2}%)", seconds(bound.seconds())));
        if let Some(note) = &metrics.bound_note {
            text.row("", format!("({note})"));
        }
    }
    let (done, all) = (metrics.completed_requests, metrics.total_requests);
    text.row("Requests completed", format!("{done} of {all}"));
    text.row("Nodes completed", metrics.completed_nodes.to_string());
    text.row(
        "Throughput",
        format!("{:.3} requests/s, {:.3} nodes/s", metrics.requests_per_second, metrics.nodes_per_second),
    );
    if metrics.requests_with_deadline > 0 {
        text.row(
            "Deadlines missed",
            format!("{} of {}", metrics.deadline_misses, metrics.requests_with_deadline),
        );
    }
    if metrics.retries + metrics.failed_executions + metrics.lost_executions + metrics.lost_gpus > 0 {
        text.row("Failed executions", metrics.failed_executions.to_string());
        text.row(
            "Lost executions",
            format!("{} ({} lost)", metrics.lost_executions, of(metrics.lost_gpus, "GPU")),
        );
        text.row("Retries", metrics.retries.to_string());
    }
    text.head("Times (s)");
    text.line(format!(
        "{:<17} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "average", "median", "P90", "P99", "min", "max"
    ));
    text.stats("Request latency", &metrics.request_latency);
    text.stats("Waiting time", &metrics.waiting_time);
    text.stats("Node latency", &metrics.node_latency);
    text.stats("Execution time", &metrics.execution_time);
    workflows(&mut text, metrics);
    utilisation(&mut text, metrics);
    models(&mut text, metrics);
    text.head("Model switching");
    text.row("Model switches", metrics.model_switches.to_string());
    text.row("Cold loads", metrics.cold_loads.to_string());
    text.row("Total switch time", seconds(metrics.total_switch_time.seconds()));
    text.row("Switch overhead", percent(metrics.switch_overhead));
    predictions(&mut text, metrics, summary);
    deployment(&mut text, metrics, summary);
    text.0
}

/// Where there are several. Those with the highest P99 come first: they are what to look at.
fn workflows(text: &mut Text, metrics: &Metrics) {
    if metrics.workflows.len() < 2 {
        return;
    }
    text.head("Request latency by workflow (s)");
    let late = if metrics.requests_with_deadline > 0 { "late" } else { "" };
    text.line(format!(
        "{:<20} {:>8} {:>9} {:>9} {:>9} {:>9} {late:>7}",
        "", "requests", "average", "median", "P99", "max"
    ));
    let mut all: Vec<&WorkflowMetrics> = metrics.workflows.iter().collect();
    all.sort_by(|one, other| other.latency.p99.total_cmp(&one.latency.p99));
    for one in all.iter().take(LISTED) {
        let name = cut(&shown(&one.workflow), 20).into_owned();
        let mut line = format!("{name:<20} {:>8}", one.requests);
        for value in [one.latency.mean, one.latency.median, one.latency.p99, one.latency.max] {
            let _ = write!(line, " {:>9}", narrow(value));
        }
        if one.requests_with_deadline > 0 {
            let _ = write!(line, " {:>7}", one.deadline_misses);
        }
        text.line(line);
    }
    if all.len() > LISTED {
        text.line(format!("({} workflows in all)", all.len()));
    }
}

fn predictions(text: &mut Text, metrics: &Metrics, summary: Option<&Summary>) {
    let Some(found) = &metrics.predictions else { return };
    text.head("Predictions");
    if let Some(name) = summary.and_then(|summary| summary.predictor.as_ref()) {
        text.row("Predictor", name.clone());
        let all = found.predicted + found.not_predicted;
        text.row("Predicted", format!("{} of {}", found.predicted, of(all, "execution")));
    }
    let measured = [("Predicted times", &found.predictor), ("As learned", &found.learned)];
    for (name, accuracy) in measured {
        let Some(accuracy) = accuracy else { continue };
        let error = seconds(accuracy.mean_absolute_error.seconds());
        let (relative, bias) = (percent(accuracy.relative_error), 100.0 * accuracy.bias);
        text.row(name, format!("mean error {error} ({relative}, bias {bias:+.2}%)"));
        let (within, judged) = (percent(accuracy.interval_coverage), accuracy.executions);
        text.row("", format!("{within} of {} within their 90% interval", of(judged, "execution")));
    }
    if found.shared > 0 {
        text.row("Not compared", format!("{}: batched with others", of(found.shared, "execution")));
    }
    for model in found.models.iter().take(LISTED) {
        text.line(format!("{:<20} {:.2} times the estimate", cut(&shown(&model.model), 20), model.factor));
    }
    if found.models.len() > LISTED {
        text.line(format!("({} models in all)", found.models.len()));
    }
}

fn models(text: &mut Text, metrics: &Metrics) {
    text.head("Model executions");
    let used = |model: &&ModelMetrics| model.executions + model.switches + model.cold_loads > 0;
    let loads = |model: &ModelMetrics| {
        format!("({}, {})", of(model.switches, "switch"), of(model.cold_loads, "cold load"))
    };
    let all: Vec<(_, String, String)> = metrics
        .models
        .iter()
        .filter(used)
        .map(|model| (model.executions, shown(&model.model).into_owned(), loads(model)))
        .collect();
    let longest = all.iter().map(|(_, name, _)| name.chars().count()).max().unwrap_or(0).max(20);
    let loads = all.iter().map(|(_, _, loads)| loads.chars().count()).max().unwrap_or(0);
    let width = longest.min((COLUMNS - 16).saturating_sub(loads));
    for (executions, name, loads) in &all {
        text.line(format!("{:<width$} {executions:>11}  {loads}", cut(name, width)));
    }
}

fn utilisation(text: &mut Text, metrics: &Metrics) {
    let all = &metrics.utilisation;
    text.head("GPU utilisation");
    text.row("Average", format!("{} (computing {})", percent(all.mean), percent(all.mean_compute)));
    text.row("Spread", format!("{:.2} points, variance {:.6}", all.spread_points, all.variance));
    text.row("Load balance", format!("{:.4}", all.load_balance));
    let gpus = &metrics.gpus;
    if gpus.len() <= LISTED {
        gpus.iter().for_each(|gpu| text.gpu(&format!("GPU {}", gpu.gpu), gpu));
        return;
    }
    let by =
        |a: &&GpuMetrics, b: &&GpuMetrics| a.utilisation.total_cmp(&b.utilisation).then(b.gpu.cmp(&a.gpu));
    let ends = [("first", gpus.first()), ("last", gpus.last())];
    let extremes = [("idlest", gpus.iter().min_by(by)), ("busiest", gpus.iter().max_by(by))];
    for (which, gpu) in ends.into_iter().chain(extremes) {
        gpu.into_iter().for_each(|gpu| text.gpu(&format!("GPU {} ({which})", gpu.gpu), gpu));
    }
    text.line(format!("({} GPUs in all)", gpus.len()));
}

fn deployment(text: &mut Text, metrics: &Metrics, summary: Option<&Summary>) {
    let deployment = summary.and_then(|summary| summary.deployment.as_ref());
    if metrics.servers.servers < 2 && deployment.is_none() {
        return;
    }
    let servers = &metrics.servers;
    text.head("Servers");
    text.row("Servers", servers.servers.to_string());
    text.row("Server efficiency", percent(servers.server_efficiency));
    text.row("Requests on one", servers.intra_server_workflows.to_string());
    text.row("Requests on several", servers.inter_server_workflows.to_string());
    text.row("Edges across", servers.cross_server_communications.to_string());
    let Some(deployment) = deployment else { return };
    text.head("Deployment");
    if let Some(loads) = &metrics.deployment {
        text.row("Replicas loaded", loads.replicas.to_string());
        text.row("Load time", seconds(loads.load.seconds()));
        text.row("All loaded after", seconds(loads.ready_after.seconds()));
    }
    for (gpu, models) in deployment.gpu_assignments.iter().take(LISTED) {
        text.row(&format!("GPU {gpu}"), models.join(", "));
    }
    if deployment.gpu_assignments.len() > LISTED {
        text.line(format!("({} GPUs in all)", deployment.gpu_assignments.len()));
    }
}

struct Text(String);

impl Text {
    fn head(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{title}");
    }

    fn line(&mut self, line: String) {
        let _ = writeln!(self.0, "  {}", cut(shown(line.trim_end()).as_ref(), COLUMNS - 2));
    }

    fn row(&mut self, name: &str, value: String) {
        self.line(format!("{name:<20} {value}"));
    }

    fn stats(&mut self, name: &str, stats: &Stats) {
        let Stats { mean, median, p90, p99, min, max, .. } = *stats;
        let mut line = format!("{name:<17}");
        for value in [mean, median, p90, p99, min, max] {
            let _ = write!(line, " {:>9}", narrow(value));
        }
        self.line(line);
    }

    fn gpu(&mut self, name: &str, gpu: &GpuMetrics) {
        let (busy, compute) = (percent(gpu.utilisation), percent(gpu.compute_utilisation));
        self.line(format!(
            "{name:<20} {busy:>8} (computing {compute:>7})  {}",
            of(gpu.executions, "execution")
        ));
    }
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.2} s")
}

fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

/// Seconds in nine characters.
fn narrow(seconds: f64) -> String {
    if seconds < 999_999.995 {
        format!("{seconds:.2}")
    } else if seconds < 999_999_999.5 {
        format!("{seconds:.0}")
    } else {
        format!("{seconds:.2e}")
    }
}

/// A count and what it counts.
fn of(count: u64, noun: &str) -> String {
    let plural = match noun {
        _ if count == 1 => "",
        "switch" => "es",
        _ => "s",
    };
    format!("{count} {noun}{plural}")
}

/// A text of at most so many characters; where it is longer, an ellipsis stands for the rest.
fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().take(width.saturating_sub(1)).chain(['…']).collect())
}
