//! `round_robin`: each task to the next window in turn, for all models together. See [`super::yardsticks`].

use super::info::without_params;
use super::yardsticks::assign;

without_params!(
    "round_robin",
    BOTH,
    "each task on the next GPUs in turn; a yardstick",
    yardstick(),
    |instance, _| {
        let mut turns = 0..;
        assign(instance, move |windows| turns.next().unwrap_or(0) % windows)
    }
);
