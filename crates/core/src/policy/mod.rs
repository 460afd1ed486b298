//! All policies: the list of them, with their parameters, and how they are built. The rules are in [`crate::rules`], the planner in
//! [`crate::plan`].

mod registry;

pub use crate::engine::Policy;
pub use crate::plan::planned::{PlannedParams, carry_out, follow, follow_as, search};
pub use crate::plan::{Follow, FollowSteps};
pub use crate::rules::{
    Adaptive, AdaptiveParams, Balanced, Baseline, Batch, BuildContext, Deployment, Hybrid, Improved, Lru,
    NoParams, Objective, Offline, Online, OnlineParams, ParamFault, ParamInfo, ParamKind, ParamValues,
    Shortest, Static, Sticky, Yardstick, deploy,
};
pub use registry::{PolicyDescription, PolicyKind, PolicySpec, UnknownPolicy};
