//! From a plan to times, without the engine: what the engine will do when it follows the plan, at a few tens of nanoseconds
//! a task. For models that do not batch and GPUs that hold one model each.

use super::Plan;
use super::routes::{Detours, Routes};
use crate::id::{GpuId, IdVec, ModelId, TaskId};
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
    /// With the shortest way onto an empty GPU, be it by another model.
    pub fn new(instance: &Instance) -> SwitchTable {
        let mut table = SwitchTable::straight(instance);
        let routes = Routes::new(instance, &table);
        for model in instance.models.keys() {
            let ways = routes.ways(EMPTY, model, Detours::Empty).iter();
            let shortest = ways.map(|way| way.before + way.last).min();
            table.spans[model.index()] = Span(shortest.unwrap_or_default());
        }
        table
    }

    /// As each load by itself costs.
    pub fn straight(instance: &Instance) -> SwitchTable {
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
/// inputs are; by way of a smaller model where that is sooner (see `routes`).
#[derive(Clone, Debug)]
pub struct TimedPlan {
    /// When each task starts.
    pub start: IdVec<TaskId, Time>,
    /// When each task ends.
    pub end: IdVec<TaskId, Time>,
    /// The last end.
    pub makespan: Time,
    /// Models to load on a GPU ahead of the load for a task, by task.
    pub detours: Vec<(TaskId, GpuId, ModelId)>,
}

/// Up to this many tasks a plan may make detours on GPUs that hold a model: in longer ones they gain next to nothing, and
/// each is a load more.
const MOST_FOR_DETOURS: usize = 256;

impl TimedPlan {
    /// Works out the times of a plan: with no detour that does not make it shorter.
    #[must_use]
    pub fn of(instance: &Instance, plan: &Plan) -> TimedPlan {
        let table = SwitchTable::straight(instance);
        let routes = Routes::new(instance, &table);
        let few = plan.0.len() <= MOST_FOR_DETOURS;
        let kinds = [Detours::Never, Detours::Empty, Detours::Always];
        let tried = kinds.into_iter().take(if few { 3 } else { 2 });
        let timed = tried.map(|detours| TimedPlan::with(instance, &routes, plan, detours));
        timed.min_by_key(|timed| timed.makespan).expect("plans can be timed without detours")
    }

    fn with(instance: &Instance, routes: &Routes, plan: &Plan, detours: Detours) -> TimedPlan {
        let none: IdVec<TaskId, Time> = vec![Time::ZERO; instance.tasks()].into();
        let mut timed =
            TimedPlan { start: none.clone(), end: none, makespan: Time::ZERO, detours: Vec::new() };
        let mut free = vec![0; instance.cluster.gpus as usize];
        let mut held = vec![EMPTY; instance.cluster.gpus as usize];
        for &(task, gpus) in &plan.0 {
            let model = instance.model_of(task);
            let (window, holds) = (&free[gpus.range()], &held[gpus.range()]);
            let inputs = instance.predecessors(task).map(|before| timed.end[before]).max();
            let ready = inputs.unwrap_or(instance.requests[instance.request_of(task)].arrival);
            let (straight, _) = routes.soonest(model, window, holds, Detours::Never);
            let mut there = Time(straight);
            if detours != Detours::Never && there > ready {
                let (sooner, limit) = routes.soonest(model, window, holds, detours);
                if sooner < straight {
                    there = Time(sooner);
                    let ways = gpus.iter().zip(holds);
                    timed.detours.extend(ways.filter_map(|(gpu, &holds)| {
                        Some((task, gpu, routes.within(holds, model, detours, limit)?.via?))
                    }));
                }
            }
            let start = there.max(ready);
            let end = start + instance.execution(task);
            (timed.start[task], timed.end[task]) = (start, end);
            timed.makespan = timed.makespan.max(end);
            free[gpus.range()].fill(end.0);
            held[gpus.range()].fill(model.0 + 1);
        }
        timed
    }
}
