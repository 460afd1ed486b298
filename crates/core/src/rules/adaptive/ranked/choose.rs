//! Which model is served next, and where.

use super::requests::estimate;
use super::weights::{BREAKING, LOAD_PAYS_BACK, LOAD_PER_WORK};
use super::{Ranked, turns};
use crate::cost;
use crate::engine::{Decision, View};
use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus, IdVec, ModelId};
use crate::instance::Residency;

/// A model that waits. The order of the fields is the order in which models are tried.
struct Candidate {
    class: i64,
    /// The place of its turn, where the bound on waiting has to be kept.
    turn: usize,
    /// Whether others of its class have waited so much longer that it is not its turn.
    ahead: bool,
    /// Whether GPUs have to be given to it first.
    needs_load: bool,
    /// Its rank, and what a load costs those who wait, in seconds on the scale of arrivals.
    rank: f64,
    model: ModelId,
    window: Option<Gpus>,
}

/// Of the class that goes first: its number, the lowest rank, and the highest.
struct Spread {
    class: i64,
    low: i64,
    high: i64,
}

impl Ranked {
    pub(super) fn choose(&mut self, view: &View<'_>) -> Option<Decision> {
        let mut open = self.fleet.open(view);
        if open.is_empty() && !self.batches {
            return None;
        }
        let (candidates, limit) = self.candidates(view, &open);
        let nothing_runs = view.idle().len() == view.alive().len();
        for candidate in candidates {
            let model = candidate.model;
            if let Some(gpus) = candidate.window {
                if view.is_running(gpus.first) || open.contains_all(gpus) {
                    return self.start(view, model, gpus);
                }
                continue;
            }
            let Some((gpus, load, loss)) = self.cheapest(view, model, &open) else {
                self.blocked[model] = true;
                if self.reserve(view, &candidate, limit) {
                    open = self.fleet.open(view);
                }
                continue;
            };
            if !nothing_runs && self.waits_for_replica(view, &candidate, load, loss) {
                self.blocked[model] = true;
                continue;
            }
            if let Some((wide, window)) = self.goes_on(view, &candidate, gpus, load, &open) {
                return self.start(view, wide, window);
            }
            return self.start(view, model, gpus);
        }
        None
    }

    /// The models that wait, in the order in which they are to be tried; and the rank up to which it is a model's turn.
    fn candidates(&self, view: &View<'_>, open: &GpuSet) -> (Vec<Candidate>, f64) {
        let Some(spread) = self.spread() else { return (Vec::new(), 0.0) };
        let due = match self.bound {
            Some(bound) => turns::due(view, &self.queues, &self.fleet, bound),
            None => Vec::new(),
        };
        let (mut all, mut first) = (Vec::new(), f64::INFINITY);
        for (model, queue) in self.queues.waiting() {
            let Some((key, task)) = queue.head() else { continue };
            let there = self.fleet.there(view, model, open);
            let window = there.or_else(|| self.fleet.batch(view, model, estimate(view, task), open));
            if window.is_none() && open.is_empty() {
                continue;
            }
            let load = if window.is_some() { 0.0 } else { self.fleet.usual_load[model] };
            let rank = self.rank_with_load(view, model, load);
            if key.class == spread.class {
                first = first.min(rank);
            }
            if self.blocked[model] {
                continue;
            }
            let turn = due.iter().position(|&other| other == model).unwrap_or(usize::MAX);
            let needs_load = window.is_none();
            all.push(Candidate { class: key.class, turn, ahead: false, needs_load, rank, model, window });
        }
        // Urgent tasks are ranked by when they must begin: there is no slack in that.
        let slack = if is_urgent(spread.class) { 0.0 } else { self.weights.slack };
        let spread_of_ranks = (spread.high - spread.low) as f64 / 1e6;
        let part = slack * spread_of_ranks / (spread_of_ranks + self.half_slack).max(1e-6);
        let limit = first + part * spread_of_ranks;
        all.iter_mut().for_each(|one| one.ahead = !self.is_its_turn(one.model, spread.class, limit));
        all.sort_by(|a, b| {
            let order = |one: &Candidate| (one.class, one.turn, one.ahead, one.needs_load);
            order(a).cmp(&order(b)).then(a.rank.total_cmp(&b.rank)).then(a.model.cmp(&b.model))
        });
        (all, limit)
    }

    /// Whether the first task of a model has waited about as long as any of its class, or belongs to a class before.
    fn is_its_turn(&self, model: ModelId, class: i64, limit: f64) -> bool {
        let head = self.queues.of(model).head();
        head.is_some_and(|(key, _)| key.class <= class && key.rank as f64 / 1e6 <= limit)
    }

    fn spread(&self) -> Option<Spread> {
        let class =
            self.queues.waiting().filter_map(|(_, queue)| queue.head()).map(|(key, _)| key.class).min()?;
        let mut spread = Spread { class, low: i64::MAX, high: i64::MIN };
        for (_, queue) in self.queues.waiting() {
            if let Some((key, _)) = queue.head().filter(|(key, _)| key.class == class) {
                spread.low = spread.low.min(key.rank);
                let last = queue.last().filter(|key| key.class == class).unwrap_or(key);
                spread.high = spread.high.max(last.rank);
            }
        }
        Some(spread)
    }

    /// The rank of a model's first task, and behind it what a load of some seconds costs: the delay of all who wait, for
    /// each of those who wait for this model, and, where size counts, the load's share in the work that follows it.
    fn rank_with_load(&self, view: &View<'_>, model: ModelId, load: f64) -> f64 {
        let queue = self.queues.of(model);
        let Some((key, task)) = queue.head() else { return f64::INFINITY };
        let gpus = f64::from(view.alive().len().max(1));
        let width = f64::from(view.instance().models[model].gpus);
        let counted = if load > 0.0 { load.max(self.least_load) } else { 0.0 };
        let load = counted * f64::from(self.fleet.at_work(model) + 1);
        let delay = self.queues.len() as f64 / queue.len() as f64 * load * width / gpus;
        let size = self.size_weight() * self.requests.left(view, task) / gpus;
        key.rank as f64 / 1e6 + LOAD_PAYS_BACK * delay + LOAD_PER_WORK * size * load / queue.work().max(1e-6)
    }

    /// The idle window onto which a model comes at the least cost: the load, in seconds, and what is lost by what it evicts.
    fn cheapest(&self, view: &View<'_>, model: ModelId, open: &GpuSet) -> Option<(Gpus, f64, f64)> {
        let costs = self.fleet.windows(view, model, open).filter_map(|gpus| {
            let load = view.load_cost(model, gpus)?.seconds();
            Some((gpus, load, self.loss(view, model, gpus)))
        });
        let since = |gpus: Gpus| gpus.iter().map(|gpu| view.idle_since(gpu)).max();
        costs.min_by(|a, b| {
            (a.1 + a.2).total_cmp(&(b.1 + b.2)).then_with(|| since(a.0).cmp(&since(b.0))).then(a.0.cmp(&b.0))
        })
    }

    /// What the models that leave a window will cost when they are asked for again, in seconds.
    fn loss(&self, view: &View<'_>, model: ModelId, gpus: Gpus) -> f64 {
        let instance = view.instance();
        if instance.cluster.residency == Residency::Memory {
            return gpus.iter().map(|gpu| self.loss_of_room(view, model, gpu)).fold(0.0, f64::max);
        }
        let (mut sum, mut last) = (0.0, None);
        for gpu in gpus.iter() {
            let Some(old) = view.resident(gpu).filter(|&old| old != model) else { continue };
            let width = instance.models[old].gpus;
            if last == Some(old) && width > 1 {
                continue;
            }
            last = Some(old);
            let spare = view.idle().both(view.holding(old)).count() as u32 / width;
            let again = self.demand.wanted_again(old, view.idle_since(gpu), spare, view.now());
            sum += self.weights.keep * again * self.fleet.usual_load[old].max(self.least_load);
            if !self.queues.of(old).is_empty() {
                sum += BREAKING * self.fleet.usual_load[old] * f64::from(width);
            }
        }
        sum / f64::from(gpus.count)
    }

    /// Where models share a GPU: a load that fits beside them costs them nothing, another evicts one that is in use.
    fn loss_of_room(&self, view: &View<'_>, model: ModelId, gpu: GpuId) -> f64 {
        let instance = view.instance();
        let held = instance.models.iter_enumerated().filter(|&(old, _)| view.holding(old).contains(gpu));
        let used: u64 = held.clone().map(|(_, spec)| spec.memory_per_gpu).sum();
        if used + instance.models[model].memory_per_gpu <= cost::megabytes(instance.cluster.gpu_memory_gb) {
            return 0.0;
        }
        let again = held.map(|(old, _)| {
            self.demand.wanted_again(old, view.idle_since(gpu), 1, view.now()) * self.fleet.usual_load[old]
        });
        self.weights.keep.max(1.0) * again.sum::<f64>()
    }

    /// Whether a task does better to wait for a replica at work than to have its model loaded once more.
    fn waits_for_replica(&self, view: &View<'_>, candidate: &Candidate, load: f64, loss: f64) -> bool {
        let model = candidate.model;
        let wait = self.fleet.wait(view, model, self.queues.of(model));
        if is_urgent(candidate.class) || candidate.turn != usize::MAX {
            return wait < load;
        }
        // A first load onto empty GPUs may take longer, but pays back for longer too.
        wait < self.weights.patience * load.min(self.fleet.usual_load[model]) + self.weights.thrift * loss
    }

    /// A model on several GPUs that has work keeps its idle window, unless the other is so far ahead in rank that putting
    /// the window together again is worth it.
    fn goes_on(
        &self,
        view: &View<'_>,
        candidate: &Candidate,
        gpus: Gpus,
        load: f64,
        open: &GpuSet,
    ) -> Option<(ModelId, Gpus)> {
        let (instance, model) = (view.instance(), candidate.model);
        if candidate.turn != usize::MAX {
            return None;
        }
        let wider = |old: &ModelId| instance.models[*old].gpus > gpus.count && !self.blocked[*old];
        let held = |old: &ModelId| gpus.iter().any(|gpu| view.holding(*old).contains(gpu));
        let waiting = self.queues.waiting().map(|(old, _)| old);
        let wide = waiting.filter(wider).find(held)?;
        let queue = self.queues.of(wide);
        let (head, _) = queue.head()?;
        if head.class > candidate.class {
            return None;
        }
        let half_a_task = 0.5 * queue.work() / queue.len() as f64;
        let width = f64::from(instance.models[wide].gpus) / f64::from(gpus.count);
        let again = BREAKING * (self.fleet.usual_load[wide] + half_a_task) * width;
        if head.rank as f64 / 1e6 >= self.rank_with_load(view, model, load + again) {
            return None;
        }
        self.fleet.there(view, wide, open).map(|window| (wide, window))
    }

    /// Begins to clear a window for a model on several GPUs that finds none idle.
    fn reserve(&mut self, view: &View<'_>, candidate: &Candidate, limit: f64) -> bool {
        let model = candidate.model;
        if view.instance().models[model].gpus == 1 {
            return false;
        }
        let pressing = is_urgent(candidate.class) || candidate.turn != usize::MAX;
        let wait = self.fleet.wait(view, model, self.queues.of(model));
        let usual = self.fleet.usual_load[model];
        if !pressing && wait < self.weights.further_window * usual {
            return false;
        }
        let class = candidate.class;
        let wanted: IdVec<ModelId, bool> =
            view.instance().models.keys().map(|old| self.is_its_turn(old, class, limit)).collect();
        let shares = view.instance().cluster.residency == Residency::Memory;
        self.fleet.reserve(view, model, wait, |gpu| {
            // Where models share a GPU, those that are wanted can stay on it: only what executes there is in the way.
            let in_the_way = if shares { view.running(gpu) } else { view.resident(gpu) };
            let stays = |old: ModelId| old == model || !(shares || pressing) && wanted[old];
            !view.is_loading(gpu) && !in_the_way.is_some_and(stays)
        })
    }
}

/// Whether tasks of a class have to be next in order to end in time.
pub(super) fn is_urgent(class: i64) -> bool {
    class.rem_euclid(2) == 1
}
