//! What every policy would do.

use super::Plan;
use crate::id::{Gpus, TaskId};
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::rules::{BuildContext, Rule};
use crate::sim::{SimOptions, simulate};
use rayon::prelude::*;

/// What a rule does.
pub(super) fn run(instance: &Instance, rule: &Rule, seed: u64) -> Option<ExecutionLog> {
    let mut policy = rule.build(instance, &BuildContext::seeded(seed));
    simulate(instance, policy.as_mut(), &SimOptions::default(), &mut |_| {}).ok()
}

/// Every policy's log, best makespan first; where time runs out, of as many policies as it allowed for, and of one at least.
/// One after the other: the search has the other cores.
pub(super) fn logs(
    instance: &Instance,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<(&'static Rule, ExecutionLog)> {
    let mut logs = Vec::new();
    for (_, rule) in Rule::fitting(instance) {
        if !logs.is_empty() && stop() {
            break;
        }
        logs.extend(run(instance, rule, seed).map(|log| (rule, log)));
    }
    // Equal ones stay in the order of the list.
    logs.sort_by_key(|(_, log): &(&Rule, ExecutionLog)| {
        log.executions.iter().map(|execution| execution.end).max()
    });
    logs
}

/// The whole problem's plan from cells' schedules.
pub(super) fn merge(schedules: Vec<Vec<(u64, u64, TaskId, Gpus)>>) -> Plan {
    let mut all: Vec<_> = schedules.into_iter().flatten().collect();
    all.par_sort_unstable();
    Plan(all.into_iter().map(|(_, _, task, gpus)| (task, gpus)).collect())
}
