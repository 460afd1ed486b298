//! From a plan to times, without the engine: what the engine will do when it follows the plan, at a few tens of nanoseconds
//! a task. For models that do not batch and GPUs that hold one model each.

use super::Plan;
use crate::id::{IdVec, ModelId, TaskId};
use crate::instance::{Instance, Residency};
use crate::time::{Span, Time};

/// What switching from one model to another takes on one GPU, for all pairs.
pub(super) struct SwitchTable {
    models: usize,
    spans: Vec<Span>,
}

/// A GPU that holds nothing.
pub(super) const EMPTY: u32 = 0;

impl SwitchTable {
    /// Every pair's load, onto GPUs whose model has executed something.
    pub fn new(instance: &Instance) -> SwitchTable {
        let models = instance.models.len();
        let mut spans = Vec::with_capacity((models + 1) * models);
        let before = std::iter::once(None).chain(instance.models.iter_enumerated().map(Some));
        for old in before {
            spans.extend(instance.models.iter_enumerated().map(|(new, spec)| match old {
                Some((old, _)) if old == new => Span::ZERO,
                other => {
                    let leaving = other.map(|(_, model)| model.leaving());
                    instance.cluster.switch.of(leaving, spec.memory_gb, spec.load_seconds)
                }
            }));
        }
        SwitchTable { models, spans }
    }

    /// `held` is [`EMPTY`], or a model's number plus one.
    pub fn span(&self, held: u32, new: ModelId) -> Span {
        self.spans[held as usize * self.models + new.index()]
    }
}

/// Whether plans of a problem can be timed here: otherwise only the engine can tell.
pub(super) fn is_exact(instance: &Instance) -> bool {
    instance.cluster.residency == Residency::Single
        && instance.models.iter().all(|model| model.max_batch() == 1)
}

/// A plan with the times that it leads to. A model comes over as soon as its GPUs are free, so that it is there when the
/// inputs are.
#[derive(Clone, Debug)]
pub struct TimedPlan {
    /// When each task starts.
    pub start: IdVec<TaskId, Time>,
    /// When each task ends.
    pub end: IdVec<TaskId, Time>,
    /// The last end.
    pub makespan: Time,
}

impl TimedPlan {
    /// Works out the times of a plan.
    #[must_use]
    pub fn of(instance: &Instance, plan: &Plan) -> TimedPlan {
        let table = SwitchTable::new(instance);
        let none: IdVec<TaskId, Time> = vec![Time::ZERO; instance.tasks()].into();
        let mut timed = TimedPlan { start: none.clone(), end: none, makespan: Time::ZERO };
        let mut free = vec![Time::ZERO; instance.cluster.gpus as usize];
        let mut held = vec![EMPTY; instance.cluster.gpus as usize];
        for &(task, gpus) in &plan.0 {
            let model = instance.model_of(task);
            let inputs = instance.predecessors(task).map(|before| timed.end[before]).max();
            let ready = inputs.unwrap_or(instance.requests[instance.request_of(task)].arrival);
            let free_at = free[gpus.range()].iter().copied().max().unwrap_or(Time::ZERO);
            let load = held[gpus.range()].iter().map(|&held| table.span(held, model)).max();
            let start = ready.max(free_at + load.unwrap_or(Span::ZERO));
            let end = start + instance.execution(task);
            (timed.start[task], timed.end[task]) = (start, end);
            timed.makespan = timed.makespan.max(end);
            free[gpus.range()].fill(end);
            held[gpus.range()].fill(model.0 + 1);
        }
        timed
    }

    /// The ends of all requests together.
    pub(super) fn ends(&self, instance: &Instance) -> u128 {
        let end = |id| instance.tasks_of(id).map(|task| u128::from(self.end[task].0)).max().unwrap_or(0);
        instance.requests.keys().map(end).sum()
    }
}
