//! Objectives of plans: makespan, request latency, number of switches, or a weighted sum.

use crate::bound::{Bound, least_ends};
use crate::instance::{Instance, Residency};
use crate::log::ExecutionLog;
use crate::report::{Stats, metrics};
use crate::time::Span;

/// Weights: a second of makespan, of mean latency or of P99 latency counts this much, and so does one switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanObjective {
    /// Of the makespan.
    pub makespan: f64,
    /// Of the mean over the requests of their end minus their arrival.
    pub latency: f64,
    /// Of the 99th percentile of the same.
    pub p99: f64,
    /// Of a load that replaces another model; loads onto empty GPUs do not count.
    pub switches: f64,
}

/// The terms, as flags and files spell them.
pub const TERMS: [&str; 4] = ["makespan", "mean", "p99", "switches"];

/// The former name of `mean`, still read.
const FORMER_MEAN: &str = "latency";

impl PlanObjective {
    /// The makespan alone.
    pub const MAKESPAN: PlanObjective =
        PlanObjective { makespan: 1.0, latency: 0.0, p99: 0.0, switches: 0.0 };

    /// From a term (`mean`) or a weighted sum (`makespan=1,mean=0.2`).
    pub fn parse(text: &str) -> Result<PlanObjective, String> {
        let mut weights = [None; TERMS.len()];
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let name = if name.trim() == FORMER_MEAN { "mean" } else { name.trim() };
            let known = TERMS.iter().position(|&term| term == name);
            let at =
                known.ok_or_else(|| format!("unknown term `{name}`: use one of {}", TERMS.join(", ")))?;
            let weight = weight.trim().parse::<f64>().ok().filter(|weight| (0.0..=1e9).contains(weight));
            let weight = weight.ok_or_else(|| format!("give `{name}` a weight from 0 to 1e9"))?;
            if weights[at].replace(weight).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        let [makespan, latency, p99, switches] = weights.map(|weight| weight.unwrap_or(0.0));
        let objective = PlanObjective { makespan, latency, p99, switches };
        if objective.weights().iter().all(|&weight| weight == 0.0) {
            return Err("give at least one term a weight above zero".to_owned());
        }
        Ok(objective)
    }

    fn weights(&self) -> [f64; 4] {
        [self.makespan, self.latency, self.p99, self.switches]
    }

    /// Whether nothing but the makespan counts.
    #[must_use]
    pub fn is_makespan(&self) -> bool {
        self.makespan > 0.0 && self.weights()[1..].iter().all(|&weight| weight == 0.0)
    }

    /// The weighted sum.
    #[must_use]
    pub fn cost(&self, values: &ObjectiveValues) -> f64 {
        let terms = [values.makespan, values.latency, values.p99, values.switches];
        self.weights().iter().zip(terms).map(|(weight, term)| weight * term).sum()
    }
}

impl std::fmt::Display for PlanObjective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let weights = self.weights();
        let used: Vec<usize> = (0..TERMS.len()).filter(|&at| weights[at] > 0.0).collect();
        match used[..] {
            [only] if weights[only] == 1.0 => f.write_str(TERMS[only]),
            _ => {
                let terms: Vec<String> =
                    used.iter().map(|&at| format!("{}={}", TERMS[at], weights[at])).collect();
                f.write_str(&terms.join(","))
            }
        }
    }
}

/// The terms of a schedule, or bounds on them: seconds, and a number of switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectiveValues {
    /// Last end minus first arrival.
    pub makespan: f64,
    /// Mean over the requests.
    pub latency: f64,
    /// 99th percentile over the requests.
    pub p99: f64,
    /// Loads that replaced another model.
    pub switches: f64,
}

impl ObjectiveValues {
    /// Of a run, as the report measures it.
    #[must_use]
    pub fn of(instance: &Instance, log: &ExecutionLog) -> ObjectiveValues {
        let metrics = metrics(instance, log);
        ObjectiveValues {
            makespan: metrics.makespan.seconds(),
            latency: metrics.request_latency.mean,
            p99: metrics.request_latency.p99,
            switches: metrics.model_switches as f64,
        }
    }

    /// What no schedule can go below, each by itself: a weighted sum of them bounds the weighted sum. `bound` is the problem's
    /// best.
    #[must_use]
    pub fn least(instance: &Instance, bound: &Bound) -> ObjectiveValues {
        let stats = Stats::of(least_latencies(instance));
        ObjectiveValues {
            makespan: bound.value.seconds(),
            latency: stats.mean,
            p99: stats.p99,
            switches: least_switches(instance) as f64,
        }
    }
}

/// Latencies such that in any schedule, for each n, the n-th shortest is no shorter than the n-th of these.
fn least_latencies(instance: &Instance) -> Vec<Span> {
    let (mut paths, mut work, first) = least_ends(instance);
    paths.sort_unstable();
    if instance.requests.iter().any(|request| request.arrival.0 > 0) {
        // Which request ends first no longer says which waited least: only its own path is certain.
        return paths;
    }
    // By the time that n requests have ended, all GPUs together have done at least the work of the n smallest.
    work.sort_unstable();
    let gpus = u128::from(instance.cluster.gpus.max(1));
    let mut done = 0;
    let least = paths.into_iter().zip(work).map(|(path, work)| {
        done += work;
        path.max(first + Span((done / gpus) as u64))
    });
    least.collect()
}

/// Each model that is used has to be loaded. A load that is no switch takes GPUs that are empty, and they are so only once;
/// where models share a GPU, it may also find room beside others.
fn least_switches(instance: &Instance) -> usize {
    if instance.cluster.residency == Residency::Memory {
        return 0;
    }
    let mut used = vec![false; instance.models.len()];
    instance.task_ids().for_each(|task| used[instance.model_of(task).index()] = true);
    let mut widths: Vec<u32> = instance
        .models
        .iter_enumerated()
        .filter(|(id, _)| used[id.index()])
        .map(|(_, spec)| spec.gpus)
        .collect();
    widths.sort_unstable();
    let mut empty = instance.cluster.gpus;
    let cold = widths.iter().take_while(|&&width| {
        let fits = width <= empty;
        empty = empty.saturating_sub(width);
        fits
    });
    let cold = cold.count();
    widths.len() - cold
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_and_written() {
        for text in ["makespan", "mean", "p99", "switches", "makespan=1,mean=0.2", "p99=3"] {
            assert_eq!(PlanObjective::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(PlanObjective::parse("latency=2").unwrap().to_string(), "mean=2", "the former name");
        assert!(PlanObjective::parse("makespan=2").unwrap().is_makespan());
        assert!(!PlanObjective::parse("makespan,switches").unwrap().is_makespan());
    }

    #[test]
    fn bad_objectives_are_refused() {
        for (text, says) in [
            ("speed", "unknown term `speed`: use one of makespan, mean, p99, switches"),
            ("mean=fast", "give `mean` a weight"),
            ("mean=-1", "give `mean` a weight"),
            ("mean=nan", "give `mean` a weight"),
            ("p99,p99", "twice"),
            ("mean,latency", "twice"),
            ("makespan=0", "above zero"),
            ("", "unknown term ``"),
        ] {
            let error = PlanObjective::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
