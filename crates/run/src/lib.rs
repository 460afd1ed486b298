//! One run, one type: a [`RunSpec`] describes everything about a run, and every entry point (the command line, Python, HTTP,
//! sweeps, journals) reads and writes it.
//!
//! [`RunSpec`] -> [`RunSpec::validate`] -> [`RunSpec::load`] -> [`prepare`] -> [`Prepared::simulate`] | [`Prepared::plan`] |
//! [`live::run`].

pub mod advise;
pub mod failure;
pub mod files;
pub mod live;
pub mod output;
pub mod shape;
pub mod size;
pub mod sweep;

mod deployment;
mod materials;
mod observe;
mod prepare;
mod spec;
mod validate;

pub use deployment::{deployment_faults, deployment_schema, read_deployment, read_deployment_file};
pub use failure::{Failure, FailureKind};
pub use materials::{Materials, Named, Problem, accept, apply_calibration, read_calibration};
pub use observe::{Observer, Silent, Stage};
pub use prepare::{
    PlanOptions, PlanSearch, Prepared, Simulated, build, infeasible, predictor, prepare, read_plan,
};
pub use spec::{
    CalibrationSpec, FaultSpec, LiveSpec, LogFormat, LostGpu, OutputSpec, RaySpec, RunSpec, TimesSpec,
};
