//! The bound on waiting because tasks are collated by model, kept by planning the turns of models.
//!
//! Every model that waits gets a turn: its load, if it is not being served, and the work in its queue. Turns are laid out on
//! the GPUs in order of the moment by which each must begin (the oldest task's readiness plus the bound), as if GPUs were
//! one fast machine. Where all begin in time with room to spare, the policy is free to choose. Where one would come close,
//! the turns are taken in that order, before the bound is reached. Where they cannot all be kept, the cluster is overloaded:
//! then the order by rank is better than being late in order, and the policy is free again.

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
}

/// The models whose turn has come, in order, if the bound can be kept only by taking turns.
pub(super) fn due(view: &View<'_>, queues: &Queues, fleet: &Fleet, bound: Span) -> Vec<ModelId> {
    let mut turns: Vec<Turn> = queues.waiting().filter_map(|(model, queue)| {
        let waited = view.now().since(queue.oldest()?).seconds();
        let width = f64::from(view.instance().models[model].gpus);
        let load = if fleet.at_work(model) > 0 { 0.0 } else { fleet.usual_load[model] };
        Some(Turn { model, begins_by: bound.seconds() - waited, load: load * width, work: queue.work() * width })
    }).collect();
    turns.sort_by(|a, b| a.begins_by.total_cmp(&b.begins_by).then(a.model.cmp(&b.model)));
    let gpus = f64::from(view.alive().len().max(1));
    // A turn begins when a GPU falls free: half a task and a load away, on average; and no estimate is exact.
    let (mut at, mut close, mut late) = (0.0, 0, false);
    for (place, turn) in turns.iter().enumerate() {
        let begins = at / gpus + turn.load;
        let spare = turn.begins_by - begins;
        let mean = queues.of(turn.model).work() / queues.of(turn.model).len().max(1) as f64;
        if spare < 2.0 * (mean + turn.load) {
            close = place + 1;
        }
        late |= spare < 0.0 && turn.begins_by > turn.load;
        at += turn.load + turn.work;
    }
    if late {
        return Vec::new();
    }
    turns[..close].iter().map(|turn| turn.model).collect()
}
