//! A target placement: replicas of every model in proportion to recent work.
//!
//! It is the deployment of `static`, computed from recent arrivals instead of all requests, and mapped to the GPUs so
//! that as many loaded models as possible stay. Only where all models fit into memory beside each other.

use super::forecast::History;
use crate::deploy::{Demand, first};
use crate::engine::View;
use crate::id::{GpuId, Gpus, ModelId};
use crate::instance::{Deployment, Residency};

/// The placement for the demand seen lately; `None` where models cannot all be resident at once.
pub(super) fn target(view: &View<'_>, history: &History) -> Option<Deployment> {
    let instance = view.instance();
    if instance.cluster.residency != Residency::Memory || view.alive().len() < instance.cluster.gpus {
        return None;
    }
    let seen = history.seen(view);
    let found = first(&seen, &Demand::of(&seen));
    let everywhere = instance.workflows.iter().flat_map(|workflow| &workflow.models);
    let is_placed = |&model: &ModelId| found.windows(model).next().is_some();
    (found.fits && everywhere.copied().all(|model| is_placed(&model))).then(|| settled(view, found))
}

/// The same placement with its blocks of GPUs exchanged, so that models stay where they are.
fn settled(view: &View<'_>, wanted: Deployment) -> Deployment {
    let models = &view.instance().models;
    let block = wanted.replicas.iter().map(|&(_, gpus)| gpus.count).max().unwrap_or(1);
    let count = (view.instance().cluster.gpus / block) as usize;
    let place = |gpus: Gpus| (gpus.first.0 / block) as usize;
    let whole = |&(_, gpus): &(ModelId, Gpus)| {
        place(gpus) == ((gpus.first.0 + gpus.count - 1) / block) as usize && place(gpus) < count
    };
    let (movable, fixed): (Vec<_>, Vec<_>) = wanted.replicas.iter().copied().partition(whole);
    let moved = |gpus: Gpus, to: usize| Gpus {
        first: GpuId(to as u32 * block + gpus.first.0 % block),
        count: gpus.count,
    };
    let mut kept = vec![vec![0.0; count]; count];
    for &(model, gpus) in &movable {
        for (to, kept) in kept[place(gpus)].iter_mut().enumerate() {
            if view.holding(model).contains_all(moved(gpus, to)) {
                *kept += models[model].load_seconds;
            }
        }
    }
    let mut pairs: Vec<(usize, usize)> =
        (0..count).flat_map(|from| (0..count).map(move |to| (from, to))).collect();
    pairs.sort_by(|&(a, b), &(c, d)| {
        kept[c][d].total_cmp(&kept[a][b]).then((a != b, a, b).cmp(&(c != d, c, d)))
    });
    let (mut to_of, mut taken) = (vec![None; count], vec![false; count]);
    for (from, to) in pairs {
        if to_of[from].is_none() && !taken[to] {
            (to_of[from], taken[to]) = (Some(to), true);
        }
    }
    let replicas: Vec<(ModelId, Gpus)> = movable
        .iter()
        .map(|&(model, gpus)| (model, moved(gpus, to_of[place(gpus)].unwrap_or(place(gpus)))))
        .chain(fixed)
        .collect();
    // Not every window may suit every model: on a server of its own, say.
    let suits = |&(model, gpus): &(ModelId, Gpus)| models[model].starts.contains(gpus.first);
    if replicas.iter().all(suits) { Deployment { replicas, ..wanted } } else { wanted }
}
