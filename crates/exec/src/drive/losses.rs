//! Work lost with its backend: it moves elsewhere and does not count as a failed attempt. But a call or a model that
//! crashes every server would crash one after the other, so from some number of crashes on, each counts as a failure.
//!
//! If several calls are lost together, the culprit is unknown. A call that was lost too often is a suspect and gets its
//! next server to itself: only a call that was alone is blamed for a crash. A call that a server fails repeatedly while
//! it answers others is also to blame.

use super::machine::{Book, Machine};
use crate::backend::Replica;
use gswarm_core::{ModelId, TaskId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// So often the server of a call, or of a load, may go without anybody being blamed for it.
const BLAMELESS: u32 = 3;

/// Servers that went under a call, or under a load, since it went well.
#[derive(Default)]
pub(super) struct Losses {
    calls: FxHashMap<TaskId, u32>,
    loads: FxHashMap<ModelId, u32>,
    /// How often a server failed a call while it answered others, and what it had answered when it last did.
    faults: BTreeMap<(TaskId, usize), (u32, u64)>,
}

impl Losses {
    /// A server has gone while it was called for a task and others `beside` it; whether that counts as a failure of the task.
    pub fn of_calls(&mut self, task: TaskId, beside: &[TaskId]) -> bool {
        for &other in beside {
            *self.calls.entry(other).or_insert(0) += 1;
        }
        is_too_often(self.calls.entry(task).or_insert(0)) && beside.is_empty()
    }

    /// Whether a task was lost so often that it is called alone, until it is answered.
    pub fn is_suspect(&self, task: TaskId) -> bool {
        self.calls.get(&task).is_some_and(|&times| times >= BLAMELESS)
    }

    /// A server has gone while it loaded a model; whether that counts as a failure of those who wait for the model.
    pub fn of_load(&mut self, model: ModelId) -> bool {
        is_too_often(self.loads.entry(model).or_insert(0))
    }

    /// A server failed a call, and has answered so many others by now; whether that counts as a failure of the task. A server
    /// that answers nobody is to blame itself.
    pub fn of_fault(&mut self, task: TaskId, member: usize, answered: u64) -> bool {
        let (times, before) = self.faults.entry((task, member)).or_insert((1, answered));
        *times += u32::from(answered > *before);
        *before = answered;
        *times > BLAMELESS
    }

    /// A task was answered, or is a new one.
    pub fn forget(&mut self, task: TaskId) {
        self.calls.remove(&task);
        while let Some((&key, _)) = self.faults.range((task, 0)..=(task, usize::MAX)).next() {
            self.faults.remove(&key);
        }
    }

    /// A model was loaded.
    pub fn was_loaded(&mut self, model: ModelId) {
        self.loads.remove(&model);
    }
}

fn is_too_often(times: &mut u32) -> bool {
    *times += 1;
    *times > BLAMELESS
}

impl<B: Book> Machine<'_, B> {
    /// A backend has gone under a call, and under all others there: whether that is the fault of this one.
    pub(super) fn is_blamed(&mut self, task: TaskId, replica: Replica) -> bool {
        let Some(member) = self.acts.fleet().serves(replica) else { return false };
        // Those who tell of it after the first have been counted with it.
        if self.servers.is_down(member) {
            return false;
        }
        let beside: Vec<TaskId> = self.acts.called(member).collect();
        self.losses.of_calls(task, &beside)
    }
}
