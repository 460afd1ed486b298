//! Deployments and their differences as text.

use crate::output::{count, heading, table::table};
use gswarm_core::deploy::file::{DemandUnit, DeploymentFile};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// GPUs that are listed one by one; of larger clusters only what all come to is shown.
const LISTED: u32 = 64;

/// Who is where, and what is expected of it.
pub fn text(file: &DeploymentFile) -> String {
    let mut text = String::new();
    let per = file.gpus_per_server.unwrap_or(file.gpus).max(1);
    let servers = file.gpus.div_ceil(per);
    let _ = writeln!(
        text,
        "{} in {}, {}\n",
        count(file.gpus.into(), "GPU"),
        count(servers.into(), "server"),
        made_for(file)
    );
    if file.gpus <= LISTED {
        let _ = writeln!(text, "{}\n", heading("GPUs"));
        let _ = writeln!(text, "{}\n", table(&["server", "GPU", "models", "load"], 3, gpus(file, per)));
    }
    let _ = writeln!(text, "{}\n", heading("Models"));
    let rows = file.models.iter().map(|(name, model)| {
        let servers: BTreeSet<u32> =
            model.replicas.iter().filter_map(|one| one.gpus.first()).map(|gpu| gpu / per).collect();
        let slots: u32 = model.replicas.iter().map(|one| one.slots.unwrap_or(1)).sum();
        let width = model.replicas.first().map_or(1, |one| one.gpus.len());
        vec![
            name.clone(),
            model.replicas.len().to_string(),
            width.to_string(),
            servers.len().to_string(),
            slots.to_string(),
        ]
    });
    let _ = writeln!(
        text,
        "{}",
        table(&["model", "replicas", "GPUs each", "servers", "executions at once"], 1, rows)
    );
    if let Some(predicted) = &file.predicted {
        let _ = write!(
            text,
            "\n{}\n\nThroughput           {} requests/s; no placement exceeds {} ({})\n\
             On one server        {:.1}% of requests\n\
             Edges across servers {:.2} for each request\n",
            heading("Expected"),
            predicted.requests_per_second,
            predicted.at_most,
            predicted.limited_by.name(),
            predicted.server_efficiency * 100.0,
            predicted.edges_across,
        );
    }
    text
}

fn made_for(file: &DeploymentFile) -> String {
    let Some(made_for) = &file.made_for else { return "made by hand".to_owned() };
    let total: f64 = made_for.workflows.values().sum();
    let workflows = count(made_for.workflows.len() as u64, "workflow");
    match made_for.unit {
        DemandUnit::Requests => format!("for {total} requests of {workflows}"),
        DemandUnit::PerSecond => format!("for {total:.4} requests a second of {workflows}"),
    }
}

fn gpus(file: &DeploymentFile, per: u32) -> Vec<Vec<String>> {
    let mut on: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (name, model) in &file.models {
        for replica in &model.replicas {
            let share = replica.traffic.map_or(String::new(), |traffic| format!(" {:.0}%", traffic * 100.0));
            for gpu in &replica.gpus {
                on.entry(*gpu).or_default().push(format!("{name}{share}"));
            }
        }
    }
    let load = |gpu: u32| file.predicted.as_ref()?.gpu_load.get(gpu as usize).copied();
    (0..file.gpus)
        .map(|gpu| {
            let models = on.remove(&gpu).unwrap_or_default().join(", ");
            let load = load(gpu).map_or(String::new(), |load| format!("{:.0}%", load * 100.0));
            vec![(gpu / per).to_string(), gpu.to_string(), models, load]
        })
        .collect()
}

/// What changes from one deployment to another.
#[derive(Serialize)]
pub struct DeploymentChanges {
    loads: Vec<ReplicaChange>,
    unloads: Vec<ReplicaChange>,
    stay: usize,
    server_efficiency: [Option<f64>; 2],
    requests_per_second: [Option<f64>; 2],
}

/// A replica that comes or goes.
#[derive(Serialize)]
struct ReplicaChange {
    model: String,
    gpus: Vec<u32>,
}

/// What changes from one deployment to another.
pub fn changes(first: &DeploymentFile, second: &DeploymentFile) -> DeploymentChanges {
    let all = |file: &DeploymentFile| -> BTreeSet<(String, Vec<u32>)> {
        let models = file.models.iter();
        models
            .flat_map(|(name, model)| model.replicas.iter().map(|one| (name.clone(), one.gpus.clone())))
            .collect()
    };
    let (before, after) = (all(first), all(second));
    let list = |one: &BTreeSet<(String, Vec<u32>)>, other: &BTreeSet<(String, Vec<u32>)>| {
        let only = one.difference(other).cloned();
        only.map(|(model, gpus)| ReplicaChange { model, gpus }).collect()
    };
    let predicted = [first, second].map(|file| file.predicted.as_ref());
    DeploymentChanges {
        loads: list(&after, &before),
        unloads: list(&before, &after),
        stay: before.intersection(&after).count(),
        server_efficiency: predicted.map(|one| one.map(|one| one.server_efficiency)),
        requests_per_second: predicted.map(|one| one.map(|one| one.requests_per_second)),
    }
}

/// As [`changes`], as text.
pub fn changes_text(changes: &DeploymentChanges) -> String {
    let mut text = format!(
        "{} to load, {} to unload, {} unchanged\n",
        changes.loads.len(),
        changes.unloads.len(),
        changes.stay
    );
    for (sign, list) in [("-", &changes.unloads), ("+", &changes.loads)] {
        for one in list {
            let gpus: Vec<String> = one.gpus.iter().map(u32::to_string).collect();
            let _ = writeln!(text, "{sign} {} on GPU {}", one.model, gpus.join(", "));
        }
    }
    if let [Some(before), Some(after)] = changes.requests_per_second {
        let _ = writeln!(text, "throughput {before} -> {after} requests/s");
    }
    if let [Some(before), Some(after)] = changes.server_efficiency {
        let _ = writeln!(text, "requests on one server {:.1}% -> {:.1}%", before * 100.0, after * 100.0);
    }
    text
}
