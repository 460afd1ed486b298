//! The times of one record: that they are times, and that they add up.

use super::context::{TOLERANCE, s, seconds};
use crate::belief::Estimate;
use crate::id::TaskId;
use crate::instance::Instance;
use crate::log_file::Record;
use crate::time::{Span, Time};
use crate::violation::ViolationCode as Code;

/// The times of an execution that the other rules use.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// `None` where the log does not say.
    pub ready: Option<Time>,
    pub switch: Span,
    pub start: Time,
    pub end: Time,
}

/// Later than any run lasts: past this, seconds no longer hold whole microseconds.
const MOST_SECONDS: f64 = 9e9;

/// A time of a file, or what is wrong with it. Missing fields are reported elsewhere.
pub(super) fn time(value: Option<f64>, field: &str, report: &mut impl FnMut(Code, String)) -> Option<Time> {
    let seconds = value?;
    if seconds.is_finite() && (0.0..=MOST_SECONDS).contains(&seconds) {
        return Some(Time((seconds * 1e6).round() as u64));
    }
    // Noise of a subtraction elsewhere is not a negative time.
    if seconds > -1e-6 && seconds < 0.0 {
        return Some(Time::ZERO);
    }
    report(Code::Time, format!("{field} is {seconds}"));
    None
}

/// The times of a record; `None` where start, end or switch cannot be used.
pub(super) fn execution(
    instance: &Instance,
    estimates_are_given: bool,
    task: TaskId,
    record: &Record,
    report: &mut impl FnMut(Code, String),
) -> Option<Times> {
    let arrival = time(record.arrival_time, "arrival_time", report);
    let ready = time(record.ready_time, "ready_time", report);
    let switch = time(Some(record.switch_time.unwrap_or(0.0)), "switch_time", report);
    let start = time(record.start_time, "start_time", report);
    let end = time(record.end_time, "end_time", report);
    let length = time(record.execution_time, "execution_time", report);
    let estimate = time(record.estimated_time, "estimated_time", report);

    let arrived = instance.requests[instance.request_of(task)].arrival;
    if let Some(said) = arrival.filter(|said| differ(said.0, arrived.0)) {
        report(
            Code::Arrival,
            format!("arrival_time is {}, but the request arrives at {}", s(said), s(arrived)),
        );
    }
    let expected = instance.execution(task).0;
    if let Some(said) = estimate.filter(|said| estimates_are_given && differ(said.0, expected)) {
        let says = if instance.interval(task).is_some() { "the predictor says" } else { "the node takes" };
        let message = format!("estimated_time is {}, but {says} {}", s(said), seconds(expected));
        report(Code::Estimate, message);
    }
    let low = time(record.predicted_low, "predicted_low", report);
    let high = time(record.predicted_high, "predicted_high", report);
    if let (Some(low), Some(high)) = (low, high)
        && low > high
    {
        let message = format!("predicted_low {} is above predicted_high {}", s(low), s(high));
        report(Code::Estimate, message);
    }
    let expected_low = time(record.expected_low, "expected_low", report);
    let expected_high = time(record.expected_high, "expected_high", report);
    time(record.expected_time, "expected_time", report);
    if let (Some(low), Some(high)) = (expected_low, expected_high)
        && low > high
    {
        let message = format!("expected_low {} is above expected_high {}", s(low), s(high));
        report(Code::Estimate, message);
    }
    if let Some((least, most)) = instance.interval(task).filter(|_| estimates_are_given) {
        for (field, said, expected) in [("predicted_low", low, least), ("predicted_high", high, most)] {
            if said.is_none_or(|said| differ(said.0, expected.0)) {
                let said = said.map_or("missing".to_owned(), s);
                let message = format!("{field} is {said}, but the predictor says {}", seconds(expected.0));
                report(Code::Estimate, message);
            }
        }
    }
    let (start, end, switch) = (start?, end?, switch?);
    if end < start {
        report(Code::TimeSum, format!("it ends at {}, before it starts at {}", s(end), s(start)));
        return None;
    }
    if let Some(length) = length.filter(|length| differ(length.0, end.since(start).0)) {
        let is = seconds(end.since(start).0);
        report(Code::TimeSum, format!("execution_time is {}, but end - start is {is}", s(length)));
    }
    if switch.0 > start.0.saturating_add(TOLERANCE) {
        let message = format!("a switch of {} that ends at {} begins before the run", s(switch), s(start));
        report(Code::Time, message);
    }
    Some(Times { ready, switch: Span(switch.0.min(start.0)), start, end })
}

/// What a run that learns expected of an execution when it began.
pub(super) fn expected(record: &Record) -> Option<Box<Estimate>> {
    let span = |value| time(value, "", &mut |_, _| {}).map(|at| Span(at.0));
    let (mean, low, high) =
        (span(record.expected_time)?, span(record.expected_low)?, span(record.expected_high)?);
    Some(Box::new(Estimate { mean, low, high }))
}

pub(super) fn differ(one: u64, other: u64) -> bool {
    one.abs_diff(other) > TOLERANCE
}
