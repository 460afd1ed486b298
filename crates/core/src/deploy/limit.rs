//! What no placement can exceed: a bound on throughput by work, by replicas and by memory.

use super::Demand;
use crate::cost;
use crate::id::ModelId;
use crate::instance::Instance;

named! {
    /// What keeps the throughput down.
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum LimitedBy {
        /// All GPUs are busy all the time.
        Work = "work",
        /// A model is on as many GPUs as it can be.
        Replicas = "replicas",
        /// No more replicas fit into memory.
        Memory = "memory",
    }
}

/// A throughput that no placement exceeds. Every replica executes at most all the time, and a model on several GPUs takes all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThroughputLimit {
    /// How often all the requests of the demand can be finished in a second, at most.
    pub times_a_second: f64,
    /// Why.
    pub by: LimitedBy,
}

impl ThroughputLimit {
    /// The limit for a demand.
    #[must_use]
    pub fn of(instance: &Instance, demand: &Demand) -> ThroughputLimit {
        let gpus = f64::from(instance.cluster.gpus);
        let by_work = gpus / demand.gpu_seconds(instance).max(1e-12);
        let most = |model: ModelId| instance.models[model].tiles().len() as f64;
        let by_replicas = demand.models().map(|model| most(model) / demand.work[model]);
        let by_replicas = by_replicas.fold(f64::INFINITY, f64::min);
        let both = by_work.min(by_replicas);
        let by_memory = if fits(instance, demand, both) {
            f64::INFINITY
        } else {
            // Fits only shrink as throughput grows: halve the interval.
            let (mut low, mut high) = (0.0, both);
            for _ in 0..60 {
                let middle = (low + high) / 2.0;
                if fits(instance, demand, middle) { low = middle } else { high = middle }
            }
            high
        };
        let least = both.min(by_memory);
        let by = match () {
            () if by_memory <= both => LimitedBy::Memory,
            () if by_replicas < by_work => LimitedBy::Replicas,
            () => LimitedBy::Work,
        };
        ThroughputLimit { times_a_second: least, by }
    }
}

/// Whether the replicas that a throughput needs fit into all memory together.
fn fits(instance: &Instance, demand: &Demand, times_a_second: f64) -> bool {
    let needed = demand.models().map(|model| {
        let spec = &instance.models[model];
        let replicas = (times_a_second * demand.work[model] * (1.0 - 1e-9)).ceil().max(1.0);
        replicas * f64::from(spec.gpus) * spec.memory_per_gpu as f64
    });
    needed.sum::<f64>()
        <= f64::from(instance.cluster.gpus) * cost::megabytes(instance.cluster.gpu_memory_gb) as f64
}
