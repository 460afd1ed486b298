//! Ready tasks, kept apart by kind, each kind's in the order of a recipe.

use super::ground::Ground;
use crate::id::{IdVec, ModelId, TaskId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(super) struct Queues {
    queues: Vec<BinaryHeap<Reverse<(u32, TaskId)>>>,
    /// Ready tasks of each model, and what they take of a replica at its best batch size, in seconds.
    ready: IdVec<ModelId, (u32, f64)>,
    /// Tasks of each kind that are not ready yet.
    pub coming: Vec<u32>,
    /// Tasks of each model that have not started.
    pub left: IdVec<ModelId, u32>,
}

impl Queues {
    pub fn new(ground: &Ground<'_>) -> Queues {
        let mut left: IdVec<ModelId, u32> = vec![0; ground.instance.models.len()].into();
        ground.kinds.iter().for_each(|kind| left[kind.model] += kind.tasks);
        Queues {
            queues: ground.kinds.iter().map(|_| BinaryHeap::new()).collect(),
            ready: vec![(0, 0.0); ground.instance.models.len()].into(),
            coming: ground.kinds.iter().map(|kind| kind.tasks).collect(),
            left,
        }
    }

    pub fn push(&mut self, ground: &Ground<'_>, task: TaskId, key: u32) {
        let kind = ground.kind_of[task] as usize;
        self.queues[kind].push(Reverse((key, task)));
        self.coming[kind] = self.coming[kind].saturating_sub(1);
        let (count, work) = &mut self.ready[ground.kinds[kind].model];
        *count += 1;
        *work += work_of(ground, task);
    }

    /// The first task among the kinds of a model that `allowed` lets through, and takes it out.
    pub fn pop(
        &mut self,
        ground: &Ground<'_>,
        model: ModelId,
        allowed: impl Fn(u32) -> bool,
    ) -> Option<TaskId> {
        let heads = ground.kinds_of[model].iter().copied().filter(|&kind| allowed(kind));
        let heads = heads.filter_map(|kind| {
            let &Reverse((key, task)) = self.queues[kind as usize].peek()?;
            Some((key, task, kind))
        });
        let (_, task, kind) = heads.min()?;
        self.queues[kind as usize].pop();
        let (count, work) = &mut self.ready[model];
        *count -= 1;
        *work -= work_of(ground, task);
        self.left[model] -= 1;
        Some(task)
    }

    pub fn has(&self, kind: u32) -> bool {
        !self.queues[kind as usize].is_empty()
    }

    pub fn has_model(&self, model: ModelId) -> bool {
        self.ready[model].0 > 0
    }

    /// What the ready tasks of a model would take of a replica, in seconds.
    pub fn work(&self, model: ModelId) -> f64 {
        if self.ready[model].0 == 0 { 0.0 } else { self.ready[model].1 }
    }

    pub fn is_empty(&self) -> bool {
        self.ready.iter().all(|&(count, _)| count == 0)
    }
}

fn work_of(ground: &Ground<'_>, task: TaskId) -> f64 {
    let model = ground.instance.model_of(task);
    ground.instance.execution(task).seconds() * ground.share[model]
}
