//! The stated deployment of a static run: it has to be present and consistent.

use super::context::Context;
use super::switching::{Loads, megabytes, whole_megabytes};
use crate::instance::{Model, Residency};
use crate::log_file::Claims;
use crate::violation::{Place, ViolationCode as Code};
use std::collections::{BTreeMap, BTreeSet};

type Assignments = BTreeMap<u32, Vec<String>>;

pub(super) fn check(context: &mut Context<'_>, claims: &Claims, loads: &Loads) {
    // The published programs have a static policy of their own, with names of its own.
    if !context.schema {
        return;
    }
    let is_static = claims.policy.as_deref() == Some("static");
    let Some(given) = &claims.gpu_assignments else {
        if is_static {
            context.report(Code::Assignment, Place::default(), "a static run without `gpu_assignments`");
        }
        if claims.server_assignments.is_some() {
            let message = "`server_assignments` without `gpu_assignments`";
            context.report(Code::Assignment, Place::default(), message);
        }
        return;
    };
    names(context, given);
    servers(context, given, claims.server_assignments.as_ref());
    // A lost GPU's models may have to go elsewhere, and models that do not fit together take turns.
    if is_static && loads.switches > 0 && context.log.losses.is_empty() && fit(context, given) {
        let switches = loads.switches;
        let message = format!(
            "all models of this static run fit where they are assigned, but it has {switches} model switches"
        );
        context.report(Code::Assignment, Place::default(), message);
    }
}

fn model<'a>(context: &Context<'a>, name: &str) -> Option<&'a Model> {
    context.instance.models.iter().find(|model| model.name == name)
}

fn names(context: &mut Context<'_>, given: &Assignments) {
    for (&gpu, models) in given {
        if gpu >= context.instance.cluster.gpus {
            let place = Place::default().on(gpu);
            context.report(Code::Assignment, place, "gpu_assignments names a GPU that the run does not have");
        }
        for name in models.iter().filter(|name| model(context, name).is_none()).collect::<BTreeSet<_>>() {
            let message = format!("gpu_assignments names model `{name}`, which is not in the configuration");
            context.report(Code::Assignment, Place::default().on(gpu), message);
        }
    }
}

/// Each server has the models of its GPUs.
fn servers(context: &mut Context<'_>, given: &Assignments, said: Option<&Assignments>) {
    let Some(said) = said else {
        let message = "`gpu_assignments` without `server_assignments`";
        return context.report(Code::Assignment, Place::default(), message);
    };
    let cluster = &context.instance.cluster;
    let per = cluster.gpus_per_server.unwrap_or(cluster.gpus).max(1);
    let mut is: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for (gpu, models) in given.iter().filter(|(_, models)| !models.is_empty()) {
        is.entry(gpu / per).or_default().extend(models.iter().map(String::as_str));
    }
    let servers: BTreeSet<u32> = is.keys().chain(said.keys()).copied().collect();
    for server in servers {
        let said: BTreeSet<&str> = said.get(&server).into_iter().flatten().map(String::as_str).collect();
        let is = is.remove(&server).unwrap_or_default();
        if said != is {
            let list = |models: &BTreeSet<&str>| models.iter().copied().collect::<Vec<_>>().join(", ");
            let message = format!(
                "server_assignments gives server {server} [{}], but gpu_assignments gives it [{}]",
                list(&said),
                list(&is)
            );
            context.report(Code::Assignment, Place::default(), message);
        }
    }
}

/// Whether no GPU has more models than it can hold at once.
fn fit(context: &Context<'_>, given: &Assignments) -> bool {
    let cluster = &context.instance.cluster;
    given.values().all(|models| {
        let models: BTreeSet<&str> = models.iter().map(String::as_str).collect();
        match cluster.residency {
            Residency::Single => models.len() <= 1,
            Residency::Memory => {
                let used = models.iter().filter_map(|name| model(context, name)).map(megabytes);
                used.fold(0u64, u64::saturating_add) <= whole_megabytes(cluster.gpu_memory_gb)
            }
        }
    })
}
