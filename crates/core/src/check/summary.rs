//! The summary, compared with the executions.

use super::context::{Context, TOLERANCE, seconds};
use super::identity::Tasks;
use super::switching::Loads;
use crate::instance::Cluster;
use crate::log_file::{Claims, ClusterClaims, MOST_GPUS};
use crate::time::Time;
use crate::violation::{Place, ViolationCode as Code};

pub(super) fn check(context: &mut Context<'_>, tasks: &Tasks, claims: &Claims, loads: &Loads) {
    makespan(context, claims);
    counts(context, tasks, claims);
    number(context, Code::SumSwitches, "model_switches", claims.model_switches, loads.switches);
    number(context, Code::SumSwitches, "cold_loads", claims.cold_loads, loads.cold);
    time(context, Code::SumSwitches, "total_switch_time", claims.total_switch_time, loads.micros);
    servers(context, tasks, claims);
    cluster(context, claims);
}

fn number(context: &mut Context<'_>, code: Code, field: &str, said: Option<u64>, is: u64) {
    if let Some(said) = said.filter(|&said| said != is) {
        context.report(code, Place::default(), format!("{field} is {said}, but the records give {is}"));
    }
}

fn time(context: &mut Context<'_>, code: Code, field: &str, said: Option<f64>, is: u64) {
    let Some(said) = said else { return };
    let micros = said.is_finite().then(|| (said * 1e6).round()).filter(|&micros| micros >= 0.0);
    let Some(micros) = micros.map(|micros| micros as u64) else {
        let message = format!("{field} is {said} s, but the records give {}", seconds(is));
        return context.report(code, Place::default(), message);
    };
    // Past 2^52 microseconds a number of seconds no longer tells neighbours apart.
    if micros.abs_diff(is) > TOLERANCE.saturating_add(is >> 51) {
        let message = format!("{field} is {}, but the records give {}", seconds(micros), seconds(is));
        context.report(code, Place::default(), message);
    }
}

fn makespan(context: &mut Context<'_>, claims: &Claims) {
    let first = context.instance.requests.iter().map(|request| request.arrival).min().unwrap_or(Time::ZERO);
    let ends = context.log.executions.iter().zip(&context.sound.times).filter(|&(_, &sound)| sound);
    let last = ends.map(|(one, _)| one.end).max().unwrap_or(first);
    time(context, Code::SumMakespan, "makespan", claims.makespan, last.since(first).0);
    bound(context, claims, last.since(first).0);
}

fn bound(context: &mut Context<'_>, claims: &Claims, makespan: u64) {
    let Some(bound) = claims.lower_bound else {
        if claims.gap_percent.is_some() {
            context.report(Code::SumBound, Place::default(), "gap_percent without a lower_bound");
        }
        return;
    };
    let micros = bound * 1e6;
    let slack = TOLERANCE.saturating_add(makespan >> 51) as f64;
    // Every node takes time, so no bound on a run that has any is zero.
    let fault = if !bound.is_finite() || bound < 0.0 || bound == 0.0 && makespan > 0 {
        Some(format!("lower_bound is {bound} s, which cannot be a bound"))
    } else if micros > makespan as f64 + slack {
        let bound = seconds(micros.round() as u64);
        Some(format!("lower_bound is {bound}, above the makespan of {}", seconds(makespan)))
    } else {
        None
    };
    if let Some(message) = fault {
        context.report(Code::SumBound, Place::default(), message);
    }
    // Of a bound that is none no gap follows.
    let Some(said) = claims.gap_percent else { return };
    let gap = if micros > 0.0 { (makespan as f64 - micros) / micros * 100.0 } else { f64::NAN };
    // Published gaps have one decimal.
    let near = (said - gap).abs() <= 0.051f64.max(gap.abs() * 1e-9);
    if !near {
        let message = if gap.is_finite() {
            format!("gap_percent is {said}, but makespan and bound give {gap:.4}")
        } else {
            format!("gap_percent is {said}, but no gap follows from makespan and bound")
        };
        context.report(Code::SumBound, Place::default(), message);
    }
}

fn counts(context: &mut Context<'_>, tasks: &Tasks, claims: &Claims) {
    let instance = context.instance;
    let requests = instance.requests.len() as u64;
    let nodes = tasks.completed.iter().filter(|end| end.is_some()).count() as u64;
    let whole = |request| instance.tasks_of(request).all(|task| tasks.completed[task.index()].is_some());
    let completed = instance.requests.keys().filter(|&request| whole(request)).count() as u64;
    number(context, Code::SumCounts, "total_requests", claims.total_requests, requests);
    number(context, Code::SumCounts, "completed_requests", claims.completed_requests, completed);
    number(context, Code::SumCounts, "total_nodes_executed", claims.total_nodes_executed, nodes);
    let status = if completed == requests { "completed" } else { "incomplete" };
    if let Some(said) = claims.status.as_deref().filter(|&said| said != status) {
        let message = format!("status is `{said}`, but {completed} of {requests} requests completed");
        context.report(Code::SumCounts, Place::default(), message);
    }
}

/// First and last server of the GPUs that a task's result came from.
fn span(context: &Context<'_>, tasks: &Tasks, task: crate::id::TaskId) -> Option<(u32, u32)> {
    let cluster = &context.instance.cluster;
    let per = cluster.gpus_per_server.unwrap_or(cluster.gpus).max(1);
    let index = tasks.result(context, task).filter(|&index| context.sound.gpus[index])?;
    let gpus = context.log.executions[index].gpus;
    Some((gpus.first.0 / per, (gpus.first.0 + gpus.count - 1) / per))
}

fn servers(context: &mut Context<'_>, tasks: &Tasks, claims: &Claims) {
    let any = claims.server_efficiency.is_some()
        || claims.intra_server_workflows.is_some()
        || claims.inter_server_workflows.is_some()
        || claims.cross_server_communications.is_some();
    if !any {
        return;
    }
    let instance = context.instance;
    let (mut intra, mut inter, mut cross) = (0u64, 0u64, 0u64);
    for request in instance.requests.keys() {
        let spans: Vec<_> = instance.tasks_of(request).map(|task| span(context, tasks, task)).collect();
        let first = spans.first().copied().flatten();
        if spans.iter().all(Option::is_some) {
            let one_server = first.is_none_or(|(a, b)| a == b) && spans.iter().all(|&span| span == first);
            *if one_server { &mut intra } else { &mut inter } += 1;
        }
        for (node, task) in instance.tasks_of(request).enumerate() {
            let from = spans[node].map(|(server, _)| server);
            let to = instance
                .successors(task)
                .map(|next| spans[instance.node_of(next) as usize].map(|(server, _)| server));
            cross += to.filter(|to| from.is_some() && to.is_some() && *to != from).count() as u64;
        }
    }
    number(context, Code::SumServers, "intra_server_workflows", claims.intra_server_workflows, intra);
    number(context, Code::SumServers, "inter_server_workflows", claims.inter_server_workflows, inter);
    number(
        context,
        Code::SumServers,
        "cross_server_communications",
        claims.cross_server_communications,
        cross,
    );
    let efficiency = intra as f64 / (instance.requests.len() as f64).max(1.0);
    if let Some(said) =
        claims.server_efficiency.filter(|said| said.is_nan() || (said - efficiency).abs() > 1e-4)
    {
        let message = format!("server_efficiency is {said}, but the records give {efficiency:.6}");
        context.report(Code::SumServers, Place::default(), message);
    }
}

/// The rules of the summary are those that the log was checked by.
fn cluster(context: &mut Context<'_>, claims: &Claims) {
    let Cluster { gpus, gpus_per_server, gpu_memory_gb, switch, .. } = &context.instance.cluster;
    let rules = claims.cluster.clone().unwrap_or_default();
    let numbers = [
        (
            "gpus",
            claims.gpus.as_ref().map(|ids| ids.iter().max().map_or(0.0, |&id| f64::from(id) + 1.0)),
            f64::from(*gpus),
        ),
        (
            "gpus_per_server",
            claims.gpus_per_server.map(|said| f64::from(said.unwrap_or(0))),
            f64::from(gpus_per_server.unwrap_or(0)),
        ),
        ("gpu_memory_gb", rules.gpu_memory_gb, *gpu_memory_gb),
        ("pcie_gb_per_s", rules.pcie_gb_per_s, switch.pcie_gb_per_s),
        ("switch_overhead_seconds", rules.switch_overhead_seconds, switch.overhead_seconds),
    ];
    let mut faults = impossible(claims, &rules);
    faults.extend(numbers.into_iter().filter_map(|(field, said, is)| {
        let said = said.filter(|&said| said != is)?;
        Some(format!("{field} is {said}, but the log is checked with {is}"))
    }));
    let timing = if context.measured { "measured" } else { "estimated" };
    let names = [
        ("mode", &claims.mode, context.instance.mode.name()),
        ("timing", &claims.timing, timing),
        ("switch_cost", &rules.switch_cost, switch.rule.name()),
        ("residency", &rules.residency, context.instance.cluster.residency.name()),
    ];
    for (field, said, is) in names {
        if let Some(said) = said.as_deref().filter(|&said| said != is) {
            faults.push(format!("{field} is `{said}`, but the log is checked with `{is}`"));
        }
    }
    faults.into_iter().for_each(|fault| context.report(Code::SumCluster, Place::default(), fault));
}

/// What no cluster can be, whatever the log is checked with.
fn impossible(claims: &Claims, rules: &ClusterClaims) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(gpus) = &claims.gpus {
        let mut sorted = gpus.clone();
        sorted.sort_unstable();
        if sorted.iter().zip(0..).any(|(&gpu, place)| gpu != place) {
            let (count, last) = (gpus.len(), gpus.len().saturating_sub(1));
            faults.push(format!("gpus lists {count} numbers, but must list 0 to {last} once each"));
        }
    }
    if let Some(per) = claims.gpus_per_server.flatten().filter(|per| !(1..=MOST_GPUS).contains(per)) {
        faults.push(format!("gpus_per_server is {per}, but a server has 1 to {MOST_GPUS} GPUs"));
    }
    let numbers = [
        ("gpu_memory_gb", rules.gpu_memory_gb, f64::MIN_POSITIVE),
        ("pcie_gb_per_s", rules.pcie_gb_per_s, f64::MIN_POSITIVE),
        ("switch_overhead_seconds", rules.switch_overhead_seconds, 0.0),
    ];
    for (field, said, least) in numbers {
        if let Some(said) = said.filter(|said| !(least..=f64::MAX).contains(said)) {
            faults.push(format!("{field} is {said}"));
        }
    }
    faults
}
