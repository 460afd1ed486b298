//! A model on its GPUs.

use gswarm_core::{Gpus, ModelId};

/// A model on its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replica {
    /// The model.
    pub model: ModelId,
    /// All of its GPUs.
    pub gpus: Gpus,
}

/// Whether two windows have a GPU in common.
#[must_use]
pub fn overlap(one: Gpus, other: Gpus) -> bool {
    one.first.0 < other.first.0 + other.count && other.first.0 < one.first.0 + one.count
}
