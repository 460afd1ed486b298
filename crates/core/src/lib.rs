//! The pure part of gswarm: no files and no wall clock; only the planner uses more than one thread.
//!
//! The data goes one way through it:
//! files -> [`input::Scenario`] -> [`Instance`] -> simulate -> [`log::ExecutionLog`] -> check -> report.

#[macro_use]
mod named;

pub mod belief;
pub mod bound;
pub mod check;
mod cluster;
pub mod compare;
pub mod cost;
pub mod deploy;
pub mod diff;
pub mod engine;
mod estimate;
pub mod explain;
pub mod fidelity;
pub mod generate;
pub mod gpuset;
mod id;
mod id_vec;
pub mod input;
pub mod instance;
pub mod log;
pub mod log_file;
pub mod plan;
pub mod policy;
pub mod report;
mod rules;
pub mod run;
mod scenario;
pub mod schema;
mod shown;
pub mod sim;
pub mod size;
pub mod spans;
pub mod time;
pub mod truth;
pub mod verify;
mod violation;
pub mod what_if;

pub use id::{GpuId, Gpus, IdVec, ModelId, RequestId, TaskId, WorkflowId};
pub use instance::Instance;
pub use time::{Span, Time};
