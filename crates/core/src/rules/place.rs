//! Where a task could go now: questions about idle GPUs that several policies ask.

use crate::engine::View;
use crate::gpuset::GpuSet;
use crate::id::{Gpus, ModelId};
use crate::time::{Span, Time};

/// The windows inside `allowed` that `model` may be put on.
pub(crate) fn starts_within(view: &View<'_>, model: ModelId, allowed: &GpuSet) -> GpuSet {
    let spec = &view.instance().models[model];
    let mut starts = allowed.starts(spec.gpus);
    starts.keep(&spec.starts);
    starts
}

/// A replica of `model` that is at work and has room in its batch: the one with most room.
pub(crate) fn joinable(view: &View<'_>, model: ModelId) -> Option<Gpus> {
    let count = view.instance().models[model].gpus;
    let leads = view.joinable(model).iter().filter(|&lead| view.alive().contains(lead));
    leads.min_by_key(|&lead| view.batch_at(lead)).map(|first| Gpus { first, count })
}

/// The GPUs, among the idle ones in `allowed`, that a queue without a plan would take: those that hold the model, then
/// empty ones, then a batch to join, then those idle longest.
///
/// A model on several GPUs takes the lowest idle window, as published: preferring windows that hold it keeps replicas at
/// places that split the GPUs badly (25,000 s instead of 13,600 s for one published input).
pub(crate) fn affinity_first(view: &View<'_>, model: ModelId, allowed: &GpuSet) -> Option<Gpus> {
    let count = view.instance().models[model].gpus;
    if allowed.is_empty() {
        return joinable(view, model);
    }
    let oldest = |gpu: &crate::id::GpuId| view.idle_since(*gpu);
    if count == 1 {
        let holding = allowed.both(view.holding(model)).min_by_key(oldest);
        let first = holding.or_else(|| allowed.both(view.empty()).next());
        let found = first.map(|first| Gpus { first, count }).or_else(|| joinable(view, model));
        return found.or_else(|| allowed.iter().min_by_key(oldest).map(|first| Gpus { first, count }));
    }
    let lowest = starts_within(view, model, allowed).iter().next();
    lowest.map(|first| Gpus { first, count }).or_else(|| joinable(view, model))
}

/// Since when all of a window is idle.
pub(crate) fn latest_idle(view: &View<'_>, window: Gpus) -> Time {
    window.iter().map(|gpu| view.idle_since(gpu)).max().unwrap_or(Time::ZERO)
}

/// The window inside `allowed`, of the model's `tiles`, where it is there soonest; among equals the one idle longest.
pub(crate) fn cheapest_within(
    view: &View<'_>,
    model: ModelId,
    allowed: &GpuSet,
    tiles: &[Gpus],
) -> Option<(Gpus, Span)> {
    let cost_of = |window: Gpus| Some((window, view.load_cost(model, window)?));
    let rank = |&(window, span): &(Gpus, Span)| (span, latest_idle(view, window), window);
    if view.instance().models[model].gpus == 1 {
        return allowed.iter().filter_map(|first| cost_of(Gpus { first, count: 1 })).min_by_key(rank);
    }
    let open = tiles.iter().copied().filter(|&window| allowed.contains_all(window));
    open.filter_map(cost_of).min_by_key(rank)
}
