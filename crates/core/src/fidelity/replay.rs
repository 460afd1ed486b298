//! Replays a run at the costs of an instance: everything in the same order, on the same GPUs, as early as its
//! dependencies in the run allow.

use crate::instance::Instance;
use crate::log::{ExecutionLog, Status};
use crate::plan::{Steps, Wait, deeds};
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
    if !done.iter().all(|&done| done) || !log.losses.is_empty() || !log.unloads.is_empty() {
        return Ok(None);
    }
    let (steps, after) = retraced(instance, log);
    let mut policy = FollowSteps::new(instance, &steps).with_waits(after);
    simulate(instance, &mut policy, &SimOptions::default(), &mut |_| {}).map(Some)
}

/// What a run did, in the order in which it was begun, and what each step waited for besides its inputs and its GPUs.
fn retraced(instance: &Instance, log: &ExecutionLog) -> (Steps, Vec<Option<Wait>>) {
    let mut deeds = deeds(log);
    let ended = (0..).zip(&deeds).map(|(place, deed)| (deed.ended, Wait::Ended(place)));
    let mut ends: Vec<(Time, Wait)> = ended.collect();
    ends.sort_unstable();
    // A policy may also wait for a load to be over.
    let loads = (0..).zip(&deeds).filter_map(|(place, deed)| Some((deed.loaded?, Wait::Loaded(place))));
    let mut moments: Vec<(Time, Wait)> = loads.chain(ends.iter().copied()).collect();
    moments.sort_unstable();
    let mut arrivals: Vec<Time> = instance.requests.iter().map(|request| request.arrival).collect();
    arrivals.sort_unstable();
    // What ended on each GPU, in order.
    let mut on: Vec<Vec<(Time, Wait)>> = vec![Vec::new(); instance.cluster.gpus as usize];
    for &(ended, wait) in &ends {
        let (Wait::Ended(place) | Wait::Loaded(place)) = wait;
        deeds[place as usize].step.gpus().iter().for_each(|gpu| on[gpu.index()].push((ended, wait)));
    }
    let last = |ends: &[(Time, Wait)], by: Time| {
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
        let ended = last(&moments, deed.begun);
        let came = arrivals.partition_point(|&at| at <= deed.begun).checked_sub(1).map(|at| arrivals[at]);
        match (ended, came) {
            (Some((end, place)), came) if came.is_none_or(|came| came <= end) => *after = Some(place),
            (_, Some(came)) => deed.step = deed.step.held_until(came),
            _ => {}
        }
    }
    (Steps(deeds.into_iter().map(|deed| deed.step).collect()), after)
}
