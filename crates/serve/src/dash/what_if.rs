//! What-if simulations of the open work from the present state, with other GPUs or another policy.

use super::SharedSource;
use crate::fault::Fault;
use axum::http::StatusCode;
use gswarm_core::engine::Continuation;
use gswarm_core::input::ClusterSpec;
use gswarm_core::instance::{Infeasible, Instance, NewRequest};
use gswarm_core::log::{ExecutionLog, Status};
use gswarm_core::policy::PolicySpec;
use gswarm_core::what_if::{WhatIfError, WhatIfRun, what_if};
use gswarm_core::{Gpus, ModelId, Span, TaskId, Time};
use gswarm_exec::chronicle::numbers;
use gswarm_exec::scene::Scene;
use gswarm_exec::wire::{BarKind, PlannedBar, WhatIf, WhatIfOutcome, WhatIfRequest};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Most open nodes that are simulated for somebody who waits.
const MOST_NODES: usize = 200_000;
/// Most GPUs that can be asked for.
const MOST_GPUS: u32 = 4096;
/// Most stretches that are shown of an outcome.
const MOST_BARS: usize = 2000;
/// How long somebody waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// One at a time: whatever else this process does has the other cores.
static TURN: Semaphore = Semaphore::const_new(1);

/// What is left, on the GPUs that there are and on those that are supposed.
pub struct WhatIfState {
    as_it_is: Continuation,
    supposed: Continuation,
    /// Requests that are supposed to come, and over how long; `None` of a run, which knows its requests.
    traffic: Option<(usize, Span)>,
}

impl WhatIfState {
    /// Looks at a run, of which nothing changes meanwhile. `traffic` are the arrivals of a service's last while, which are
    /// supposed to come again, and how long that while is.
    pub fn of(
        scene: &Scene<'_>,
        gpus: Option<u32>,
        traffic: Option<(Vec<NewRequest>, Span)>,
    ) -> Result<WhatIfState, Fault> {
        let coming: &[NewRequest] = traffic.as_ref().map_or(&[], |(coming, _)| coming);
        let open = scene.view.open_tasks() + coming.iter().map(|new| new.executions.len()).sum::<usize>();
        if open > MOST_NODES {
            let message = format!("{open} nodes are open or expected; at most {MOST_NODES} can be simulated");
            return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "too_much_open", message));
        }
        let now = scene.view.instance().cluster.gpus;
        let on = |gpus: u32| {
            Instance::onward(&scene.view, scene.now, gpus, coming).map_err(|faults| cannot(&faults))
        };
        let as_it_is = on(now)?;
        let supposed = match gpus {
            Some(gpus) if gpus != now => on(gpus)?,
            _ => as_it_is.clone(),
        };
        let traffic = traffic.as_ref().map(|(coming, length)| (coming.len(), *length));
        Ok(WhatIfState { as_it_is, supposed, traffic })
    }
}

fn unprocessable(code: &'static str, message: impl Into<String>) -> Fault {
    Fault::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
}

fn cannot(faults: &[Infeasible]) -> Fault {
    let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
    unprocessable("infeasible", said.join("; "))
}

/// A fault of a field.
fn at_field(field: &str, code: &'static str, message: impl Into<String>) -> Fault {
    Fault { param: Some(field.to_owned()), ..unprocessable(code, message) }
}

/// The number of GPUs, by either of its names. Nothing else about the cluster can be supposed.
fn gpus_of(supposed: &WhatIfRequest) -> Result<Option<u32>, Fault> {
    let cluster = supposed.cluster.clone().unwrap_or_default();
    let gpus = cluster.gpus.or(supposed.gpus);
    if (ClusterSpec { gpus: None, ..cluster }) != ClusterSpec::default() {
        return Err(at_field("cluster", "invalid_cluster", "only `gpus` of the cluster can be changed"));
    }
    if gpus.is_some_and(|gpus| gpus == 0 || gpus > MOST_GPUS) {
        return Err(at_field("gpus", "invalid_gpus", format!("gpus must be from 1 to {MOST_GPUS}")));
    }
    Ok(gpus)
}

/// A policy as run specifications write it, over another's parameters where there is one of the same kind.
fn policy_of(given: &Value, over: Option<&PolicySpec>) -> Result<PolicySpec, Fault> {
    let mut whole = over.map_or_else(|| Ok(given.clone()), serde_json::to_value).unwrap_or_default();
    if let (Value::Object(whole), Value::Object(given)) = (&mut whole, given) {
        whole.extend(given.clone());
    }
    PolicySpec::deserialize(whole).map_err(|error| at_field("policy", "unknown_policy", error.to_string()))
}

/// Simulates both, and tells them side by side.
pub(super) async fn answer(source: &SharedSource, supposed: WhatIfRequest) -> Result<WhatIf, Fault> {
    let gpus = gpus_of(&supposed)?;
    let other = supposed.policy.as_ref().map(|other| policy_of(other, None)).transpose()?;
    let busy = || Fault::full("another what-if is being computed; try again in a moment");
    let turn = TURN.try_acquire().map_err(|_| busy())?;
    let (state, policy, seed) = source.onward(gpus).await?;
    let worked_out = tokio::task::spawn_blocking(move || {
        // Held until the end, whoever still waits for it.
        let _turn = turn;
        let other = match (&supposed.policy, other) {
            // What is not given stays as it is. Another policy has other parameters, with their defaults.
            (Some(given), Some(other)) if other.kind() == policy.kind() => policy_of(given, Some(&policy))?,
            (_, other) => other.unwrap_or_else(|| policy.clone()),
        };
        both(&state, &policy, &other, seed)
    });
    match tokio::time::timeout(PATIENCE, worked_out).await {
        Ok(Ok(told)) => told,
        Ok(Err(error)) => Err(Fault::internal(error.to_string())),
        Err(_) => Err(Fault::unavailable(
            "timed_out",
            "it took too long to compute; try again when fewer requests are open",
        )),
    }
}

fn both(state: &WhatIfState, policy: &PolicySpec, other: &PolicySpec, seed: u64) -> Result<WhatIf, Fault> {
    let of = |onward: &Continuation, policy| what_if(onward, policy, seed).map_err(|why| refused(&why));
    let as_it_is = of(&state.as_it_is, policy)?;
    let supposed = of(&state.supposed, other)?;
    let coming = state.traffic.map_or(0, |(coming, _)| coming as u64);
    let told = |outcome| WhatIfOutcome { coming, ..told(outcome) };
    let assumed = assumed(&state.supposed, state.traffic);
    Ok(WhatIf { as_it_is: told(&as_it_is), what_if: told(&supposed), assumed })
}

fn refused(why: &WhatIfError) -> Fault {
    match why {
        WhatIfError::Violation(_) => Fault::internal(why.to_string()),
        WhatIfError::Mode(_) | WhatIfError::InUse(_) | WhatIfError::Infeasible(_) | WhatIfError::Sim(_) => {
            unprocessable("cannot_be", why.to_string())
        }
    }
}

fn assumed(onward: &Continuation, traffic: Option<(usize, Span)>) -> Vec<String> {
    let comes = match traffic {
        Some((0, _)) => "no request arrived in the last minutes, and none is added".to_owned(),
        Some((coming, length)) => {
            let minutes = length.seconds() / 60.0;
            format!(
                "the traffic of the last {minutes:.1} minutes continues: its {coming} requests arrive again, at the same intervals"
            )
        }
        None => "the run's requests arrive at their times, and no others".to_owned(),
    };
    let mut assumed = vec![
        comes,
        "every node takes its estimated time".to_owned(),
        "latencies count from each request's arrival".to_owned(),
    ];
    if onward.loads_under_way > 0 {
        let text =
            "a load in progress counts as done; its remaining time is added to the nodes that wait for it";
        assumed.push(text.to_owned());
    }
    if onward.begun_anew > 0 {
        let text = format!("{} in progress on removed GPUs restart", onward.begun_anew);
        assumed.push(text);
    }
    if onward.out > 0 {
        assumed.push(format!("{} GPUs do not answer and stay out of rotation", onward.out));
    }
    assumed
}

fn told(outcome: &WhatIfRun) -> WhatIfOutcome {
    let WhatIfRun { policy, instance, log, ends_in, latency, loads, utilisation } = outcome;
    WhatIfOutcome {
        policy: policy.name().to_owned(),
        gpus: instance.cluster.gpus,
        requests: instance.requests.len() as u64,
        coming: 0,
        ends_in: ends_in.seconds(),
        mean: latency.mean,
        p50: latency.median,
        p99: latency.p99,
        loads: *loads as u64,
        utilisation: *utilisation,
        bars: bars(instance, log),
    }
}

fn bars(instance: &Instance, log: &ExecutionLog) -> Vec<PlannedBar> {
    let load = |model: ModelId, gpus: Gpus, start: Time, end: Time| (start, end, gpus, model, None::<TaskId>);
    let mut bars = Vec::new();
    for one in log.executions.iter().filter(|one| one.status == Status::Completed) {
        let model = instance.model_of(one.task);
        if one.switch > Span::ZERO {
            bars.push(load(model, one.gpus, Time(one.start.0 - one.switch.0), one.start));
        }
        bars.push((one.start, one.end, one.gpus, model, Some(one.task)));
    }
    bars.extend(log.loads.iter().map(|one| load(one.model, one.gpus, one.start, one.end)));
    bars.sort_unstable();
    let told = bars.into_iter().take(MOST_BARS).map(|(start, end, gpus, model, task)| {
        let node = |task| &instance.workflow_of(task).nodes[instance.node_of(task) as usize];
        PlannedBar {
            kind: if task.is_some() { BarKind::Run } else { BarKind::Load },
            gpus: numbers(gpus),
            model: instance.models[model].name.clone(),
            request: task.map(|task| instance.requests[instance.request_of(task)].name.clone()),
            node: task.map(|task| node(task).clone()),
            start: start.seconds(),
            end: end.seconds(),
        }
    });
    told.collect()
}
