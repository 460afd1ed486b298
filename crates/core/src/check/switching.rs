//! What every GPU holds at every moment, replayed from the loads: that executions find their model, and that each load
//! takes as long as it costs.

use super::context::{Context, TOLERANCE, s, seconds};
use crate::cost::SwitchRule;
use crate::id::{GpuId, Gpus, ModelId};
use crate::instance::{Cluster, Model, Residency};
use crate::log::{Status, Unload};
use crate::time::Time;
use crate::violation::{Place, ViolationCode as Code};

/// What the loads of a log come to.
#[derive(Default)]
pub(super) struct Loads {
    pub switches: u64,
    pub cold: u64,
    pub micros: u64,
    /// Per GPU the megabytes of the models on it, from each moment at which they change; only where executions take memory.
    pub weights: Vec<Vec<(Time, u64)>>,
}

/// At one instant in this order: executions and loads end, GPUs are lost, models leave, loads begin, executions begin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Executed(u32),
    Loaded(u32),
    Lost(GpuId),
    Unload(u32),
    Load(u32),
    Execute(u32),
}

/// A load of either sort.
struct Bring<'a> {
    model: ModelId,
    gpus: Gpus,
    start: Time,
    end: Time,
    /// Lost or failed: the model is not there after it.
    cut_short: bool,
    evicted: &'a [ModelId],
    place: Where,
}

#[derive(Clone, Copy)]
enum Where {
    Execution(u32),
    Load(u32),
}

pub(super) fn check(context: &mut Context<'_>) -> Loads {
    let log = context.log;
    let brings = brings(context);
    let mut events: Vec<(Time, Event)> = Vec::with_capacity(2 * (log.executions.len() + brings.len()));
    for (number, bring) in (0..).zip(&brings) {
        events.push((bring.start, Event::Load(number)));
        if bring.end > bring.start {
            events.push((bring.end, Event::Loaded(number)));
        }
    }
    let starts = context.placed().filter(|(_, one)| one.switch.0 == 0 && one.end > one.start);
    events.extend(starts.map(|(index, one)| (one.start, Event::Execute(index as u32))));
    let executed = context.placed().filter(|(_, one)| one.end > one.start);
    events.extend(executed.map(|(index, one)| (one.end, Event::Executed(index as u32))));
    let gpus = context.instance.cluster.gpus;
    let lost = log.losses.iter().filter(|loss| loss.gpu.0 < gpus);
    events.extend(lost.map(|loss| (loss.at, Event::Lost(loss.gpu))));
    let unloads = (0..).zip(&log.unloads).filter(|(_, one)| one.gpu.0 < gpus);
    events.extend(unloads.map(|(number, one)| (one.at, Event::Unload(number))));
    super::unloads::check(context);
    events.sort_unstable();
    let mut replay = Replay { holds: vec![Vec::new(); gpus as usize], loads: Loads::default() };
    for &(gpu, model) in &context.instance.start.resident {
        replay.holds[gpu.index()].push(Held { model, ready: true, has_executed: true });
    }
    let weighed = context.instance.models.iter().any(|model| model.slot_per_gpu > 0);
    replay.loads.weights = vec![Vec::new(); if weighed { gpus as usize } else { 0 }];
    if weighed && !context.instance.start.is_empty() {
        replay.weigh(context, Time::ZERO, Gpus::new(0, gpus));
    }
    for (at, event) in events {
        let changed = match event {
            Event::Executed(index) => {
                replay.executed(context, index);
                continue;
            }
            Event::Loaded(number) => {
                replay.loaded(&brings[number as usize]);
                brings[number as usize].gpus
            }
            Event::Lost(gpu) => {
                replay.holds[gpu.index()].clear();
                Gpus { first: gpu, count: 1 }
            }
            Event::Unload(number) => {
                let one = log.unloads[number as usize];
                replay.unload(context, one);
                Gpus { first: one.gpu, count: 1 }
            }
            Event::Load(number) => {
                let bring = &brings[number as usize];
                replay.load(context, bring);
                if bring.end == bring.start {
                    replay.loaded(bring);
                }
                bring.gpus
            }
            Event::Execute(index) => {
                replay.execute(context, index);
                log.executions[index as usize].gpus
            }
        };
        if weighed {
            replay.weigh(context, at, changed);
        }
    }
    replay.loads
}

/// The loads of executions and those made ahead, by start.
fn brings<'a>(context: &Context<'a>) -> Vec<Bring<'a>> {
    let (instance, log) = (context.instance, context.log);
    let for_executions = context.placed().filter(|(_, one)| one.switch.0 > 0).map(|(index, one)| Bring {
        model: instance.model_of(one.task),
        gpus: one.gpus,
        start: Time(one.start.0 - one.switch.0.min(one.start.0)),
        end: one.start,
        cut_short: one.status != Status::Completed && one.start == one.end,
        evicted: &one.evicted,
        place: Where::Execution(index as u32),
    });
    let ahead =
        log.loads.iter().enumerate().filter(|&(index, _)| context.sound.loads[index]).map(|(index, one)| {
            Bring {
                model: one.model,
                gpus: one.gpus,
                start: one.start,
                end: one.end,
                cut_short: one.status != Status::Completed,
                evicted: &one.evicted,
                place: Where::Load(index as u32),
            }
        });
    let mut all: Vec<Bring<'a>> = for_executions.chain(ahead).collect();
    // A load that failed as it began is over before the next one on its GPUs.
    all.sort_by_key(|bring| (bring.start, bring.end));
    all
}

/// A model on a GPU: whether all of it is there yet, and whether it has executed anything since it came.
#[derive(Clone, Copy)]
struct Held {
    model: ModelId,
    ready: bool,
    has_executed: bool,
}

struct Replay {
    holds: Vec<Vec<Held>>,
    loads: Loads,
}

impl Replay {
    fn load(&mut self, context: &mut Context<'_>, bring: &Bring<'_>) {
        let cost = self.cost(context, bring.model, bring.gpus, bring.evicted);
        let given = bring.end.0 - bring.start.0;
        // As sums of lengths do everywhere: they stop at the largest, and never wrap.
        self.loads.micros = self.loads.micros.saturating_add(given);
        if cost.replaces {
            self.loads.switches += 1
        } else {
            self.loads.cold += 1
        }
        self.evict(context, bring);
        self.put(context, bring, false);
        if context.measured {
            return;
        }
        let model = &context.instance.models[bring.model].name;
        let numbers = || format!("loading `{model}` on GPUs {} took {}", bring.gpus, seconds(given));
        if !bring.cut_short && given.saturating_add(TOLERANCE) < cost.micros {
            let message = format!("{}, but costs {}", numbers(), seconds(cost.micros));
            context.report(Code::SwitchShort, bring.at(context), message);
        } else if given > cost.micros.saturating_add(TOLERANCE) {
            let there = if cost.there { "the model was already loaded" } else { "it costs" };
            let message = format!("{}; {there} ({})", numbers(), seconds(cost.micros));
            context.report(Code::SwitchLong, bring.at(context), message);
        }
    }

    fn loaded(&mut self, bring: &Bring<'_>) {
        for held in &mut self.holds[bring.gpus.range()] {
            if bring.cut_short {
                held.retain(|one| one.model != bring.model);
            } else {
                held.iter_mut().filter(|one| one.model == bring.model).for_each(|one| one.ready = true);
            }
        }
    }

    /// A model leaves by itself: it has to be there, all of it.
    fn unload(&mut self, context: &mut Context<'_>, Unload { model, gpu, at }: Unload) {
        let held = &mut self.holds[gpu.index()];
        let before = held.len();
        held.retain(|one| one.model != model || !one.ready);
        // What happens in one moment has no order: the GPU may have been lost just after.
        let lost = context.lost[gpu.index()].iter().any(|&(lost, _)| lost == at);
        if held.len() == before && !lost {
            let name = &context.instance.models[model].name;
            let message = format!("`{name}` is unloaded at {}, but is not loaded there", s(at));
            context.report(Code::Unload, Place::default().on(gpu.0), message);
        }
    }

    /// An execution ended: its model has been of use on these GPUs.
    fn executed(&mut self, context: &Context<'_>, index: u32) {
        let one = &context.log.executions[index as usize];
        let model = context.instance.model_of(one.task);
        let held = self.holds[one.gpus.range()].iter_mut().flatten();
        held.filter(|held| held.model == model).for_each(|held| held.has_executed = true);
    }

    /// An execution without a load: its model must be there, or cost nothing to bring in.
    fn execute(&mut self, context: &mut Context<'_>, index: u32) {
        let one = &context.log.executions[index as usize];
        let model = context.instance.model_of(one.task);
        let there = |held: &Vec<Held>| held.iter().any(|one| one.model == model && one.ready);
        if one.evicted.is_empty() && self.holds[one.gpus.range()].iter().all(there) {
            return;
        }
        let cost = self.cost(context, model, one.gpus, &one.evicted);
        let unready = |held: &Vec<Held>| held.iter().any(|one| one.model == model && !one.ready);
        if cost.micros > TOLERANCE || self.holds[one.gpus.range()].iter().any(unready) {
            let without = one.gpus.iter().find(|gpu| !there(&self.holds[gpu.index()]));
            let place =
                without.map_or(context.place(index as usize), |gpu| context.place(index as usize).on(gpu.0));
            let name = &context.instance.models[model].name;
            let message = format!("`{name}` is not loaded, and loading it costs {}", seconds(cost.micros));
            context.report(Code::SwitchMissing, place, message);
        }
        let (gpus, evicted, place) = (one.gpus, &*one.evicted, Where::Execution(index));
        let bring = Bring { model, gpus, start: one.start, end: one.start, cut_short: false, evicted, place };
        self.evict(context, &bring);
        self.put(context, &bring, true);
    }

    /// Takes off what has to go: what the load names, and under `single` everything else.
    fn evict(&mut self, context: &mut Context<'_>, bring: &Bring<'_>) {
        let models = &context.instance.models;
        let holds = &mut self.holds[bring.gpus.range()];
        // What happens in one moment has no order: a GPU may have been lost just after the load began, and with it what it held.
        let lost = |gpu: GpuId| context.lost[gpu.index()].iter().any(|&(lost, _)| lost == bring.start);
        let is_lost = bring.cut_short && bring.start == bring.end && bring.gpus.iter().any(lost);
        for &evicted in bring.evicted {
            let there = is_lost || holds.iter().flatten().any(|one| one.model == evicted);
            if !there || evicted == bring.model {
                let why = if there { "the model that it loads" } else { "which is not on its GPUs" };
                let message = format!("the load evicts `{}`, {why}", models[evicted].name);
                context.report(Code::Evicted, bring.at(context), message);
            }
        }
        let single = context.instance.cluster.residency == Residency::Single;
        for held in holds {
            held.retain(|one| one.model == bring.model || !(single || bring.evicted.contains(&one.model)));
        }
    }

    fn put(&mut self, context: &mut Context<'_>, bring: &Bring<'_>, ready: bool) {
        let (cluster, models) = (&context.instance.cluster, &context.instance.models);
        let mut full = None;
        for gpu in bring.gpus.iter() {
            let held = &mut self.holds[gpu.index()];
            let before = held.iter().copied().find(|one| one.model == bring.model);
            held.retain(|one| one.model != bring.model);
            let has_executed = before.is_some_and(|one| one.has_executed);
            held.push(Held { model: bring.model, ready, has_executed });
            let sizes = held.iter().map(|one| megabytes(&models[one.model]));
            let used = sizes.fold(0u64, u64::saturating_add);
            let over =
                cluster.residency == Residency::Memory && used > whole_megabytes(cluster.gpu_memory_gb);
            full = full.or(over.then_some((gpu, used)));
        }
        if let Some((gpu, used)) = full {
            let place = bring.at(context).on(gpu.0);
            let (used, has) = (used as f64 / 1000.0, cluster.gpu_memory_gb);
            context.report(Code::Memory, place, format!("models of {used} GB on a GPU of {has} GB"));
        }
    }

    /// Notes what the models on these GPUs weigh from now on.
    fn weigh(&mut self, context: &Context<'_>, at: Time, gpus: Gpus) {
        for gpu in gpus.range() {
            let sizes = self.holds[gpu].iter().map(|one| megabytes(&context.instance.models[one.model]));
            let used = sizes.fold(0u64, u64::saturating_add);
            self.loads.weights[gpu].push((at, used));
        }
    }

    fn cost(&self, context: &Context<'_>, model: ModelId, gpus: Gpus, evicted: &[ModelId]) -> Cost {
        let (cluster, models) = (&context.instance.cluster, &context.instance.models);
        let single = cluster.residency == Residency::Single;
        let new = &models[model];
        let (mut largest, mut there, mut replaces) = (0.0f64, true, !single && !evicted.is_empty());
        for held in &self.holds[gpus.range()] {
            let leaves = |one: &&Held| one.model != model && (single || evicted.contains(&one.model));
            let unused = held.iter().filter(leaves).any(|one| !one.has_executed);
            let mut old = held.iter().filter(leaves).map(|one| &models[one.model]).peekable();
            let has = held.iter().any(|one| one.model == model);
            there &= has;
            let taken_off = old.peek().is_some();
            replaces |= single && taken_off;
            if !has {
                largest = largest.max(gpu_cost(cluster, new, taken_off.then(|| old.collect())));
                // What has executed nothing since it came does not make the next load cheaper than onto an empty GPU.
                largest = largest.max(if unused { new.load_seconds } else { 0.0 });
            }
        }
        Cost { micros: (largest * 1e6).round() as u64, there, replaces }
    }
}

struct Cost {
    micros: u64,
    there: bool,
    replaces: bool,
}

/// What one GPU pays, in seconds: `old` is what leaves it, `None` where nothing does.
fn gpu_cost(cluster: &Cluster, new: &Model, old: Option<Vec<&Model>>) -> f64 {
    let switch = &cluster.switch;
    let gb = |old: &[&Model]| old.iter().map(|model| model.memory_gb).sum::<f64>();
    match (old, switch.rule) {
        (None, _) => new.load_seconds,
        (Some(old), SwitchRule::Transfer) => {
            (gb(&old) + new.memory_gb) / switch.pcie_gb_per_s + switch.overhead_seconds
        }
        (Some(old), SwitchRule::LoadTime) => new.load_seconds + gb(&old) / switch.pcie_gb_per_s,
        (Some(old), SwitchRule::Measured) => {
            new.load_seconds + old.iter().map(|model| model.unload_seconds).sum::<f64>()
        }
    }
}

/// Weights on each of a model's GPUs.
pub(super) fn megabytes(model: &Model) -> u64 {
    whole_megabytes(model.memory_gb / f64::from(model.gpus.max(1)))
}

pub(super) fn whole_megabytes(gb: f64) -> u64 {
    (gb * 1000.0).ceil() as u64
}

impl Bring<'_> {
    fn at(&self, context: &Context<'_>) -> Place {
        match self.place {
            Where::Execution(index) => context.place(index as usize),
            Where::Load(index) => context.load_place(index as usize),
        }
    }
}
