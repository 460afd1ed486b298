//! The policies: each proposes what to start where, and nothing else. One file each.

mod adaptive;
mod astray;
mod balanced;
mod baseline;
mod batch;
mod deployment;
mod fixed;
mod follow;
mod follow_steps;
mod hybrid;
mod improved;
mod lists;
mod lru;
mod offline;
mod online;
mod param;
mod place;
mod planned;
mod random;
mod ready;
mod registry;
mod reserve;
mod round_robin;
mod shortest;
pub(crate) mod sketch;
mod sticky;
mod yardsticks;

pub use adaptive::{Adaptive, AdaptiveParams, Objective};
pub use balanced::Balanced;
pub use baseline::Baseline;
pub use batch::Batch;
pub use deployment::{Deployment, deploy};
pub use fixed::Static;
pub use follow::Follow;
pub use follow_steps::FollowSteps;
pub use hybrid::Hybrid;
pub use improved::Improved;
pub use lru::Lru;
pub use offline::Offline;
pub use online::{Online, OnlineParams};
pub use param::{NoParams, ParamFault, ParamInfo, ParamKind, ParamValues};
pub use planned::{PlannedParams, carry_out, follow, follow_as, search};
pub use registry::{BuildContext, PolicyDescription, PolicyKind, PolicySpec, UnknownPolicy};
pub use shortest::Shortest;
pub use sticky::Sticky;
pub use yardsticks::Yardstick;

use crate::engine::{Decision, View};
use crate::id::{GpuId, Gpus, TaskId};

/// Something that chooses.
///
/// Within an instant the engine first handles everything that happened, then tells the policy what is new, in the order
/// in which it happened, and then asks [`Policy::decide`] until it answers `None`.
///
/// A policy is live if, whenever nothing executes or loads and a ready task could be placed, it starts something.
pub trait Policy: Send {
    /// `task` has all its inputs (or failed and may be tried again). It stays pending until this policy starts it.
    fn ready(&mut self, task: TaskId, view: &View<'_>);

    /// The next decision at this instant; asked until `None`. Each answer is carried out before the next question.
    fn decide(&mut self, view: &View<'_>) -> Option<Decision>;

    /// An execution or a load ended on these GPUs.
    fn freed(&mut self, _gpus: Gpus, _view: &View<'_>) {}

    /// A GPU is gone; what ran on it is ready again.
    fn lost(&mut self, _gpu: GpuId, _view: &View<'_>) {}

    /// A GPU that was gone is there again, empty.
    fn returned(&mut self, _gpu: GpuId, _view: &View<'_>) {}

    /// A task will never run: it, or something it needs, failed too often. It is not ready and never will be.
    fn given_up(&mut self, _task: TaskId, _view: &View<'_>) {}
}
