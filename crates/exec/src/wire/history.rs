//! What happened and what is under way: `GET /v1/history`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page of what happened, and what is under way now. Bars and happenings share one sequence of numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryPage {
    /// The number of the oldest that is kept.
    pub first: u64,
    /// The number of the latest.
    pub last: u64,
    /// Whether there is more behind this page.
    pub more: bool,
    /// What took time on GPUs and has ended.
    pub bars: Vec<Bar>,
    /// What takes time on GPUs now.
    pub ongoing: Vec<OngoingBar>,
    /// What happened at a moment.
    pub happenings: Vec<Happening>,
}

/// What a bar stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BarKind {
    /// An execution.
    Run,
    /// A load.
    Load,
}

/// An execution or a load that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bar {
    /// Its number.
    pub seq: u64,
    /// Execution or load.
    pub kind: BarKind,
    /// Where.
    pub gpus: Vec<u32>,
    /// The model.
    pub model: String,
    /// The request; none of a load.
    #[schema(required)]
    pub request: Option<String>,
    /// The node; none of a load.
    #[schema(required)]
    pub node: Option<String>,
    /// From.
    pub start: f64,
    /// To.
    pub end: f64,
    /// Whether it succeeded.
    pub ok: bool,
    /// Why not.
    #[schema(required)]
    pub why: Option<String>,
}

/// An execution or a load under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OngoingBar {
    /// Execution or load.
    pub kind: BarKind,
    /// Where.
    pub gpus: Vec<u32>,
    /// The model.
    pub model: String,
    /// The request; none of a load.
    #[schema(required)]
    pub request: Option<String>,
    /// The node; none of a load.
    #[schema(required)]
    pub node: Option<String>,
    /// From.
    pub start: f64,
    /// Always true: it has not failed yet.
    pub ok: bool,
    /// Always null.
    #[schema(required)]
    pub why: Option<String>,
    /// When it is expected to end.
    #[schema(required)]
    pub expected_end: Option<f64>,
}

/// What may happen at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HappeningKind {
    /// A model was unloaded to make room for another.
    Evicted,
    /// An execution or a load failed.
    Failed,
    /// A node is retried.
    Retried,
    /// A GPU does not answer.
    Lost,
    /// A GPU answers again.
    Back,
    /// A request was accepted.
    Accepted,
    /// A request was completed.
    Completed,
    /// A request was cancelled.
    Cancelled,
    /// A request was given up.
    GivenUp,
}

impl HappeningKind {
    /// As people read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HappeningKind::Evicted => "evicted",
            HappeningKind::Failed => "failed",
            HappeningKind::Retried => "retried",
            HappeningKind::Lost => "lost",
            HappeningKind::Back => "back",
            HappeningKind::Accepted => "accepted",
            HappeningKind::Completed => "completed",
            HappeningKind::Cancelled => "cancelled",
            HappeningKind::GivenUp => "given_up",
        }
    }
}

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Happening {
    /// Its number.
    pub seq: u64,
    /// When.
    pub t: f64,
    /// What.
    pub kind: HappeningKind,
    /// A sentence for people.
    pub text: String,
    /// The request that it is about.
    #[schema(required)]
    pub request: Option<String>,
    /// The model that it is about.
    #[schema(required)]
    pub model: Option<String>,
    /// The GPUs that it is about.
    pub gpus: Vec<u32>,
}
