//! The trait of policies.

use super::{Decision, View};
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
