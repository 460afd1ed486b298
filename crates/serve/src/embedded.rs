//! Models that this process runs itself, for live runs without servers.

use crate::model_server::{FolderError, InProcessModels};
use gswarm_core::Instance;
use gswarm_core::input::Scenario;
use gswarm_exec::backend::LoadRecorder;
use gswarm_exec::fleet::Fleet;
use gswarm_run::Failure;
use gswarm_run::live::EmbeddedModels;
use std::path::Path;

/// The models of a configuration in a folder.
fn find(folder: &Path, scenario: &Scenario) -> Result<InProcessModels, Failure> {
    let make = format!("`gswarm models init --dir {} --name NAME` makes a small one", folder.display());
    InProcessModels::find(folder, scenario).map_err(|error| match &error {
        FolderError::Unusable(error) => {
            Failure::input(format!("without --backends, models come from a folder: {error}")).hint(make)
        }
        FolderError::Missing(_) => Failure::input(format!("{error} in {}", folder.display()))
            .hint(format!("{make}; choose another folder with --models, or servers with --backends")),
        FolderError::Damaged(_) => {
            Failure::input(error.to_string()).hint("`gswarm models list` shows what is wrong with each")
        }
    })
}

/// The models of a folder, in this process.
pub struct EmbeddedHost;

impl EmbeddedModels for EmbeddedHost {
    fn check(&self, folder: &Path, scenario: &Scenario) -> Result<(), Failure> {
        find(folder, scenario).map(drop)
    }

    fn serve(
        &self,
        folder: &Path,
        scenario: &Scenario,
        instance: &Instance,
        record: &LoadRecorder,
    ) -> Result<Fleet, Failure> {
        let fleet = find(folder, scenario)?.fleet(instance, record);
        fleet.map_err(|error| Failure::input(format!("the models cannot be served: {error}")))
    }
}
