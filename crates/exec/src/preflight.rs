//! Checks the servers of a run before anything is accepted. Problems are reported at once, with hints. A server that
//! does not answer may be starting: it is awaited if no other has its models.

use crate::backend::{Finding, Preflight};
use crate::fleet::{Fleet, Member};
use futures_util::future::join_all;
use gswarm_core::input::{Code, Severity};
use gswarm_core::{Instance, ModelId, Span};
use std::time::Duration;
use tokio::time::Instant;

/// How often servers that do not answer are asked.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Looks at the servers of a fleet, until each model that is used has one that answers. Returns what is worth knowing.
/// `waiting` is told every second who is waited for, and ends that with `false`.
///
/// # Errors
/// What is wrong, by server.
pub async fn preflight(
    fleet: &Fleet,
    instance: &Instance,
    used: impl Fn(ModelId) -> bool,
    patience: Span,
    mut waiting: impl FnMut(&str) -> bool,
) -> Result<Vec<Finding>, Vec<Finding>> {
    // Waiting brings no server to a model that none is meant for.
    let meant = |member: &Member, model| member.models.as_ref().is_none_or(|served| served.contains(&model));
    let has_server = |model: &ModelId| fleet.members().iter().any(|member| meant(member, *model));
    let models: Vec<ModelId> =
        instance.models.keys().filter(|&model| used(model)).filter(has_server).collect();
    let of = |member: &Member| -> Vec<ModelId> {
        let has = |model: &ModelId| member.models.as_ref().is_none_or(|served| served.contains(model));
        models.iter().copied().filter(has).collect()
    };
    let since = Instant::now();
    loop {
        let asked = fleet
            .members()
            .iter()
            .map(|member| async move { (member, member.backend.preflight(&of(member)).await) });
        let found: Vec<(&Member, Preflight)> = join_all(asked).await;
        let named = |member: &Member, one: &Finding| Finding {
            what: format!("{}: {}", member.name, one.what),
            ..one.clone()
        };
        let findings = found.iter().flat_map(|(member, of)| of.findings.iter().map(|one| named(member, one)));
        let (errors, mut warnings): (Vec<_>, Vec<_>) =
            findings.partition(|one| one.code.severity() == Severity::Error);
        if !errors.is_empty() {
            return Err(errors);
        }
        let silent: Vec<(&Member, &str)> =
            found.iter().filter_map(|(member, of)| Some((*member, of.silent.as_deref()?))).collect();
        let is_silent = |member: &Member| silent.iter().any(|(other, _)| std::ptr::eq(*other, member));
        let serves = |member: &&Member, model| of(member).contains(&model);
        let is_served = |model: ModelId| {
            fleet.members().iter().filter(|member| serves(member, model)).any(|member| !is_silent(member))
        };
        let told_of = silent.iter().map(|(member, why)| Finding {
            code: Code::ServerSilent,
            what: format!("{} does not answer: {why}", member.name),
            fix: "start the server, or correct its `url`".to_owned(),
        });
        if models.iter().all(|&model| is_served(model)) {
            warnings.extend(told_of);
            return Ok(warnings);
        }
        let names: Vec<String> =
            silent.iter().map(|(member, why)| format!("{} ({why})", member.name)).collect();
        let goes_on = waiting(&format!("waiting for servers that do not answer yet: {}", names.join(", ")));
        if !goes_on || since.elapsed().as_secs_f64() >= patience.seconds() {
            return Err(told_of.collect());
        }
        tokio::time::sleep(ASKED_EVERY).await;
    }
}
