//! One run, measured and thinned for charts: everything comes from the instance and the log.

mod curves;

pub use curves::{Curve, cumulative, latencies, loads_over_time, queue_length};

use crate::gantt::Gantt;
use gswarm_core::Instance;
use gswarm_core::explain::{SLOWEST, SlowRequest, Timeline, slowest};
use gswarm_core::instance::Mode;
use gswarm_core::log::ExecutionLog;
use gswarm_core::log_file::LogFile;
use gswarm_core::report::{Metrics, metrics};

/// The most points of a curve: more than a chart is wide.
pub const MOST_POINTS: usize = 800;
/// The most points of predictions.
const MOST_PREDICTIONS: usize = 1_500;

/// A run, as a report needs it.
#[derive(Clone, Debug)]
pub struct ReportRun {
    /// The log's name.
    pub log: String,
    /// What was run: runs of the same configuration are compared.
    pub configuration: String,
    /// Who chose; `unknown` where the log does not say.
    pub policy: String,
    /// How requests arrived.
    pub mode: &'static str,
    /// GPUs of the cluster.
    pub gpus: u32,
    /// Its figures.
    pub metrics: Metrics,
    /// What no schedule goes below, in seconds.
    pub bound: Option<f64>,
    /// Executions that were ready and had no GPUs, over time.
    pub queue: Curve,
    /// Loads that had ended, over time.
    pub loads: Curve,
    /// The share of the requests that took no longer.
    pub latency: Curve,
    /// Estimated and actual times of executions, where they differ.
    pub predictions: Vec<(f64, f64)>,
    /// How many executions those were chosen from.
    pub predicted: usize,
    /// The slowest requests, slowest first, with why.
    pub slowest: Vec<SlowRequest>,
    /// What was found wrong with the log; such a run is shown, and said to be invalid.
    pub violations: Vec<String>,
    /// The bars.
    pub gantt: Option<Gantt>,
}

impl ReportRun {
    /// Measures a log. `name` is the log's, `configuration` that of its inputs; the bound is the log's own claim.
    #[must_use]
    pub fn of(
        name: &str,
        configuration: &str,
        instance: &Instance,
        log: &ExecutionLog,
        file: &LogFile,
    ) -> ReportRun {
        let metrics = metrics(instance, log);
        let (predictions, predicted) = predictions(file);
        ReportRun {
            log: name.to_owned(),
            configuration: configuration.to_owned(),
            policy: file.claims.policy.clone().unwrap_or_else(|| "unknown".to_owned()),
            mode: instance.mode.name(),
            gpus: instance.cluster.gpus,
            bound: file.claims.lower_bound.filter(|bound| bound.is_finite() && *bound > 0.0),
            queue: queue_length(log),
            loads: loads_over_time(log),
            latency: latencies(instance, log),
            predictions,
            predicted,
            slowest: slowest(&Timeline::new(instance, log), SLOWEST),
            violations: Vec::new(),
            gantt: None,
            metrics,
        }
    }

    /// How it is called where several runs are shown.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{} on {} GPU{}", self.policy, self.gpus, if self.gpus == 1 { "" } else { "s" })
    }

    /// Whether requests arrived over time: then latency says how good it was, else the makespan does.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.mode == Mode::Online.name()
    }

    /// What runs of the same problem are ranked by, in seconds; less is better.
    #[must_use]
    pub fn judged(&self) -> f64 {
        if self.is_stream() { self.metrics.request_latency.p99 } else { self.makespan() }
    }

    /// The makespan in seconds.
    #[must_use]
    pub fn makespan(&self) -> f64 {
        self.metrics.makespan.seconds()
    }

    /// How far the makespan lies above the bound, in percent.
    #[must_use]
    pub fn gap(&self) -> Option<f64> {
        self.bound.map(|bound| (self.makespan() - bound) / bound * 100.0)
    }
}

/// Estimated and actual seconds of completed executions that ran alone, at even distances; none where every estimate was
/// right to the microsecond, as in runs that are made of estimates.
fn predictions(file: &LogFile) -> (Vec<(f64, f64)>, usize) {
    let pairs: Vec<(f64, f64)> = file
        .executions
        .iter()
        .filter(|record| record.batch_size.unwrap_or(1) == 1)
        .filter(|record| record.status.is_none_or(|status| file.name(status) == "completed"))
        .filter_map(|record| {
            let between = || Some(record.end_time? - record.start_time?);
            let took = record.execution_time.or_else(between)?;
            Some((record.estimated_time?, took))
        })
        .filter(|(estimate, took)| *estimate > 0.0 && *took > 0.0)
        .collect();
    if pairs.iter().all(|(estimate, took)| (estimate - took).abs() < 2e-6) {
        return (Vec::new(), 0);
    }
    let step = pairs.len().div_ceil(MOST_PREDICTIONS).max(1);
    (pairs.iter().step_by(step).copied().collect(), pairs.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_run_has_the_figures_of_its_log() {
        let (instance, log) = testing::run("baseline", 30);
        let run = ReportRun::of("a.json", "c", &instance, &log, &LogFile::default());
        assert_eq!(run.metrics, metrics(&instance, &log));
        assert_eq!((run.policy.as_str(), run.gpus), ("unknown", instance.cluster.gpus));
        assert!(run.predictions.is_empty() && run.gap().is_none());
    }

    #[test]
    fn predictions_are_those_of_completed_executions_that_ran_alone() {
        let line = |batch: u32, status: &str, took: f64| {
            format!(
                "{{\"request_id\":\"r\",\"estimated_time\":2.0,\"execution_time\":{took},\"batch_size\":{batch},\"status\":\"{status}\"}}\n"
            )
        };
        let head = "{\"kind\":\"header\",\"schema\":1,\"summary\":{}}\n".to_owned();
        let text = head + &line(1, "completed", 2.5) + &line(2, "completed", 4.0) + &line(1, "failed", 1.0);
        assert_eq!(predictions(&LogFile::read(&text)), (vec![(2.0, 2.5)], 1));
        let right =
            "{\"kind\":\"header\",\"schema\":1,\"summary\":{}}\n".to_owned() + &line(1, "completed", 2.0);
        assert!(predictions(&LogFile::read(&right)).0.is_empty());
    }
}
