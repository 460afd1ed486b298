//! Measured costs in the place of those that the two input files give.

use crate::args::MeasuredArgs;
use crate::failure::Failure;
use crate::job::Inputs;
use crate::output::{self, files};
use gswarm_core::input::{Lacking, Scenario};
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
    let Some(file) = &args.profile else { return Ok(inputs) };
    let calibration = read(file)?;
    let mut scenario = scenario(&inputs)?;
    apply(&calibration, &mut scenario, args.options(), file)?;
    Ok(Inputs { measured: Some(scenario), ..inputs })
}

/// What both files say, where a calibration will say what things cost.
pub fn scenario(inputs: &Inputs) -> Result<Scenario, Failure> {
    // Whether requests arrive at their times is not known yet, and changes nothing here.
    inputs.lacking(Mode::Offline, Lacking::Costs, false)
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
