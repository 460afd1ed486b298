//! `balanced`: even use of all GPUs.
//!
//! Optimises the spread of GPU utilisation along with completion times. Ready tasks go by level, with a seeded tie-break;
//! each goes to the GPUs where completion (availability, switch, execution) plus a weight times their busy time so far is
//! least. The weight is 0.1 when the GPUs are even and grows with the imbalance there is. Where the best GPUs are not free,
//! the task waits for them; for a task on several GPUs they are held back, so that one-GPU tasks that would still run by then
//! do not take them.
//!
//! Cycles cannot come up (the input is checked), and a stall is named by the driver.
//!
//! Cost: O(log n + models x windows) per decision.

use super::info::without_params;
use super::pools::{Pool, Pools};
use super::ready::ReadyByModel;
use super::reserve::{Reservations, clear_at};
use super::{Policy, sketch};
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Instance;
use crate::time::Span;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

without_params!(
    "balanced",
    OFFLINE,
    "even use of all GPUs: completion time plus a penalty for a GPU's past work; for shared hardware",
    |instance, context| Pools::new(instance, true, |pool| Balanced::new(instance, context.seed, pool))
);

/// Completion time and balance.
pub(super) struct Balanced {
    ready: ReadyByModel,
    windows: IdVec<ModelId, Vec<Gpus>>,
    reserved: Reservations,
    /// Counts the instants at which something changed; until the next, a model that waits goes on waiting.
    round: u64,
    waits_in: IdVec<ModelId, u64>,
    rng: ChaCha8Rng,
    /// Whether tasks wait for balance. Blocks of the widest models are balanced by moving them.
    balances: bool,
}

impl Balanced {
    /// With nothing ready.
    pub fn new(instance: &Instance, seed: u64, pool: Pool) -> Balanced {
        let models = instance.models.len();
        Balanced {
            ready: ReadyByModel::new(models),
            windows: instance.models.iter().map(sketch::tiles).collect(),
            reserved: Reservations::new(instance.cluster.gpus),
            round: 1,
            waits_in: vec![0; models].into(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            balances: pool == Pool::Others,
        }
    }

    fn new_round(&mut self) {
        self.round += 1;
        self.reserved.clear();
    }

    /// The window with the least completion time plus penalty for what it has done already, both in microseconds.
    fn best(&self, view: &View<'_>, task: TaskId, weight: f64) -> Option<Gpus> {
        let model = view.instance().model_of(task);
        // Waiting for a busy GPU pays where it saves a switch; a window of several is worth waiting for in any case.
        let worth_it = |gpus: &Gpus| {
            gpus.count > 1 || view.idle().contains(gpus.first) || view.holding(model).contains(gpus.first)
        };
        let alive = self.windows[model]
            .iter()
            .copied()
            .filter(worth_it)
            .filter(|&gpus| view.alive().contains_all(gpus));
        let score = |gpus: Gpus| {
            let busy: Span = gpus.iter().map(|gpu| view.busy(gpu)).sum();
            let done = busy.0 as f64 / f64::from(gpus.count);
            clear_at(view, model, gpus).since(view.now()).0 as f64 + weight * done
        };
        alive
            .map(|gpus| (gpus, score(gpus)))
            .min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))
            .map(|best| best.0)
    }
}

/// 0.1 times the imbalance there is, the difference between busiest and idlest as a part of the mean, 1 at most: where the
/// GPUs are even, nothing should wait for balance.
fn weight(view: &View<'_>) -> f64 {
    let busy = || view.alive().iter().map(|gpu| view.busy(gpu).0);
    let (most, least, total) = (busy().max().unwrap_or(0), busy().min().unwrap_or(0), busy().sum::<u64>());
    let mean = total as f64 / f64::from(view.alive().len().max(1));
    if total == 0 { 0.0 } else { 0.1 * ((most - least) as f64 / mean).min(1.0) }
}

impl Policy for Balanced {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        let instance = view.instance();
        let priority = instance.requests[instance.request_of(task)].priority;
        let rank = (
            i64::from(instance.level_of(task)) - i64::from(priority) * (1 << 32),
            u64::from(self.rng.next_u32()),
        );
        self.ready.push(task, view, rank);
        self.new_round();
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        if self.ready.is_empty() {
            return None;
        }
        let weight = if self.balances { weight(view) } else { 0.0 };
        let mut waiting: Vec<ModelId> = Vec::new();
        let mut chosen = None;
        for model in self.ready.models().filter(|&model| self.waits_in[model] != self.round) {
            let Some(task) = self.ready.peek(model) else { continue };
            if let Some(gpus) = super::place::joinable(view, model) {
                chosen = Some((model, gpus));
                break;
            }
            if view.idle().is_empty() {
                continue;
            }
            let best = self.best(view, task, weight);
            let takes = |gpus: Gpus| view.load_cost(model, gpus).unwrap_or_default() + view.expected(task);
            match best {
                Some(gpus)
                    if view.idle().contains_all(gpus)
                        && self.reserved.leaves_in_time(view, gpus, takes(gpus)) =>
                {
                    chosen = Some((model, gpus));
                    break;
                }
                Some(gpus) if gpus.count > 1 => {
                    self.reserved.reserve(view, model, &[gpus]);
                    waiting.push(model);
                }
                _ => waiting.push(model),
            }
        }
        waiting.into_iter().for_each(|model| self.waits_in[model] = self.round);
        let (model, gpus) = chosen.or_else(|| self.anything_idle(view))?;
        self.ready.pop(model).map(|task| Decision::Start { task, gpus })
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.ready.given_up(task, view);
    }

    fn freed(&mut self, _gpus: Gpus, _view: &View<'_>) {
        self.new_round();
    }

    fn lost(&mut self, _gpu: GpuId, view: &View<'_>) {
        self.windows = sketch::tiles_left(view.instance(), view.alive());
        self.new_round();
    }

    fn returned(&mut self, gpu: GpuId, view: &View<'_>) {
        self.lost(gpu, view);
    }
}

impl Balanced {
    /// With every GPU idle, waiting for a better one would be waiting for ever: any window that fits will do.
    fn anything_idle(&self, view: &View<'_>) -> Option<(ModelId, Gpus)> {
        if view.idle().len() < view.alive().len() {
            return None;
        }
        self.ready.models().find_map(|model| {
            let starts = super::place::starts_within(view, model, view.idle());
            let first = starts.iter().next()?;
            Some((model, Gpus { first, count: view.instance().models[model].gpus }))
        })
    }
}
