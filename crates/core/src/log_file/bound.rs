//! The witness of a lower bound, as files carry it.

use serde::{Deserialize, Serialize};

/// Why a lower bound holds: the argument's name, and the figures from which anyone can reckon it again. Names are those of
/// the inputs, times are seconds. A new argument is a variant here, a line in `bound/claim.rs` that fills it, and a function
/// in `check/bounds` that recomputes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "argument", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)] // The fields are those of docs/planning.md.
pub enum BoundClaim {
    /// All work, spread evenly over all GPUs.
    Area { gpus: u32, work_gpu_seconds: f64 },
    /// The same, plus the GPU-time that every shorter schedule spends without executing.
    Switching { gpus: u32, work_gpu_seconds: f64, loading_gpu_seconds: f64 },
    /// All work, plus what GPUs lose on their way from model to model, proved by what each leaving and entering is worth.
    Visits {
        gpus: u32,
        work_gpu_seconds: f64,
        lost_gpu_seconds: f64,
        begin_seconds: f64,
        end_seconds: f64,
        prices: Vec<VisitPrice>,
    },
    /// All work, where a node shares its GPUs only as far as its request leaves it time to.
    Pace { gpus: u32, work_gpu_seconds: f64, idle_gpu_seconds: f64 },
    /// A chain of one request, behind the least that comes before it.
    Path { request_id: String, node_ids: Vec<String>, head_seconds: f64 },
    /// The nodes of one model with at least this before them and at least that behind them, on its replicas.
    Replicas {
        model_name: String,
        replicas: u64,
        least_head_seconds: f64,
        least_tail_seconds: f64,
        total_seconds: f64,
    },
}

/// The prices of a visit to a model in the proof of a bound by visits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The fields are those of docs/planning.md.
pub struct VisitPrice {
    pub model_name: String,
    /// GPUs that visit it at the least.
    pub visits: u64,
    pub leave_seconds: f64,
    pub enter_seconds: f64,
}

impl BoundClaim {
    /// The name of the argument.
    #[must_use]
    pub fn argument(&self) -> &'static str {
        match self {
            BoundClaim::Area { .. } => "area",
            BoundClaim::Switching { .. } => "switching",
            BoundClaim::Visits { .. } => "visits",
            BoundClaim::Pace { .. } => "pace",
            BoundClaim::Path { .. } => "path",
            BoundClaim::Replicas { .. } => "replicas",
        }
    }
}

/// A bound on the makespan and why it holds, as files carry them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoundRecord {
    /// No schedule is shorter.
    pub seconds: f64,
    /// Why.
    pub witness: BoundClaim,
}
