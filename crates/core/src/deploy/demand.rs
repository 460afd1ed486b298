//! What requests ask of models: the work of each model, and which models serve the same request.

use crate::id::{IdVec, ModelId, WorkflowId};
use crate::instance::{Instance, Model};

/// What the requests of one workflow ask for.
#[derive(Clone, Debug)]
pub struct WorkflowDemand {
    /// The workflow.
    pub workflow: WorkflowId,
    /// How many requests: in a batch or a sample their number, of a rate those of a second.
    pub requests: f64,
    /// Seconds that each of its models executes for them. A model on several GPUs is counted once.
    pub work: Vec<(ModelId, f64)>,
}

/// What requests ask of models: rates and mixes, no moments of arrival.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Workflows with requests.
    pub flows: Vec<WorkflowDemand>,
    /// Seconds that each model executes for all of them.
    pub work: IdVec<ModelId, f64>,
    /// Seconds that each node of each workflow takes on average, where anything is known of it.
    pub seconds: IdVec<WorkflowId, Vec<f64>>,
}

impl Model {
    /// What an execution costs a replica at best: one that batches does the work of several at once.
    #[must_use]
    pub fn share(&self) -> f64 {
        let shares = self.slowdown.iter().zip(1u32..);
        shares.map(|(&slow, batch)| f64::from(slow) / 1e6 / f64::from(batch)).fold(1.0, f64::min)
    }
}

impl Demand {
    /// What the requests of a problem ask for.
    #[must_use]
    pub fn of(instance: &Instance) -> Demand {
        let mut seconds: IdVec<WorkflowId, Vec<f64>> =
            instance.workflows.iter().map(|workflow| vec![0.0; workflow.nodes.len()]).collect();
        let mut counts = vec![0.0; instance.workflows.len()];
        for (id, request) in instance.requests.iter_enumerated() {
            counts[request.workflow.index()] += 1.0;
            for (sum, task) in seconds[request.workflow].iter_mut().zip(instance.tasks_of(id)) {
                *sum += instance.execution(task).seconds();
            }
        }
        for (seconds, &count) in seconds.iter_mut().zip(&counts) {
            seconds.iter_mut().for_each(|sum| *sum /= f64::max(count, 1.0));
        }
        let rates = counts.into_iter().enumerate().map(|(at, count)| (WorkflowId::from(at), count));
        Demand::of_rates(instance, rates, seconds)
    }

    /// What requests at these rates ask for, whose nodes take so many seconds each.
    #[must_use]
    pub fn of_rates(
        instance: &Instance,
        rates: impl Iterator<Item = (WorkflowId, f64)>,
        seconds: IdVec<WorkflowId, Vec<f64>>,
    ) -> Demand {
        let mut work: IdVec<ModelId, f64> = vec![0.0; instance.models.len()].into();
        let mut flows = Vec::new();
        for (workflow, requests) in rates.filter(|&(_, requests)| requests > 0.0) {
            let mut of_flow: Vec<(ModelId, f64)> = Vec::new();
            for (&model, &seconds) in instance.workflows[workflow].models.iter().zip(&seconds[workflow]) {
                let seconds = requests * seconds.max(1e-6) * instance.models[model].share();
                work[model] += seconds;
                match of_flow.iter_mut().find(|(known, _)| *known == model) {
                    Some((_, sum)) => *sum += seconds,
                    None => of_flow.push((model, seconds)),
                }
            }
            flows.push(WorkflowDemand { workflow, requests, work: of_flow });
        }
        Demand { flows, work, seconds }
    }

    /// Requests of all workflows.
    #[must_use]
    pub fn requests(&self) -> f64 {
        self.flows.iter().map(|flow| flow.requests).sum()
    }

    /// The models that are used.
    pub fn models(&self) -> impl Iterator<Item = ModelId> + '_ {
        self.work.iter_enumerated().filter(|&(_, &work)| work > 0.0).map(|(model, _)| model)
    }

    /// GPU-seconds of all requests.
    #[must_use]
    pub fn gpu_seconds(&self, instance: &Instance) -> f64 {
        self.models().map(|model| self.work[model] * f64::from(instance.models[model].gpus)).sum()
    }
}
