//! What a journal says that its run was begun with.

use super::{Settings, mode, policy_of};
use crate::beliefs::{Beliefs, Source};
use crate::failure::Failure;
use crate::job::{self, Inputs};
use gswarm_core::Instance;
use gswarm_core::input::Scenario;
use gswarm_core::policy::PolicyKind;
use std::path::Path;
use std::sync::Arc;

/// The problem of a run, made again.
pub struct Recorded {
    /// All beside the two input files.
    pub settings: Settings,
    /// What the files say.
    pub scenario: Scenario,
    /// What is scheduled.
    pub instance: Instance,
    /// The policy.
    pub policy: PolicyKind,
    /// What is believed of run times.
    pub beliefs: Beliefs,
}

/// Makes the problem of a run again from what its journal was begun with, which `meta` fetches.
pub fn recorded(
    path: &Path,
    meta: impl Fn(&str) -> Result<Option<Vec<u8>>, Failure>,
) -> Result<Recorded, Failure> {
    let part = |name: &str| {
        meta(name)?.ok_or_else(|| Failure::input(format!("{}: `{name}` is missing", path.display())))
    };
    let settings: Settings = serde_json::from_slice(&part("settings")?)
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    let inputs = Inputs {
        config: (settings.config_name.clone(), part("config")?),
        requests: (settings.requests_name.clone(), part("requests")?),
    };
    let (policy, mode) = (policy_of(&settings)?, mode(&settings));
    let scenario = if settings.predictor.is_some() {
        inputs.predicted_scenario(mode, true)?
    } else {
        inputs.scenario(mode, true)?
    };
    let mut instance = job::build(&scenario, &settings.cluster, mode, policy)?;
    let mut beliefs = Beliefs { learn: settings.learn, ..Beliefs::default() };
    if let Some(name) = settings.predictor.clone() {
        let source = Source::read(name, part("predictor")?, &scenario)?;
        source.tell(&scenario, &mut instance, false);
        beliefs.source = Some(Arc::new(source));
    }
    Ok(Recorded { settings, scenario, instance, policy, beliefs })
}
