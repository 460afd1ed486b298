//! Requests with deadlines: when their tasks become urgent.
//!
//! A task is urgent from the moment at which it has to be next in order to end in time: that much before its latest start
//! that GPUs can fall free and its model can come over. Until then its request is one like any other, so that a deadline
//! that is far away costs nobody anything. A request that cannot make it any more is ordinary again: it must not cost others
//! theirs.

use crate::id::TaskId;
use crate::time::{Span, Time};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::queues::Key;

/// A ready task whose request has a deadline.
#[derive(Clone, Copy)]
pub(super) struct Due {
    /// Its key now.
    pub key: Key,
    /// Its key when it is not urgent.
    pub plain: Key,
}

#[derive(Default)]
pub(super) struct Deadlines {
    tasks: FxHashMap<TaskId, Due>,
    /// When tasks become urgent, and when they are lost: each is looked at again then.
    changes: BinaryHeap<Reverse<(Time, TaskId)>>,
    woken_for: Option<Time>,
}

impl Deadlines {
    /// A ready task whose request has a deadline; it is looked at again at `next`.
    pub fn watch(&mut self, task: TaskId, due: Due, next: Time) {
        self.tasks.insert(task, due);
        if next != Time::NEVER {
            self.changes.push(Reverse((next, task)));
        }
    }

    pub fn started(&mut self, task: TaskId) {
        if !self.tasks.is_empty() {
            self.tasks.remove(&task);
        }
    }

    /// The next task whose class may have changed by now.
    pub fn next_changed(&mut self, now: Time) -> Option<(TaskId, Due)> {
        while let Some(&Reverse((at, task))) = self.changes.peek() {
            if at > now {
                return None;
            }
            self.changes.pop();
            if let Some(&due) = self.tasks.get(&task) {
                return Some((task, due));
            }
        }
        None
    }

    /// A time to be woken at, once for each.
    pub fn wake(&mut self, now: Time) -> Option<Time> {
        let &Reverse((at, _)) = self.changes.peek()?;
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
