//! The bound on waiting because tasks are collated by model, kept by planning the turns of models.
//!
//! Every model that waits gets a turn: its load, and the work in its queue. Models that are being served finish their turns
//! first; the others follow in order of the moment by which each must begin (the oldest task's readiness plus the bound), as
//! if the GPUs were one fast machine. Where all begin in time with room to spare, the policy is free to choose. Where one
//! would come close, turns that are under way are cut short and the others are taken in that order, before the bound is
//! reached. Where not every model can have its turn within the bound, the cluster is overloaded and cannot keep it: then the
//! policy is free again, for taking turns when all are late is first come, first served, with a load for almost every task.

use super::fleet::Fleet;
use super::queues::Queues;
use crate::engine::View;
use crate::id::ModelId;
use crate::time::Span;

/// One model's turn, in seconds from now.
struct Turn {
    model: ModelId,
    begins_by: f64,
    load: f64,
    work: f64,
    /// How exact the moment of its beginning is: GPUs fall free when tasks end.
    margin: f64,
}

/// The models whose turn has come, in order, if the bound can be kept only by taking turns.
pub(super) fn due(view: &View<'_>, queues: &Queues, fleet: &Fleet, bound: Span) -> Vec<ModelId> {
    let gpus = f64::from(view.alive().len().max(1));
    let (mut turns, mut under_way) = (Vec::new(), 0.0);
    for (model, queue) in queues.waiting() {
        let width = f64::from(view.instance().models[model].gpus);
        let (load, work) = (fleet.usual_load[model], queue.work());
        let waited = queue.oldest().map_or(0.0, |ready| view.now().since(ready).seconds());
        if fleet.at_work(model) > 0 && waited + work / f64::from(fleet.at_work(model)) < bound.seconds() {
            under_way += work * width / gpus;
            continue;
        }
        let margin = 2.0 * (load + work / queue.len() as f64);
        let begins_by = bound.seconds() - waited;
        turns.push(Turn { model, begins_by, load, work: (load + work) * width / gpus, margin });
    }
    turns.sort_by(|a, b| a.begins_by.total_cmp(&b.begins_by).then(a.model.cmp(&b.model)));
    let (mut at, mut close) = (under_way, 0);
    for (place, turn) in turns.iter().enumerate() {
        if at + turn.load + turn.margin > turn.begins_by {
            close = place + 1;
        }
        at += turn.work;
    }
    if at > bound.seconds() {
        return Vec::new();
    }
    turns[..close].iter().map(|turn| turn.model).collect()
}
