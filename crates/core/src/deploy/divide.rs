//! Workflows divided between servers, so that requests can stay on one; and the alternative, models spread over all GPUs.

use super::pour::{Basin, Ground};
use crate::id::{IdVec, ModelId};
use crate::instance::{Deployment, Routing};

type Basins<'g, 'a> = Vec<Basin<'g, 'a>>;

fn deployment(basins: &[Basin<'_, '_>]) -> Deployment {
    let replicas = basins.iter().flat_map(|basin| &basin.replicas);
    let mut replicas: Vec<_> = replicas.map(|&(model, gpus, _)| (model, gpus)).collect();
    replicas.sort_unstable();
    Deployment { replicas, fits: true, routing: Routing::Whole }
}

/// Models spread over all GPUs, up to the lowest level at which all find a place. Among GPUs about as empty, those on servers
/// with models that occur with theirs come first. `None` where memory does not hold them all.
pub(super) fn spread(ground: &Ground<'_>) -> Option<Deployment> {
    let models = ground.instance.models.len();
    let together = together(ground);
    let several = ground.servers.len() > 1;
    let server_of = |gpu: u32| ground.instance.cluster.server_of(gpu) as usize;
    let mut filled = None;
    for level in ground.levels() {
        let mut basin = Basin::new(ground, 0..ground.instance.cluster.gpus, true);
        let mut kin = vec![0.0; if several { models * ground.servers.len() } else { 0 }];
        let all = ground.models.iter().all(|&model| {
            let mut placed = Vec::new();
            let near = |_: &Basin<'_, '_>, gpus: crate::id::Gpus| match several {
                true => kin[server_of(gpus.first.0) * models + model.index()],
                false => 0.0,
            };
            let all = basin.pour(model, ground.demand.work[model], level, &near, |gpus| placed.push(gpus));
            for server in placed.into_iter().filter(|_| several).map(|gpus| server_of(gpus.first.0)) {
                for &(other, requests) in &together[model] {
                    kin[server * models + other.index()] += requests;
                }
            }
            all
        });
        if all {
            filled = Some(basin);
            break;
        }
    }
    let mut basin = filled?;
    let expected = basin.level();
    basin.use_spare_memory(expected);
    Some(deployment(&[basin]))
}

/// For each model, those that serve requests with it, and how many requests.
fn together(ground: &Ground<'_>) -> IdVec<ModelId, Vec<(ModelId, f64)>> {
    let mut together: IdVec<ModelId, Vec<(ModelId, f64)>> =
        vec![Vec::new(); ground.instance.models.len()].into();
    for flow in &ground.demand.flows {
        for &(a, _) in &flow.work {
            for &(b, _) in flow.work.iter().filter(|&&(b, _)| b != a) {
                match together[a].iter_mut().find(|(known, _)| *known == b) {
                    Some((_, sum)) => *sum += flow.requests,
                    None => together[a].push((b, flow.requests)),
                }
            }
        }
    }
    together
}

/// The same models on every server, each with its part of the work. `None` where a server does not hold them all.
pub(super) fn alike(ground: &Ground<'_>) -> Option<Deployment> {
    let gpus = f64::from(ground.instance.cluster.gpus);
    let basins: Option<Basins<'_, '_>> = ground
        .servers
        .iter()
        .map(|server| {
            let part = server.len() as f64 / gpus;
            ground.levels().find_map(|level| {
                fill(ground, server.clone(), level, |model| part * ground.demand.work[model])
            })
        })
        .collect();
    let mut basins = basins?;
    let expected = basins.iter().map(Basin::level).fold(0.0, f64::max);
    basins.iter_mut().for_each(|basin| basin.use_spare_memory(expected));
    Some(deployment(&basins))
}

/// A server with so much work of each model, no GPU above the level.
fn fill<'g, 'a>(
    ground: &'g Ground<'a>,
    server: std::ops::Range<u32>,
    level: f64,
    work: impl Fn(ModelId) -> f64,
) -> Option<Basin<'g, 'a>> {
    let mut basin = Basin::new(ground, server, true);
    let mut models = ground.models.iter().map(|&model| (model, work(model))).filter(|&(_, work)| work > 0.0);
    models.all(|(model, work)| basin.pour(model, work, level, &|_, _| 0.0, |_| {})).then_some(basin)
}

/// In which order workflows are given to servers.
#[derive(Clone, Copy)]
enum Order {
    Work,
    Memory,
    File,
}

/// Each workflow on as few servers as its work needs.
pub(super) fn divided(ground: &Ground<'_>) -> Vec<Deployment> {
    let orders = [Order::Work, Order::Memory, Order::File];
    orders.into_iter().filter_map(|order| Division::lowest(ground, order)).collect()
}

struct Division<'g, 'a> {
    ground: &'g Ground<'a>,
    basins: Basins<'g, 'a>,
    /// The work of each model on each server.
    work: Vec<IdVec<ModelId, f64>>,
    /// GPU-seconds on each server.
    area: Vec<f64>,
}

impl<'g, 'a> Division<'g, 'a> {
    fn lowest(ground: &'g Ground<'a>, order: Order) -> Option<Deployment> {
        let flows = &ground.demand.flows;
        let spec = |model: ModelId| &ground.instance.models[model];
        let area = |at: usize| -> f64 {
            flows[at].work.iter().map(|&(model, work)| work * f64::from(spec(model).gpus)).sum()
        };
        let memory =
            |at: usize| -> f64 { flows[at].work.iter().map(|&(model, _)| spec(model).memory_gb).sum() };
        let mut turns: Vec<usize> = (0..flows.len()).collect();
        match order {
            Order::Work => turns.sort_by(|&a, &b| area(b).total_cmp(&area(a))),
            Order::Memory => turns.sort_by(|&a, &b| memory(b).total_cmp(&memory(a))),
            Order::File => {}
        }
        let mut division = ground.levels().find_map(|level| {
            let mut division = Division {
                ground,
                basins: ground
                    .servers
                    .iter()
                    .map(|server| Basin::new(ground, server.clone(), true))
                    .collect(),
                work: vec![vec![0.0; ground.instance.models.len()].into(); ground.servers.len()],
                area: vec![0.0; ground.servers.len()],
            };
            turns.iter().all(|&at| division.give(at, area(at), level)).then_some(division)
        })?;
        division.use_spare_memory();
        Some(deployment(&division.basins))
    }

    /// Gives a workflow to servers. `false` where they cannot take all of it.
    fn give(&mut self, at: usize, area: f64, level: f64) -> bool {
        let flow = &self.ground.demand.flows[at];
        let mut closed = vec![false; self.basins.len()];
        let mut left = 1.0;
        while left > 1e-9 {
            let lacks = |server: usize| -> f64 {
                let missing = flow.work.iter().filter(|&&(model, _)| self.work[server][model] <= 0.0);
                missing.map(|&(model, _)| self.ground.instance.models[model].memory_gb).sum()
            };
            let open = (0..self.basins.len()).filter(|&server| !closed[server]);
            let rank =
                |server: usize| (lacks(server), self.area[server] / self.basins[server].gpus.len() as f64);
            let best = open.min_by(|&a, &b| {
                let (a, b) = (rank(a), rank(b));
                a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
            });
            let Some(server) = best else { return false };
            let room = level * self.basins[server].gpus.len() as f64 - self.area[server];
            let mut part = if room.is_finite() { f64::min(left, room / area) } else { left };
            let mut taken = false;
            // Once all of it, then less and less.
            for _ in 0..5 {
                if part <= 1e-6 {
                    break;
                }
                if self.takes(server, at, part, level) {
                    (taken, left) = (true, left - part);
                    self.area[server] += part * area;
                    break;
                }
                part /= 2.0;
            }
            closed[server] |= !taken || part < left;
        }
        true
    }

    /// Gives a part of a workflow to a server, if no GPU comes above the level.
    fn takes(&mut self, server: usize, at: usize, part: f64, level: f64) -> bool {
        let flow = &self.ground.demand.flows[at];
        let mut work = self.work[server].clone();
        flow.work.iter().for_each(|&(model, seconds)| work[model] += part * seconds);
        let filled = fill(self.ground, self.basins[server].gpus.clone(), level, |model| work[model]);
        let Some(basin) = filled else { return false };
        (self.basins[server], self.work[server]) = (basin, work);
        true
    }

    /// First whole workflows on further servers, then replicas of the models that a server has.
    fn use_spare_memory(&mut self) {
        let expected = self.basins.iter().map(Basin::level).fold(0.0, f64::max);
        for flow in &self.ground.demand.flows {
            for (basin, work) in self.basins.iter_mut().zip(&self.work) {
                let mut more = basin.clone();
                let missing = flow.work.iter().filter(|&&(model, _)| work[model] <= 0.0);
                let all = missing.into_iter().all(|&(model, _)| {
                    let there = more.replicas.iter().any(|&(of, ..)| of == model);
                    let mut windows = self.ground.windows(model, &more.gpus.clone()).iter();
                    there || windows.any(|&gpus| more.add_spare(model, gpus, expected))
                });
                if all {
                    *basin = more;
                }
            }
        }
        self.basins.iter_mut().for_each(|basin| basin.use_spare_memory(expected));
    }
}
