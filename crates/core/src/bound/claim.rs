//! A bound as files carry it: by name, in seconds.

use super::{Bound, Price, Witness};
use crate::instance::Instance;
use crate::log_file::{BoundClaim, BoundRecord, VisitPrice};

impl Bound {
    /// The witness with the names of the inputs, for a file.
    #[must_use]
    pub fn claim(&self, instance: &Instance) -> BoundClaim {
        let seconds = |micros: u128| micros as f64 / 1e6;
        match &self.witness {
            &Witness::Area { work, gpus } => BoundClaim::Area { gpus, work_gpu_seconds: seconds(work) },
            &Witness::Switching { work, loading, gpus } => BoundClaim::Switching {
                gpus,
                work_gpu_seconds: seconds(work),
                loading_gpu_seconds: seconds(loading),
            },
            Witness::Visits { work, lost, gpus, begin, end, prices } => {
                let worth = |micros: i64| micros as f64 / 1e6;
                let price = |one: &Price| VisitPrice {
                    model_name: instance.models[one.model].name.clone(),
                    visits: one.visits,
                    leave_seconds: worth(one.leave),
                    enter_seconds: worth(one.enter),
                };
                BoundClaim::Visits {
                    gpus: *gpus,
                    work_gpu_seconds: seconds(*work),
                    lost_gpu_seconds: seconds(*lost),
                    begin_seconds: worth(*begin),
                    end_seconds: worth(*end),
                    prices: prices.iter().map(price).collect(),
                }
            }
            &Witness::Pace { work, idle, gpus } => {
                BoundClaim::Pace { gpus, work_gpu_seconds: seconds(work), idle_gpu_seconds: seconds(idle) }
            }
            Witness::Path { request, tasks, head } => {
                let node = |&task| instance.workflow_of(task).nodes[instance.node_of(task) as usize].clone();
                BoundClaim::Path {
                    request_id: instance.requests[*request].name.clone(),
                    node_ids: tasks.iter().map(node).collect(),
                    head_seconds: head.seconds(),
                }
            }
            &Witness::Replicas { model, replicas, least_head, least_tail, total } => BoundClaim::Replicas {
                model_name: instance.models[model].name.clone(),
                replicas,
                least_head_seconds: least_head.seconds(),
                least_tail_seconds: least_tail.seconds(),
                total_seconds: seconds(total),
            },
        }
    }

    /// The bound with its witness, for a file.
    #[must_use]
    pub fn record(&self, instance: &Instance) -> BoundRecord {
        BoundRecord { seconds: self.value.seconds(), witness: self.claim(instance) }
    }
}
