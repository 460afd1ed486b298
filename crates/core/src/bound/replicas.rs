//! One model's tasks on as many replicas as the cluster can hold.
//!
//! With k replicas, (k smallest heads + work + k smallest tails) / k: each replica idles at least until the head of its
//! first task, and the run goes on for at least the tail of its last. The argument holds for any set of tasks, with k the
//! number of tasks where those are fewer; sets of all tasks with a least head, or a least tail, are tried, so that the limit
//! alone tells the set.

use super::{Bound, Slack, Witness, best_share};
use crate::id::{ModelId, TaskId};
use crate::instance::Instance;
use crate::time::Span;
use std::collections::BinaryHeap;

pub(super) fn bound(instance: &Instance, slack: &Slack, model: ModelId) -> Option<Bound> {
    let spec = &instance.models[model];
    let replicas = u64::from(most_replicas(instance, model));
    let mut tasks: Vec<TaskId> =
        instance.task_ids().filter(|&task| instance.model_of(task) == model).collect();
    if tasks.is_empty() || replicas == 0 {
        return None;
    }
    let share = u128::from(best_share(spec));
    let work = |task: TaskId| u128::from(instance.execution(task).0) * share / 1_000_000;
    // Where executions share a replica, several may be first: only the very least head and tail are certain.
    let certain = if spec.max_batch() > 1 { Count::One } else { Count::Replicas };
    let best_of = |tasks: &[TaskId], by_head: bool| {
        let mut set = Set::new(replicas, certain);
        let limit = |task: TaskId| if by_head { slack.head[task] } else { slack.tail[task] };
        let values = tasks.chunk_by(|&one, &next| limit(one) == limit(next)).map(|equals| {
            equals.iter().for_each(|&task| set.add(slack.head[task], slack.tail[task], work(task)));
            (set.bound(), limit(equals[0]), set.total(), set.count)
        });
        values.max_by_key(|&(bound, ..)| bound).expect("there are tasks")
    };
    tasks.sort_by_key(|&task| std::cmp::Reverse(slack.head[task]));
    let by_head = best_of(&tasks, true);
    tasks.sort_by_key(|&task| std::cmp::Reverse(slack.tail[task]));
    let by_tail = best_of(&tasks, false);
    let ((value, threshold, total, count), is_head) =
        if by_head.0 >= by_tail.0 { (by_head, true) } else { (by_tail, false) };
    let (least_head, least_tail) = if is_head { (threshold, Span::ZERO) } else { (Span::ZERO, threshold) };
    let replicas = replicas.min(count);
    Some(Bound { value, witness: Witness::Replicas { model, replicas, least_head, least_tail, total } })
}

/// How many replicas of a model the cluster can hold at once.
fn most_replicas(instance: &Instance, model: ModelId) -> u32 {
    let (mut count, mut next) = (0, 0);
    for window in instance.models[model].windows() {
        if window.first.0 >= next {
            count += 1;
            next = window.first.0 + window.count;
        }
    }
    count
}

#[derive(Clone, Copy)]
enum Count {
    /// As many heads and tails as there are replicas.
    Replicas,
    /// The least head and tail, for every replica.
    One,
}

/// A growing set of tasks, with the sums of its smallest heads and tails.
struct Set {
    replicas: u64,
    kept: Count,
    count: u64,
    work: u128,
    heads: Smallest,
    tails: Smallest,
}

impl Set {
    fn new(replicas: u64, kept: Count) -> Set {
        Set { replicas, kept, count: 0, work: 0, heads: Smallest::default(), tails: Smallest::default() }
    }

    fn add(&mut self, head: Span, tail: Span, work: u128) {
        let keep = match self.kept {
            Count::Replicas => self.replicas as usize,
            Count::One => 1,
        };
        self.count += 1;
        self.work += work;
        self.heads.add(head, keep);
        self.tails.add(tail, keep);
    }

    fn total(&self) -> u128 {
        let times = match self.kept {
            Count::Replicas => 1,
            Count::One => u128::from(self.replicas.min(self.count)),
        };
        (self.heads.sum + self.tails.sum) * times + self.work
    }

    fn bound(&self) -> Span {
        Span(self.total().div_ceil(u128::from(self.replicas.min(self.count).max(1))) as u64)
    }
}

/// The sum of the smallest values seen.
#[derive(Default)]
struct Smallest {
    largest_first: BinaryHeap<Span>,
    sum: u128,
}

impl Smallest {
    fn add(&mut self, value: Span, keep: usize) {
        self.sum += u128::from(value.0);
        self.largest_first.push(value);
        if self.largest_first.len() > keep {
            self.sum -= u128::from(self.largest_first.pop().unwrap_or_default().0);
        }
    }
}
