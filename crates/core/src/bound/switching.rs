//! The area, plus the GPU-time that cannot be spent on executing.
//!
//! No GPU executes before the earliest head. And for a makespan T a model whose executions take P needs at least
//! P / (T - its entry) visits, since no visit executes for longer than that; each visit is a load on all GPUs of a replica.
//! Loads may fall into the idle start, so the larger of the two counts, not the sum. Where several models share a GPU, one
//! can be loaded while another executes, and only the idle start counts.

use super::entry::{entry_costs, load_costs};
use super::{Bound, Slack, Witness, best_share, smallest};
use crate::id::{IdVec, ModelId};
use crate::instance::{Instance, Residency};
use crate::time::Span;

pub(super) fn bound(instance: &Instance, slack: &Slack, work: u128) -> Option<Bound> {
    let gpus = instance.cluster.gpus.max(1);
    let visits = Visits::of(instance, slack);
    let area = u64::try_from(work.div_ceil(u128::from(gpus))).ok()?;
    let fits = |makespan: u64| {
        work + visits.least_loading(instance, makespan) <= u128::from(makespan) * u128::from(gpus)
    };
    // The smallest makespan that fits: more time never needs more visits, so a search by halves finds it.
    let high = smallest(area, fits)?;
    let loading = visits.least_loading(instance, high);
    Some(Bound { value: Span(high), witness: Witness::Switching { work, loading, gpus } })
}

struct Visits {
    entry: IdVec<ModelId, Span>,
    load: IdVec<ModelId, Span>,
    /// Execution time of each model at its best batch size.
    work: IdVec<ModelId, u128>,
    earliest: Span,
}

impl Visits {
    fn of(instance: &Instance, slack: &Slack) -> Visits {
        let mut work: IdVec<ModelId, u128> = vec![0; instance.models.len()].into();
        for task in instance.task_ids() {
            work[instance.model_of(task)] += u128::from(instance.execution(task).0);
        }
        for (model, work) in work.iter_mut_enumerated() {
            *work = *work * u128::from(best_share(&instance.models[model])) / 1_000_000;
        }
        Visits {
            entry: entry_costs(instance),
            load: load_costs(instance),
            work,
            earliest: slack.head.iter().copied().min().unwrap_or_default(),
        }
    }

    fn least_loading(&self, instance: &Instance, makespan: u64) -> u128 {
        let idle_start = u128::from(self.earliest.0) * u128::from(instance.cluster.gpus);
        if instance.cluster.residency == Residency::Memory {
            return idle_start;
        }
        let loads = self.work.iter_enumerated().filter(|&(_, &work)| work > 0).map(|(model, &work)| {
            let longest = makespan.saturating_sub(self.entry[model].0).max(1);
            let visits = work.div_ceil(u128::from(longest)).max(1);
            visits * u128::from(instance.models[model].gpus) * u128::from(self.load[model].0)
        });
        idle_start.max(loads.sum())
    }
}
