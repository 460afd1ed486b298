//! `round_robin` and `random`: yardsticks that look at nothing. A policy that does not beat them does no good.
//!
//! Each task is given its GPUs when it becomes ready: the next window in turn, or any window by a seeded draw. It waits
//! there, whatever is idle elsewhere. Cost: O(1) per task.

use super::lists::Lists;
use super::sketch;
use crate::id::{Gpus, IdVec, ModelId};
use crate::instance::Instance;

pub(crate) mod round_robin {
    //! Each task to the next window in turn, for all models together.
    use super::assign;
    use crate::rules::info::without_params;

    without_params!(
        "round_robin",
        BOTH,
        "each task to the next GPUs in turn; a yardstick",
        yardstick(),
        |instance, _| {
            let mut turns = 0..;
            assign(instance, move |windows| turns.next().unwrap_or(0) % windows)
        }
    );
}

pub(crate) mod random {
    //! Each task to any window.
    use super::assign;
    use crate::rules::info::without_params;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    without_params!(
        "random",
        BOTH,
        "each task to any GPUs by a seeded draw; a yardstick",
        yardstick(),
        |instance, context| {
            let mut rng = ChaCha8Rng::seed_from_u64(context.seed);
            assign(instance, move |windows| rng.random_range(0..windows))
        }
    );
}

/// Lists in which `choose` says which of so many windows a task gets.
fn assign<'i>(instance: &'i Instance, mut choose: impl FnMut(usize) -> usize + Send + 'i) -> Lists<'i> {
    let windows: IdVec<ModelId, Vec<Gpus>> = instance.models.iter().map(sketch::tiles).collect();
    Lists::assigned_when_ready(instance, move |task| {
        let windows = &windows[instance.model_of(task)];
        windows[choose(windows.len())]
    })
}
