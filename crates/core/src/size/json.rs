//! The answer for programs.

use super::{Question, Sizing, Verdict};
use serde_json::{Value, json};

impl Sizing {
    /// The answer to a question for programs.
    #[must_use]
    pub fn to_json(&self, question: &Question<'_>) -> Value {
        let targets: Vec<Value> = question
            .targets
            .iter()
            .map(|target| json!({"measure": target.measure, "at_most_seconds": target.at_most.seconds()}))
            .collect();
        let (gpus, untried, floor) = match &self.verdict {
            Verdict::Met { gpus, untried } => (Some(*gpus), Some(*untried), None),
            Verdict::BelowFloor { floor, .. } => (None, None, Some(floor.seconds())),
            Verdict::BeyondLimit { .. } | Verdict::NotFound => (None, None, None),
        };
        let verdict = match &self.verdict {
            Verdict::Met { .. } => "met",
            Verdict::BelowFloor { .. } => "below_floor",
            Verdict::BeyondLimit { .. } => "beyond_limit",
            Verdict::NotFound => "not_found",
        };
        json!({
            "targets": targets,
            "policy": question.policy.name(),
            "mode": question.mode.name(),
            "verdict": verdict,
            "gpus": gpus,
            "untried_below": untried,
            "floor_seconds": floor,
            "fewest_that_hold_the_models": self.least_possible,
            "fewest_not_ruled_out": self.least,
            "most_of_use": self.useful,
            "tried": self.tried,
            "points": self.points,
        })
    }
}
