//! The true times of a log read from a file, drawn again as its summary specifies.

use crate::id::{IdVec, TaskId};
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::log_file::Claims;
use crate::time::Span;
use crate::truth::{TrueTimes, Truth, TruthSpec};

/// What executions really took by the summary's own account; an error names a model that there is not.
///
/// `instance` is what the inputs say. Where a predictor gave the estimates, they are in the records alone: true times that
/// go around estimates go around those.
pub(super) fn of_claims(
    instance: &Instance,
    log: &ExecutionLog,
    estimates: &[Option<Span>],
    claims: &Claims,
) -> Result<Truth, String> {
    let plain = TruthSpec::default();
    let spec = claims.truth.as_ref().unwrap_or(&plain);
    let truth = Truth::new(spec, instance, instance)?;
    if claims.predictor.is_none() || spec.times == TrueTimes::Requests {
        return Ok(truth);
    }
    let mut times: IdVec<TaskId, Span> = instance.task_ids().map(|task| instance.execution(task)).collect();
    for (one, estimate) in log.executions.iter().zip(estimates) {
        estimate.iter().for_each(|&estimate| times[one.task] = estimate);
    }
    Ok(truth.around(times))
}
