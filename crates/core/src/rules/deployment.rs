//! Where models are put for good: the analysis and the placement behind `static`.
//!
//! From the requests: the work of every model, and how often two models serve the same request. Work is poured into the
//! GPUs like water, the widest models first, up to the lowest level at which everything finds a place: a model gets another
//! replica when those it has are full. So replicas come in proportion to work, GPUs end up level, and a GPU holds more than
//! one model only where memory allows. Among GPUs about as empty, those near the models that it occurs with come first.

use crate::cost;
use crate::id::{Gpus, IdVec, ModelId};
use crate::instance::Instance;

/// A permanent assignment of models to GPUs.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Each replica: a model and its GPUs.
    pub replicas: Vec<(ModelId, Gpus)>,
    /// Whether everything fits into memory. Where it does not, models take turns, and switches cannot be avoided.
    pub fits: bool,
}

impl Deployment {
    /// The GPUs of a model's replicas.
    pub fn windows(&self, model: ModelId) -> impl Iterator<Item = Gpus> + '_ {
        self.replicas.iter().filter(move |&&(of, _)| of == model).map(|&(_, gpus)| gpus)
    }
}

/// Finds a deployment for the pattern of these requests.
pub fn deploy(instance: &Instance) -> Deployment {
    let pattern = Pattern::of(instance);
    let used = pattern.work.iter_enumerated().filter(|&(_, &work)| work > 0.0);
    let mut models: Vec<ModelId> = used.map(|(model, _)| model).collect();
    models.sort_by(|&a, &b| {
        let width = |model: ModelId| instance.models[model].gpus;
        width(b).cmp(&width(a)).then(pattern.work[b].total_cmp(&pattern.work[a])).then(a.cmp(&b))
    });
    let gpu_work = |&model: &ModelId| pattern.work[model] * f64::from(instance.models[model].gpus);
    let lowest = models.iter().map(gpu_work).sum::<f64>() / f64::from(instance.cluster.gpus);
    let levels = LEVELS.iter().map(|factor| lowest * factor);
    levels.into_iter().find_map(|level| pour(instance, &pattern, &models, level, true)).unwrap_or_else(|| {
        let anyhow = pour(instance, &pattern, &models, f64::INFINITY, false);
        anyhow.expect("without limits every model finds a place")
    })
}

/// Levels that are tried, as multiples of what perfect balance would give.
const LEVELS: [f64; 14] =
    [1.0, 1.01, 1.02, 1.04, 1.07, 1.1, 1.15, 1.2, 1.3, 1.5, 2.0, 4.0, 16.0, f64::INFINITY];

/// Places all models so that no GPU gets more work than `level`, if that can be done.
fn pour(
    instance: &Instance,
    pattern: &Pattern,
    models: &[ModelId],
    level: f64,
    within_memory: bool,
) -> Option<Deployment> {
    let mut state = State::new(instance, pattern);
    for &model in models {
        let mut left = pattern.work[model];
        while left > pattern.work[model] * 1e-9 {
            let roomy = |gpus: Gpus| !within_memory || state.has_room(model, gpus);
            let gpus = state.best_window(model, level, |gpus| roomy(gpus) && state.load_of(gpus) < level)?;
            let poured = left.min(level - state.load_of(gpus));
            state.add(model, gpus, poured);
            left -= poured;
        }
    }
    if within_memory {
        state.use_spare_memory(models);
    }
    Some(Deployment { replicas: state.replicas, fits: within_memory })
}

/// The part of the expected run that a GPU may spend on loading replicas beyond those that the work calls for.
const SPARE_LOADING: f64 = 0.02;

/// What the requests ask for.
struct Pattern {
    /// Execution time of all tasks of a model, in seconds.
    work: IdVec<ModelId, f64>,
    /// Requests that use both models.
    together: IdVec<ModelId, IdVec<ModelId, f64>>,
}

impl Pattern {
    fn of(instance: &Instance) -> Pattern {
        let count = instance.models.len();
        let mut work: IdVec<ModelId, f64> = vec![0.0; count].into();
        let mut frequency = vec![0u32; instance.workflows.len()];
        for request in &instance.requests {
            frequency[usize::from(request.workflow)] += 1;
        }
        for task in instance.task_ids() {
            let model = instance.model_of(task);
            // A replica that batches does the work of several.
            let shares = instance.models[model].slowdown.iter().zip(1u32..);
            let share =
                shares.map(|(&slow, batch)| f64::from(slow) / 1e6 / f64::from(batch)).fold(1.0, f64::min);
            work[model] += instance.execution(task).seconds() * share;
        }
        let mut together: IdVec<ModelId, IdVec<ModelId, f64>> = vec![vec![0.0; count].into(); count].into();
        for (workflow, &requests) in instance.workflows.iter().zip(&frequency) {
            let mut models = workflow.models.clone();
            models.sort_unstable();
            models.dedup();
            for &a in &models {
                for &b in models.iter().filter(|&&b| b != a) {
                    together[a][b] += f64::from(requests);
                }
            }
        }
        Pattern { work, together }
    }
}

struct State<'a> {
    instance: &'a Instance,
    pattern: &'a Pattern,
    windows: IdVec<ModelId, Vec<Gpus>>,
    replicas: Vec<(ModelId, Gpus)>,
    /// Work that falls on each GPU, in seconds.
    load: Vec<f64>,
    /// Free memory of each GPU, in MB.
    free: Vec<u64>,
    models_on: Vec<Vec<ModelId>>,
}

impl<'a> State<'a> {
    fn new(instance: &'a Instance, pattern: &'a Pattern) -> State<'a> {
        let gpus = instance.cluster.gpus as usize;
        State {
            instance,
            pattern,
            windows: instance.models.iter().map(super::sketch::tiles).collect(),
            replicas: Vec::new(),
            load: vec![0.0; gpus],
            free: vec![cost::megabytes(instance.cluster.gpu_memory_gb); gpus],
            models_on: vec![Vec::new(); gpus],
        }
    }

    fn has_room(&self, model: ModelId, gpus: Gpus) -> bool {
        let spec = &self.instance.models[model];
        let fits = |gpu: usize| {
            // One execution of any model on the GPU has to fit beside all weights.
            let slots = self.models_on[gpu].iter().map(|&other| self.instance.models[other].slot_per_gpu);
            self.free[gpu] >= spec.memory_per_gpu + slots.fold(spec.slot_per_gpu, u64::max)
        };
        gpus.range().all(|gpu| fits(gpu) && !self.models_on[gpu].contains(&model))
    }

    fn load_of(&self, gpus: Gpus) -> f64 {
        gpus.range().map(|gpu| self.load[gpu]).fold(0.0, f64::max)
    }

    /// How much a model occurs with those on the server of these GPUs.
    fn kinship(&self, model: ModelId, gpus: Gpus) -> f64 {
        let cluster = &self.instance.cluster;
        let server = cluster.server_of(gpus.first.0);
        let near = self.replicas.iter().filter(|&&(_, other)| cluster.server_of(other.first.0) == server);
        near.map(|&(other, _)| self.pattern.together[model][other]).sum()
    }

    /// The emptiest window; among those within a twentieth of the level, one near kin.
    fn best_window(&self, model: ModelId, level: f64, allowed: impl Fn(Gpus) -> bool) -> Option<Gpus> {
        let open = self.windows[model].iter().copied().filter(|&gpus| allowed(gpus));
        let loads: Vec<(f64, Gpus)> = open.map(|gpus| (self.load_of(gpus), gpus)).collect();
        let least = loads.iter().map(|&(load, _)| load).fold(f64::INFINITY, f64::min);
        let slack = if level.is_finite() { level / 20.0 } else { 0.0 };
        let close = loads.into_iter().filter(|&(load, _)| load <= least + slack);
        let one_server = self.instance.cluster.servers() == 1;
        let kin = close.map(|(_, gpus)| (if one_server { 0.0 } else { self.kinship(model, gpus) }, gpus));
        kin.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, gpus)| gpus)
    }

    /// Water finds its level and tasks do not: what became ready early finds its replica busy while others idle. More
    /// replicas, the busiest models first, even that out where memory and a little loading time allow.
    fn use_spare_memory(&mut self, models: &[ModelId]) {
        let expected = self.load.iter().copied().fold(0.0, f64::max);
        let mut loading: Vec<f64> = vec![0.0; self.load.len()];
        for &(model, gpus) in &self.replicas {
            gpus.range().for_each(|gpu| loading[gpu] += self.instance.models[model].load_seconds);
        }
        for &model in models {
            let load = self.instance.models[model].load_seconds;
            for gpus in self.windows[model].clone() {
                let affordable = gpus.range().all(|gpu| loading[gpu] + load <= expected * SPARE_LOADING);
                if affordable && self.has_room(model, gpus) {
                    gpus.range().for_each(|gpu| loading[gpu] += load);
                    self.add(model, gpus, 0.0);
                }
            }
        }
    }

    fn add(&mut self, model: ModelId, gpus: Gpus, work: f64) {
        for gpu in gpus.range() {
            self.load[gpu] += work;
            self.free[gpu] = self.free[gpu].saturating_sub(self.instance.models[model].memory_per_gpu);
            self.models_on[gpu].push(model);
        }
        self.replicas.push((model, gpus));
    }
}
