//! The policy's view of the GPUs: which windows serve which model, and which are being cleared.

use super::queues::Queue;
use crate::cost::Leaving;
use crate::engine::View;
use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus, IdVec, ModelId};
use crate::instance::{Instance, Model};
use crate::rules::{place, sketch};
use crate::time::{Span, Time};

pub(super) struct Fleet {
    /// Windows of each model that do not overlap: others would split the GPUs so that fewer fit.
    tiles: IdVec<ModelId, Vec<Gpus>>,
    starts: IdVec<ModelId, GpuSet>,
    /// What a load of each model usually takes, in seconds.
    pub usual_load: IdVec<ModelId, f64>,
    /// Windows at work, per model.
    at_work: IdVec<ModelId, u32>,
    /// When they are expected to be free, added up, in microseconds.
    ends: IdVec<ModelId, u64>,
    /// By the first GPU of a window at work: its model and its expected end.
    runs: IdVec<GpuId, Option<(ModelId, Time)>>,
    /// The window that is being cleared for a model.
    reserved: IdVec<ModelId, Option<Gpus>>,
    held: GpuSet,
}

impl Fleet {
    pub fn new(instance: &Instance) -> Fleet {
        let models = instance.models.len();
        let tiles: IdVec<ModelId, Vec<Gpus>> = instance.models.iter().map(sketch::tiles).collect();
        let all = instance.models.iter().map(Model::leaving).fold(Leaving::default(), |sum, one| sum + one);
        let some = models.max(1) as f64;
        let usual_to_leave = Leaving { gb: all.gb / some, seconds: all.seconds / some, unused: false };
        let switch = &instance.cluster.switch;
        let usual = instance
            .models
            .iter()
            .map(|model| switch.of(Some(usual_to_leave), model.memory_gb, model.load_seconds));
        Fleet {
            starts: first_gpus(instance, &tiles),
            tiles,
            usual_load: usual.map(Span::seconds).collect(),
            at_work: vec![0; models].into(),
            ends: vec![0; models].into(),
            runs: vec![None; instance.cluster.gpus as usize].into(),
            reserved: vec![None; models].into(),
            held: GpuSet::empty(instance.cluster.gpus),
        }
    }

    /// Idle GPUs that are not held back.
    pub fn open(&self, view: &View<'_>) -> GpuSet {
        view.idle().without(&self.held)
    }

    pub fn at_work(&self, model: ModelId) -> u32 {
        self.at_work[model]
    }

    /// A task starts on a window, and will be done at `end`.
    pub fn started(&mut self, model: ModelId, gpus: Gpus, end: Time) {
        let before = self.runs[gpus.first];
        let end = before.map_or(end, |(_, before)| end.max(before));
        match before {
            Some((_, before)) => self.ends[model] -= before.0,
            None => self.at_work[model] += 1,
        }
        self.ends[model] += end.0;
        self.runs[gpus.first] = Some((model, end));
        if self.reserved[model] == Some(gpus) {
            self.release(model);
        }
    }

    /// What others have started is at work too.
    pub fn take_over(&mut self, view: &View<'_>) {
        if view.alive().len() < view.instance().cluster.gpus {
            self.retile(view);
        }
        for one in view.under_way() {
            let model = view.instance().model_of(one.task);
            self.started(model, one.gpus, view.free_at(one.gpus.first));
        }
    }

    pub fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        if let Some((model, end)) = self.runs[gpus.first]
            && !view.is_running(gpus.first)
        {
            self.runs[gpus.first] = None;
            self.at_work[model] -= 1;
            self.ends[model] -= end.0;
        }
    }

    pub fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        self.retile(view);
        for model in view.instance().models.keys() {
            if self.reserved[model].is_some_and(|gpus| gpus.contains(gpu)) {
                self.release(model);
            }
        }
    }

    fn retile(&mut self, view: &View<'_>) {
        self.tiles = sketch::tiles_left(view.instance(), view.alive());
        self.starts = first_gpus(view.instance(), &self.tiles);
    }

    /// Seconds until the last of the waiting tasks would begin on the windows that are at work for the model.
    pub fn wait(&self, view: &View<'_>, model: ModelId, queue: &Queue) -> f64 {
        let windows = f64::from(self.at_work[model]);
        if windows == 0.0 || queue.is_empty() {
            return f64::INFINITY;
        }
        let left = if view.is_certain() {
            (self.ends[model] as f64 - windows * view.now().0 as f64).max(0.0) / 1e6
        } else {
            // What is late is not there at once: each window is asked for by itself.
            let of_model =
                self.runs.iter_enumerated().filter(|(_, run)| run.is_some_and(|(of, _)| of == model));
            of_model.map(|(lead, _)| view.free_at(lead).since(view.now()).seconds()).sum()
        };
        // The first of several windows to fall free does so sooner than the mean.
        let first = left * 2.0 / (windows + 1.0);
        let before_last = queue.work() * (1.0 - 1.0 / queue.len() as f64);
        (first + before_last) / windows
    }

    /// An idle window that holds the model.
    pub fn there(&self, view: &View<'_>, model: ModelId, open: &GpuSet) -> Option<Gpus> {
        let count = view.instance().models[model].gpus;
        let holding = view.holding(model);
        if count == 1 {
            return open.both(holding).next().map(|first| Gpus { first, count });
        }
        let windows = open.both(&self.starts[model]).map(|first| Gpus { first, count });
        let mut there = windows.filter(|&gpus| holding.contains_all(gpus));
        there.find(|&gpus| open.contains_all(gpus))
    }

    /// Idle windows that a model could be brought onto. Of windows that hold the same other model on one GPU, only the one
    /// that is idle longest.
    pub fn windows<'a>(
        &'a self,
        view: &'a View<'_>,
        model: ModelId,
        open: &'a GpuSet,
    ) -> Box<dyn Iterator<Item = Gpus> + 'a> {
        let (instance, count) = (view.instance(), view.instance().models[model].gpus);
        let window = move |first: GpuId| Gpus { first, count };
        if count == 1 {
            let oldest = move |old: ModelId| {
                let there =
                    open.both(view.holding(old)).filter(|&gpu| instance.models[model].starts.contains(gpu));
                there.min_by_key(|&gpu| view.idle_since(gpu))
            };
            let groups = instance.models.keys().filter_map(oldest);
            return Box::new(groups.chain(open.both(view.empty()).next()).map(window));
        }
        Box::new(open.both(&self.starts[model]).map(window).filter(|&gpus| open.contains_all(gpus)))
    }

    /// Windows that have been cleared, with the model that they were cleared for.
    pub fn cleared(&self, view: &View<'_>) -> Option<(ModelId, Gpus)> {
        let is_clear = |gpus: &Gpus| view.idle().contains_all(*gpus);
        self.reserved.iter_enumerated().find_map(|(model, gpus)| Some((model, (*gpus).filter(is_clear)?)))
    }

    pub fn release(&mut self, model: ModelId) {
        if let Some(gpus) = self.reserved[model].take() {
            self.held.remove_all(gpus);
        }
    }

    /// Holds back the window, of those that may be cleared, that loses least by it: the idle time of its GPUs until all are
    /// free. Only if the model is there sooner than within `wait` seconds.
    pub fn reserve(
        &mut self,
        view: &View<'_>,
        model: ModelId,
        wait: f64,
        may_clear: impl Fn(GpuId) -> bool,
    ) -> bool {
        if self.reserved[model].is_some() {
            return false;
        }
        let free = |gpus: Gpus| gpus.iter().map(|gpu| view.free_at(gpu)).max().unwrap_or(Time::ZERO);
        let loss = |gpus: Gpus| {
            let at = free(gpus);
            let idle: u64 = gpus.iter().map(|gpu| (at - view.free_at(gpu)).0).sum();
            (idle + (at - view.now()).0 * u64::from(gpus.count), gpus)
        };
        let fits = |gpus: &Gpus| gpus.iter().all(|gpu| !self.held.contains(gpu) && may_clear(gpu));
        let Some((_, gpus)) = self.tiles[model].iter().copied().filter(fits).map(loss).min() else {
            return false;
        };
        if free(gpus).since(view.now()).seconds() + self.usual_load[model] >= wait {
            return false;
        }
        self.reserved[model] = Some(gpus);
        self.held.insert_all(gpus);
        true
    }

    /// A running batch that a task should join. Where GPUs are idle and a further replica would save more than it takes to
    /// load, none.
    pub fn batch(&self, view: &View<'_>, model: ModelId, takes: Span, open: &GpuSet) -> Option<Gpus> {
        let spec = &view.instance().models[model];
        if spec.max_batch() == 1 {
            return None;
        }
        let gpus = place::joinable(view, model)?;
        let joined = view.batch_at(gpus.first) + 1;
        let windows = self.at_work[model].max(1);
        let spread = (joined * windows).div_ceil(windows + 1);
        let saved = spec.at_batch(takes, joined).seconds() - spec.at_batch(takes, spread).seconds();
        if saved > self.usual_load[model] && self.windows(view, model, open).next().is_some() {
            return None;
        }
        Some(gpus)
    }
}

fn first_gpus(instance: &Instance, tiles: &IdVec<ModelId, Vec<Gpus>>) -> IdVec<ModelId, GpuSet> {
    let of_model = |tiles: &Vec<Gpus>| {
        let mut firsts = GpuSet::empty(instance.cluster.gpus);
        tiles.iter().for_each(|tile| firsts.insert(tile.first));
        firsts
    };
    tiles.iter().map(of_model).collect()
}
