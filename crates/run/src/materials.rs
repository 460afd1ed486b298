//! The files of a specification, as read: the problem and its companions. A journal stores the same parts, so a run
//! resumes from its original inputs.

use crate::failure::Failure;
use crate::files;
use crate::observe::Observer;
use crate::spec::RunSpec;
use gswarm_core::input::{Lacking, Reading, Scenario, Source, read_lacking, render};
use gswarm_learn::calibration::{self, ApplyOptions, Calibration, Misfit, StartsFrom};
use std::path::Path;
use std::sync::Arc;

/// A file: the name that messages give it, and its content.
pub type Named = (String, Vec<u8>);

/// The problem of a run.
#[derive(Clone, Debug)]
pub enum Problem {
    /// The text of a configuration and of requests.
    Text {
        /// The configuration.
        config: Named,
        /// The requests.
        requests: Named,
    },
    /// One that was read or built before.
    Scenario(Arc<Scenario>),
}

/// Everything that a specification refers to.
#[derive(Clone, Debug)]
pub struct Materials {
    /// The problem.
    pub problem: Problem,
    /// The calibration, where measured costs are used.
    pub calibration: Option<Named>,
    /// The predictor, where one times nodes.
    pub predictor: Option<Named>,
    /// The plan to follow.
    pub plan: Option<Named>,
    /// Where models are kept.
    pub deployment: Option<Named>,
}

impl Materials {
    /// A problem alone.
    #[must_use]
    pub fn of(problem: Problem) -> Materials {
        Materials { problem, calibration: None, predictor: None, plan: None, deployment: None }
    }

    /// The scenario that the run is about, with calibrated costs where the specification asks for them. Warnings go to
    /// `observer`.
    ///
    /// # Errors
    /// All faults of the inputs.
    pub fn scenario(&self, spec: &RunSpec, observer: &mut dyn Observer) -> Result<Arc<Scenario>, Failure> {
        let mut scenario = match &self.problem {
            Problem::Scenario(scenario) => Arc::clone(scenario),
            Problem::Text { config, requests } => {
                let [config, requests] = [config, requests].map(|(name, bytes)| Source { name, bytes });
                let lacking = match &self.calibration {
                    Some(_) => Lacking::Costs,
                    None if spec.predicts_all() => Lacking::Times,
                    None => Lacking::Nothing,
                };
                Arc::new(accept(read_lacking(config, requests, spec.mode, lacking), observer)?)
            }
        };
        if let Some((name, bytes)) = &self.calibration {
            let calibration = read_calibration(name, bytes)?;
            let first_loads = spec.calibration.as_ref().is_some_and(|calibration| calibration.first_loads);
            let loads = if first_loads { StartsFrom::First } else { StartsFrom::Again };
            let options = ApplyOptions { loads, batching: spec.batching };
            apply_calibration(name, &calibration, Arc::make_mut(&mut scenario), options, observer)?;
        } else if !spec.batching && scenario.models.iter().any(|model| model.batching.is_some()) {
            Arc::make_mut(&mut scenario).models.iter_mut().for_each(|model| model.batching = None);
        }
        Ok(scenario)
    }
}

impl RunSpec {
    /// Reads the files that the specification names. Files that cannot be read are all named.
    ///
    /// # Errors
    /// Which files cannot be read, and why.
    pub fn load(&self) -> Result<Materials, Failure> {
        let named = |path: &Path, bytes: Vec<u8>| (path.display().to_string(), bytes);
        let mut failure: Option<Failure> = None;
        let mut read = |path: &Path, hint: Option<&str>| {
            let bytes = match hint {
                Some(hint) => files::read_or(path, hint),
                None => files::read(path),
            };
            bytes
                .map_err(|error| {
                    let earlier = failure.take();
                    failure = Some(match earlier {
                        Some(earlier) => earlier.and(error),
                        None => error,
                    });
                })
                .map_or_else(|()| named(path, Vec::new()), |bytes| named(path, bytes))
        };
        let config = read(&self.config, None);
        let requests = read(&self.requests, None);
        let calibration = self.calibration.as_ref();
        let calibration = calibration
            .map(|one| read(&one.file, Some("check the path; `gswarm calibrate` writes such files")));
        let predictor = self
            .times
            .predictor
            .as_ref()
            .map(|path| read(path, Some("check the path; `gswarm train --out FILE` writes predictors")));
        let plan =
            self.plan.as_ref().map(|path| read(path, Some("check the path; `gswarm plan` writes plans")));
        let deployment = self
            .deployment
            .as_ref()
            .map(|path| read(path, Some("check the path; `gswarm deploy` writes deployments")));
        match failure {
            Some(failure) => Err(failure),
            None => {
                let problem = Problem::Text { config, requests };
                Ok(Materials { problem, calibration, predictor, plan, deployment })
            }
        }
    }
}

/// The scenario where there is one; otherwise all that is wrong with the input.
///
/// # Errors
/// The faults.
pub fn accept(reading: Reading, observer: &mut dyn Observer) -> Result<Scenario, Failure> {
    let found = render(&reading.diagnostics);
    match reading.scenario {
        Some(scenario) => {
            if !found.is_empty() {
                observer.note(found.trim_end());
            }
            Ok(scenario)
        }
        None => {
            let faults = match reading.errors {
                1 => "1 fault".to_owned(),
                many => format!("{many} faults"),
            };
            Err(Failure::input(format!("the input has {faults}\n\n{found}"))
                .hint("`gswarm help CODE` explains a code; nothing was run and no file was written")
                .about(reading.diagnostics))
        }
    }
}

/// Reads what `gswarm calibrate` wrote.
///
/// # Errors
/// Why it is no calibration.
pub fn read_calibration(name: &str, bytes: &[u8]) -> Result<Calibration, Failure> {
    calibration::read(bytes).map_err(|error| {
        Failure::input(format!("{name}: {error}"))
            .hint("run `gswarm calibrate` again; docs/calibration.md describes the file")
    })
}

/// Puts measured costs into a scenario, or names every model that lacks them.
///
/// # Errors
/// The models without measurements.
pub fn apply_calibration(
    name: &str,
    calibration: &Calibration,
    scenario: &mut Scenario,
    options: ApplyOptions,
    observer: &mut dyn Observer,
) -> Result<(), Failure> {
    let stretched = calibration::apply(calibration, scenario, options).map_err(|misfits| {
        let list: Vec<String> = misfits.iter().map(|one: &Misfit| format!("\n  - {one}")).collect();
        Failure::input(format!("{name} does not match these inputs:{}", list.concat()))
            .hint("`gswarm calibrate --config ... --requests ...` measures all models of the requests")
    })?;
    stretched.iter().for_each(|one| observer.note(&format!("note: {name}: {one}")));
    Ok(())
}
