//! The file that says which servers there are.

use crate::backend::Emulated;
use crate::clock::Clock;
use crate::fleet::{Fleet, Member};
use gswarm_core::{Gpus, Instance};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The servers of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendsFile {
    /// In order of preference, where several could serve.
    pub backends: Vec<BackendSpec>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendSpec {
    /// What people call it; its kind where none is given.
    #[serde(default)]
    pub name: Option<String>,
    /// What sort of server it is.
    pub kind: Kind,
    /// Its GPUs, as the cluster numbers them: `3`, or `0-7`; all of them where none are given.
    #[serde(default)]
    pub gpus: Option<String>,
    /// The models that it serves, each with the name it has there; all of them, under their own names, where none are
    /// given.
    #[serde(default)]
    pub models: BTreeMap<String, String>,
    /// Of `emulated`: how many times as fast as the clock on the wall.
    #[serde(default)]
    pub speed: Option<f64>,
}

/// The sorts of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Takes its time, and nothing else.
    Emulated,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Emulated => "emulated",
        }
    }
}

impl BackendsFile {
    /// A cluster that exists only in time.
    #[must_use]
    pub fn emulated(speed: f64) -> BackendsFile {
        let (name, gpus, models) = (None, None, BTreeMap::new());
        BackendsFile {
            backends: vec![BackendSpec { name, kind: Kind::Emulated, gpus, models, speed: Some(speed) }],
        }
    }

    /// The clock that a run on these servers goes by.
    pub fn clock(&self) -> Result<Clock, Vec<String>> {
        let speeds: Vec<f64> = self.backends.iter().map(|backend| backend.speed.unwrap_or(1.0)).collect();
        let mut faults = Vec::new();
        for (spec, &speed) in self.backends.iter().zip(&speeds) {
            if !(speed.is_finite() && speed > 0.0 && speed <= 1e6) {
                faults.push(format!(
                    "{}: a speed of {speed} makes no sense; give one above 0, of 1,000,000 at most",
                    spec.title()
                ));
            }
        }
        let first = speeds.first().copied().unwrap_or(1.0);
        if speeds.iter().any(|&speed| speed != first) {
            faults.push(
                "all servers of a run go by the same clock: give all of them the same speed".to_owned(),
            );
        }
        if faults.is_empty() { Ok(Clock::at_speed(first)) } else { Err(faults) }
    }

    /// The servers, ready to be called; all that does not fit the problem is said at once.
    pub fn fleet(&self, instance: &Instance, clock: &Clock) -> Result<Fleet, Vec<String>> {
        let mut faults = Vec::new();
        let mut members = Vec::new();
        for spec in &self.backends {
            let gpus = spec
                .gpus
                .as_deref()
                .map_or(Ok(Gpus::new(0, instance.cluster.gpus)), |text| gpus_of(text, instance.cluster.gpus));
            let mut models = Vec::new();
            for name in spec.models.keys() {
                match instance.models.iter().position(|model| model.name == *name) {
                    Some(model) => models.push(model.into()),
                    None => faults.push(format!("{}: there is no model `{name}`", spec.title())),
                }
            }
            match gpus {
                Ok(gpus) => members.push(Member {
                    name: spec.title(),
                    backend: spec.connect(instance, clock),
                    gpus,
                    models: (!spec.models.is_empty()).then_some(models),
                }),
                Err(why) => faults.push(format!("{}: {why}", spec.title())),
            }
        }
        let fleet = Fleet::new(members);
        if faults.is_empty() {
            faults.extend(unserved(instance, &fleet));
        }
        if faults.is_empty() { Ok(fleet) } else { Err(faults) }
    }
}

impl BackendSpec {
    fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.kind.name().to_owned())
    }

    fn connect(&self, instance: &Instance, clock: &Clock) -> Arc<dyn crate::backend::Backend> {
        match self.kind {
            Kind::Emulated => {
                let slowdown = instance.models.iter().map(|model| model.slowdown.clone()).collect();
                Arc::new(Emulated::new(clock.clone(), slowdown))
            }
        }
    }
}

/// Models that are used, and windows of theirs, that no server serves.
fn unserved(instance: &Instance, fleet: &Fleet) -> Vec<String> {
    let used = |model| instance.task_ids().any(|task| instance.model_of(task) == model);
    let models = instance.models.iter_enumerated().filter(|&(model, _)| used(model));
    let missing = models.filter_map(|(id, model)| {
        let mut windows = model.windows().map(|gpus| crate::backend::Replica { model: id, gpus });
        let window = windows.find(|&replica| fleet.serves(replica).is_none())?;
        Some(format!("no server serves `{}` on GPUs {}", model.name, window.gpus))
    });
    missing.collect()
}

fn gpus_of(text: &str, all: u32) -> Result<Gpus, String> {
    let usage = || format!("GPUs `{text}`: give one, as 3, or a range, as 0-7");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first: u32 = first.trim().parse().map_err(|_| usage())?;
    let last: u32 = last.trim().parse().map_err(|_| usage())?;
    if last < first {
        return Err(usage());
    }
    if last >= all {
        return Err(format!("GPUs `{text}`: the cluster has {all}, numbered from 0"));
    }
    Ok(Gpus::new(first, last - first + 1))
}
