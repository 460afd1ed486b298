//! `offline`: few switches for a batch that is known in advance.
//!
//! Optimises the number of model switches, then balance. The batch is cut into topological levels; inside a level the
//! order is greedy: go on with the last model, else with the model that has most tasks left in the level. Each task, in
//! that order, goes to the GPUs where its model could begin soonest (least load, plus the switch where it is not there).
//! Every GPU then works through its list; a task waits for its own inputs at run time.
//!
//! Inside a group tasks go by the time at which their inputs are expected, so that lists do not wait at their heads.
//!
//! Cost: O(n log n) to plan, O(1) per task to follow.

use super::info::without_params;
use super::lists::Lists;
use super::sketch::{self, Sketch};
use super::waves::Waves;
use crate::id::{ModelId, TaskId};
use crate::instance::Instance;

without_params!(
    "offline",
    OFFLINE,
    "fewest switches for a batch known in advance: by level and model, GPUs balanced",
    |instance, _| plan(instance)
);

/// Plans the whole batch.
fn plan(instance: &Instance) -> Lists<'_> {
    let mut plan = Sketch::new(instance);
    let mut last: Option<ModelId> = None;
    let mut waves = Waves::new(instance);
    while let Some(wave) = waves.next(&mut plan) {
        for mut level in sketch::groups(instance, &wave) {
            while !level.is_empty() {
                let same = level.iter().position(|&(model, _)| Some(model) == last);
                let largest =
                    || (0..level.len()).max_by_key(|&at| (level[at].1.len(), std::cmp::Reverse(level[at].0)));
                let Some(next) = same.or_else(largest) else { break };
                let (model, mut tasks) = level.swap_remove(next);
                let priority = |task: TaskId| instance.requests[instance.request_of(task)].priority;
                tasks.sort_by_cached_key(|&task| {
                    (std::cmp::Reverse(priority(task)), plan.ready_at(task), task)
                });
                plan.place_group(model, tasks.into_iter());
                last = Some(model);
            }
        }
    }
    Lists::of(instance, &plan.placed).preloading()
}
