//! Servers placed and reached by Ray: gswarm decides, Ray places the processes and transports messages.
//!
//! Each server of the cluster is a bundle of GPUs in Ray, with one process that holds the models on them. All of them
//! share one [`Bridge`]. A server for which Ray has no GPUs at the moment does not answer, like any other that is out:
//! it is asked again, and used once its GPUs are there.

mod bridge;

pub use bridge::Bridge;

use crate::backend::{Backend, BackendError, LoadRecorder, LoadTime, WeightTier};

use crate::call::Call;
use crate::fleet::{Fleet, Member};
use crate::replica::{Replica, overlap};
use gswarm_core::instance::Cluster;
use gswarm_core::{Gpus, Span};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

/// One server of the cluster.
pub struct RayServer {
    bridge: Arc<Bridge>,
    /// The GPUs of all servers.
    servers: Vec<Gpus>,
    /// Its number.
    server: usize,
    record: LoadRecorder,
}

/// The GPUs of each server, in order; the last may have fewer than the others.
#[must_use]
pub fn servers(cluster: &Cluster) -> Vec<Gpus> {
    let all = cluster.gpus;
    let each = cluster.gpus_per_server.unwrap_or(all).clamp(1, all.max(1));
    (0..all).step_by(each as usize).map(|first| Gpus::new(first, each.min(all - first))).collect()
}

/// All servers of a cluster, over one bridge.
#[must_use]
pub fn fleet(bridge: &Arc<Bridge>, cluster: &Cluster, record: &LoadRecorder) -> Fleet {
    let all = servers(cluster);
    let member = |(server, &gpus): (usize, &Gpus)| Member {
        name: format!("server {server}"),
        backend: Arc::new(RayServer {
            bridge: Arc::clone(bridge),
            servers: all.clone(),
            server,
            record: Arc::clone(record),
        }),
        gpus,
        reach: cluster.gpus - gpus.first.0,
        models: None,
    };
    Fleet::new(all.iter().enumerate().map(member).collect())
}

impl RayServer {
    /// An order about a replica. A server counts its GPUs from 0. A model that is wider than a server is held by the first
    /// of its servers, and lost with any of them.
    fn order(&self, what: &str, Replica { model, gpus }: Replica) -> Value {
        let here = [gpus.first.0 - self.servers[self.server].first.0, gpus.count];
        let others = self.servers.iter().enumerate().skip(self.server + 1);
        let others = others.filter(|&(_, &other)| overlap(other, gpus));
        let others: Vec<usize> = others.map(|(number, _)| number).collect();
        json!({"op": what, "server": self.server, "with": others, "model": model.0, "gpus": here})
    }

    async fn timed(&self, load: bool, replica: Replica, order: Value) -> Result<(), BackendError> {
        let since = Instant::now();
        self.bridge.ask(order).await?;
        let (seconds, tier) = (since.elapsed().as_secs_f64(), WeightTier::Disk);
        (self.record)(&LoadTime { model: replica.model, gpus: replica.gpus, load, tier, seconds });
        Ok(())
    }
}

#[async_trait::async_trait]
impl Backend for RayServer {
    async fn load(&self, replica: Replica, expected: Span) -> Result<(), BackendError> {
        let mut order = self.order("load", replica);
        order["expected"] = json!(expected.0);
        self.timed(true, replica, order).await
    }

    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        self.timed(false, replica, self.order("unload", replica)).await
    }

    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        let mut order = self.order("call", replica);
        order["call"] = json!({
            "name": call.name,
            "inputs": call.inputs,
            "config": call.config,
            "kind": call.kind,
            "estimate": call.estimate.0,
        });
        self.bridge.ask(order).await
    }

    async fn answers(&self) -> bool {
        self.bridge.ask(json!({"op": "ping", "server": self.server})).await.is_ok()
    }

    async fn reset(&self) -> Result<(), BackendError> {
        self.bridge.start().await?;
        self.bridge.ask(json!({"op": "reset", "server": self.server})).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gswarm_core::input::ClusterSpec;

    #[test]
    fn the_last_server_may_be_smaller() {
        let spec = ClusterSpec { gpus: Some(10), gpus_per_server: Some(4), ..ClusterSpec::default() };
        let cluster = Cluster::from_spec(&spec).unwrap();
        assert_eq!(servers(&cluster), [Gpus::new(0, 4), Gpus::new(4, 4), Gpus::new(8, 2)]);
        let whole = Cluster { gpus_per_server: None, ..cluster };
        assert_eq!(servers(&whole), [Gpus::new(0, 10)]);
    }
}
