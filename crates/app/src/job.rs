//! Shared by commands that read a problem: from flags to a scenario.

use crate::args::InputArgs;
use crate::failure::Failure;
use crate::output::terminal::Terminal;
use gswarm_core::input::{Reading, Scenario};
use gswarm_core::instance::Mode;
use gswarm_run::{CalibrationSpec, Observer, RunSpec, Stage};
use std::path::PathBuf;
use std::sync::Arc;

pub use gswarm_run::{build, infeasible};

impl InputArgs {
    /// The specification of a run of these inputs.
    pub fn spec(&self, mode: Mode) -> RunSpec {
        RunSpec {
            config: self.config.clone(),
            requests: self.requests.clone(),
            mode,
            calibration: self.measured.spec(),
            batching: !self.measured.no_batching,
            ..RunSpec::default()
        }
    }
}

impl crate::args::MeasuredArgs {
    /// The calibration, where one is named.
    pub fn spec(&self) -> Option<CalibrationSpec> {
        let file = self.calibration.clone()?;
        Some(CalibrationSpec { file, first_loads: self.first_loads })
    }
}

/// Reads both input files. Every fault in them is reported at once; warnings go to standard error.
pub fn load(input: &InputArgs, mode: Mode, quiet: bool, show_progress: bool) -> Result<Scenario, Failure> {
    read(&input.spec(mode), quiet, show_progress)
}

/// The same with a predictor, which says how long nodes take that the files give no time for.
pub fn load_predicted(
    input: &InputArgs,
    predictor: Option<PathBuf>,
    mode: Mode,
    quiet: bool,
    show_progress: bool,
) -> Result<Scenario, Failure> {
    let mut spec = input.spec(mode);
    spec.times.predictor = predictor;
    read(&spec, quiet, show_progress)
}

fn read(spec: &RunSpec, quiet: bool, show_progress: bool) -> Result<Scenario, Failure> {
    let mut terminal = Terminal::new("", quiet, !show_progress);
    terminal.stage(Stage::Reading);
    let scenario = spec.load()?.scenario(spec, &mut terminal)?;
    Ok(Arc::unwrap_or_clone(scenario))
}

/// The scenario where there is one; otherwise what is wrong with the input.
pub fn accept(reading: Reading, quiet: bool) -> Result<Scenario, Failure> {
    gswarm_run::accept(reading, &mut Terminal::new("", quiet, false))
}
