//! The answer of `gswarm advise` for programs and pages.

use super::{Point, TargetReport};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// How many GPUs, which policy and which deployment traffic needs, and what that rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdviceReport {
    /// What has to be kept.
    pub targets: Vec<TargetReport>,
    /// `met`, `below_floor` (no number of GPUs can) or `not_found` (none up to the limit does).
    pub verdict: String,
    /// The fewest GPUs that keep the targets, spare ones included.
    pub gpus: Option<u32>,
    /// What 5% of the traces, taken alone, need at most.
    pub gpus_low: Option<u32>,
    /// What 95% of the traces, taken alone, need at most. Absent where that is more than was tried.
    pub gpus_high: Option<u32>,
    /// The policy, with its parameters.
    pub policy: Option<Value>,
    /// `offline` or `online`.
    pub mode: String,
    /// So many times the traffic of the trace.
    pub traffic: f64,
    /// What may be lost, as the flag spells it; empty for nothing.
    pub spare: String,
    /// The seed of every draw.
    pub seed: u64,
    /// Traces that the answer rests on.
    pub traces: u32,
    /// Requests in the trace that was given.
    pub given_requests: u64,
    /// Requests of one trace, on average.
    pub requests_per_trace: f64,
    /// GPUs that the traffic keeps busy on average. Absent of a batch, or of few requests.
    #[serde(default)]
    pub load_gpus: Option<f64>,
    /// Half of the 95% confidence interval of that load, by the requests that were given. The answer is no better known.
    #[serde(default)]
    pub load_plus_minus: Option<f64>,
    /// The fewest GPUs that other requests of the same traffic are likely to ask for (95%), by the load and by the draws.
    #[serde(default)]
    pub known_low: Option<u32>,
    /// The most.
    #[serde(default)]
    pub known_high: Option<u32>,
    /// About as many requests as would tell the load to within one GPU.
    #[serde(default)]
    pub requests_for_one_gpu: Option<u64>,
    /// Seconds of warm-up that were cut off before the traces.
    pub warm_up_seconds: f64,
    /// Whether more traces would hardly change the answer.
    pub settled: bool,
    /// Every number of GPUs that was tried under the policy.
    pub points: Vec<TriedPoint>,
    /// The other policies, by what they give.
    pub policies: Vec<PolicyTried>,
    /// One long run with the answer.
    pub check: Option<LongCheck>,
    /// A permanent placement on the answer's GPUs: each model and the GPUs of its replicas.
    pub deployment: Vec<AdvisedPlacement>,
    /// The models of each GPU in it.
    pub gpu_assignments: BTreeMap<u32, Vec<String>>,
    /// Whether the policy `static`, which keeps to that placement, meets the targets on these GPUs.
    pub static_meets: Option<bool>,
    /// What it costs, where GPUs have a price.
    pub cost: Option<CostReport>,
    /// What no number of GPUs goes below, where a target is.
    pub floor: Option<FloorReport>,
    /// Where the time of the slowest requests goes, where no number of GPUs was found to do.
    pub slowest: Vec<TailPart>,
    /// What to know before trusting the answer.
    pub warnings: Vec<String>,
}

/// One number of GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedPoint {
    /// Traces that it rests on.
    pub traces: u32,
    /// What came of it.
    pub point: Point,
}

/// A policy on some numbers of GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyTried {
    /// The policy, with its parameters.
    pub policy: Value,
    /// The fewest GPUs with which it was found to keep the targets, if it was.
    pub gpus: Option<u32>,
    /// What came of each number.
    pub points: Vec<Point>,
}

/// One long run, drawn apart from all others, that checks the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongCheck {
    /// So many times as long as the trace.
    pub traces: u32,
    /// Requests that were measured.
    pub requests: u64,
    /// What each target's measure was: seconds, or a share.
    pub values: Vec<Option<f64>>,
    /// The same over the second half of the run: it grows where requests pile up.
    pub second_half: Vec<Option<f64>>,
    /// Whether both keep the targets.
    pub met: bool,
}

/// A model of the placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdvisedPlacement {
    /// The model.
    pub model: String,
    /// The GPUs of each replica.
    pub replicas: Vec<Vec<u32>>,
}

/// What GPUs cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostReport {
    /// Of one GPU, an hour.
    pub price: f64,
    /// Of all, an hour.
    pub per_hour: f64,
    /// For each thousand requests, where they keep coming.
    pub per_thousand_requests: Option<f64>,
}

/// What a target cannot go below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloorReport {
    /// The target.
    pub target: TargetReport,
    /// The least that its measure can be, on any number of GPUs.
    pub floor: f64,
    /// The workflow of most requests that decide it.
    pub workflow: String,
    /// Its longest path: each model and the seconds that it executes.
    pub path: Vec<(String, f64)>,
}

/// A part of what the slowest requests take, per request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TailPart {
    /// `executing`, `waiting`, `retrying` or `loading`.
    pub what: String,
    /// The model that is loaded.
    pub model: Option<String>,
    /// How long, on average.
    pub seconds: f64,
}
