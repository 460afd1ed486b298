//! Unloads without a successor: the model must not have been in use.

use super::context::{Context, TOLERANCE, s};
use crate::id::{GpuId, ModelId};
use crate::time::Time;
use crate::violation::{Place, ViolationCode as Code};
use rustc_hash::FxHashMap;

/// What a model did on a GPU: when each piece of work began, and by when all that began until then had ended.
type Uses = FxHashMap<(GpuId, ModelId), Vec<(Time, Time)>>;

pub(super) fn check(context: &mut Context<'_>) {
    if context.log.unloads.is_empty() {
        return;
    }
    let uses = uses(context);
    for one in &context.log.unloads {
        let Some(uses) = uses.get(&(one.gpu, one.model)) else { continue };
        let begun = uses.partition_point(|&(start, _)| start.0.saturating_add(TOLERANCE) < one.at.0);
        let ends = begun.checked_sub(1).map(|last| uses[last].1);
        if let Some(end) = ends.filter(|end| one.at.0.saturating_add(TOLERANCE) < end.0) {
            let name = &context.instance.models[one.model].name;
            let message = format!("`{name}` is unloaded at {}, but is in use until {}", s(one.at), s(end));
            context.report(Code::Unload, Place::default().on(one.gpu.0), message);
        }
    }
}

fn uses(context: &Context<'_>) -> Uses {
    let (instance, log) = (context.instance, context.log);
    let mut uses = Uses::default();
    let executions = context.placed().map(|(_, one)| {
        let start = Time(one.start.0.saturating_sub(one.switch.0));
        (instance.model_of(one.task), one.gpus, start, one.end)
    });
    let loads = log.loads.iter().enumerate().filter(|&(index, _)| context.sound.loads[index]);
    let loads = loads.map(|(_, one)| (one.model, one.gpus, one.start, one.end));
    for (model, gpus, start, end) in executions.chain(loads) {
        for gpu in gpus.iter() {
            uses.entry((gpu, model)).or_default().push((start, end));
        }
    }
    for pieces in uses.values_mut() {
        pieces.sort_unstable();
        let mut latest = Time::ZERO;
        for (_, end) in pieces {
            latest = latest.max(*end);
            *end = latest;
        }
    }
    uses
}
