//! An independent check of execution logs: every rule is recomputed from the instance.
//!
//! The code does not know how a log was made. Each family of rules has its own file. All rules run, and all violations
//! are reported. `docs/checks.md` lists the codes.

mod arithmetic;
mod batching;
mod bounds;
mod context;
mod deployment;
mod exclusivity;
mod identity;
mod order;
mod placement;
mod resolve;
mod slots;
mod stream;
mod summary;
mod switching;
mod truth;
mod unloads;

pub use crate::violation::{Place, Violation, ViolationCode, report};
pub use bounds::check_bounds;
pub use stream::StreamCheck;

use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::log_file::{Claims, LogFile, Summary};
use crate::truth::Truth;
use context::Context;

/// Checks a log that was read from a file. No violation means that the log is a valid run of the instance.
#[must_use]
pub fn check(instance: &Instance, file: &LogFile) -> Vec<Violation> {
    check_against(instance, None, file)
}

/// The same for a log whose estimates a predictor gave: `believed` is the instance that has been told what it says, and the
/// log's estimates and intervals are held against those.
#[must_use]
pub fn check_predicted(instance: &Instance, believed: &Instance, file: &LogFile) -> Vec<Violation> {
    check_against(instance, Some(believed), file)
}

fn check_against(instance: &Instance, believed: Option<&Instance>, file: &LogFile) -> Vec<Violation> {
    // Of a file that cannot be read at all there is nothing more to say.
    let unread = file.executions.is_empty() && file.loads.is_empty();
    if unread && file.faults.iter().any(|fault| fault.code == ViolationCode::File) {
        return file.faults.clone();
    }
    let resolved = resolve::resolve(instance, believed, file);
    let mut context = Context::new(instance, &resolved.log, file.claims.measured());
    context.schema = file.schema.is_some();
    context.sources = Some(&resolved.sources);
    context.sound = resolved.sound;
    context.out = file.faults.clone();
    context.out.extend(resolved.violations);
    match truth::of_claims(instance, &resolved.log, &resolved.estimates, &file.claims) {
        Ok(truth) => context.truth = truth,
        Err(unknown) => context.report(ViolationCode::Unknown, Place::default(), unknown),
    }
    rules(&mut context, Some(&file.claims));
    context.out
}

/// Checks a log in memory, and the summary that goes with it where there is one.
#[must_use]
pub fn check_log(instance: &Instance, log: &ExecutionLog, summary: Option<&Summary>) -> Vec<Violation> {
    check_run(instance, &Truth::default(), log, summary)
}

/// The same for a run whose true times are not the estimates.
#[must_use]
pub fn check_run(
    instance: &Instance,
    truth: &Truth,
    log: &ExecutionLog,
    summary: Option<&Summary>,
) -> Vec<Violation> {
    let claims = summary.map(Claims::from);
    let mut context = Context::new(instance, log, claims.as_ref().is_some_and(Claims::measured));
    context.truth = truth.clone();
    rules(&mut context, claims.as_ref());
    context.out
}

/// The log of a file in terms of the instance, for reports; with what did not fit.
#[must_use]
pub fn read_back(instance: &Instance, file: &LogFile) -> (ExecutionLog, Vec<Violation>) {
    let resolved = resolve::resolve(instance, None, file);
    (resolved.log, file.faults.iter().cloned().chain(resolved.violations).collect())
}

fn rules(context: &mut Context<'_>, claims: Option<&Claims>) {
    placement::check(context, claims);
    let tasks = identity::group(context);
    identity::check(context, &tasks);
    order::check(context, &tasks);
    let sessions = batching::check(context);
    exclusivity::check(context, &sessions);
    let loads = switching::check(context);
    slots::check(context, &loads.weights);
    if let Some(claims) = claims {
        deployment::check(context, claims, &loads);
        summary::check(context, &tasks, claims, &loads);
        bounds::check(context, claims);
    }
}
