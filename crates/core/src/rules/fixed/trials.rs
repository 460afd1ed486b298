//! Which deployment to use: those that look best by load are tried on the requests, and the best of them is changed a little as
//! long as that helps.
//!
//! All requests of a batch are known when it begins, so they are tried as they are. Of a stream nothing is used but its mix: a
//! trial stream has the same workflows, gaps and lengths in another order.

use super::Static;
use crate::deploy::{Demand, candidates};
use crate::id::{GpuId, Gpus, IdVec, ModelId, RequestId};
use crate::instance::{Deployment, Instance, Mode, NewRequest, Routing};
use crate::sim::{SimOptions, simulate};
use crate::time::{Span, Time};
use crate::truth::{mix, unit};
use std::sync::Arc;

/// Tasks that all trials together may execute.
const TASKS: usize = 12_000;

/// Most tasks of a problem that counts as small, and how many its trials may execute.
const SMALL: (usize, usize) = (500, 36_000);

/// Fewer trials would not tell placements apart.
const LEAST: usize = 4;

/// Most trials.
const TRIALS: usize = 600;

/// Requests of a trial stream.
const STREAM: usize = 400;

/// How much longer, as a share, a run may take for requests that stay on one server.
const PRICE_OF_LOCALITY: f64 = 0.003;

/// The deployment of a problem: the one that was given with it, else the one that does best on its requests.
pub(crate) fn deploy(instance: &Instance) -> Arc<Deployment> {
    if let Some(given) = &instance.deployment {
        return Arc::clone(given);
    }
    let demand = Demand::of(instance);
    let mut found = candidates(instance, &demand);
    if !found[0].fits
        || instance.tasks() == 0
        || instance.tasks() * LEAST > TASKS
        || !instance.start.is_empty()
    {
        return Arc::new(found.swap_remove(0));
    }
    let first = found[0].clone();
    let sample = sample(instance);
    let instance = sample.as_ref().unwrap_or(instance);
    let tasks = if instance.tasks() <= SMALL.0 { SMALL.1 } else { TASKS };
    let left = (tasks / instance.tasks().max(1)).clamp(1, TRIALS);
    let mut trials = Trials { instance, left, best: None };
    for one in found {
        let spilling = Deployment { routing: Routing::Spill, ..one.clone() };
        let whole = one.routing == Routing::Whole && instance.cluster.servers() > 1;
        trials.attempt(one);
        if whole {
            trials.attempt(spilling);
        }
    }
    trials.improve();
    Arc::new(trials.best.map_or(first, |(_, best)| best))
}

/// A stream that is like this one, in another order; `None` of a batch.
fn sample(instance: &Instance) -> Option<Instance> {
    if instance.mode == Mode::Offline {
        return None;
    }
    let count = instance.requests.len();
    let mut arrivals: Vec<Time> = instance.requests.iter().map(|request| request.arrival).collect();
    arrivals.sort_unstable();
    let gaps: Vec<Span> = arrivals.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    let mut state = 0x5eed;
    let mut draw = |limit: usize| {
        state = mix(state);
        ((unit(state) * limit as f64) as usize).min(limit.saturating_sub(1))
    };
    let mut sample = instance.without_requests();
    let mut at = Time::ZERO;
    for _ in 0..count.min(STREAM) {
        let id = RequestId::from(draw(count));
        let like = &instance.requests[id];
        sample.push_request(NewRequest {
            name: String::new(),
            workflow: like.workflow,
            arrival: at,
            priority: like.priority,
            deadline: like.deadline,
            executions: instance.tasks_of(id).map(|task| instance.execution(task)).collect(),
        });
        at = at + gaps.get(draw(gaps.len())).copied().unwrap_or_default();
    }
    Some(sample)
}

/// What a trial came to.
#[derive(Clone, Copy)]
struct Figures {
    /// The makespan of a batch, of a stream the latency that 99% of requests do not exceed; in seconds.
    seconds: f64,
    /// Share of requests that stayed on one server.
    whole: f64,
}

impl Figures {
    fn beats(self, other: Figures) -> bool {
        let near = |a: Figures, b: Figures| a.seconds <= b.seconds * (1.0 + PRICE_OF_LOCALITY);
        match self.whole - other.whole {
            more if more > 0.005 => near(self, other),
            less if less < -0.005 => !near(other, self),
            _ => self.seconds < other.seconds,
        }
    }
}

struct Trials<'i> {
    instance: &'i Instance,
    left: usize,
    best: Option<(Figures, Deployment)>,
}

impl Trials<'_> {
    /// Runs a deployment; whether it is the best so far.
    fn attempt(&mut self, deployment: Deployment) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let mut policy = Static::with(self.instance, &deployment);
        let Ok(log) = simulate(self.instance, &mut policy, &SimOptions::default(), &mut |_| {}) else {
            return false;
        };
        let figures = figures(self.instance, &log);
        let better = self.best.as_ref().is_none_or(|(best, _)| figures.beats(*best));
        if better {
            self.best = Some((figures, deployment));
        }
        better
    }

    /// Adds, moves, exchanges and removes replicas as long as that helps.
    fn improve(&mut self) {
        let (mut turn, mut fruitless) = (0, 0);
        let mut tried = Vec::new();
        while let Some((_, best)) = self.best.as_ref().filter(|_| self.left > 0) {
            if fruitless == 0 {
                tried = changes(self.instance, &best.replicas);
            }
            if fruitless >= tried.len() {
                return;
            }
            let changed = Deployment { replicas: tried[turn % tried.len()].clone(), ..best.clone() };
            turn += 1;
            fruitless = if self.attempt(changed) { 0 } else { fruitless + 1 };
        }
    }
}

fn figures(instance: &Instance, log: &crate::log::ExecutionLog) -> Figures {
    let none = (Time::ZERO, u32::MAX, 0);
    let mut ends: IdVec<RequestId, (Time, u32, u32)> = vec![none; instance.requests.len()].into();
    for one in &log.executions {
        let (end, low, high) = &mut ends[instance.request_of(one.task)];
        let first = instance.cluster.server_of(one.gpus.first.0);
        let last = instance.cluster.server_of(one.gpus.first.0 + one.gpus.count - 1);
        (*end, *low, *high) = ((*end).max(one.end), (*low).min(first), (*high).max(last));
    }
    let whole = ends.iter().filter(|(_, low, high)| low >= high).count() as f64 / ends.len().max(1) as f64;
    let mut latencies: Vec<f64> = ends
        .iter_enumerated()
        .map(|(id, end)| end.0.since(instance.requests[id].arrival).seconds())
        .collect();
    latencies.sort_by(f64::total_cmp);
    let seconds = match instance.mode {
        Mode::Offline => ends.iter().map(|end| end.0.seconds()).fold(0.0, f64::max),
        Mode::Online => {
            let place = (latencies.len() as f64 * 0.99).ceil() as usize;
            let p99 = latencies.get(place.max(1) - 1).copied().unwrap_or(0.0);
            p99 + 0.1 * latencies.iter().sum::<f64>() / latencies.len().max(1) as f64
        }
    };
    Figures { seconds, whole }
}

/// Larger deployments are not changed: one replica more or less makes too little of a difference.
const MOST_REPLICAS: usize = 48;

/// The placements that differ from one in one replica, or in the places of two.
fn changes(instance: &Instance, replicas: &[(ModelId, Gpus)]) -> Vec<Vec<(ModelId, Gpus)>> {
    let mut found = Vec::new();
    if replicas.len() > MOST_REPLICAS {
        return found;
    }
    let used: Vec<ModelId> = {
        let mut used: Vec<ModelId> = replicas.iter().map(|&(model, _)| model).collect();
        used.sort_unstable();
        used.dedup();
        used
    };
    let windows: Vec<(ModelId, Gpus)> = used
        .iter()
        .flat_map(|&model| instance.models[model].tiles().into_iter().map(move |gpus| (model, gpus)))
        .filter(|one| !replicas.contains(one))
        .collect();
    let mut keep = |changed: Vec<(ModelId, Gpus)>| {
        if fits(instance, &changed) {
            found.push(changed);
        }
    };
    for &window in &windows {
        keep(replicas.iter().copied().chain([window]).collect());
    }
    for (at, &(model, _)) in replicas.iter().enumerate() {
        let others =
            || replicas.iter().enumerate().filter(move |&(other, _)| other != at).map(|(_, &one)| one);
        for &window in windows.iter().filter(|&&(of, _)| of == model) {
            keep(others().chain([window]).collect());
        }
        if others().any(|(of, _)| of == model) {
            keep(others().collect());
            // Its place for another model.
            for &window in windows.iter().filter(|&&(of, _)| of != model) {
                keep(others().chain([window]).collect());
            }
        }
    }
    for (at, &(model, gpus)) in replicas.iter().enumerate() {
        for &(other, there) in &replicas[at + 1..] {
            let exchanged = [(model, there), (other, gpus)];
            if model != other
                && gpus.count == there.count
                && exchanged.iter().all(|one| !replicas.contains(one))
            {
                let rest =
                    replicas.iter().copied().filter(|&one| one != (model, gpus) && one != (other, there));
                keep(rest.chain(exchanged).collect());
            }
        }
    }
    found
}

/// Whether every GPU has room for its models, and for an execution of each.
fn fits(instance: &Instance, replicas: &[(ModelId, Gpus)]) -> bool {
    let room = crate::cost::megabytes(instance.cluster.gpu_memory_gb);
    let mut used: IdVec<GpuId, (u64, u64)> = vec![(0, 0); instance.cluster.gpus as usize].into();
    for &(model, gpus) in replicas {
        let spec = &instance.models[model];
        for gpu in gpus.iter() {
            used[gpu].0 += spec.memory_per_gpu;
            used[gpu].1 = used[gpu].1.max(spec.slot_per_gpu);
        }
    }
    used.iter().all(|(weights, slot)| weights + slot <= room)
}
