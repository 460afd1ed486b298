//! What a journal says that its run was begun with.

use super::{Settings, journal_failure, mode, policy_of};
use crate::beliefs::{Beliefs, Source, faulty};
use crate::failure::{Code, Failure};
use crate::job::{self, Inputs};
use gswarm_core::Instance;
use gswarm_core::input::Scenario;
use gswarm_core::policy::PolicyKind;
use gswarm_exec::journal::JournalError;
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

/// Makes the problem of a run again from what its journal was begun with, which `meta` fetches. A run could begin with it:
/// where it cannot be made again, the journal is damaged.
pub fn recorded(
    path: &Path,
    meta: impl Fn(&str) -> Result<Option<Vec<u8>>, Failure>,
) -> Result<Recorded, Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let damaged = |why: String| journal_failure(folder, &JournalError::Damaged(why));
    let unfit = |failure: Failure| match failure.code {
        Code::Internal => failure,
        _ => damaged(format!("what the run was begun with cannot be used: {}", failure.message())),
    };
    let part = |name: &str| meta(name)?.ok_or_else(|| damaged(format!("`{name}` is missing")));
    let settings = part("settings")?;
    let settings: Settings =
        serde_json::from_slice(&settings).map_err(|error| damaged(format!("`settings`: {error}")))?;
    let inputs = Inputs {
        config: (settings.config_name.clone(), part("config")?),
        requests: (settings.requests_name.clone(), part("requests")?),
        measured: None,
    };
    let (policy, mode) = (policy_of(&settings).map_err(unfit)?, mode(&settings));
    let scenario = if settings.predictor.is_some() {
        inputs.predicted_scenario(mode, true)
    } else {
        inputs.scenario(mode, true)
    };
    let scenario = scenario.map_err(unfit)?;
    let source = match settings.predictor.clone() {
        None => None,
        Some(name) => Some(Source::read(name, part("predictor")?, &scenario).map_err(faulty).map_err(unfit)?),
    };
    let mut instance =
        job::build_predicted(&scenario, &settings.cluster, mode, policy, source.as_ref()).map_err(unfit)?;
    source.iter().for_each(|source| source.tell(&scenario, &mut instance, false));
    let beliefs = Beliefs { learn: settings.learn, source: source.map(Arc::new), ..Beliefs::default() };
    if let Some(plan) = meta("plan")? {
        job::plan_of(&instance, "the plan", &plan).map_err(unfit)?;
    }
    Ok(Recorded { settings, scenario, instance, policy, beliefs })
}
