//! Where a search begins: what every policy would do, on the whole problem or on a cell of it.

use super::Plan;
use super::anneal::Solution;
use super::cell::{Cell, Choice, Scratch};
use super::decode::SwitchTable;
use super::phases;
use crate::id::{Gpus, TaskId};
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::policy::{PolicyKind, PolicyParams};
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
    let params = PolicyParams { seed, ..PolicyParams::default() };
    simulate(instance, &mut *kind.build(instance, &params), &SimOptions::default(), &mut |_| {}).ok()
}

/// Every policy's log, best makespan first.
pub(super) fn logs(instance: &Instance, seed: u64) -> Vec<(PolicyKind, ExecutionLog)> {
    let kinds: Vec<PolicyKind> = policies(instance).collect();
    let mut logs: Vec<(PolicyKind, ExecutionLog)> =
        kinds.into_par_iter().filter_map(|kind| Some((kind, run(instance, kind, seed)?))).collect();
    logs.sort_by_key(|(kind, log)| (log.executions.iter().map(|execution| execution.end).max(), *kind));
    logs
}

/// How much waste counts against an early start when an order is decoded.
const THRIFTS: [f64; 7] = [0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

/// The best beginning for a cell: the orders of the policies on the cell alone, and requests one after the other.
pub(super) fn begin(instance: &Instance, cell: &Cell, table: &SwitchTable, seed: u64) -> Option<Solution> {
    let part = instance.restrict(&cell.requests, cell.gpus);
    let by_policy =
        policies(&part).filter(|kind| !kind.is_yardstick()).filter_map(|kind| run(&part, kind, seed));
    let orders =
        by_policy.map(|log| Plan::from_log(&log).0.into_iter().map(|(task, _)| task.0).collect::<Vec<u32>>());
    let mut scratch = Scratch::default();
    let candidates = orders.chain([in_order(&part), in_phases(&part)]);
    let windows = cell.all_windows();
    let choices = candidates.flat_map(|order| THRIFTS.map(|thrift| (order.clone(), thrift)));
    let solutions = choices.map(|(order, thrift)| {
        let choice = Choice { order, windows: windows.clone(), thrift };
        let outcome = cell.decode(table, &choice, &mut scratch);
        Solution { choice, outcome }
    });
    solutions.min_by(|a, b| a.outcome.energy().total_cmp(&b.outcome.energy()))
}

/// Requests one after the other, each request's tasks in an order that its edges allow.
fn in_order(part: &Instance) -> Vec<u32> {
    let order = part.requests.iter().flat_map(|request| {
        let first = request.first_task.0;
        part.workflows[request.workflow].order.iter().map(move |&node| first + node)
    });
    order.collect()
}

/// Phase after phase, request by request in each: a window of many GPUs is cleared as seldom as can be.
fn in_phases(part: &Instance) -> Vec<u32> {
    let phases = phases::of(part);
    let mut order = in_order(part);
    order.sort_by_key(|&task| phases.of(part, TaskId(task)));
    order
}

/// The whole problem's plan from cells' schedules.
pub(super) fn merge(schedules: Vec<Vec<(u64, u64, TaskId, Gpus)>>) -> Plan {
    let mut all: Vec<_> = schedules.into_iter().flatten().collect();
    all.sort_unstable();
    Plan(all.into_iter().map(|(_, _, task, gpus)| (task, gpus)).collect())
}
