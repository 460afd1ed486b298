//! Independent tasks on one machine's CPU and GPUs.
//!
//! [`profile`] says what the machine can do. The rest goes from a workload over [`schedule`] under a policy to a [`TaskLog`],
//! which [`check::check`] examines without knowing the scheduler, and to [`TaskMetrics`].

// The only module that may call functions which the compiler cannot check.
mod gpu;
#[forbid(unsafe_code)]
pub mod profile;
#[forbid(unsafe_code)]
mod scheduling;

pub use scheduling::*;
