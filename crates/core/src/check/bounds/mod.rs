//! Checks a lower bound against its witness: every figure has to follow from the inputs, and the bound from the
//! figures. The code is independent of the search for bounds; it only asks whether an argument holds.

mod figures;
mod pace;
mod visits;
mod witness;

use super::context::{Context, TOLERANCE, seconds};
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::log_file::{BoundClaim, BoundFile, Claims};
use crate::violation::{Place, Violation, ViolationCode as Code};

/// Checks a file of bounds, or the bound of a plan.
#[must_use]
pub fn check_bounds(instance: &Instance, file: &BoundFile) -> Vec<Violation> {
    let nothing = ExecutionLog::default();
    let mut context = Context::new(instance, &nothing, false);
    context.out = file.head.faults.clone();
    let place = Place::default;
    if file.bounds.is_empty() {
        context.report(Code::BoundWitness, place(), "the file has no bound with a witness");
    }
    for bound in &file.bounds {
        if figures::claimed(bound.seconds).is_none() {
            context.report(Code::BoundValue, place(), format!("a bound of {} s", bound.seconds));
        }
        judge(&mut context, instance, bound.seconds, &bound.witness);
    }
    let best = file.bounds.iter().map(|bound| bound.seconds).fold(0.0, f64::max);
    match file.lower_bound {
        Some(value) if value.is_finite() && (file.is_proved || value <= best + 2e-6) => {}
        Some(value) => {
            let message = format!("lower_bound is {value} s, but the largest of the bounds is {best} s");
            context.report(Code::BoundValue, place(), message);
        }
        None => context.report(Code::Field, place(), "the file has no `lower_bound`"),
    }
    context.out
}

/// Checks the bound of a summary.
pub(super) fn check(context: &mut Context<'_>, claims: &Claims) {
    let Some(witness) = &claims.bound else { return };
    let value = match claims.lower_bound {
        Some(value) => value,
        None => {
            return context.report(Code::BoundWitness, Place::default(), "a `bound` without a lower_bound");
        }
    };
    if context.truth.is_estimate() {
        return judge(context, context.instance, value, witness);
    }
    // A bound on what was believed says nothing of what happened.
    let known = context.truth.known(context.instance);
    judge(context, &known, value, witness);
}

fn judge(context: &mut Context<'_>, instance: &Instance, value: f64, claim: &BoundClaim) {
    // What is no bound at all is reported with the summary.
    let Some(value) = figures::claimed(value) else { return };
    match witness::supported(instance, claim, value) {
        Err(fault) => {
            let message = format!("{}: {fault}", claim.argument());
            context.report(Code::BoundWitness, Place::default(), message);
        }
        Ok(supported) if value > supported + u128::from(TOLERANCE) + (supported >> 51) => {
            let (value, supported) = (text(value), text(supported));
            let message =
                format!("{}: lower_bound is {value}, but its witness gives {supported}", claim.argument());
            context.report(Code::BoundValue, Place::default(), message);
        }
        Ok(_) => {}
    }
}

fn text(micros: u128) -> String {
    seconds(u64::try_from(micros).unwrap_or(u64::MAX))
}
