//! What is lost with its backend: it is done elsewhere, and no attempt of it has failed. But a call that ends its server
//! wherever it is made, and a model that does so wherever it is loaded, would end one after the other: from some number of
//! times on, that counts as a failure.

use gswarm_core::{ModelId, TaskId};
use rustc_hash::FxHashMap;

/// So often the server of a call, or of a load, may go without anybody being blamed for it.
const BLAMELESS: u32 = 3;

/// Servers that went under a call, or under a load, since it went well.
#[derive(Default)]
pub(super) struct Losses {
    calls: FxHashMap<TaskId, u32>,
    loads: FxHashMap<ModelId, u32>,
}

impl Losses {
    /// A server has gone while it was called for a task; whether that counts as a failure of the task.
    pub fn of_call(&mut self, task: TaskId) -> bool {
        is_blamed(self.calls.entry(task).or_insert(0))
    }

    /// A server has gone while it loaded a model; whether that counts as a failure of those who wait for the model.
    pub fn of_load(&mut self, model: ModelId) -> bool {
        is_blamed(self.loads.entry(model).or_insert(0))
    }

    /// A task was answered.
    pub fn was_answered(&mut self, task: TaskId) {
        self.calls.remove(&task);
    }

    /// A model was loaded.
    pub fn was_loaded(&mut self, model: ModelId) {
        self.loads.remove(&model);
    }
}

fn is_blamed(times: &mut u32) -> bool {
    *times += 1;
    *times > BLAMELESS
}
