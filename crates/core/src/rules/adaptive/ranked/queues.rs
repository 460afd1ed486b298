//! Ready tasks by model, each model's in order of rank.

use crate::id::{IdVec, ModelId, TaskId};
use crate::time::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// What decides between ready tasks, smaller first: the class (priority, then urgency), then the rank inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub class: i64,
    /// Microseconds on the scale of arrivals; of an urgent task, the latest moment at which it has to begin.
    pub rank: i64,
}

/// What is known of a ready task. It is kept here because the number of the task may have gone to another request by the
/// time at which the policy is told that this one was given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// How long it is expected to run.
    pub takes: Span,
    /// Since when it is ready.
    pub ready: Time,
}

/// The ready tasks of one model.
#[derive(Default)]
pub(super) struct Queue {
    tasks: BTreeMap<(Key, TaskId), Waiting>,
    /// In the order in which they became ready.
    by_age: BTreeSet<(Time, TaskId)>,
    work: u64,
}

impl Queue {
    pub fn head(&self) -> Option<(Key, TaskId)> {
        self.tasks.first_key_value().map(|(&head, _)| head)
    }

    pub fn last(&self) -> Option<Key> {
        self.tasks.last_key_value().map(|(&(key, _), _)| key)
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
        self.by_age.first().map(|&(ready, _)| ready)
    }
}

/// All ready tasks.
pub(super) struct Queues {
    by_model: IdVec<ModelId, Queue>,
    /// The key of each task that is ready; it grows as tasks with higher numbers come in.
    keys: IdVec<TaskId, Option<Key>>,
    len: usize,
    /// Whether the order in which tasks became ready is kept: only a bound on waiting asks for it.
    keep_ages: bool,
}

impl Queues {
    pub fn new(models: usize, tasks: usize, keep_ages: bool) -> Queues {
        Queues {
            by_model: (0..models).map(|_| Queue::default()).collect(),
            keys: vec![None; tasks].into(),
            len: 0,
            keep_ages,
        }
    }

    pub fn of(&self, model: ModelId) -> &Queue {
        &self.by_model[model]
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// A task waits, or waits with another key than before.
    pub fn push(&mut self, model: ModelId, key: Key, task: TaskId, waiting: Waiting) {
        self.remove(model, task);
        if task.index() >= self.keys.len() {
            self.keys.resize(task.index() + 1, None);
        }
        self.keys[task] = Some(key);
        let queue = &mut self.by_model[model];
        queue.tasks.insert((key, task), waiting);
        queue.work += waiting.takes.0;
        self.len += 1;
        if self.keep_ages {
            queue.by_age.insert((waiting.ready, task));
        }
    }

    /// Takes a task out; what was known of it, if it was there.
    pub fn remove(&mut self, model: ModelId, task: TaskId) -> Option<Waiting> {
        let key = self.keys.get_mut(task)?.take()?;
        let queue = &mut self.by_model[model];
        let waiting = queue.tasks.remove(&(key, task))?;
        queue.work -= waiting.takes.0;
        queue.by_age.remove(&(waiting.ready, task));
        self.len -= 1;
        Some(waiting)
    }

    /// Models with ready tasks.
    pub fn waiting(&self) -> impl Iterator<Item = (ModelId, &Queue)> {
        self.by_model.iter_enumerated().filter(|(_, queue)| !queue.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_used_again_takes_nothing_over() {
        let mut queues = Queues::new(1, 0, true);
        let (model, task) = (ModelId(0), TaskId(5));
        for round in 1..100 {
            let key = Key { class: 0, rank: round };
            let waiting = Waiting { takes: Span(round as u64), ready: Time(round as u64) };
            queues.push(model, key, task, waiting);
            queues.push(model, Key { class: -1, ..key }, task, waiting);
            let queue = queues.of(model);
            assert_eq!(
                (queue.len(), queue.work(), queue.oldest()),
                (1, round as f64 / 1e6, Some(waiting.ready))
            );
            assert_eq!(queues.remove(model, task).map(|found| found.takes), Some(waiting.takes));
            assert!(queues.remove(model, task).is_none() && queues.remove(model, TaskId(9)).is_none());
            assert_eq!((queues.len(), queues.keys.len(), queues.of(model).oldest()), (0, 6, None));
        }
    }
}
