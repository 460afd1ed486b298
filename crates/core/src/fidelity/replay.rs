//! A run made again at the costs of an instance: everything in the same order and on the same GPUs, each thing as soon as
//! what it waited for in the run is there.

use crate::instance::Instance;
use crate::log::{ExecutionLog, Status};
use crate::plan::{Step, Steps};
use crate::policy::FollowSteps;
use crate::sim::{SimError, SimOptions, simulate};
use crate::time::Time;

/// Replays a run; `None` of one in which not every node completed, or a GPU was lost.
///
/// # Errors
/// Where the simulator cannot go on: of no log that the checker accepts.
pub fn replay(instance: &Instance, log: &ExecutionLog) -> Result<Option<ExecutionLog>, SimError> {
    let mut done = vec![false; instance.tasks()];
    let completed = log.executions.iter().filter(|one| one.status == Status::Completed);
    completed.for_each(|one| done[one.task.index()] = true);
    if !done.iter().all(|&done| done) || !log.losses.is_empty() {
        return Ok(None);
    }
    let (steps, after) = retraced(instance, log);
    let mut policy = FollowSteps::new(instance, &steps).with_waits(after);
    simulate(instance, &mut policy, &SimOptions::default(), &mut |_| {}).map(Some)
}

/// Something that was done.
struct Deed {
    step: Step,
    begun: Time,
    ended: Time,
    /// When what it reads was there.
    ready: Time,
}

/// What a run did, in the order in which it was begun, and what each step waited for besides its inputs and its GPUs.
fn retraced(instance: &Instance, log: &ExecutionLog) -> (Steps, Vec<Option<u32>>) {
    let mut deeds = deeds(log);
    let mut ends: Vec<(Time, u32)> = (0..).zip(&deeds).map(|(place, deed)| (deed.ended, place)).collect();
    ends.sort_unstable();
    let mut arrivals: Vec<Time> = instance.requests.iter().map(|request| request.arrival).collect();
    arrivals.sort_unstable();
    // What ended on each GPU, in order.
    let mut on: Vec<Vec<(Time, u32)>> = vec![Vec::new(); instance.cluster.gpus as usize];
    for &(ended, place) in &ends {
        deeds[place as usize].step.gpus().iter().for_each(|gpu| on[gpu.index()].push((ended, place)));
    }
    let last = |ends: &[(Time, u32)], by: Time| {
        ends.partition_point(|&(end, _)| end <= by).checked_sub(1).map(|at| ends[at])
    };
    let mut after = vec![None; deeds.len()];
    for (deed, after) in deeds.iter_mut().zip(&mut after) {
        if deed.ready >= deed.begun {
            continue;
        }
        // Its inputs were there before: it waited for its GPUs, or for room in their batch. Which end gave it room matters:
        // there may have been room before, and the policy had others in mind for it.
        let here = deed.step.gpus().iter().filter_map(|gpu| last(&on[gpu.index()], deed.begun)).max();
        if let Some((end, place)) = here
            && end == deed.begun
        {
            *after = Some(place);
            continue;
        }
        // It could have begun sooner: the policy waited for something else, which is whatever happened last before it did.
        let ended = last(&ends, deed.begun);
        let came = arrivals.partition_point(|&at| at <= deed.begun).checked_sub(1).map(|at| arrivals[at]);
        match (ended, came) {
            (Some((end, place)), came) if came.is_none_or(|came| came <= end) => *after = Some(place),
            (_, Some(came)) => match &mut deed.step {
                Step::Run { not_before, .. } | Step::Load { not_before, .. } => *not_before = came,
            },
            _ => {}
        }
    }
    (Steps(deeds.into_iter().map(|deed| deed.step).collect()), after)
}

/// All that was completed. What begins at the same moment: executions first, so that no load takes off what one needs.
fn deeds(log: &ExecutionLog) -> Vec<Deed> {
    let done = log.executions.iter().filter(|one| one.status == Status::Completed);
    let runs = done.map(|one| {
        let begun = Time(one.start.0.saturating_sub(one.switch.0));
        let step = Step::Run {
            task: one.task,
            gpus: one.gpus,
            batch_at_most: Some(one.batch),
            not_before: Time::ZERO,
        };
        ((begun, false, one.start, one.task.0), Deed { step, begun, ended: one.end, ready: one.ready })
    });
    let loads = log.loads.iter().filter(|load| load.status == Status::Completed).map(|one| {
        let step = Step::Load { model: one.model, gpus: one.gpus, not_before: Time::ZERO };
        let deed = Deed { step, begun: one.start, ended: one.end, ready: Time::ZERO };
        ((one.start, true, one.end, one.gpus.first.0), deed)
    });
    let mut keyed: Vec<_> = runs.chain(loads).collect();
    keyed.sort_unstable_by_key(|&(key, _)| key);
    keyed.into_iter().map(|(_, deed)| deed).collect()
}
