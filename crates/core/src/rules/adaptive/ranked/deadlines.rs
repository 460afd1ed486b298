//! Requests with deadlines: when their tasks become urgent.
//!
//! A task becomes urgent when it has to be next to end in time: its latest start minus the time for GPUs to become free
//! and for its load. Until then its request is ordinary, so a distant deadline affects no one. A request that can no
//! longer meet its deadline becomes ordinary again and does not endanger others.

use crate::id::TaskId;
use crate::time::{Span, Time};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

use super::queues::Key;

#[derive(Default)]
pub(super) struct Deadlines {
    /// Ready tasks whose requests have deadlines: the key of each when it is not urgent, and the moment at which it becomes
    /// urgent, or is lost; it is looked at again then.
    tasks: FxHashMap<TaskId, (Key, Time)>,
    changes: BTreeSet<(Time, TaskId)>,
    woken_for: Option<Time>,
}

impl Deadlines {
    /// A ready task whose request has a deadline, and its key when it is not urgent; it is looked at again at `next`.
    pub fn watch(&mut self, task: TaskId, plain: Key, next: Time) {
        self.forget(task);
        self.tasks.insert(task, (plain, next));
        if next != Time::NEVER {
            self.changes.insert((next, task));
        }
    }

    /// A task does not wait any more.
    pub fn forget(&mut self, task: TaskId) {
        if !self.tasks.is_empty()
            && let Some((_, next)) = self.tasks.remove(&task)
        {
            self.changes.remove(&(next, task));
        }
    }

    /// The next task whose class may have changed by now.
    pub fn next_changed(&mut self, now: Time) -> Option<(TaskId, Key)> {
        let &(at, task) = self.changes.first().filter(|&&(at, _)| at <= now)?;
        self.changes.remove(&(at, task));
        self.tasks.get(&task).map(|&(plain, _)| (task, plain))
    }

    /// A time to be woken at, once for each.
    pub fn wake(&mut self, now: Time) -> Option<Time> {
        let &(at, _) = self.changes.first()?;
        if at <= now || self.woken_for == Some(at) {
            return None;
        }
        self.woken_for = Some(at);
        Some(at)
    }
}

/// Whether a task that has to begin by `latest` is urgent now, given that GPUs and model can take `lead` to get; and when
/// that changes.
pub(super) fn urgency(now: Time, latest: Time, lead: Span) -> (bool, Time) {
    let from = Time(latest.0.saturating_sub(lead.0));
    if now < from {
        (false, from)
    } else if now <= latest {
        (true, latest + Span(1))
    } else {
        (false, Time::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_task_that_does_not_wait_any_more() {
        let mut deadlines = Deadlines::default();
        for round in 0..100 {
            let plain = Key { class: 0, rank: round };
            deadlines.watch(TaskId(3), plain, Time(50));
            deadlines.watch(TaskId(3), plain, Time(70));
            assert_eq!(deadlines.wake(Time(0)), (round == 0).then_some(Time(70)), "once for each moment");
            deadlines.forget(TaskId(3));
            assert!(deadlines.tasks.is_empty() && deadlines.changes.is_empty());
            assert_eq!(deadlines.next_changed(Time(100)), None);
        }
    }
}
