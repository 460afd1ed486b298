//! Who decides where a task runs. A policy sees predicted times and what it placed itself, never the truth.

mod beliefs;
mod frees;
mod lanes;
mod learned;
mod pool;
mod price;
mod push;
mod qlearning;
mod ranks;
mod stealing;

pub use learned::{Learned, Tuning};
pub use push::{Choice, Push};
pub use qlearning::{QLearning, QTable};
pub use ranks::upward_ranks;
pub use stealing::WorkStealing;

use super::view::View;
use gswarm_core::Span;

/// A task that goes somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Which.
    pub task: u32,
    /// The GPU of its GPU part; `None` where all of it goes to the CPU.
    pub gpu: Option<u32>,
    /// How much goes to the GPU, in millionths.
    pub share: u32,
}

impl Placement {
    /// All of a task on one device.
    pub fn whole(task: u32, device: super::view::DeviceIndex) -> Placement {
        match device.checked_sub(1) {
            Some(gpu) => Placement { task, gpu: Some(gpu as u32), share: super::machine::SHARE },
            None => Placement { task, gpu: None, share: 0 },
        }
    }
}

pub trait Policy {
    /// `task` can run; it waits until this policy places it.
    fn ready(&mut self, task: u32, view: &View<'_>);
    /// The next decision at this moment; asked until `None`. Each answer is carried out before the next question.
    fn decide(&mut self, view: &View<'_>) -> Option<Placement>;
    /// A part of `task` is done on a device, and took so long.
    fn part_done(&mut self, _task: u32, _device: super::view::DeviceIndex, _took: Span, _view: &View<'_>) {}
    /// `task` is done.
    fn done(&mut self, _task: u32, _view: &View<'_>) {}
}

/// What policies can be told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PolicySettings {
    /// For policies that draw lots.
    pub seed: u64,
    /// Weight of energy, in seconds per joule: the objective is makespan + weight * energy.
    pub seconds_per_joule: f64,
}
