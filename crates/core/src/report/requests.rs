//! How requests fared: their latency, and how many servers they needed.

use crate::id::{RequestId, TaskId};
use crate::instance::Instance;
use crate::log::{ExecutionLog, Status};
use crate::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// What running on several servers meant.
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

/// The execution that gave each task's result.
pub(super) struct Results(Vec<u32>);

const NONE: u32 = u32::MAX;

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
