//! Models that this process runs, for live runs that name no servers.

use crate::failure::Failure;
use gswarm_core::Instance;
use gswarm_core::input::Scenario;
use gswarm_exec::backend::Record;
use gswarm_exec::fleet::Fleet;
use gswarm_serve::model_server::{EmbeddedModels, FolderError};
use std::path::Path;

/// The models of a configuration in a folder.
pub fn find(folder: &Path, scenario: &Scenario) -> Result<EmbeddedModels, Failure> {
    let make = format!("`gswarm models init --dir {} --name NAME` makes a small one", folder.display());
    EmbeddedModels::find(folder, scenario).map_err(|error| match &error {
        FolderError::Unusable(error) => {
            Failure::input(format!("a live run without --backends serves models from a folder: {error}"))
                .hint(make)
        }
        FolderError::Missing(_) => Failure::input(format!("{error} in {}", folder.display()))
            .hint(format!("{make}; --models names another folder, and --backends other servers")),
        FolderError::Damaged(_) => {
            Failure::input(error.to_string()).hint("`gswarm models list` shows what is wrong with each")
        }
    })
}

/// The same as the one backend of a run. `record` is told what loads take.
pub fn fleet(
    folder: &Path,
    scenario: &Scenario,
    instance: &Instance,
    record: &Record,
) -> Result<Fleet, Failure> {
    let fleet = find(folder, scenario)?.fleet(instance, record);
    fleet.map_err(|error| Failure::input(format!("the models cannot be served: {error}")))
}
