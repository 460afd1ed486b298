//! Divides the GPUs into cells and distributes the requests among them.
//!
//! A cell is as wide as the widest model that is used; what does not divide evenly goes to the last cell. Requests go
//! to the cells by longest processing time: each to the least loaded cell, by GPU time and by the time of the widest
//! models, of which a cell holds one replica at a time. Then requests are swapped until all cells have the same load.

use super::barter;
use crate::id::{Gpus, ModelId, RequestId};
use crate::instance::Instance;

/// The width of the widest model that requests use.
pub(super) fn widest(instance: &Instance) -> u32 {
    let mut used = vec![false; instance.workflows.len()];
    instance.requests.iter().for_each(|request| used[request.workflow.index()] = true);
    let workflows = instance.workflows.iter().zip(used).filter(|(_, used)| *used);
    let models = workflows.flat_map(|(workflow, _)| workflow.models.iter());
    models.map(|&model| instance.models[model].gpus).max().unwrap_or(1)
}

/// Sizes of cells that are worth trying: the width of the widest model; where that is next to nothing, some more GPUs, so that
/// not each of them has to serve every model; and, where it does not divide the GPUs, all of them in one: then some GPUs can
/// only serve narrow models, of requests whose wide ones run elsewhere.
pub(super) fn sizes(instance: &Instance) -> Vec<u32> {
    let (widest, gpus) = (widest(instance), instance.cluster.gpus);
    if !gpus.is_multiple_of(widest) {
        return vec![widest, gpus];
    }
    let larger =
        LARGER.into_iter().filter(|&size| widest <= NARROW && size < gpus && gpus.is_multiple_of(size));
    let whole = (widest <= NARROW && gpus <= LARGER[1]).then_some(gpus).filter(|&gpus| gpus > widest);
    std::iter::once(widest).chain(larger).chain(whole).collect()
}

/// A model this wide is narrow.
const NARROW: u32 = 2;

/// Sizes of cells for narrow models.
const LARGER: [u32; 2] = [8, 32];

/// Cells of `size` GPUs; the last takes the rest as well.
pub(super) fn cut(instance: &Instance, size: u32) -> Vec<Gpus> {
    let gpus = instance.cluster.gpus;
    let count = (gpus / size).max(1);
    (0..count)
        .map(|place| Gpus::new(place * size, if place + 1 == count { gpus - place * size } else { size }))
        .collect()
}

/// GPU-time of a request, in microseconds.
pub(super) fn area(instance: &Instance, request: RequestId) -> u64 {
    let tasks = instance
        .tasks_of(request)
        .map(|task| instance.execution(task).0 * u64::from(instance.models[instance.model_of(task)].gpus));
    tasks.sum()
}

/// What requests ask of a cell.
#[derive(Clone, Default)]
struct Load {
    /// GPU-time.
    area: u64,
    /// Time of the widest models.
    wide: u64,
}

/// Deals the requests out to the cells.
pub(super) fn deal(instance: &Instance, cells: &[Gpus]) -> Vec<Vec<RequestId>> {
    if cells.len() == 1 {
        return vec![instance.requests.keys().collect()];
    }
    let widest = widest(instance);
    let is_wide = |model: ModelId| instance.models[model].gpus == widest;
    let wide = |request: RequestId| {
        let tasks = instance.tasks_of(request).filter(|&task| is_wide(instance.model_of(task)));
        tasks.map(|task| instance.execution(task).0).sum()
    };
    let needs = |id| (Load { area: area(instance, id), wide: wide(id) }, id);
    let mut requests: Vec<(Load, RequestId)> = instance.requests.keys().map(needs).collect();
    requests.sort_by_key(|(load, id)| (std::cmp::Reverse(load.area), *id));
    let mut loads = vec![Load::default(); cells.len()];
    let mut dealt = vec![Vec::new(); cells.len()];
    for (need, request) in requests {
        let level = |at: usize| {
            let area = (loads[at].area + need.area) / u64::from(cells[at].count);
            let replicas = u64::from((cells[at].count / widest).max(1));
            area.max(if need.wide > 0 { (loads[at].wide + need.wide) / replicas } else { 0 })
        };
        let Some(best) = (0..cells.len()).min_by_key(|&at| level(at)) else { break };
        loads[best].area += need.area;
        loads[best].wide += need.wide;
        dealt[best].push((need.area, request));
    }
    if cells.iter().all(|cell| cell.count == cells[0].count) {
        even_out(&mut dealt);
    }
    let mut dealt: Vec<Vec<RequestId>> =
        dealt.into_iter().map(|held| held.into_iter().map(|(_, request)| request).collect()).collect();
    dealt.iter_mut().for_each(|requests| requests.sort_unstable());
    dealt
}

/// Swaps requests of the fullest cell and the emptiest until that changes next to nothing.
fn even_out(dealt: &mut [Vec<(u64, RequestId)>]) {
    let mut full: Vec<u64> = dealt.iter().map(|held| held.iter().map(|(area, _)| area).sum()).collect();
    for _ in 0..8 * dealt.len() {
        let most = (0..full.len()).max_by_key(|&at| full[at]).unwrap_or(0);
        let least = (0..full.len()).min_by_key(|&at| full[at]).unwrap_or(0);
        let difference = full[most] - full[least];
        if difference <= full[most] / EVEN {
            break;
        }
        let Some((gives, takes)) = barter::best(&dealt[most], &dealt[least], difference) else { break };
        let given = dealt[most].swap_remove(gives);
        let taken = takes.map(|takes| dealt[least].swap_remove(takes));
        full[most] = full[most] - given.0 + taken.map_or(0, |taken| taken.0);
        full[least] = full[least] + given.0 - taken.map_or(0, |taken| taken.0);
        dealt[least].push(given);
        dealt[most].extend(taken);
    }
}

/// Cells are even when they differ by less than this part of what they hold.
const EVEN: u64 = 20_000;
