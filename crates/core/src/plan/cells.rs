//! Cutting the GPUs into cells and dealing the requests out to them.
//!
//! A cell is as wide as the widest model that is used; what does not divide evenly goes to the last cell. Requests go to
//! the cells by longest processing time: each to the cell that is then least full, reckoned both by GPU-time and by the time
//! of the widest models, of which a cell holds one replica at a time.

use crate::id::{Gpus, ModelId, RequestId};
use crate::instance::Instance;

/// The width of the widest model that requests use.
pub(super) fn widest(instance: &Instance) -> u32 {
    let used =
        instance.requests.iter().flat_map(|request| instance.workflows[request.workflow].models.iter());
    used.map(|&model| instance.models[model].gpus).max().unwrap_or(1)
}

/// Sizes of cells that are worth trying: the width of the widest model, and, where that does not divide the GPUs, all of
/// them in one: then some GPUs can only serve narrow models, of requests whose wide ones run elsewhere.
pub(super) fn sizes(instance: &Instance) -> Vec<u32> {
    let (widest, gpus) = (widest(instance), instance.cluster.gpus);
    if gpus.is_multiple_of(widest) { vec![widest] } else { vec![widest, gpus] }
}

/// Cells of `size` GPUs; the last takes the rest as well.
pub(super) fn cut(instance: &Instance, size: u32) -> Vec<Gpus> {
    let gpus = instance.cluster.gpus;
    let count = (gpus / size).max(1);
    (0..count)
        .map(|place| Gpus::new(place * size, if place + 1 == count { gpus - place * size } else { size }))
        .collect()
}

/// What requests ask of a cell.
#[derive(Clone)]
struct Load {
    /// GPU-time.
    area: f64,
    /// Time of the widest models.
    wide: f64,
}

/// Deals the requests out to the cells.
pub(super) fn deal(instance: &Instance, cells: &[Gpus]) -> Vec<Vec<RequestId>> {
    let widest = widest(instance);
    let is_wide = |model: ModelId| instance.models[model].gpus == widest;
    let needs = |request: RequestId| {
        let tasks = instance.tasks_of(request).map(|task| {
            let (model, time) = (instance.model_of(task), instance.execution(task).seconds());
            (time * f64::from(instance.models[model].gpus), if is_wide(model) { time } else { 0.0 })
        });
        let (area, wide) = tasks.fold((0.0, 0.0), |sum, task| (sum.0 + task.0, sum.1 + task.1));
        Load { area, wide }
    };
    let mut requests: Vec<(Load, RequestId)> = instance.requests.keys().map(|id| (needs(id), id)).collect();
    requests.sort_by(|a, b| b.0.area.total_cmp(&a.0.area).then(a.1.cmp(&b.1)));
    let mut loads = vec![Load { area: 0.0, wide: 0.0 }; cells.len()];
    let mut dealt = vec![Vec::new(); cells.len()];
    for (need, request) in requests {
        let level = |at: usize| {
            let area = (loads[at].area + need.area) / f64::from(cells[at].count);
            let replicas = f64::from((cells[at].count / widest).max(1));
            area.max(if need.wide > 0.0 { (loads[at].wide + need.wide) / replicas } else { 0.0 })
        };
        let best = (0..cells.len()).min_by(|&a, &b| level(a).total_cmp(&level(b)).then(a.cmp(&b)));
        let Some(best) = best else { break };
        loads[best].area += need.area;
        loads[best].wide += need.wide;
        dealt[best].push(request);
    }
    dealt.iter_mut().for_each(|requests| requests.sort_unstable());
    dealt
}
