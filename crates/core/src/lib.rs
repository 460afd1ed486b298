//! The pure part of gswarm: no files and no wall clock; only the planner uses more than one thread.
//!
//! The data goes one way through it:
//! files -> [`input::Scenario`] -> [`Instance`] -> simulate -> [`log::ExecutionLog`] -> check -> report.

pub mod belief;
pub mod bound;
pub mod check;
pub mod cluster;
pub mod compare;
pub mod cost;
pub mod diff;
pub mod engine;
pub mod estimate;
pub mod explain;
pub mod fidelity;
pub mod generate;
pub mod gpuset;
pub mod id;
pub mod input;
pub mod instance;
pub mod log;
pub mod log_file;
mod named;
pub mod plan;
pub mod policy;
pub mod report;
pub mod rules;
pub mod run;
pub mod scenario;
pub mod schema;
mod shown;
pub mod sim;
pub mod size;
pub mod time;
pub mod truth;
pub mod verify;
pub mod violation;
pub mod what_if;

pub use id::{GpuId, Gpus, IdVec, ModelId, RequestId, TaskId, WorkflowId};
pub use instance::Instance;
pub use time::{Span, Time};
