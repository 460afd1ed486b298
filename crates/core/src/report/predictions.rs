//! Accuracy of predicted run times, both before the run and as learned during it.

use super::stats::as_seconds;
use crate::id::{GpuId, ModelId};
use crate::instance::Instance;
use crate::log::{Execution, ExecutionLog, Status};
use crate::time::{Span, Time};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Predicted and actual times of completed executions. Executions that shared their replica are not judged: predictions
/// are for an execution alone, and the log does not have that time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictionMetrics {
    /// Completed executions whose estimate a predictor gave.
    pub predicted: u64,
    /// The others: their estimates are the inputs' own.
    pub not_predicted: u64,
    /// Completed executions that are not judged below: others were on their replica while they ran.
    pub shared: u64,
    /// The predictor before the run; omitted if its predictions were used as true times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictor: Option<Accuracy>,
    /// The estimate when each execution started, if the run learns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<Accuracy>,
    /// Where the run learns: each model that ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<LearnedModel>,
}

/// Predicted times compared with actual ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Executions that were judged: completed, and alone on their replica.
    pub executions: u64,
    /// The mean of |predicted - actual|.
    #[serde(rename = "mean_absolute_error_seconds", with = "as_seconds")]
    pub mean_absolute_error: Span,
    /// The sum of |predicted - actual| over the sum of actual times.
    pub relative_error: f64,
    /// (predicted - actual) / actual, of the sums: above 0 if predictions were too long.
    pub bias: f64,
    /// The share inside their 90% intervals.
    pub interval_coverage: f64,
}

/// What was learned about a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearnedModel {
    /// Its key in the configuration.
    pub model: String,
    /// The correction of its last execution's estimate: far from 1 if its times differ from the estimates.
    pub factor: f64,
}

/// The sums of which an [`Accuracy`] is made.
#[derive(Default)]
struct Sums {
    executions: u64,
    foreseen: u128,
    taken: u128,
    errors: u128,
    within: u64,
}

impl Sums {
    fn add(&mut self, foreseen: Span, (low, high): (Span, Span), took: Span) {
        self.executions += 1;
        self.foreseen += u128::from(foreseen.0);
        self.taken += u128::from(took.0);
        self.errors += u128::from(foreseen.0.abs_diff(took.0));
        self.within += u64::from((low..=high).contains(&took));
    }

    /// `None` where every time was foreseen to the microsecond, as in runs that are made of estimates.
    fn accuracy(&self) -> Option<Accuracy> {
        let all = self.executions;
        if self.errors <= u128::from(all) {
            return None;
        }
        let taken = self.taken.max(1) as f64;
        Some(Accuracy {
            executions: all,
            mean_absolute_error: Span((self.errors / u128::from(all)) as u64),
            relative_error: self.errors as f64 / taken,
            bias: self.foreseen as f64 / taken - 1.0,
            interval_coverage: self.within as f64 / all as f64,
        })
    }
}

/// The accuracy; `None` if nothing was predicted or learned.
pub fn predictions(instance: &Instance, log: &ExecutionLog) -> Option<PredictionMetrics> {
    let completed = || log.executions.iter().filter(|one| one.status == Status::Completed);
    let predicted = completed().filter(|one| instance.interval(one.task).is_some()).count() as u64;
    if predicted == 0 && completed().all(|one| one.expected.is_none()) {
        return None;
    }
    let company = shared(instance, log);
    let mut shared = 0;
    let (mut before, mut learned) = (Sums::default(), Sums::default());
    let mut factors: Vec<Option<f64>> = vec![None; instance.models.len()];
    for (one, in_company) in log.executions.iter().zip(company) {
        if one.status != Status::Completed {
            continue;
        }
        if let Some(expected) = &one.expected {
            let told = instance.execution(one.task).0.max(1);
            factors[instance.model_of(one.task).index()] = Some(expected.mean.0 as f64 / told as f64);
        }
        if in_company {
            shared += 1;
            continue;
        }
        let took = one.end.since(one.start);
        if let Some(interval) = instance.interval(one.task) {
            before.add(instance.execution(one.task), interval, took);
        }
        if let Some(expected) = &one.expected {
            learned.add(expected.mean, (expected.low, expected.high), took);
        }
    }
    let models = instance.models.iter().zip(factors);
    Some(PredictionMetrics {
        predicted,
        not_predicted: completed().count() as u64 - predicted,
        shared,
        predictor: before.accuracy(),
        learned: learned.accuracy(),
        models: models
            .filter_map(|(model, factor)| Some(LearnedModel { model: model.name.clone(), factor: factor? }))
            .collect(),
    })
}

/// Of each execution, whether another was on its replica while it ran.
fn shared(instance: &Instance, log: &ExecutionLog) -> Vec<bool> {
    let mut shared = vec![false; log.executions.len()];
    let mut replicas: FxHashMap<(GpuId, ModelId), Vec<usize>> = FxHashMap::default();
    for (at, one) in log.executions.iter().enumerate() {
        let model = instance.model_of(one.task);
        if instance.models[model].max_batch() > 1 {
            replicas.entry((one.gpus.first, model)).or_default().push(at);
        }
    }
    for mut places in replicas.into_values() {
        let of = |at: usize| -> &Execution { &log.executions[at] };
        places.sort_unstable_by_key(|&at| (of(at).start, of(at).end));
        // Who ends last of those before: all others before it end no later.
        let mut last: Option<(Time, usize)> = None;
        for at in places {
            if let Some((_, before)) = last.filter(|&(end, _)| end > of(at).start) {
                (shared[before], shared[at]) = (true, true);
            }
            if last.is_none_or(|(end, _)| of(at).end > end) {
                last = Some((of(at).end, at));
            }
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_become_what_they_are_by_hand() {
        let mut sums = Sums::default();
        sums.add(Span(100), (Span(80), Span(130)), Span(120));
        sums.add(Span(100), (Span(80), Span(130)), Span(200));
        let found = sums.accuracy().unwrap();
        assert_eq!((found.executions, found.mean_absolute_error), (2, Span(60)));
        assert_eq!((found.relative_error, found.interval_coverage), (120.0 / 320.0, 0.5));
        assert!((found.bias - (200.0 / 320.0 - 1.0)).abs() < 1e-12);
    }

    #[test]
    fn nothing_is_said_of_times_that_are_what_was_foreseen() {
        let mut sums = Sums::default();
        assert_eq!(sums.accuracy(), None);
        sums.add(Span(100), (Span(80), Span(130)), Span(101));
        assert_eq!(sums.accuracy(), None);
    }
}
