//! What every policy would do.

use super::Plan;
use crate::id::{Gpus, TaskId};
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::policy::{BuildContext, PolicyKind};
use crate::sim::{SimOptions, simulate};
use rayon::prelude::*;

/// The policies that can be run on a problem as it is.
pub(super) fn policies(instance: &Instance) -> impl Iterator<Item = PolicyKind> + '_ {
    let fits = |kind: &PolicyKind| {
        kind.is_portfolio()
            && kind.supports(instance.mode)
            && kind.residency(instance.cluster.residency) == instance.cluster.residency
    };
    PolicyKind::ALL.iter().copied().filter(fits)
}

/// What a policy does.
pub(super) fn run(instance: &Instance, kind: PolicyKind, seed: u64) -> Option<ExecutionLog> {
    let mut policy = kind.build(instance, &BuildContext::seeded(seed));
    simulate(instance, policy.as_mut(), &SimOptions::default(), &mut |_| {}).ok()
}

/// Every policy's log, best makespan first; where time runs out, of as many policies as it allowed for, and of one at least.
/// One after the other: the search has the other cores.
pub(super) fn logs(
    instance: &Instance,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<(PolicyKind, ExecutionLog)> {
    let mut logs = Vec::new();
    for kind in policies(instance) {
        if !logs.is_empty() && stop() {
            break;
        }
        logs.extend(run(instance, kind, seed).map(|log| (kind, log)));
    }
    logs.sort_by_key(|(kind, log): &(PolicyKind, ExecutionLog)| {
        (log.executions.iter().map(|execution| execution.end).max(), *kind)
    });
    logs
}

/// The whole problem's plan from cells' schedules.
pub(super) fn merge(schedules: Vec<Vec<(u64, u64, TaskId, Gpus)>>) -> Plan {
    let mut all: Vec<_> = schedules.into_iter().flatten().collect();
    all.par_sort_unstable();
    Plan(all.into_iter().map(|(_, _, task, gpus)| (task, gpus)).collect())
}
