//! The loads of a log, and which of them replaced another model.

use crate::id::{Gpus, ModelId};
use crate::instance::{Instance, Residency};
use crate::log::{ExecutionLog, Status, Unload};
use crate::time::{Span, Time};

/// A load, for an execution or ahead of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Loaded {
    pub start: Time,
    pub end: Time,
    pub gpus: Gpus,
    pub model: ModelId,
    /// A lost GPU or a failure cut it short.
    pub cut_short: bool,
    /// It replaced another model; else it was a cold load.
    pub switch: bool,
    /// No execution waited for it to end.
    pub ahead: bool,
}

impl Loaded {
    pub fn length(&self) -> Span {
        self.end.since(self.start)
    }
}

/// All loads, by start.
pub(super) fn loads(instance: &Instance, log: &ExecutionLog) -> Vec<Loaded> {
    let for_executions = log.executions.iter().filter(|one| one.switch.0 > 0).map(|one| Loaded {
        start: Time(one.start.0.saturating_sub(one.switch.0)),
        end: one.start,
        gpus: one.gpus,
        model: instance.model_of(one.task),
        cut_short: one.status != Status::Completed && one.start == one.end,
        switch: !one.evicted.is_empty(),
        ahead: false,
    });
    let ahead = log.loads.iter().map(|one| Loaded {
        start: one.start,
        end: one.end,
        gpus: one.gpus,
        model: one.model,
        cut_short: one.status != Status::Completed,
        switch: !one.evicted.is_empty(),
        ahead: true,
    });
    let mut all: Vec<Loaded> = for_executions.chain(ahead).collect();
    // What ended in the moment in which it began makes way for what goes on; else the log's order is kept, as the check does.
    all.sort_by_key(|load| (load.start, load.end));
    if instance.cluster.residency == Residency::Single {
        tell_switches(instance, log, &mut all);
    }
    all
}

/// With one model a GPU the log need not say what a load took off: it follows from the loads before.
fn tell_switches(instance: &Instance, log: &ExecutionLog, all: &mut [Loaded]) {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Cut(u32),
        Lost(u32),
        Unload(u32),
        Load(u32),
        // A model that costs nothing to load leaves no load behind, only its execution.
        Execute(u32),
    }
    let mut events: Vec<(Time, Event)> = Vec::new();
    for (number, load) in (0..).zip(&*all) {
        events.push((load.start, Event::Load(number)));
        if load.cut_short && load.end > load.start {
            events.push((load.end, Event::Cut(number)));
        }
    }
    events.extend(log.losses.iter().map(|loss| (loss.at, Event::Lost(loss.gpu.0))));
    events.extend((0..).zip(&log.unloads).map(|(number, one)| (one.at, Event::Unload(number))));
    let free = |gb: f64| gb <= 0.0 && instance.cluster.switch.overhead_seconds <= 0.0;
    if instance.models.iter().any(|model| model.load_seconds < 1e-6 || free(model.memory_gb)) {
        let starts =
            log.executions.iter().enumerate().filter(|(_, one)| one.switch.0 == 0 && one.end > one.start);
        events.extend(starts.map(|(index, one)| (one.start, Event::Execute(index as u32))));
    }
    events.sort_unstable();
    let mut holds: Vec<Option<ModelId>> = vec![None; instance.cluster.gpus as usize];
    instance.start.resident.iter().for_each(|&(gpu, model)| holds[gpu.index()] = Some(model));
    let fill = |holds: &mut [Option<ModelId>], gpus: Gpus, model| {
        holds.get_mut(gpus.range()).into_iter().for_each(|window| window.fill(model));
    };
    for (_, event) in events {
        match event {
            Event::Cut(number) => fill(&mut holds, all[number as usize].gpus, None),
            Event::Lost(gpu) => holds.get_mut(gpu as usize).into_iter().for_each(|held| *held = None),
            Event::Unload(number) => {
                let Unload { gpu, model, .. } = log.unloads[number as usize];
                let held = holds.get_mut(gpu.index()).filter(|held| **held == Some(model));
                held.into_iter().for_each(|held| *held = None);
            }
            Event::Load(number) => {
                let load = &mut all[number as usize];
                let window = holds.get(load.gpus.range()).unwrap_or_default();
                load.switch = window.iter().flatten().any(|&held| held != load.model);
                // One that was cut short as it began leaves nothing: its end comes before whatever else begins here now.
                let brought = (!load.cut_short || load.end > load.start).then_some(load.model);
                fill(&mut holds, load.gpus, brought);
            }
            Event::Execute(index) => {
                let one = &log.executions[index as usize];
                fill(&mut holds, one.gpus, Some(instance.model_of(one.task)));
            }
        }
    }
}
