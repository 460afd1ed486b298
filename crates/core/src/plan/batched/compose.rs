//! Makes a schedule of a recipe, in the engine: what the search tries thousands of times.
//!
//! At every instant, in this order:
//! 1. ready tasks join batches of their model that have room;
//! 2. idle windows are given to kinds in the order of their rank: where the model is there at once, elsewhere when the ready
//!    work is worth the load;
//! 3. a kind whose ready work is worth it has a window cleared of less urgent work: nothing more joins there;
//! 4. models are brought over ahead of need.

use super::ground::Ground;
use super::queues::Queues;
use super::recipe::Recipe;
use crate::engine::Policy;
use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::Residency;
use crate::time::Span;

pub(super) struct Compose<'a> {
    ground: &'a Ground<'a>,
    recipe: &'a Recipe,
    queues: Queues,
    /// Kinds that have tasks, most urgent first.
    by_rank: Vec<u32>,
    /// The model that runs on the window that begins here.
    runs: IdVec<GpuId, Option<ModelId>>,
    /// How many replicas of each model run.
    active: IdVec<ModelId, u32>,
    /// The model for which a GPU is cleared.
    cleared_for: IdVec<GpuId, Option<ModelId>>,
    /// Windows that are cleared for each model.
    clearing: IdVec<ModelId, Vec<Gpus>>,
    /// GPUs whose model came ahead of need and has not run: it stays until it has.
    waits: IdVec<GpuId, bool>,
    /// Whether anything has happened since the last answer was `None`.
    news: bool,
    /// Whether anything has happened since no load ahead was possible: a replica or a load has ended.
    room: bool,
    /// First GPUs of the windows onto which models are being brought.
    loads: Vec<GpuId>,
}

impl<'a> Compose<'a> {
    pub fn new(ground: &'a Ground<'a>, recipe: &'a Recipe) -> Compose<'a> {
        let (models, gpus) = (ground.instance.models.len(), ground.instance.cluster.gpus as usize);
        let mut by_rank: Vec<u32> = ground.used().collect();
        by_rank.sort_unstable_by_key(|&kind| recipe.rank[kind as usize]);
        Compose {
            ground,
            recipe,
            queues: Queues::new(ground),
            by_rank,
            runs: vec![None; gpus].into(),
            active: vec![0; models].into(),
            cleared_for: vec![None; gpus].into(),
            clearing: vec![Vec::new(); models].into(),
            waits: vec![false; gpus].into(),
            news: true,
            room: true,
            loads: Vec::new(),
        }
    }

    fn model(&self, kind: u32) -> ModelId {
        self.ground.kinds[kind as usize].model
    }

    fn window(&self, model: ModelId, first: GpuId) -> Gpus {
        Gpus { first, count: self.ground.instance.models[model].gpus }
    }

    /// Whether a kind may run on the window that begins at this GPU.
    fn allows(&self, kind: u32, first: GpuId) -> bool {
        self.recipe.windows[kind as usize].contains(first)
    }

    /// Whether a window is not kept for another model.
    fn unclaimed(&self, model: ModelId, gpus: Gpus) -> bool {
        gpus.iter().all(|gpu| self.cleared_for[gpu].is_none_or(|other| other == model))
    }

    fn pop(&mut self, model: ModelId, first: GpuId) -> Option<TaskId> {
        let windows = &self.recipe.windows;
        self.queues.pop(self.ground, model, |kind| windows[kind as usize].contains(first))
    }

    fn join(&mut self, view: &View<'_>) -> Option<Decision> {
        for model in self.ground.instance.models.keys() {
            if !self.queues.has_model(model) || view.joinable(model).is_empty() {
                continue;
            }
            let cap = self.recipe.habits[model].cap;
            let open = view.joinable(model).iter().filter(|&lead| view.batch_at(lead) < cap);
            let open = open.filter(|&lead| self.unclaimed(model, self.window(model, lead)));
            let ready = |lead: &GpuId| {
                let mut kinds = self.ground.kinds_of[model].iter();
                kinds.any(|&kind| self.queues.has(kind) && self.allows(kind, *lead))
            };
            let Some(lead) = open.filter(ready).min_by_key(|&lead| view.batch_at(lead)) else { continue };
            let gpus = self.window(model, lead);
            return self.pop(model, lead).map(|task| Decision::Start { task, gpus });
        }
        None
    }

    /// The best window for a kind among those that are free, and what bringing its model there takes.
    fn best_free(&self, view: &View<'_>, kind: u32) -> Option<(Span, Gpus)> {
        let model = self.model(kind);
        let shared = view.instance().cluster.residency == Residency::Memory;
        let mut best: Option<(Span, bool, Gpus)> = None;
        for first in self.recipe.windows[kind as usize].iter() {
            let gpus = self.window(model, first);
            let there = view.holding(model).contains_all(gpus);
            // Where models share a GPU one that is there can start beside another's load.
            let free = view.idle().contains_all(gpus) || shared && view.can_execute(model, gpus);
            if !free || !self.unclaimed(model, gpus) {
                continue;
            }
            let Some(span) = (if there { Some(Span::ZERO) } else { view.load_cost(model, gpus) }) else {
                continue;
            };
            let unused = gpus.iter().any(|gpu| self.waits[gpu]) && !there;
            if best.is_none_or(|best| (span, unused, gpus) < best) {
                best = Some((span, unused, gpus));
            }
            if there {
                break;
            }
        }
        best.map(|(span, _, gpus)| (span, gpus))
    }

    fn open(&mut self, view: &View<'_>) -> Option<Decision> {
        if view.idle().is_empty() && view.instance().cluster.residency == Residency::Single {
            return None;
        }
        let stuck = view.idle().len() == view.alive().len();
        for place in 0..self.by_rank.len() {
            let kind = self.by_rank[place];
            if !self.queues.has(kind) {
                continue;
            }
            let Some((span, gpus)) = self.best_free(view, kind) else { continue };
            let model = self.model(kind);
            let each = self.queues.work(model) / f64::from(self.active[model] + 1);
            let claimed = self.cleared_for[gpus.first] == Some(model);
            if span > Span::ZERO && !claimed && each < self.recipe.habits[model].open * span.seconds() {
                continue;
            }
            return self.start(view, model, gpus);
        }
        // With nothing at work, waiting for more to become ready would be waiting for ever.
        let kind = self.by_rank.iter().copied().filter(|_| stuck).find(|&kind| self.queues.has(kind))?;
        self.clearing.iter_mut().for_each(Vec::clear);
        self.cleared_for.iter_mut().for_each(|gpu| *gpu = None);
        let (_, gpus) = self.best_free(view, kind)?;
        self.start(view, self.model(kind), gpus)
    }

    fn start(&mut self, view: &View<'_>, model: ModelId, gpus: Gpus) -> Option<Decision> {
        let task = self.pop(model, gpus.first)?;
        if !view.holding(model).contains_all(gpus) {
            self.loads.push(gpus.first);
        }
        self.runs[gpus.first] = Some(model);
        self.active[model] += 1;
        if let Some(place) = self.clearing[model].iter().position(|&window| window == gpus) {
            self.clearing[model].swap_remove(place);
        }
        for gpu in gpus.iter() {
            self.waits[gpu] = false;
            if self.cleared_for[gpu] == Some(model) {
                self.cleared_for[gpu] = None;
            }
        }
        Some(Decision::Start { task, gpus })
    }

    /// Windows for which nothing is ready any more are given back; then urgent kinds claim windows of less urgent ones.
    fn claim(&mut self, view: &View<'_>) {
        for model in self.ground.instance.models.keys() {
            if !self.clearing[model].is_empty() && !self.queues.has_model(model) {
                for gpus in std::mem::take(&mut self.clearing[model]) {
                    gpus.iter().for_each(|gpu| self.cleared_for[gpu] = None);
                }
            }
        }
        for place in 0..self.by_rank.len() {
            let kind = self.by_rank[place];
            let model = self.model(kind);
            let threshold = self.recipe.habits[model].clear;
            if threshold.is_infinite() || !self.queues.has(kind) {
                continue;
            }
            loop {
                let others = self.active[model] + self.clearing[model].len() as u32;
                let each = self.queues.work(model) / f64::from(others + 1);
                let cost = self.ground.instance.models[model].memory_gb
                    / self.ground.instance.cluster.switch.pcie_gb_per_s
                    + self.ground.instance.cluster.switch.overhead_seconds;
                if each < threshold * cost {
                    break;
                }
                let Some(gpus) = self.clearable(view, kind, model) else { break };
                self.clearing[model].push(gpus);
                gpus.iter().for_each(|gpu| self.cleared_for[gpu] = Some(model));
            }
        }
    }

    /// The window that would be clear soonest, of those on which nothing as urgent goes on.
    fn clearable(&self, view: &View<'_>, kind: u32, model: ModelId) -> Option<Gpus> {
        let rank = self.recipe.rank[kind as usize];
        let windows =
            self.recipe.windows[kind as usize].iter().map(|first| self.window(model, first)).filter(|gpus| {
                gpus.iter().all(|gpu| self.cleared_for[gpu].is_none() && !view.is_loading(gpu))
                    && !self.runs_within(*gpus).any(|running| {
                        running == model || self.urgency(running).is_some_and(|other| other <= rank)
                    })
            });
        windows.min_by_key(|&gpus| (gpus.iter().map(|gpu| view.free_at(gpu)).max(), gpus))
    }

    /// Models that run on GPUs of a window.
    fn runs_within(&self, gpus: Gpus) -> impl Iterator<Item = ModelId> + '_ {
        let from = gpus.first.0.saturating_sub(self.ground.widest - 1);
        let end = gpus.first.0 + gpus.count;
        (from..end).filter_map(move |first| {
            let model = self.runs[GpuId(first)]?;
            (first + self.ground.instance.models[model].gpus > gpus.first.0).then_some(model)
        })
    }

    /// The rank of the most urgent ready kind of a model.
    fn urgency(&self, model: ModelId) -> Option<u32> {
        let kinds = self.ground.kinds_of[model].iter().filter(|&&kind| self.queues.has(kind));
        kinds.map(|&kind| self.recipe.rank[kind as usize]).min()
    }

    /// Brings a model over before it is needed: where models share a GPU beside what runs, elsewhere onto idle GPUs.
    fn ahead(&mut self, view: &View<'_>) -> Option<Decision> {
        let shared = view.instance().cluster.residency == Residency::Memory;
        for &kind in &self.by_rank {
            let model = self.model(kind);
            if !self.recipe.habits[model].ahead || self.queues.left[model] == 0 {
                continue;
            }
            if !shared && self.queues.coming[kind as usize] == 0 {
                continue;
            }
            let width = self.ground.instance.models[model].gpus;
            let there = view.holding(model).len() / width.max(1);
            // As many replicas as what is left can fill.
            let cap = self.recipe.habits[model].cap;
            if there * cap >= self.queues.left[model] {
                continue;
            }
            let windows = self.recipe.windows[kind as usize].iter().map(|first| self.window(model, first));
            let possible = |gpus: &Gpus| {
                let free = gpus.iter().all(|gpu| {
                    !view.is_loading(gpu)
                        && self.cleared_for[gpu].is_none()
                        && !self.waits[gpu]
                        && (shared || view.idle().contains(gpu))
                });
                free && !view.holding(model).contains_all(*gpus)
                    && !view.load_takes_off(model, *gpus, |other| shared && self.queues.left[other] > 0)
            };
            let best = windows.filter(possible).min_by_key(|&gpus| (view.load_cost(model, gpus), gpus.first));
            if let Some(gpus) = best {
                if !shared {
                    gpus.iter().for_each(|gpu| self.waits[gpu] = true);
                }
                return Some(Decision::Load { model, gpus, ahead_of: None });
            }
        }
        None
    }
}

impl Policy for Compose<'_> {
    fn ready(&mut self, task: TaskId, _view: &View<'_>) {
        self.queues.push(self.ground, task, self.recipe.keys[task]);
        self.news = true;
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        // Of a load that a task waited for nothing is told when it ends.
        let before = self.loads.len();
        self.loads.retain(|&first| view.is_loading(first));
        if self.loads.len() < before {
            (self.news, self.room) = (true, true);
        }
        if !self.news {
            return None;
        }
        if !self.queues.is_empty() {
            if let Some(decision) = self.join(view).or_else(|| self.open(view)) {
                return Some(decision);
            }
            self.claim(view);
        }
        let ahead = if self.room { self.ahead(view) } else { None };
        match ahead {
            Some(Decision::Load { gpus, .. }) => self.loads.push(gpus.first),
            _ => (self.news, self.room) = (false, false),
        }
        ahead
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        self.news = true;
        if let Some(model) = self.runs[gpus.first]
            && !view.is_running(gpus.first)
        {
            self.runs[gpus.first] = None;
            self.active[model] -= 1;
            self.room = true;
        }
    }
}
