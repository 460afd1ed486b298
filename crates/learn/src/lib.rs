//! Run times learned from hardware and from logs: profiles, workloads, predictors, and tasks scheduled by them.

pub mod profile;
pub mod tasks;
