//! Where models are put for good: the analysis of demand, the search for a placement, its bound, and files of it.
//!
//! Requests should finish inside one server. So workflows are divided between servers first, and then the models of each server
//! between its GPUs. Where no server can hold a whole workflow, models are spread over all GPUs, near those that they occur with.

mod demand;
mod divide;
pub mod file;
mod limit;
mod pour;
mod predict;

pub use demand::{Demand, WorkflowDemand};
pub use limit::{LimitedBy, ThroughputLimit};
pub use predict::Outlook;

use crate::instance::{Deployment, Instance, Routing};
use std::sync::Arc;

/// The deployment of a problem: the one that was given with it, else one for the pattern of its requests.
#[must_use]
pub fn deploy(instance: &Instance) -> Arc<Deployment> {
    match &instance.deployment {
        Some(given) => Arc::clone(given),
        None => Arc::new(first(instance, &Demand::of(instance))),
    }
}

/// The best deployment for a demand by load alone, with requests whole on their servers where that costs little throughput.
#[must_use]
pub fn first(instance: &Instance, demand: &Demand) -> Deployment {
    candidates(instance, demand).into_iter().next().expect("without limits every model finds a place")
}

/// How much lower the throughput may be for requests that stay on one server.
const PRICE_OF_LOCALITY: f64 = 1.02;

/// Deployments that are worth trying, the most promising one first.
#[must_use]
pub fn candidates(instance: &Instance, demand: &Demand) -> Vec<Deployment> {
    let ground = pour::Ground::new(instance, demand);
    let spread = divide::spread(&ground);
    let fits = spread.is_some();
    let spread = spread.unwrap_or_else(|| pour::anyhow(&ground));
    if !fits || instance.cluster.servers() < 2 {
        return vec![Deployment { fits, routing: Routing::Whole, ..spread }];
    }
    let mut found: Vec<(f64, Deployment)> = Vec::new();
    let mut add = |deployment: Deployment| {
        if found.iter().all(|(_, other)| other.replicas != deployment.replicas) {
            let outlook = Outlook::of(instance, demand, &deployment);
            found.push((outlook.busiest, deployment));
        }
    };
    divide::alike(&ground).into_iter().for_each(&mut add);
    divide::divided(&ground).into_iter().for_each(&mut add);
    add(Deployment { routing: Routing::Spill, ..spread });
    let least = found.iter().map(|(busiest, _)| *busiest).fold(f64::INFINITY, f64::min);
    // They come in order of locality.
    let (near, far): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(busiest, _)| *busiest <= least * PRICE_OF_LOCALITY);
    near.into_iter().chain(far).map(|(_, deployment)| deployment).collect()
}
