//! Ready tasks by model, each model's in order of rank.

use crate::id::{IdVec, ModelId, TaskId};
use crate::time::{Span, Time};
use std::collections::{BTreeSet, VecDeque};

/// What decides between ready tasks, smaller first: the class (priority, then urgency), then the rank inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub class: i64,
    /// Microseconds on the scale of arrivals; of an urgent task, the latest moment at which it has to begin.
    pub rank: i64,
}

/// The ready tasks of one model.
#[derive(Default)]
pub(super) struct Queue {
    tasks: BTreeSet<(Key, TaskId)>,
    /// In the order in which they became ready; those that have been started are dropped when they come to the front.
    by_age: VecDeque<(Time, Key, TaskId)>,
    work: u64,
}

impl Queue {
    pub fn head(&self) -> Option<(Key, TaskId)> {
        self.tasks.first().copied()
    }

    pub fn last(&self) -> Option<Key> {
        self.tasks.last().map(|&(key, _)| key)
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Estimated execution of all of them, in seconds.
    pub fn work(&self) -> f64 {
        self.work as f64 / 1e6
    }

    /// Since when the one that waits longest is ready.
    pub fn oldest(&self) -> Option<Time> {
        self.by_age.front().map(|&(ready, ..)| ready)
    }

    fn forget_started(&mut self) {
        while self.by_age.front().is_some_and(|&(_, key, task)| !self.tasks.contains(&(key, task))) {
            self.by_age.pop_front();
        }
    }
}

/// All ready tasks.
pub(super) struct Queues {
    by_model: IdVec<ModelId, Queue>,
    len: usize,
    /// Whether the order in which tasks became ready is kept: only a bound on waiting asks for it.
    keep_ages: bool,
}

impl Queues {
    pub fn new(models: usize, keep_ages: bool) -> Queues {
        Queues { by_model: (0..models).map(|_| Queue::default()).collect(), len: 0, keep_ages }
    }

    pub fn of(&self, model: ModelId) -> &Queue {
        &self.by_model[model]
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, model: ModelId, key: Key, task: TaskId, takes: Span, ready: Time) {
        let queue = &mut self.by_model[model];
        if queue.tasks.insert((key, task)) {
            queue.work += takes.0;
            self.len += 1;
            if self.keep_ages {
                queue.by_age.push_back((ready, key, task));
            }
        }
    }

    /// Takes a task out; whether it was there.
    pub fn remove(&mut self, model: ModelId, key: Key, task: TaskId, takes: Span) -> bool {
        let queue = &mut self.by_model[model];
        let there = queue.tasks.remove(&(key, task));
        if there {
            queue.work -= takes.0;
            self.len -= 1;
            queue.forget_started();
        }
        there
    }

    /// Models with ready tasks.
    pub fn waiting(&self) -> impl Iterator<Item = (ModelId, &Queue)> {
        self.by_model.iter_enumerated().filter(|(_, queue)| !queue.is_empty())
    }
}
