//! The deployment of a static run as the published programs write it, beside the summary, for programs that read theirs.

use super::summary::DeploymentSummary;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What published logs of static runs have beside the summary.
#[derive(Serialize)]
pub(super) struct PublishedDeployment<'a> {
    gpu_assignments: BTreeMap<u32, PublishedGpu<'a>>,
    server_assignments: BTreeMap<u32, PublishedServer<'a>>,
    /// In percent.
    server_efficiency: f64,
    total_model_switches: u64,
}

#[derive(Serialize)]
struct PublishedGpu<'a> {
    server_id: u32,
    assigned_models: &'a [String],
    utilization: f64,
}

#[derive(Serialize)]
struct PublishedServer<'a> {
    gpu_ids: Vec<u32>,
    models: &'a [String],
}

impl<'a> PublishedDeployment<'a> {
    pub fn of(deployment: &'a DeploymentSummary, gpus: u32, per: Option<u32>, switches: u64) -> Self {
        let per = per.unwrap_or(gpus).max(1);
        let gpu = |(&gpu, models): (&u32, &'a Vec<String>)| {
            let utilization = deployment.utilisation.get(gpu as usize).copied().unwrap_or(0.0);
            (gpu, PublishedGpu { server_id: gpu / per, assigned_models: models, utilization })
        };
        let server = |(&server, models): (&u32, &'a Vec<String>)| {
            let gpu_ids = (server * per..(server * per).saturating_add(per).min(gpus)).collect();
            (server, PublishedServer { gpu_ids, models })
        };
        PublishedDeployment {
            gpu_assignments: deployment.gpu_assignments.iter().map(gpu).collect(),
            server_assignments: deployment.server_assignments.iter().map(server).collect(),
            server_efficiency: (deployment.server_efficiency * 1e4).round() / 1e2,
            total_model_switches: switches,
        }
    }
}

/// Brings a summary of the published shape into ours: only the models of each GPU and server, and efficiency as a share.
pub(super) fn into_ours(summary: &mut Map<String, Value>) {
    let mut is_published = false;
    for (name, list) in [("gpu_assignments", "assigned_models"), ("server_assignments", "models")] {
        let Some(Value::Object(entries)) = summary.get_mut(name) else { continue };
        for value in entries.values_mut() {
            if let Some(models) = value.get_mut(list).map(Value::take) {
                (*value, is_published) = (models, true);
            }
        }
    }
    if let (true, Some(percent)) = (is_published, summary.get("server_efficiency").and_then(Value::as_f64)) {
        summary.insert("server_efficiency".to_owned(), Value::from(percent / 100.0));
    }
    if let (false, Some(switches)) =
        (summary.contains_key("model_switches"), summary.remove("total_model_switches"))
    {
        summary.insert("model_switches".to_owned(), switches);
    }
}
