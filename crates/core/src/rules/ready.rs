//! Ready tasks, kept apart by model: a model that does not fit now is passed over once, not once for each of its tasks.

use crate::engine::View;
use crate::id::{IdVec, ModelId, TaskId};
use crate::time::Span;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// What decides between ready tasks; smaller first.
pub(super) type Rank = (i64, u64);

/// Ready tasks of every model, each model's in order of rank, and the models in order of their first task.
pub(super) struct ReadyByModel {
    queues: IdVec<ModelId, Queue>,
    heads: BTreeSet<(Rank, TaskId, ModelId)>,
    /// Whether a task is here: most that are given up never were. It grows as tasks with higher numbers come in.
    here: IdVec<TaskId, bool>,
    arrived: u64,
    len: usize,
}

impl ReadyByModel {
    pub fn new(models: usize) -> ReadyByModel {
        ReadyByModel {
            queues: (0..models).map(|_| Queue::default()).collect(),
            heads: BTreeSet::new(),
            here: IdVec::new(),
            arrived: 0,
            len: 0,
        }
    }

    /// First come, first served among requests of the same priority.
    pub fn push_fifo(&mut self, task: TaskId, view: &View<'_>) {
        let priority = view.instance().requests[view.instance().request_of(task)].priority;
        self.arrived += 1;
        self.push(task, view, (-i64::from(priority), self.arrived));
    }

    /// Requests in order of arrival (of the file, where they arrive together), whichever of their tasks is ready: early
    /// requests are carried through before late ones are begun.
    pub fn push_by_arrival(&mut self, task: TaskId, view: &View<'_>) {
        let instance = view.instance();
        let request = &instance.requests[instance.request_of(task)];
        self.push(task, view, (-i64::from(request.priority), request.arrival.0));
    }

    pub fn push(&mut self, task: TaskId, view: &View<'_>, rank: Rank) {
        let model = view.instance().model_of(task);
        let before = self.head(model);
        self.queues[model].push((rank, task, view.instance().execution(task)));
        if task.index() >= self.here.len() {
            self.here.resize(view.instance().tasks().max(task.index() + 1), false);
        }
        self.here[task] = true;
        self.len += 1;
        self.head_changed(model, before);
    }

    pub fn pop(&mut self, model: ModelId) -> Option<TaskId> {
        let before = self.head(model);
        let (_, task, _) = self.queues[model].pop()?;
        self.here[task] = false;
        self.len -= 1;
        self.head_changed(model, before);
        Some(task)
    }

    /// A task will never run: if it was ready, because its request was withdrawn, it is not any more.
    pub fn given_up(&mut self, task: TaskId, view: &View<'_>) -> bool {
        if !self.here.get_mut(task).is_some_and(std::mem::take) {
            return false;
        }
        // Where its number has gone to another request by now, that is one of the same workflow.
        let model = view.instance().model_of(task);
        let before = self.head(model);
        self.len -= self.queues[model].remove(task);
        self.head_changed(model, before);
        true
    }

    /// The first task of a model.
    pub fn peek(&self, model: ModelId) -> Option<TaskId> {
        self.queues[model].peek().map(|(_, task, _)| task)
    }

    /// Execution time of a model's ready tasks.
    pub fn work(&self, model: ModelId) -> Span {
        self.queues[model].work
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn count(&self, model: ModelId) -> usize {
        self.queues[model].len()
    }

    /// Models with ready tasks, in order of the rank of their first.
    pub fn models(&self) -> impl Iterator<Item = ModelId> + '_ {
        self.heads.iter().map(|&(_, _, model)| model)
    }

    fn head(&self, model: ModelId) -> Option<(Rank, TaskId)> {
        self.queues[model].peek().map(|(rank, task, _)| (rank, task))
    }

    fn head_changed(&mut self, model: ModelId, before: Option<(Rank, TaskId)>) {
        let after = self.head(model);
        if before != after {
            before.map(|(rank, task)| self.heads.remove(&(rank, task, model)));
            after.map(|(rank, task)| self.heads.insert((rank, task, model)));
        }
    }
}

/// A ready task, and how long it takes.
type Item = (Rank, TaskId, Span);

/// A priority queue that is a plain queue as long as items come in order, which they mostly do.
#[derive(Default)]
struct Queue {
    in_order: VecDeque<Item>,
    others: BinaryHeap<Reverse<Item>>,
    work: Span,
}

impl Queue {
    fn push(&mut self, item: Item) {
        self.work += item.2;
        if self.in_order.back().is_none_or(|&last| last <= item) {
            self.in_order.push_back(item);
        } else {
            self.others.push(Reverse(item));
        }
    }

    fn peek(&self) -> Option<Item> {
        let other = self.others.peek().map(|&Reverse(item)| item);
        match (self.in_order.front().copied(), other) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn pop(&mut self) -> Option<Item> {
        let next = self.peek()?;
        self.work = Span(self.work.0.saturating_sub(next.2.0));
        if self.in_order.front() == Some(&next) {
            self.in_order.pop_front()
        } else {
            self.others.pop().map(|item| item.0)
        }
    }

    /// Rare enough to look through all of it. How often the task was there.
    fn remove(&mut self, task: TaskId) -> usize {
        let (before, mut work) = (self.len(), self.work.0);
        let mut stays = |item: &Item| {
            if item.1 == task {
                work = work.saturating_sub(item.2.0);
            }
            item.1 != task
        };
        self.in_order.retain(&mut stays);
        self.others.retain(|item| stays(&item.0));
        self.work = Span(work);
        before - self.len()
    }

    fn len(&self) -> usize {
        self.in_order.len() + self.others.len()
    }
}
