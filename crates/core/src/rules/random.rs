//! `random`: each task to any window. See [`super::yardsticks`].

use super::info::without_params;
use super::yardsticks::assign;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

without_params!(
    "random",
    BOTH,
    "each task on random GPUs (seeded); a yardstick",
    yardstick(),
    |instance, context| {
        let mut rng = ChaCha8Rng::seed_from_u64(context.seed);
        assign(instance, move |windows| rng.random_range(0..windows))
    }
);
