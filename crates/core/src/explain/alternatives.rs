//! Other windows where a node could have run when it became ready.

use super::timeline::{Timeline, What, begun};
use super::{length, moment};
use crate::id::{Gpus, ModelId};
use crate::log::Execution;
use crate::time::{Span, Time};
use serde::Serialize;

/// A window of GPUs that a node could have been given when it was ready: what was at work there ends, its model is brought
/// in where it is not, and it starts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// The GPUs.
    pub gpus: Vec<u32>,
    /// Other windows for which all that follows is the same.
    pub alike: usize,
    /// The models on them at that time.
    pub holds: Vec<String>,
    /// When what was at work there was done.
    #[serde(rename = "free_at_seconds", serialize_with = "moment")]
    pub free_at: Time,
    /// What bringing its model in would have taken.
    #[serde(rename = "load_seconds", serialize_with = "length")]
    pub load: Span,
    /// When it could have started.
    #[serde(rename = "could_start_seconds", serialize_with = "moment")]
    pub could_start: Time,
    /// That minus its real start: below zero where it would have been sooner.
    #[serde(rename = "later_by_seconds", serialize_with = "signed")]
    pub later_by: i64,
    /// Whether nothing else would have had to move for it.
    pub free_room: bool,
    /// What took these GPUs next, as `request/node`.
    pub taken_by: Option<String>,
    /// Whether that was ready before the node was, or with it.
    pub taken_by_was_first: bool,
    /// Whether these are the GPUs that it ran on.
    pub chosen: bool,
}

fn signed<S: serde::Serializer>(micros: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*micros as f64 / 1e6)
}

/// Most windows that are told, beside the chosen one.
const MOST: usize = 5;

/// The windows that its model may use, soonest start first; the chosen one is always among them.
pub(super) fn alternatives(timeline: &Timeline<'_>, one: &Execution) -> Vec<Alternative> {
    let model = timeline.instance.model_of(one.task);
    let windows = timeline.instance.models[model].windows();
    let alive = |gpus: &Gpus| gpus.iter().all(|gpu| timeline.lost_at(gpu) > one.ready);
    let mut all: Vec<Alternative> =
        windows.filter(alive).map(|gpus| alternative(timeline, one, model, gpus)).collect();
    all.sort_by_key(|one| (one.could_start, !one.chosen, !one.free_room, one.gpus[0]));
    let mut kept: Vec<Alternative> = Vec::new();
    let mut others = 0;
    for one in all {
        let alike = |old: &&mut Alternative| {
            !one.chosen
                && !old.chosen
                && (old.could_start, old.free_at, old.free_room)
                    == (one.could_start, one.free_at, one.free_room)
                && old.holds == one.holds
        };
        if let Some(old) = kept.iter_mut().find(alike) {
            old.alike += 1;
        } else if one.chosen || others < MOST {
            others += usize::from(!one.chosen);
            kept.push(one);
        }
    }
    kept
}

fn alternative(timeline: &Timeline<'_>, one: &Execution, model: ModelId, gpus: Gpus) -> Alternative {
    let instance = timeline.instance;
    // From the moment that it was ready, its GPUs are kept for it, each as soon as it falls free.
    let frees: Vec<Time> = gpus.iter().map(|gpu| free_at(timeline, one, gpu)).collect();
    let held: Vec<Vec<ModelId>> =
        gpus.iter().zip(&frees).map(|(gpu, &free)| timeline.held(gpu, free)).collect();
    let loads =
        gpus.iter().zip(&frees).zip(&held).map(|((gpu, &free), held)| {
            timeline.gpu_cost(model, held, |old| timeline.is_unused(gpu, old, free))
        });
    let load = loads.max().unwrap_or(Span::ZERO);
    let free_at = frees.into_iter().max().unwrap_or(one.ready);
    let chosen = gpus == one.gpus;
    // A model that was brought in ahead is no reason for a later start.
    let could_start = if chosen && one.start < free_at + load { one.start } else { free_at + load };
    let mut holds: Vec<ModelId> = held.into_iter().flatten().collect();
    holds.sort_unstable();
    holds.dedup();
    let next = gpus.iter().filter_map(|gpu| next_of_others(timeline, one, gpu, free_at));
    let next = next.min_by_key(|piece| piece.start);
    Alternative {
        gpus: gpus.iter().map(|gpu| gpu.0).collect(),
        alike: 0,
        holds: holds.into_iter().map(|model| instance.models[model].name.clone()).collect(),
        free_at,
        load,
        could_start,
        later_by: could_start.0 as i64 - one.start.0 as i64,
        free_room: next.is_none_or(|next| has_room(timeline, one, model, could_start, next)),
        taken_by: next.map(|piece| match piece.what {
            What::Execution(number) | What::LoadFor(number) => {
                instance.task_name(timeline.log.executions[number as usize].task)
            }
            What::LoadAhead(_) => format!("a load of {}", instance.models[piece.model].name),
        }),
        taken_by_was_first: next.is_some_and(|piece| match piece.what {
            What::Execution(number) | What::LoadFor(number) => {
                timeline.log.executions[number as usize].ready <= one.ready
            }
            What::LoadAhead(_) => false,
        }),
        chosen,
    }
}

/// When all that was at work on a GPU at the moment the node was ready has ended. An execution that waits for its load has
/// its GPUs already.
fn free_at(timeline: &Timeline<'_>, one: &Execution, gpu: crate::id::GpuId) -> Time {
    let now = Time(one.ready.0 + 1);
    let ends = timeline.during(gpu, one.ready, now).filter_map(|piece| match piece.what {
        What::Execution(number) | What::LoadFor(number) => {
            let other = &timeline.log.executions[number as usize];
            // What takes GPUs at this very moment is one of the choices made, not what was there before.
            (other.task != one.task && begun(other) < one.ready).then_some(other.end)
        }
        What::LoadAhead(_) => (piece.start < one.ready).then_some(piece.end),
    });
    ends.max().unwrap_or(one.ready).max(one.ready)
}

fn next_of_others<'t>(
    timeline: &'t Timeline<'_>,
    one: &Execution,
    gpu: crate::id::GpuId,
    from: Time,
) -> Option<&'t super::timeline::Piece> {
    let others = |piece: &&super::timeline::Piece| match piece.what {
        What::Execution(number) | What::LoadFor(number) => {
            timeline.log.executions[number as usize].task != one.task
        }
        What::LoadAhead(_) => true,
    };
    timeline.from(gpu, from).find(others)
}

/// Whether the node fits before the next piece, together with what that needs more of loading then.
fn has_room(
    timeline: &Timeline<'_>,
    one: &Execution,
    model: ModelId,
    could_start: Time,
    next: &super::timeline::Piece,
) -> bool {
    let end = could_start + one.end.since(one.start);
    let back = timeline.gpu_cost(next.model, &[model], |_| false);
    let has = if matches!(next.what, What::Execution(_)) { Span::ZERO } else { next.end.since(next.start) };
    end + Span(back.0.saturating_sub(has.0)) <= next.start
}
