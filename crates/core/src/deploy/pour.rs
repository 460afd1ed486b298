//! Work poured into GPUs like water, the widest models first, up to a level: a model gets another replica when those it has are
//! full. So replicas come in proportion to work, GPUs end up level, and a GPU holds more than one model only where memory allows.

use super::Demand;
use crate::cost;
use crate::id::{Gpus, IdVec, ModelId};
use crate::instance::{Deployment, Instance, Routing};
use std::ops::Range;

/// Levels that are tried, as multiples of what perfect balance would give.
pub(super) const LEVELS: [f64; 14] =
    [1.0, 1.01, 1.02, 1.04, 1.07, 1.1, 1.15, 1.2, 1.3, 1.5, 2.0, 4.0, 16.0, f64::INFINITY];

/// The part of the expected run that a GPU may spend on loading replicas beyond those that the work calls for.
const SPARE_LOADING: f64 = 0.02;

/// What a placement is worked out from.
pub(super) struct Ground<'a> {
    pub instance: &'a Instance,
    pub demand: &'a Demand,
    /// The models that are used, widest first, then by work.
    pub models: Vec<ModelId>,
    /// Windows of each model that do not overlap, lowest first.
    pub tiles: IdVec<ModelId, Vec<Gpus>>,
    /// Load of every GPU in perfect balance.
    pub lowest: f64,
    /// GPUs of each server.
    pub servers: Vec<Range<u32>>,
}

impl<'a> Ground<'a> {
    pub fn new(instance: &'a Instance, demand: &'a Demand) -> Ground<'a> {
        let cluster = &instance.cluster;
        let per = cluster.gpus_per_server.unwrap_or(cluster.gpus).max(1);
        let first = (0..cluster.servers()).map(|server| server * per);
        let mut models: Vec<ModelId> = demand.models().collect();
        models.sort_by(|&a, &b| {
            let width = |model: ModelId| instance.models[model].gpus;
            width(b).cmp(&width(a)).then(demand.work[b].total_cmp(&demand.work[a])).then(a.cmp(&b))
        });
        Ground {
            instance,
            demand,
            tiles: instance.models.iter().map(|model| model.tiles()).collect(),
            lowest: demand.gpu_seconds(instance) / f64::from(cluster.gpus),
            servers: first.map(|first| first..(first + per).min(cluster.gpus)).collect(),
            models,
        }
    }

    /// The windows of a model inside some GPUs.
    pub fn windows(&self, model: ModelId, gpus: &Range<u32>) -> &[Gpus] {
        let tiles = &self.tiles[model];
        let from = tiles.partition_point(|tile| tile.first.0 < gpus.start);
        let to = tiles.partition_point(|tile| tile.first.0 + tile.count <= gpus.end);
        &tiles[from.min(to)..to]
    }

    /// Levels that are tried.
    pub fn levels(&self) -> impl Iterator<Item = f64> {
        let lowest = self.lowest;
        LEVELS.iter().map(move |factor| lowest * factor)
    }
}

/// Some GPUs while they are filled.
#[derive(Clone)]
pub(super) struct Basin<'g, 'a> {
    ground: &'g Ground<'a>,
    pub gpus: Range<u32>,
    /// Each with the work that was poured into it.
    pub replicas: Vec<(ModelId, Gpus, f64)>,
    /// Work that falls on each GPU, in seconds.
    load: Vec<f64>,
    /// Free memory of each GPU, in MB.
    free: Vec<u64>,
    /// The most that one execution of a model there takes, in MB.
    slot: Vec<u64>,
    models_on: Vec<Vec<ModelId>>,
    /// Seconds that each GPU spends on loading.
    loading: Vec<f64>,
    within_memory: bool,
}

impl<'g, 'a> Basin<'g, 'a> {
    pub fn new(ground: &'g Ground<'a>, gpus: Range<u32>, within_memory: bool) -> Basin<'g, 'a> {
        let count = gpus.len();
        Basin {
            ground,
            gpus,
            replicas: Vec::new(),
            load: vec![0.0; count],
            free: vec![cost::megabytes(ground.instance.cluster.gpu_memory_gb); count],
            slot: vec![0; count],
            models_on: vec![Vec::new(); count],
            loading: vec![0.0; count],
            within_memory,
        }
    }

    fn at(&self, gpus: Gpus) -> Range<usize> {
        let first = (gpus.first.0 - self.gpus.start) as usize;
        first..first + gpus.count as usize
    }

    pub fn has_room(&self, model: ModelId, gpus: Gpus) -> bool {
        let spec = &self.ground.instance.models[model];
        self.at(gpus).all(|gpu| {
            // One execution of any model on the GPU has to fit beside all weights.
            let fits = self.free[gpu] >= spec.memory_per_gpu + spec.slot_per_gpu.max(self.slot[gpu]);
            (fits || !self.within_memory) && !self.models_on[gpu].contains(&model)
        })
    }

    fn load_of(&self, gpus: Gpus) -> f64 {
        self.at(gpus).map(|gpu| self.load[gpu]).fold(0.0, f64::max)
    }

    /// The emptiest window; among those within a twentieth of the level the one whose `kin` is most, then the lowest.
    fn best_window(&self, model: ModelId, level: f64, kin: &impl Fn(Gpus) -> f64) -> Option<Gpus> {
        let open = self.ground.windows(model, &self.gpus).iter().copied();
        let loads = open.map(|gpus| (self.load_of(gpus), gpus));
        let loads: Vec<(f64, Gpus)> =
            loads.filter(|&(load, gpus)| load < level && self.has_room(model, gpus)).collect();
        let least = loads.iter().map(|&(load, _)| load).fold(f64::INFINITY, f64::min);
        let slack = if level.is_finite() { level / 20.0 } else { 0.0 };
        let close = loads.into_iter().filter(|&(load, _)| load <= least + slack);
        let kin = close.map(|(_, gpus)| (kin(gpus), gpus));
        kin.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, gpus)| gpus)
    }

    /// Pours the work of a model; `false` where it does not all find a place.
    pub fn pour(
        &mut self,
        model: ModelId,
        work: f64,
        level: f64,
        kin: &impl Fn(&Self, Gpus) -> f64,
        mut placed: impl FnMut(Gpus),
    ) -> bool {
        let mut left = work;
        while left > work * 1e-9 {
            let Some(gpus) = self.best_window(model, level, &|gpus| kin(self, gpus)) else { return false };
            let poured = left.min(level - self.load_of(gpus));
            self.add(model, gpus, poured);
            placed(gpus);
            left -= poured;
        }
        true
    }

    pub fn add(&mut self, model: ModelId, gpus: Gpus, work: f64) {
        let spec = &self.ground.instance.models[model];
        for gpu in self.at(gpus) {
            self.load[gpu] += work;
            self.free[gpu] = self.free[gpu].saturating_sub(spec.memory_per_gpu);
            self.slot[gpu] = self.slot[gpu].max(spec.slot_per_gpu);
            self.loading[gpu] += spec.load_seconds;
            self.models_on[gpu].push(model);
        }
        self.replicas.push((model, gpus, work));
    }

    /// Adds a replica beyond what the work calls for, where memory and a little loading time allow.
    pub fn add_spare(&mut self, model: ModelId, gpus: Gpus, expected: f64) -> bool {
        let load = self.ground.instance.models[model].load_seconds;
        let affordable = self.at(gpus).all(|gpu| self.loading[gpu] + load <= expected * SPARE_LOADING);
        let adds = affordable && self.has_room(model, gpus);
        if adds {
            self.add(model, gpus, 0.0);
        }
        adds
    }

    /// The highest load.
    pub fn level(&self) -> f64 {
        self.load.iter().copied().fold(0.0, f64::max)
    }

    /// Water finds its level and tasks do not: what became ready early finds its replica busy while others idle. More
    /// replicas, the busiest models first, even that out.
    pub fn use_spare_memory(&mut self, expected: f64) {
        for &model in &self.ground.models {
            for &gpus in self.ground.windows(model, &self.gpus.clone()) {
                self.add_spare(model, gpus, expected);
            }
        }
    }
}

/// Everything placed without regard to memory: models share GPUs and take turns.
pub(super) fn anyhow(ground: &Ground<'_>) -> Deployment {
    let mut basin = Basin::new(ground, 0..ground.instance.cluster.gpus, false);
    for &model in &ground.models {
        basin.pour(model, ground.demand.work[model], f64::INFINITY, &|_, _| 0.0, |_| {});
    }
    let replicas = basin.replicas.iter().map(|&(model, gpus, _)| (model, gpus)).collect();
    Deployment { replicas, fits: false, routing: Routing::Spill }
}
