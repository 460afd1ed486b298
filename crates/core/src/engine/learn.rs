//! Expected run times in the engine: the estimates, and corrections learned from finished executions.

use super::Engine;
use super::state::Member;
use crate::belief::{Observation, Uncertain};
use crate::id::{GpuId, Gpus, TaskId};
use crate::log::Status;
use crate::time::{Span, Time};

impl Engine<'_> {
    /// What a task is expected to take at batch 1.
    pub(super) fn expected(&self, task: TaskId) -> Span {
        scaled(self.instance.execution(task), self.beliefs[self.instance.model_of(task)].factor)
    }

    /// The same on these GPUs, which may have been seen to be slower or faster than others.
    pub(super) fn expected_on(&self, task: TaskId, gpus: Gpus) -> Span {
        let Some(learner) = &self.learner else { return self.instance.execution(task) };
        let belief = learner.belief(self.instance.model_of(task), Some(gpus));
        scaled(self.instance.execution(task), belief.factor)
    }

    /// The same with how far off that may be: what was seen says it best.
    pub(super) fn believed(&self, task: TaskId) -> Uncertain {
        let estimate = self.instance.estimate(task);
        let belief = self.beliefs[self.instance.model_of(task)];
        // An interval is one of this very task; what was learned is of all tasks of its model.
        let known = self.instance.interval(task).map(|_| estimate.spread);
        let spread = known.or(belief.spread).unwrap_or(estimate.spread);
        Uncertain { mean: scaled(estimate.mean, belief.factor), spread }
    }

    /// When the replica that starts at `lead` is expected to be free. One that should have been, and is not, goes on for what
    /// is usual with tasks that take so long.
    pub(super) fn expected_end(&self, lead: GpuId) -> Time {
        let run = &self.runs[lead];
        if run.loading {
            return run.expected_end;
        }
        let is_certain = |member: &Member| self.believed(member.task).spread == 0.0;
        if run.expected_end > self.now && run.members.iter().all(is_certain) {
            return run.expected_end;
        }
        let left = run.members.iter().map(|member| {
            let alone = self.believed(member.task);
            let slow = self.instance.models[run.model].at_batch(alone.mean, run.members.len() as u32);
            Uncertain { mean: slow, ..alone }.left_after(self.now.since(member.start))
        });
        self.now + left.max().unwrap_or_default()
    }

    /// A moment by which a GPU is free with chance `p`.
    pub(super) fn free_by(&self, gpu: GpuId, p: f64) -> Time {
        let state = &self.gpus[gpu];
        let Some(run) = state.run.map(|lead| &self.runs[lead]).filter(|run| !run.loading) else {
            return self.expected_free(gpu);
        };
        let mut ends = run.members.iter().map(|member| (self.believed(member.task), member.start));
        match (ends.next(), ends.next()) {
            // Of a batch only the mean is reckoned.
            (Some((time, start)), None) if time.spread > 0.0 => {
                self.now + time.quantile_after(self.now.since(start), p)
            }
            _ => self.expected_free(gpu),
        }
    }

    /// Keeps what is expected now of those that begin now on a replica.
    pub(super) fn note_expected(&mut self, lead: GpuId) {
        let Some(learner) = &self.learner else { return };
        let run = &mut self.runs[lead];
        let gpus = run.gpus;
        for member in run.members.iter_mut().filter(|member| member.expected.is_none()) {
            member.expected = Some(Box::new(learner.estimate(&self.instance, member.task, gpus)));
        }
    }

    /// A task leaves its replica: what it took is told to the learner, if it gave its result.
    pub(super) fn learn(&mut self, task: TaskId, lead: GpuId, status: Status) {
        let run = &mut self.runs[lead];
        let model = run.model;
        if !run.loading {
            run.advance(self.now, &self.instance.models[model].slowdown);
        }
        let (gpus, progress) = (run.gpus, run.progress);
        let Some(member) = run.members.iter().find(|member| member.task == task) else { return };
        if status != Status::Completed {
            return;
        }
        let took = Span((progress - member.begun).round().max(1.0) as u64);
        let (batch, estimated) = (member.batch, self.instance.execution(task));
        if let Some(learner) = &mut self.learner {
            learner.observe(&self.instance, &Observation { task, model, gpus, estimated, took, batch });
            self.beliefs[model] = learner.belief(model, None);
        }
    }
}

fn scaled(span: Span, factor: f64) -> Span {
    // Where nothing was learned the estimate is kept to the microsecond.
    if factor == 1.0 { span } else { span.times(factor).max(Span(1)) }
}
