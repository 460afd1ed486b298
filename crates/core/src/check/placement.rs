//! Models run on the right GPUs: the required number, consecutive, within one server if they fit, and none lost.

use super::context::{Context, TOLERANCE, s};
use crate::id::{Gpus, ModelId};
use crate::instance::Cluster;
use crate::log_file::Claims;
use crate::time::Time;
use crate::violation::{Place, ViolationCode as Code};
use rustc_hash::FxHashSet;

pub(super) fn check(context: &mut Context<'_>, claims: Option<&Claims>) {
    let log = context.log;
    let assigned = claims.and_then(|claims| assignments(context, claims));
    for (index, one) in log.executions.iter().enumerate() {
        if !context.sound.gpus[index] {
            continue;
        }
        let model = context.instance.model_of(one.task);
        if let Some((code, message)) = window(context, model, one.gpus) {
            context.at(code, index, message);
        }
        if !in_cluster(context, one.gpus) {
            context.sound.gpus[index] = false;
            continue;
        }
        if context.sound.times[index]
            && let Some((gpu, message)) =
                while_lost(context, one.gpus, Time(one.start.0.saturating_sub(one.switch.0)), one.end)
        {
            let place = context.place(index).on(gpu);
            context.report(Code::GpuLost, place, message);
        }
        if let Some(gpu) =
            assigned.as_ref().and_then(|given| one.gpus.iter().find(|gpu| !given.contains(&(gpu.0, model))))
        {
            let place = context.place(index).on(gpu.0);
            let message = format!("gpu_assignments does not give it model `{}`", context.model_name(index));
            context.report(Code::Assignment, place, message);
        }
    }
    for (index, one) in log.loads.iter().enumerate() {
        if !context.sound.loads[index] {
            continue;
        }
        let place = context.load_place(index);
        if let Some((code, message)) = window(context, one.model, one.gpus) {
            context.report(code, place.clone(), message);
        }
        if let Some(gpu) = assigned
            .as_ref()
            .and_then(|given| one.gpus.iter().find(|gpu| !given.contains(&(gpu.0, one.model))))
        {
            let name = &context.instance.models[one.model].name;
            let message = format!("gpu_assignments does not give it model `{name}`");
            context.report(Code::Assignment, place.clone().on(gpu.0), message);
        }
        if !in_cluster(context, one.gpus) || one.end < one.start {
            context.sound.loads[index] = false;
        } else if let Some((gpu, message)) = while_lost(context, one.gpus, one.start, one.end) {
            context.report(Code::GpuLost, place.on(gpu), message);
        }
    }
    for loss in &log.losses {
        if loss.gpu.0 >= context.instance.cluster.gpus {
            let place = Place::default().on(loss.gpu.0);
            context.report(Code::GpuUnknown, place, "a lost GPU is not part of the run");
        }
    }
    for unload in &log.unloads {
        if unload.gpu.0 >= context.instance.cluster.gpus {
            let place = Place::default().on(unload.gpu.0);
            context.report(Code::GpuUnknown, place, "the GPU of an unload is not part of the run");
        }
    }
}

fn in_cluster(context: &Context<'_>, gpus: Gpus) -> bool {
    gpus.count > 0
        && u64::from(gpus.first.0) + u64::from(gpus.count) <= u64::from(context.instance.cluster.gpus)
}

fn window(context: &Context<'_>, model: ModelId, gpus: Gpus) -> Option<(Code, String)> {
    let (cluster, model) = (&context.instance.cluster, &context.instance.models[model]);
    if gpus.count != model.gpus {
        let message =
            format!("it holds {} of the {} GPUs that `{}` needs", gpus.count, model.gpus, model.name);
        return Some((Code::GpuCount, message));
    }
    if !in_cluster(context, gpus) {
        let last = u64::from(gpus.first.0) + u64::from(gpus.count) - 1;
        return Some((Code::GpuUnknown, format!("GPUs {} to {last} are not all in the run", gpus.first.0)));
    }
    (!legal(cluster, gpus)).then(|| {
        let per = cluster.gpus_per_server.unwrap_or(cluster.gpus);
        (Code::GpuWindow, format!("GPUs {gpus} are not a legal window on servers of {per}"))
    })
}

/// Inside one server where the model fits into one, else from a server's first GPU on.
fn legal(cluster: &Cluster, gpus: Gpus) -> bool {
    let Some(per) = cluster.gpus_per_server.filter(|&per| per > 0) else { return true };
    let offset = gpus.first.0 % per;
    if gpus.count <= per { offset + gpus.count <= per } else { offset == 0 }
}

/// The first of the GPUs that was gone at some time between `begin` and `end`.
fn while_lost(context: &Context<'_>, gpus: Gpus, begin: Time, end: Time) -> Option<(u32, String)> {
    gpus.iter().find_map(|gpu| {
        let met = |&&(at, until): &&(Time, Time)| {
            end.0 > at.0.saturating_add(TOLERANCE) && begin.0.saturating_add(TOLERANCE) < until.0
        };
        let (at, _) = context.lost[gpu.index()].iter().find(met)?;
        Some((gpu.0, format!("it runs until {}, but the GPU was lost at {}", s(end), s(*at))))
    })
}

/// The (GPU, model) pairs of `gpu_assignments`. A lost GPU's models may have to go elsewhere, so then nothing is held
/// against it.
fn assignments(context: &Context<'_>, claims: &Claims) -> Option<FxHashSet<(u32, ModelId)>> {
    let given = claims.gpu_assignments.as_ref().filter(|_| context.log.losses.is_empty())?;
    let models = &context.instance.models;
    let named =
        |name: &String| models.iter_enumerated().find(|(_, model)| &model.name == name).map(|(id, _)| id);
    let pairs =
        given.iter().flat_map(|(&gpu, names)| names.iter().filter_map(named).map(move |id| (gpu, id)));
    Some(pairs.collect())
}
