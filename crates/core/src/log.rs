//! The record of a run: executions and loads, by number. Files are written from this and read back into it.

use crate::estimate::Estimate;
use crate::id::{Gpus, ModelId, TaskId};
use crate::time::{Span, Time};

named! {
    /// How an execution ended.
    pub enum Status {
        /// It gave its result.
        Completed = "completed",
        /// It failed; the next attempt, if any, has a record of its own.
        Failed = "failed",
        /// One of its GPUs was lost under it. `start == end` where it was still waiting for its model.
        Lost = "lost",
        /// Its server failed it, and is to blame: the attempt does not count. `start == end` where its model did not come.
        Deferred = "deferred",
        /// Its request was withdrawn. `start == end` where it was still waiting for its model.
        Cancelled = "cancelled",
    }
}

/// One attempt at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The node.
    pub task: TaskId,
    /// The GPUs it held.
    pub gpus: Gpus,
    /// From 1.
    pub attempt: u32,
    /// Executions on the replica just after this one started, itself included.
    pub batch: u32,
    /// How it ended.
    pub status: Status,
    /// When its inputs were there (for a retry: when it could be tried again).
    pub ready: Time,
    /// The load that ended at `start` for it; zero where the model was there, or another execution of the batch bore it.
    pub switch: Span,
    /// When it began to execute.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Models that its load took off these GPUs (where several can share a GPU).
    pub evicted: Box<[ModelId]>,
    /// Where the run learns: what it was expected to take at batch 1 when it began, by all that had been seen till then.
    pub expected: Option<Box<Estimate>>,
}

/// A load that was made before any execution needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The model.
    pub model: ModelId,
    /// Where to.
    pub gpus: Gpus,
    /// When it began.
    pub start: Time,
    /// When the model was there.
    pub end: Time,
    /// Whether the model was there in the end; a load that failed, or that a lost GPU cut short, leaves nothing behind.
    pub status: Status,
    /// Models that it took off these GPUs.
    pub evicted: Box<[ModelId]>,
}

/// A GPU that was lost, and when; perhaps for a time only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which.
    pub gpu: crate::id::GpuId,
    /// When.
    pub at: Time,
    /// When it was there again, empty; `None` where it never was.
    pub until: Option<Time>,
}

/// A model that left a GPU, though no other made it leave: nobody had needed it for long, or somebody wanted it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unload {
    /// Which.
    pub model: ModelId,
    /// From where.
    pub gpu: crate::id::GpuId,
    /// When.
    pub at: Time,
}

/// Everything that a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionLog {
    /// In order of their ends.
    pub executions: Vec<Execution>,
    /// In order of their ends.
    pub loads: Vec<Load>,
    /// In order of time.
    pub losses: Vec<Loss>,
    /// In order of time.
    pub unloads: Vec<Unload>,
}
