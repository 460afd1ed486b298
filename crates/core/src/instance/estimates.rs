//! Estimates beyond a single number per task, and the same problem with other times.

use super::Instance;
use crate::estimate::{Estimate, TAIL, Uncertain, sigma_of, spread_of};
use crate::id::{IdVec, TaskId};
use crate::scenario::Scenario;
use crate::time::Span;

impl Instance {
    /// Takes on what a predictor says of tasks; those of which it says nothing keep their estimates.
    pub fn believe(&mut self, estimate: impl Fn(TaskId) -> Option<Estimate>) {
        let mut intervals: IdVec<TaskId, (Span, Span)> = vec![(Span::ZERO, Span::ZERO); self.tasks()].into();
        for task in self.task_ids() {
            if let Some(Estimate { mean, low, high }) = estimate(task) {
                self.tasks[task].execution = mean.max(Span(1));
                intervals[task] = (low, high);
            }
        }
        self.intervals = intervals;
    }

    /// Takes on what a predictor says of all tasks of `scenario`, in their order: of those to which their requests give no time,
    /// or of all.
    pub fn believe_predicted(&mut self, scenario: &Scenario, estimates: &[Estimate], all: bool) {
        let is_given: Vec<bool> = scenario.given_times().map(|time| time.is_some()).collect();
        self.believe(|task| {
            let is_asked = all || !is_given[task.index()];
            estimates.get(task.index()).copied().filter(|_| is_asked)
        });
    }

    /// The interval in which nine of ten such tasks end, where a predictor gave one.
    #[must_use]
    pub fn interval(&self, task: TaskId) -> Option<(Span, Span)> {
        self.intervals.get(task).copied().filter(|&(_, high)| high > Span::ZERO)
    }

    /// What is believed of a task: its estimate, and how far off that may be.
    #[must_use]
    pub fn estimate(&self, task: TaskId) -> Uncertain {
        let spread = match self.interval(task) {
            Some((low, high)) => spread_of(low, high),
            None => self.models[self.model_of(task)].spread,
        };
        Uncertain { mean: self.execution(task), spread }
    }

    /// The standard deviation of a task's time as a share of its mean, by the configuration: 0 where its request gives the time.
    #[must_use]
    pub fn deviation(&self, task: TaskId) -> f64 {
        let takes_mean = self.takes_mean.get(task).copied().unwrap_or(false);
        if takes_mean { self.models[self.model_of(task)].deviation } else { 0.0 }
    }

    /// Has policies know how far times vary by the configuration, where no predictor gave an interval.
    pub fn believe_deviations(&mut self) {
        if self.intervals.is_empty() {
            self.intervals = vec![(Span::ZERO, Span::ZERO); self.tasks()].into();
        }
        for task in self.task_ids() {
            let deviation = self.deviation(task);
            if deviation > 0.0 && self.interval(task).is_none() {
                let time = Uncertain { mean: self.execution(task), spread: sigma_of(deviation) };
                self.intervals[task] = (time.quantile(TAIL), time.quantile(1.0 - TAIL));
            }
        }
    }

    /// Whether the configuration has times vary.
    #[must_use]
    pub fn varies(&self) -> bool {
        self.task_ids().any(|task| self.deviation(task) > 0.0)
    }

    /// Whether every estimate is taken to be certain.
    pub(crate) fn is_certain(&self) -> bool {
        self.intervals.is_empty() && self.models.iter().all(|model| model.spread == 0.0)
    }

    /// The same problem with other times.
    #[must_use]
    pub fn retimed(&self, time: impl Fn(TaskId) -> Span) -> Instance {
        let mut other = Instance { intervals: IdVec::new(), ..self.clone() };
        other.models.iter_mut().for_each(|model| model.spread = 0.0);
        other.task_ids().for_each(|task| other.tasks[task].execution = time(task).max(Span(1)));
        other
    }
}
