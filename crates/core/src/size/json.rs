//! The answer for programs.

use super::{Measure, Point, SizeQuestion, Sizing, Target, Verdict};
use serde::{Deserialize, Serialize};

/// The answer to a question of size, as `gswarm size --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeReport {
    /// What was to be kept.
    pub targets: Vec<TargetReport>,
    /// The policy.
    pub policy: String,
    /// `offline` or `online`.
    pub mode: String,
    /// `met`, `below_floor`, `beyond_limit` or `not_found`.
    pub verdict: String,
    /// The fewest GPUs that keep the targets.
    pub gpus: Option<u32>,
    /// Fewer GPUs that were not tried.
    pub untried_below: Option<u32>,
    /// What no number of GPUs goes below.
    pub floor_seconds: Option<f64>,
    /// The fewest GPUs that hold the models.
    pub fewest_that_hold_the_models: u32,
    /// The fewest GPUs that bounds do not rule out.
    pub fewest_not_ruled_out: u32,
    /// More GPUs than this are of no use. Streams have no such number.
    pub most_of_use: Option<u32>,
    /// The numbers that the search tried.
    pub tried: Vec<u32>,
    /// What came of each number of GPUs.
    pub points: Vec<Point>,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetReport {
    /// Of what.
    pub measure: Measure,
    /// Of this workflow's requests alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// At most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_seconds: Option<f64>,
    /// The share of deadlines that may be missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_missed: Option<f64>,
}

impl From<&Target> for TargetReport {
    fn from(target: &Target) -> TargetReport {
        let is_share = target.measure == Measure::Deadline;
        TargetReport {
            measure: target.measure,
            workflow: target.workflow.clone(),
            at_most_seconds: (!is_share).then_some(target.at_most),
            at_most_missed: is_share.then_some(target.at_most),
        }
    }
}

impl Sizing {
    /// The answer to a question for programs.
    #[must_use]
    pub fn report(&self, question: &SizeQuestion<'_>) -> SizeReport {
        let (verdict, gpus, untried_below, floor) = match &self.verdict {
            Verdict::Met { gpus, untried } => ("met", Some(*gpus), Some(*untried), None),
            Verdict::BelowFloor { floor, .. } => ("below_floor", None, None, Some(floor.seconds())),
            Verdict::BeyondLimit { .. } => ("beyond_limit", None, None, None),
            Verdict::NotFound => ("not_found", None, None, None),
        };
        SizeReport {
            targets: question.targets.iter().map(TargetReport::from).collect(),
            policy: question.policy.name().to_owned(),
            mode: question.mode.name().to_owned(),
            verdict: verdict.to_owned(),
            gpus,
            untried_below,
            floor_seconds: floor,
            fewest_that_hold_the_models: self.least_possible,
            fewest_not_ruled_out: self.least,
            most_of_use: (self.useful < u32::MAX).then_some(self.useful),
            tried: self.tried.clone(),
            points: self.points.clone(),
        }
    }
}
