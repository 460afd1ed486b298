//! Measured costs over the two input files. What comes of it are input files again: a journal keeps them, and everything
//! that reads inputs reads the same.

use crate::args::MeasuredArgs;
use crate::failure::{Code, Failure};
use crate::job::{self, Inputs};
use crate::output::{self, files};
use gswarm_core::generate::{Format, write_scenario_config, write_scenario_requests};
use gswarm_core::input::{Scenario, Source, read_profiled};
use gswarm_core::instance::Mode;
use gswarm_learn::calibration::{self, Calibration, Misfit, Options, StartsFrom};
use std::path::Path;

impl MeasuredArgs {
    /// How measurements are taken over.
    pub fn options(&self) -> Options {
        let loads = if self.first_loads { StartsFrom::First } else { StartsFrom::Again };
        Options { loads, batching: !self.no_batching }
    }
}

/// Reads what `gswarm calibrate` wrote.
pub fn read(file: &Path) -> Result<Calibration, Failure> {
    calibration::read(&files::read_or(file, "check the path; `gswarm calibrate` writes such files")?).map_err(
        |error| {
            Failure::input(format!("{}: {error}", file.display()))
                .hint("`gswarm calibrate` measures servers anew; docs/calibration.md describes the file")
        },
    )
}

/// The inputs with the costs of the calibration that was named, if one was.
pub fn over(inputs: Inputs, args: &MeasuredArgs) -> Result<Inputs, Failure> {
    let Some(file) = &args.calibration else { return Ok(inputs) };
    let calibration = read(file)?;
    let mut scenario = scenario(&inputs)?;
    apply(&calibration, &mut scenario, args.options(), file)?;
    let mut written =
        Inputs { config: (inputs.config.0, Vec::new()), requests: (inputs.requests.0, Vec::new()) };
    write_scenario_config(&scenario, Format::Json, &mut written.config.1)
        .and_then(|()| write_scenario_requests(&scenario, Format::Json, &mut written.requests.1))
        .map_err(|error| Failure::new(Code::Internal, format!("internal error: {error}")))?;
    Ok(written)
}

/// What both files say, where a calibration will say what things cost.
pub fn scenario(inputs: &Inputs) -> Result<Scenario, Failure> {
    let [config, requests] = [&inputs.config, &inputs.requests].map(|(name, bytes)| Source { name, bytes });
    // Whether requests arrive at their times is not known yet, and changes nothing here.
    job::accept(read_profiled(config, requests, Mode::Offline), false)
}

/// Takes the costs over, or names every model that lacks them.
pub fn apply(
    calibration: &Calibration,
    scenario: &mut Scenario,
    options: Options,
    file: &Path,
) -> Result<(), Failure> {
    let stretched = calibration::apply(calibration, scenario, options).map_err(|misfits| {
        let list: Vec<String> = misfits.iter().map(|one: &Misfit| format!("\n  - {one}")).collect();
        Failure::input(format!("{} does not fit these inputs:{}", file.display(), list.concat()))
            .hint("`gswarm calibrate --config ... --requests ...` measures all models that the requests use")
    })?;
    stretched.iter().for_each(|one| output::note(&format!("note: {}: {one}", file.display())));
    Ok(())
}
