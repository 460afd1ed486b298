//! The replicas of a deployment, found by model, by server and by GPU.

use crate::id::{GpuId, Gpus, IdVec, ModelId, WorkflowId};
use crate::instance::Instance;
use std::ops::Range;

/// A model on its GPUs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Replica {
    pub model: ModelId,
    pub server: u32,
    pub gpus: Gpus,
}

/// All replicas; they go by their place in the list.
pub(super) struct Replicas {
    /// In order of model, server and GPU.
    pub all: Vec<Replica>,
    pub servers: u32,
    of_model: IdVec<ModelId, Range<usize>>,
    on: IdVec<GpuId, Vec<u32>>,
    /// Of each server, the replicas on several GPUs.
    wide: Vec<Vec<u32>>,
    /// Servers that can finish each workflow; worked out when first asked for.
    able: IdVec<WorkflowId, Option<Vec<u32>>>,
}

impl Replicas {
    pub fn new(instance: &Instance, replicas: impl Iterator<Item = (ModelId, Gpus)>) -> Replicas {
        let cluster = &instance.cluster;
        let replica = |(model, gpus): (ModelId, Gpus)| {
            let server = cluster.server_of(gpus.first.0);
            Replica { model, server, gpus }
        };
        let mut all: Vec<Replica> = replicas.map(replica).collect();
        all.sort_unstable();
        all.dedup();
        let range = |model: ModelId| {
            all.partition_point(|one| one.model < model)..all.partition_point(|one| one.model <= model)
        };
        let of_model = instance.models.keys().map(range).collect();
        let mut on: IdVec<GpuId, Vec<u32>> = vec![Vec::new(); cluster.gpus as usize].into();
        for (at, replica) in (0..).zip(&all) {
            replica.gpus.iter().for_each(|gpu| on[gpu].push(at));
        }
        let mut wide = vec![Vec::new(); cluster.servers() as usize];
        for (at, replica) in (0..).zip(&all).filter(|(_, replica)| replica.gpus.count > 1) {
            wide[replica.server as usize].push(at);
        }
        let able = vec![None; instance.workflows.len()].into();
        Replicas { of_model, on, wide, able, servers: cluster.servers(), all }
    }

    pub fn of_model(&self, model: ModelId) -> Range<usize> {
        self.of_model[model].clone()
    }

    /// The replicas of a model on one server.
    pub fn on_server(&self, model: ModelId, server: u32) -> Range<usize> {
        let range = self.of_model(model);
        if self.servers == 1 {
            return range;
        }
        let list = &self.all[range.clone()];
        let from = list.partition_point(|one| one.server < server);
        let to = list.partition_point(|one| one.server <= server);
        range.start + from..range.start + to
    }

    /// The replicas that a GPU is part of.
    pub fn on_gpu(&self, gpu: GpuId) -> &[u32] {
        &self.on[gpu]
    }

    /// The replicas of a server that are on several GPUs.
    pub fn wide(&self, server: u32) -> &[u32] {
        &self.wide[server as usize]
    }

    /// The servers that hold every model of a workflow.
    pub fn able(&mut self, instance: &Instance, workflow: WorkflowId) -> &[u32] {
        if self.able[workflow].is_none() {
            let models = &instance.workflows[workflow].models;
            let rarest = models.iter().copied().min_by_key(|&model| self.of_model[model].len());
            let servers = rarest.into_iter().flat_map(|model| &self.all[self.of_model(model)]);
            let mut servers: Vec<u32> = servers.map(|one| one.server).collect();
            servers.dedup();
            servers.retain(|&server| models.iter().all(|&model| !self.on_server(model, server).is_empty()));
            self.able[workflow] = Some(servers);
        }
        self.able[workflow].as_deref().unwrap_or_default()
    }
}
