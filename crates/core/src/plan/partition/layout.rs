//! Which GPUs are kept for the widest models, and where everything else may run.

use crate::id::{Gpus, ModelId};
use crate::instance::{Instance, Model};

/// The windows of every model outside and inside the blocks that are kept for the widest.
pub(super) struct Layout {
    /// Per model: where it may run. Models that fit nowhere else are confined to the blocks.
    pub places: Vec<Places>,
}

/// Where one model may run.
pub(super) struct Places {
    /// Whether it fits into no GPUs but those of the blocks.
    pub is_wide: bool,
    /// Windows outside the blocks first.
    pub windows: Vec<Place>,
}

/// A window of a model.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its first GPU.
    pub first: u32,
    /// The block that it lies in.
    pub block: Option<u32>,
}

/// The windows of the widest model that fit side by side.
pub(super) fn tiles(instance: &Instance) -> Vec<Gpus> {
    let widest = super::super::cells::widest(instance);
    let used = |id: ModelId| instance.task_ids().any(|task| instance.model_of(task) == id);
    let model = instance.models.iter_enumerated().find(|(id, model)| model.gpus == widest && used(*id));
    model.map_or_else(Vec::new, |(_, model)| tiles_within(model, Gpus::new(0, instance.cluster.gpus)))
}

impl Layout {
    /// `None` where the blocks leave nothing for others.
    pub fn new(instance: &Instance, blocks: &[Gpus]) -> Option<Layout> {
        let rest = gaps(blocks, instance.cluster.gpus);
        let places = instance.models.iter().map(|model| {
            let outside = rest.iter().flat_map(|&gap| tiles_within(model, gap));
            let mut windows: Vec<Place> =
                outside.map(|gpus| Place { first: gpus.first.0, block: None }).collect();
            let is_wide = windows.is_empty();
            for (block, &gpus) in (0..).zip(blocks) {
                let inside = tiles_within(model, gpus).into_iter();
                windows.extend(inside.map(|gpus| Place { first: gpus.first.0, block: Some(block) }));
            }
            Places { is_wide, windows }
        });
        let places: Vec<Places> = places.collect();
        let used =
            instance.task_ids().all(|task| !places[instance.model_of(task).index()].windows.is_empty());
        let shared = places.iter().any(|places| !places.is_wide);
        (used && shared).then_some(Layout { places })
    }
}

/// What `blocks`, in ascending order, leave of `gpus` GPUs.
fn gaps(blocks: &[Gpus], gpus: u32) -> Vec<Gpus> {
    let ends = blocks.iter().map(|block| block.first.0 + block.count);
    let begins = std::iter::once(0).chain(ends);
    let ends = blocks.iter().map(|block| block.first.0).chain([gpus]);
    begins
        .zip(ends)
        .filter(|(begin, end)| begin < end)
        .map(|(begin, end)| Gpus::new(begin, end - begin))
        .collect()
}

/// Windows of `model` side by side within `gpus`.
fn tiles_within(model: &Model, gpus: Gpus) -> Vec<Gpus> {
    let mut next = gpus.first.0;
    let mut tiles = Vec::new();
    for window in model.windows() {
        if window.first.0 >= next && window.first.0 + window.count <= gpus.first.0 + gpus.count {
            tiles.push(window);
            next = window.first.0 + window.count;
        }
    }
    tiles
}
