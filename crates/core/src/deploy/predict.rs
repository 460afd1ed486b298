//! What a deployment makes of a demand: the load of each GPU, and which requests stay on one server.

use super::{Demand, WorkflowDemand};
use crate::id::{GpuId, Gpus, IdVec, ModelId};
use crate::instance::{Deployment, Instance};

/// Parts into which the requests of a workflow are cut, to be given to replicas one after the other.
const PARTS: usize = 32;

/// Most servers that are weighed for a part of a workflow: those with the least load.
const WEIGHED: usize = 12;

/// What a deployment makes of a demand.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// Seconds that each GPU is busy with all the requests of the demand.
    pub load: IdVec<GpuId, f64>,
    /// The highest of them.
    pub busiest: f64,
    /// Share of the requests that stay on one server.
    pub whole: f64,
    /// Edges of workflows between servers, for each request on average.
    pub edges_across: f64,
    /// Of each replica, the share of its model's work.
    pub traffic: Vec<f64>,
}

impl Outlook {
    /// Gives requests to replicas as the policy would, by load.
    #[must_use]
    pub fn of(instance: &Instance, demand: &Demand, deployment: &Deployment) -> Outlook {
        let mut routes = Routes::new(instance, deployment);
        let mut whole = 0.0;
        let mut across = 0.0;
        for _ in 0..PARTS {
            for flow in &demand.flows {
                let requests = flow.requests / PARTS as f64;
                if routes.give_whole(flow) {
                    whole += requests;
                } else {
                    across += requests * routes.give_apart(flow);
                }
            }
        }
        let all = demand.requests().max(1e-12);
        let busiest = routes.load.iter().copied().fold(0.0, f64::max);
        let traffic = routes.taken.iter().zip(&deployment.replicas);
        let traffic = traffic.map(|(&taken, &(model, _))| taken / demand.work[model].max(1e-12)).collect();
        Outlook { load: routes.load, busiest, whole: whole / all, edges_across: across / all, traffic }
    }
}

/// A replica: its server, its place in the deployment and its GPUs.
type Place = (u32, usize, Gpus);

struct Routes<'a> {
    instance: &'a Instance,
    load: IdVec<GpuId, f64>,
    /// Load of all GPUs of each server.
    of_server: Vec<f64>,
    /// Replicas of each model by server: place in the deployment, and GPUs.
    replicas: IdVec<ModelId, Vec<Place>>,
    /// Work that each replica was given.
    taken: Vec<f64>,
}

impl<'a> Routes<'a> {
    fn new(instance: &'a Instance, deployment: &Deployment) -> Routes<'a> {
        let cluster = &instance.cluster;
        let mut replicas: IdVec<ModelId, Vec<Place>> = vec![Vec::new(); instance.models.len()].into();
        for (at, &(model, gpus)) in deployment.replicas.iter().enumerate() {
            replicas[model].push((cluster.server_of(gpus.first.0), at, gpus));
        }
        replicas.iter_mut().for_each(|list| list.sort_unstable());
        Routes {
            instance,
            load: vec![0.0; cluster.gpus as usize].into(),
            of_server: vec![0.0; cluster.servers() as usize],
            replicas,
            taken: vec![0.0; deployment.replicas.len()],
        }
    }

    fn on(&self, model: ModelId, server: u32) -> &[Place] {
        let list = &self.replicas[model];
        let from = list.partition_point(|one| one.0 < server);
        let to = list.partition_point(|one| one.0 <= server);
        &list[from..to]
    }

    fn load_of(&self, gpus: Gpus) -> f64 {
        self.load.raw[gpus.range()].iter().copied().fold(0.0, f64::max)
    }

    fn least<'l>(&self, list: &'l [Place]) -> Option<&'l Place> {
        list.iter().min_by(|a, b| self.load_of(a.2).total_cmp(&self.load_of(b.2)))
    }

    fn add(&mut self, (server, at, gpus): Place, work: f64) {
        gpus.iter().for_each(|gpu| self.load[gpu] += work);
        self.of_server[server as usize] += work * f64::from(gpus.count);
        self.taken[at] += work;
    }

    /// Gives a part of a workflow to the server that holds all its models and has least to do then.
    fn give_whole(&mut self, flow: &WorkflowDemand) -> bool {
        let rarest =
            flow.work.iter().map(|&(model, _)| model).min_by_key(|&model| self.replicas[model].len());
        let Some(rarest) = rarest else { return true };
        let per = self.instance.cluster.gpus_per_server.unwrap_or(u32::MAX);
        if flow.work.iter().any(|&(model, _)| self.instance.models[model].gpus > per) {
            return false;
        }
        let mut servers: Vec<u32> = self.replicas[rarest].iter().map(|one| one.0).collect();
        servers.dedup();
        servers.retain(|&server| flow.work.iter().all(|&(model, _)| !self.on(model, server).is_empty()));
        servers.sort_by(|&a, &b| self.of_server[a as usize].total_cmp(&self.of_server[b as usize]));
        servers.truncate(WEIGHED);
        let mut best: Option<(f64, Vec<Place>)> = None;
        for server in servers {
            let mut given = Vec::with_capacity(flow.work.len());
            let mut highest: f64 = 0.0;
            for &(model, work) in &flow.work {
                let Some(&replica) = self.least(self.on(model, server)) else { continue };
                self.add(replica, work / PARTS as f64);
                highest = highest.max(self.load_of(replica.2));
                given.push(replica);
            }
            let undo = given.iter().zip(&flow.work);
            undo.for_each(|(&replica, &(_, work))| self.add(replica, -work / PARTS as f64));
            if best.as_ref().is_none_or(|(least, _)| highest < *least) {
                best = Some((highest, given));
            }
        }
        let Some((_, given)) = best else { return false };
        for (replica, &(_, work)) in given.into_iter().zip(&flow.work) {
            self.add(replica, work / PARTS as f64);
        }
        true
    }

    /// Gives each model's part to its replica with least to do; how many edges then join two servers.
    fn give_apart(&mut self, flow: &WorkflowDemand) -> f64 {
        let mut server_of: Vec<(ModelId, u32)> = Vec::new();
        for &(model, work) in &flow.work {
            let Some(&replica) = self.least(&self.replicas[model]) else { continue };
            self.add(replica, work / PARTS as f64);
            server_of.push((model, replica.0));
        }
        let workflow = &self.instance.workflows[flow.workflow];
        let server = |node: u32| {
            let model = workflow.models[node as usize];
            server_of.iter().find(|(of, _)| *of == model).map(|one| one.1)
        };
        let nodes = 0..workflow.nodes.len() as u32;
        let edges = nodes.flat_map(|node| workflow.successors(node).iter().map(move |&to| (node, to)));
        edges.filter(|&(from, to)| server(from) != server(to)).count() as f64
    }
}
