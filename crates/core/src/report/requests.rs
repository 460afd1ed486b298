//! Request latencies, and the number of servers that requests used.

use super::stats::Stats;
use crate::id::{RequestId, TaskId};
use crate::instance::Instance;
use crate::log::{ExecutionLog, Status};
use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Metrics of runs on several servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerMetrics {
    /// Number of servers.
    pub servers: u32,
    /// Requests all of whose nodes ran on one server / requests.
    pub server_efficiency: f64,
    /// Completed requests that stayed on one server.
    pub intra_server_workflows: u64,
    /// Completed requests that did not.
    pub inter_server_workflows: u64,
    /// Workflow edges whose two ends ran on different servers.
    pub cross_server_communications: u64,
}

/// The requests of one workflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkflowMetrics {
    /// Its key in the configuration.
    pub workflow: String,
    /// Its requests.
    pub requests: u64,
    /// Of these, the ones that completed.
    pub completed_requests: u64,
    /// Requests with a deadline.
    pub requests_with_deadline: u64,
    /// Of these, the ones not completed in time.
    pub deadline_misses: u64,
    /// Of the completed requests.
    pub latency: Stats,
}

/// The execution that gave each task's result.
pub(super) struct Results(Vec<u32>);

const NONE: u32 = u32::MAX;

/// The latency of each request; `None` where it did not complete.
#[must_use]
pub fn request_latencies(instance: &Instance, log: &ExecutionLog) -> Vec<(RequestId, Option<Span>)> {
    Results::of(instance, log).latencies(instance, log).collect()
}

impl Results {
    pub fn of(instance: &Instance, log: &ExecutionLog) -> Results {
        let mut results = vec![NONE; instance.tasks()];
        for (index, one) in
            log.executions.iter().enumerate().filter(|(_, one)| one.status == Status::Completed)
        {
            results[one.task.index()] = index as u32;
        }
        Results(results)
    }

    fn get(&self, task: TaskId) -> Option<usize> {
        Some(self.0[task.index()]).filter(|&index| index != NONE).map(|index| index as usize)
    }

    /// Nodes that completed.
    pub fn nodes(&self) -> u64 {
        self.0.iter().filter(|&&index| index != NONE).count() as u64
    }

    /// When a request was done; `None` where some node never completed.
    pub fn end(&self, instance: &Instance, log: &ExecutionLog, request: RequestId) -> Option<Time> {
        instance.tasks_of(request).try_fold(Time::ZERO, |last, task| {
            self.get(task).map(|index| log.executions[index].end.max(last))
        })
    }

    /// The latency of each request that completed.
    pub fn latencies<'a>(
        &'a self,
        instance: &'a Instance,
        log: &'a ExecutionLog,
    ) -> impl Iterator<Item = (RequestId, Option<Span>)> + 'a {
        instance
            .requests
            .iter_enumerated()
            .map(move |(id, request)| (id, self.end(instance, log, id).map(|end| end.since(request.arrival))))
    }

    /// The workflows that have requests, in the order of the configuration.
    pub fn workflows(&self, instance: &Instance, log: &ExecutionLog) -> Vec<WorkflowMetrics> {
        let of = |name: &str| WorkflowMetrics { workflow: name.to_owned(), ..WorkflowMetrics::default() };
        let mut all: Vec<(WorkflowMetrics, Vec<Span>)> =
            instance.workflows.iter().map(|workflow| (of(&workflow.name), Vec::new())).collect();
        for (id, latency) in self.latencies(instance, log) {
            let request = &instance.requests[id];
            let (metrics, latencies) = &mut all[request.workflow.index()];
            metrics.requests += 1;
            if let Some(deadline) = request.deadline {
                metrics.requests_with_deadline += 1;
                metrics.deadline_misses += u64::from(latency.is_none_or(|latency| latency > deadline));
            }
            latencies.extend(latency);
        }
        let whole = |(metrics, latencies): (WorkflowMetrics, Vec<Span>)| WorkflowMetrics {
            completed_requests: latencies.len() as u64,
            latency: Stats::of(latencies),
            ..metrics
        };
        all.into_iter().filter(|(metrics, _)| metrics.requests > 0).map(whole).collect()
    }

    pub fn servers(&self, instance: &Instance, log: &ExecutionLog) -> ServerMetrics {
        let cluster = &instance.cluster;
        let server = |task: TaskId| {
            let gpus = log.executions[self.get(task)?].gpus;
            Some((
                cluster.server_of(gpus.first.0),
                cluster.server_of(gpus.first.0 + gpus.count.saturating_sub(1)),
            ))
        };
        let mut all = ServerMetrics { servers: cluster.servers(), ..ServerMetrics::default() };
        for request in instance.requests.keys() {
            let (mut completed, mut lowest, mut highest) = (true, u32::MAX, 0);
            for task in instance.tasks_of(request) {
                let Some((first, last)) = server(task) else {
                    completed = false;
                    continue;
                };
                (lowest, highest) = (lowest.min(first), highest.max(last));
                // A model over several servers is spoken to through its first GPU.
                let others =
                    instance.successors(task).filter_map(server).filter(|&(other, _)| other != first);
                all.cross_server_communications += others.count() as u64;
            }
            if completed {
                let one = lowest >= highest;
                *if one { &mut all.intra_server_workflows } else { &mut all.inter_server_workflows } += 1;
            }
        }
        all.server_efficiency = all.intra_server_workflows as f64 / (instance.requests.len().max(1)) as f64;
        all
    }
}
