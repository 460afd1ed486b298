//! gswarm as a Rust library: schedules compound AI workflows on fewer GPUs than models.
//!
//! A [`RunSpec`] describes a run; the same type is behind the command line and the Python package. [`simulate`] and [`run_live`]
//! carry it out:
//!
//! ```
//! use gswarm::prelude::*;
//!
//! let scenario = Scenario::builder()
//!     .gpus(2)
//!     .model("writer", 1, 16.0, 20.0)
//!     .run_time(2.0)
//!     .model("painter", 1, 24.0, 30.0)
//!     .run_time(5.0)
//!     .workflow("poster")
//!     .node("write", "writer")
//!     .node("paint", "painter")
//!     .edge("write", "paint")
//!     .request("r1", "poster")
//!     .request("r2", "poster")
//!     .build()
//!     .unwrap();
//! let spec = RunSpec { policy: Some(PolicySpec::default_of(PolicyKind::Baseline)), ..RunSpec::default() };
//! let run = gswarm::simulate_scenario(spec, scenario, &mut Silent)?;
//! assert_eq!(run.outcome.metrics.completed_requests, 2);
//! # Ok::<(), Failure>(())
//! ```
//!
//! `examples/` shows a policy and a server of one's own, and a run that is embedded in a program.

pub use gswarm_core as core;
pub use gswarm_exec as exec;
pub use gswarm_learn as learn;
pub use gswarm_run as run;
pub use gswarm_run::RunSpec;

use gswarm_core::input::Scenario;
use gswarm_core::run::RunOutcome;
use gswarm_run::live::{self, Ended};
use gswarm_run::{Failure, Materials, Observer, Prepared, Problem, prepare};
use gswarm_serve::embedded::EmbeddedHost;
use std::sync::Arc;

/// What most programs need.
pub mod prelude {
    pub use gswarm_core::engine::{Decision, View};
    pub use gswarm_core::input::{Diagnostic, Scenario, ScenarioBuilder};
    pub use gswarm_core::instance::{Instance, Mode};
    pub use gswarm_core::policy::{Policy, PolicyKind, PolicySpec};
    pub use gswarm_core::{GpuId, Gpus, ModelId, RequestId, Span, TaskId, Time};
    pub use gswarm_run::{Failure, Materials, Observer, Prepared, Problem, RunSpec, Silent, prepare};
}

/// What came of a simulated run.
#[derive(Debug)]
pub struct Simulation {
    /// The run: its specification, its problem.
    pub prepared: Prepared,
    /// The log, measured, bounded and checked.
    pub outcome: RunOutcome,
}

/// Simulates a run of the files that its specification names.
///
/// # Errors
/// All that is wrong with the specification or its inputs, or why they do not fit together.
pub fn simulate(spec: RunSpec, observer: &mut dyn Observer) -> Result<Simulation, Failure> {
    let materials = spec.load()?;
    simulated(prepare(spec, materials, observer)?, observer)
}

/// Simulates a run of a scenario in memory.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_scenario(
    spec: RunSpec,
    scenario: Scenario,
    observer: &mut dyn Observer,
) -> Result<Simulation, Failure> {
    let materials = Materials::of(Problem::Scenario(Arc::new(scenario)));
    simulated(prepare(spec, materials, observer)?, observer)
}

fn simulated(prepared: Prepared, observer: &mut dyn Observer) -> Result<Simulation, Failure> {
    let outcome = prepared.simulate(observer)?.outcome;
    Ok(Simulation { prepared, outcome })
}

/// Runs a specification live: on the servers that it names, or on models of a folder in this process.
///
/// # Errors
/// Why the run could not begin, or ended early. Requests that fail are no error: see [`Ended::verdict`].
pub fn run_live(spec: RunSpec, observer: &mut dyn Observer) -> Result<Ended, Failure> {
    let materials = spec.load()?;
    live::run(spec, materials, &EmbeddedHost, observer)
}
