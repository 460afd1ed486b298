//! Rank with slack: one rule with a set of weights for each objective.
//!
//! - **Rank.** A request ranks by its arrival plus a weight times the work that is left of it (short ones first; a request
//!   that waits long enough is before every later one, so nothing starves). Priority comes before rank, and so does a
//!   deadline once it presses ([`deadlines`]).
//! - **Slack.** GPUs keep their model as long as its first task is at most a part of the spread of ranks behind the first of
//!   all: under backlog the spread is long and models are collated, below it there is none and tasks go by rank. Where both
//!   percentile and loads count, that part itself grows with the spread.
//! - **Loads.** Where a model has to be loaded, its rank is behind by what the load costs: the delay of all who wait, for
//!   each who waits for the model. Of idle GPUs it gets those whose model is wanted least. It is not loaded where replicas
//!   at work will come to its tasks sooner.
//! - **Several GPUs.** A model's window is cleared by holding its GPUs back as they fall free, and is not broken while the
//!   model has work, unless that pays. Tasks join running batches that have room.
//! - **Turns.** With a bound on waiting, models take turns in time for it ([`turns`]).
//!
//! Cost: O(log n + models) per decision; models on several GPUs add their windows.

mod choose;
mod deadlines;
mod demand;
mod fleet;
mod queues;
mod requests;
mod turns;
mod weights;

pub(super) use weights::Weights;

use crate::engine::{Decision, Policy, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;
use crate::time::{Span, Time};
use deadlines::{Deadlines, urgency};
use demand::Demand;
use fleet::Fleet;
use queues::{Key, Queues, Waiting};
use requests::{Requests, estimate, path};

/// Rank with slack.
pub(super) struct Ranked {
    weights: Weights,
    /// What any load is counted as at least, in seconds.
    least_load: f64,
    /// The spread of ranks at which half of the slack is allowed, in seconds.
    half_slack: f64,
    /// How long a task may wait because others are collated.
    bound: Option<Span>,
    queues: Queues,
    requests: Requests,
    deadlines: Deadlines,
    demand: Demand,
    fleet: Fleet,
    /// Whether any model batches: then tasks can start although no GPU is idle.
    batches: bool,
    /// Until something happens, a model that found no place, or waits for a replica, is not asked again.
    blocked: IdVec<ModelId, bool>,
    /// Executions that were started, and their estimates together: what a GPU takes to fall free.
    executions: (u64, Span),
}

impl Ranked {
    /// With nothing ready.
    pub fn new(instance: &Instance, weights: Weights, bound: Option<Span>) -> Ranked {
        let models = instance.models.len();
        let fleet = Fleet::new(instance);
        let mean_load = fleet.usual_load.iter().sum::<f64>() / models.max(1) as f64;
        Ranked {
            least_load: weights.least_load * mean_load,
            half_slack: weights.half_slack * mean_load,
            weights,
            bound,
            queues: Queues::new(models, instance.tasks(), bound.is_some()),
            requests: Requests::new(instance),
            deadlines: Deadlines::default(),
            demand: Demand::new(models, weights.memory * mean_load),
            fleet,
            batches: instance.models.iter().any(|model| model.max_batch() > 1),
            blocked: vec![false; models].into(),
            executions: (0, Span::ZERO),
        }
    }

    /// Goes on in the middle of a run: with what is under way, and the models that were asked for lately.
    pub fn take_over(&mut self, view: &View<'_>, asked: impl Iterator<Item = (ModelId, Time)>) {
        self.fleet.take_over(view);
        asked.for_each(|(model, at)| self.demand.asked(model, at));
    }

    /// Seconds of arrival that a second of work, spread over the whole cluster, counts for now.
    fn size_weight(&self) -> f64 {
        self.weights.size + self.weights.size_per_waiting * self.queues.len() as f64
    }

    fn plain_key(&mut self, view: &View<'_>, task: TaskId) -> Key {
        let request = &view.instance().requests[view.instance().request_of(task)];
        let size = self.requests.left(view, task) / f64::from(view.alive().len().max(1));
        let later = (self.size_weight() * size * 1e6) as i64;
        Key {
            class: -2 * i64::from(request.priority),
            rank: (request.arrival.0 as i64).saturating_add(later),
        }
    }

    /// The key of a ready task; one whose request has a deadline is watched from now on.
    fn key(&mut self, view: &View<'_>, task: TaskId, plain: Key) -> Key {
        let request = &view.instance().requests[view.instance().request_of(task)];
        let Some(deadline) = request.deadline else { return plain };
        let latest = Time((request.arrival + deadline).0.saturating_sub(path(view, task).0));
        let (urgent, changes) = urgency(view.now(), latest, self.lead(view, task));
        let key = if urgent { Key { class: plain.class - 1, rank: latest.0 as i64 } } else { plain };
        self.deadlines.watch(task, plain, changes);
        key
    }

    /// How long before its latest start a task has to be next: two mean executions, for GPUs to fall free, and its load.
    fn lead(&self, view: &View<'_>, task: TaskId) -> Span {
        let (count, sum) = self.executions;
        let mean = sum.0.checked_div(count).unwrap_or(0);
        Span(2 * mean) + Span::from_seconds(self.fleet.usual_load[view.instance().model_of(task)])
    }

    /// Tasks whose deadlines press now, or cannot be kept any more, change their class.
    fn reclassify(&mut self, view: &View<'_>) {
        while let Some((task, plain)) = self.deadlines.next_changed(view.now()) {
            let model = view.instance().model_of(task);
            if let Some(waiting) = self.queues.remove(model, task) {
                let key = self.key(view, task, plain);
                self.queues.push(model, key, task, waiting);
                self.blocked[model] = false;
            }
        }
    }

    fn start(&mut self, view: &View<'_>, model: ModelId, gpus: Gpus) -> Option<Decision> {
        let (_, task) = self.queues.of(model).head()?;
        let takes = self.queues.remove(model, task)?.takes;
        self.deadlines.forget(task);
        self.requests.started(view, task);
        let load = view.load_cost(model, gpus).unwrap_or(Span::ZERO);
        self.fleet.started(model, gpus, view.now() + load + takes);
        self.executions = (self.executions.0 + 1, self.executions.1 + takes);
        Some(Decision::Start { task, gpus })
    }

    fn unblock(&mut self) {
        self.blocked.iter_mut().for_each(|blocked| *blocked = false);
    }
}

impl Policy for Ranked {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        let (model, takes) = (view.instance().model_of(task), estimate(view, task));
        self.requests.changed(view, view.instance().request_of(task));
        let plain = self.plain_key(view, task);
        let key = self.key(view, task, plain);
        self.queues.push(model, key, task, Waiting { takes, ready: view.now() });
        self.demand.asked(model, view.now());
        self.blocked[model] = false;
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        self.reclassify(view);
        while let Some((model, gpus)) = self.fleet.cleared(view) {
            if self.queues.of(model).is_empty() {
                self.fleet.release(model);
            } else {
                return self.start(view, model, gpus);
            }
        }
        if self.queues.len() > 0
            && let Some(decision) = self.choose(view)
        {
            return Some(decision);
        }
        self.deadlines.wake(view.now()).map(|at| Decision::Wake { at })
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        self.fleet.freed(gpus, view);
        self.unblock();
    }

    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        self.fleet.lost(gpu, view);
        self.unblock();
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lost(gpu, view);
    }

    /// One whose request was withdrawn may be ready, and others of its request may go on.
    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        let model = view.instance().model_of(task);
        self.deadlines.forget(task);
        self.requests.changed(view, view.instance().request_of(task));
        if self.queues.remove(model, task).is_some() && self.queues.of(model).is_empty() {
            self.fleet.release(model);
            self.unblock();
        }
    }
}
