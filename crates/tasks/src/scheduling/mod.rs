//! Workloads, the event-driven schedule of one under a policy, and an independent check of it.

pub mod bound;
pub mod check;
mod compare;
mod engine;
mod generate;
mod kind;
mod log;
mod machine;
mod metrics;
mod policy;
mod predict;
mod read;
mod results;
mod run;
mod stats;
mod teach;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
mod view;
mod workload;
mod write;

pub use compare::{CompareError, CompareOptions, ComparisonRow, PolicySummary, TaskComparison, compare};
pub use engine::EngineError;
pub use generate::{TaskArrivals, TaskGeneration, WorkloadError, WorkloadOptions, generate};
pub use kind::TaskPolicy;
pub use log::{CpuPart, GpuPart, TaskLog, TaskRecord};
pub use machine::{Machine, SHARE};
pub use metrics::{TaskMetrics, measure};
pub use policy::PolicySettings;
pub use predict::{FEATURES, NoPrediction, feature_table, predict, set_aside};
pub use read::{misfits, read, read_with_lines};
pub use results::write_results;
pub use run::{TaskOutcome, schedule};
pub use stats::{describe, load};
pub use teach::teach;
pub use view::{Doubt, Estimates};
pub use workload::{RunTimes, Task, TaskKind, Workload};
pub use write::{COLUMNS, write_csv, write_parquet};
