//! From a backends file to the servers of a run.

use crate::backend::{
    BackendSpec, BackendsFile, EmulatedSpec, LoadRecorder, Replica, ServerSpec, connect, gpu_range,
};
use crate::clock::Clock;
use crate::fleet::{Fleet, Member};
use gswarm_core::{Gpus, Instance, ModelId};

/// A cluster that exists only in time.
#[must_use]
pub fn emulated(speed: f64) -> BackendsFile {
    BackendsFile { backends: vec![BackendSpec::with(EmulatedSpec { speed })] }
}

/// The clock that a run on these servers goes by.
pub fn clock(file: &BackendsFile) -> Result<Clock, Vec<String>> {
    let mut speeds = file.backends.iter().map(|backend| match &backend.server {
        ServerSpec::Emulated(emulated) => emulated.speed,
        _ => 1.0,
    });
    let first = speeds.next().unwrap_or(1.0);
    if speeds.any(|speed| speed != first) {
        let why = "all servers of a run share one clock: give them the same speed";
        return Err(vec![format!("{why}; servers that are not emulated have speed 1")]);
    }
    Ok(Clock::at_speed(first))
}

/// The servers, ready to be called; all that does not fit the problem is said at once. `record` is told what loads take.
pub fn fleet(
    file: &BackendsFile,
    instance: &Instance,
    clock: &Clock,
    record: &LoadRecorder,
) -> Result<Fleet, Vec<String>> {
    let mut faults = Vec::new();
    let mut members = Vec::new();
    for spec in &file.backends {
        let title = spec.title();
        let mut models = Vec::new();
        for name in spec.models.keys() {
            match instance.models.iter().position(|model| model.name == *name) {
                Some(model) => models.push(model.into()),
                None => faults.push(format!("{title}: there is no model `{name}`")),
            }
        }
        let connected = gpus_of(spec, instance.cluster.gpus)
            .and_then(|gpus| Ok((gpus, connect(spec, gpus, instance, clock, record)?)));
        match connected {
            Ok((gpus, backend)) => {
                let models = (!spec.models.is_empty()).then_some(models);
                members.push(Member { name: title, backend, gpus, reach: gpus.count, models });
            }
            Err(why) => faults.push(format!("{title}: {why}")),
        }
    }
    let fleet = Fleet::new(members);
    if faults.is_empty() {
        let used = |model| instance.task_ids().any(|task| instance.model_of(task) == model);
        faults.extend(unserved(instance, &fleet, used));
    }
    if faults.is_empty() { Ok(fleet) } else { Err(faults) }
}

/// Models that are used, and windows of theirs, that no server serves.
pub fn unserved(instance: &Instance, fleet: &Fleet, used: impl Fn(ModelId) -> bool) -> Vec<String> {
    let models = instance.models.iter_enumerated().filter(|&(model, _)| used(model));
    let missing = models.filter_map(|(id, model)| {
        let mut windows = model.windows().map(|gpus| Replica { model: id, gpus });
        let window = windows.find(|&replica| fleet.serves(replica).is_none())?;
        Some(format!("no server serves `{}` on GPUs {}", model.name, window.gpus))
    });
    missing.collect()
}

fn gpus_of(spec: &BackendSpec, all: u32) -> Result<Gpus, String> {
    let Some(text) = &spec.gpus else { return Ok(Gpus::new(0, all)) };
    match gpu_range(text) {
        Some((first, last)) if last < all => Ok(Gpus::new(first, last - first + 1)),
        Some(_) => Err(format!("GPUs `{text}`: the cluster has {all}, numbered from 0")),
        None => Err(format!("GPUs `{text}`: give one, such as 3, or a range, such as 0-7")),
    }
}
