//! `baseline`: what Ray and plain queues do.
//!
//! Optimises nothing: first come, first served. At each event every ready task that fits now is started, in the order in
//! which tasks became ready (higher priority first); one that does not fit is skipped. A GPU that holds the model is
//! preferred, then an empty one, then a running batch with room, then the GPU that is idle longest; several GPUs must be
//! consecutive. Executions that end at the same instant are taken one after the other, as such a queue does: the first
//! GPU to fall free is given away before the second is looked at.
//!
//! Cost: O(log n) per task and O(models) per event; see [`super::ready`].

use super::Policy;
use super::info::without_params;
use super::place;
use super::ready::ReadyByModel;
use crate::engine::{Decision, News, View};
use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;
use std::collections::VecDeque;

without_params!(
    "baseline",
    BOTH,
    "first come, first served, as Ray does; the yardstick to beat",
    |instance, _| Baseline::new(instance)
);

/// First come, first served, passing over what does not fit.
pub struct Baseline {
    ready: ReadyByModel,
    /// What happened at this instant and was not looked at yet.
    news: VecDeque<News>,
    /// GPUs that the unread news will free.
    unseen: GpuSet,
    /// Counts the times that GPUs fell free; until the next, a model that did not fit will not fit.
    round: u64,
    blocked_in: IdVec<ModelId, u64>,
}

impl Baseline {
    /// With an empty queue.
    pub fn new(instance: &Instance) -> Baseline {
        let models = instance.models.len();
        Baseline {
            ready: ReadyByModel::new(models),
            news: VecDeque::new(),
            unseen: GpuSet::empty(instance.cluster.gpus),
            round: 1,
            blocked_in: vec![0; models].into(),
        }
    }

    /// The rule for what is left once a list or a plan is void: it is told which tasks wait when it is first asked for.
    pub fn take_over<'f>(
        fallback: &'f mut Option<Baseline>,
        waiting: impl Iterator<Item = TaskId>,
        view: &View<'_>,
    ) -> &'f mut Baseline {
        fallback.get_or_insert_with(|| {
            let mut fallback = Baseline::new(view.instance());
            waiting.for_each(|task| fallback.ready(task, view));
            fallback
        })
    }

    fn first_that_fits(&mut self, view: &View<'_>) -> Option<(ModelId, Gpus)> {
        let seen = (!self.news.is_empty()).then(|| view.idle().without(&self.unseen));
        let allowed = seen.as_ref().unwrap_or(view.idle());
        for model in self.ready.models() {
            if self.blocked_in[model] == self.round {
                continue;
            }
            match place::affinity_first(view, model, allowed) {
                Some(gpus) => return Some((model, gpus)),
                None => self.blocked_in[model] = self.round,
            }
        }
        None
    }

    /// Reads on to the end of the next event: the GPUs that it freed, and the tasks that became ready by it.
    fn read_on(&mut self, view: &View<'_>) -> bool {
        let mut read_any = false;
        while let Some(&news) = self.news.front() {
            if read_any && !matches!(news, News::Ready(_)) {
                break;
            }
            self.news.pop_front();
            read_any = true;
            match news {
                News::Ready(task) => self.ready.push_fifo(task, view),
                News::Freed(gpus) => {
                    self.unseen.remove_all(gpus);
                    self.round += 1;
                }
                News::Lost(_) | News::Returned(_) => self.round += 1,
                News::GivenUp(_) => unreachable!("they are taken out at once"),
            }
        }
        read_any
    }
}

impl Policy for Baseline {
    fn ready(&mut self, task: TaskId, _view: &View<'_>) {
        self.news.push_back(News::Ready(task));
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        loop {
            if let Some((model, gpus)) = self.first_that_fits(view) {
                return self.ready.pop(model).map(|task| Decision::Start { task, gpus });
            }
            if !self.read_on(view) {
                return None;
            }
        }
    }

    fn freed(&mut self, gpus: Gpus, _view: &View<'_>) {
        self.news.push_back(News::Freed(gpus));
        self.unseen.insert_all(gpus);
    }

    fn lost(&mut self, gpu: GpuId, _view: &View<'_>) {
        self.news.push_back(News::Lost(gpu));
    }

    fn returned(&mut self, gpu: GpuId, _view: &View<'_>) {
        self.news.push_back(News::Returned(gpu));
    }

    /// It must not be started, whether it has been read of or not.
    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        if !self.ready.given_up(task, view) && !self.news.is_empty() {
            self.news.retain(|&news| news != News::Ready(task));
        }
    }
}
