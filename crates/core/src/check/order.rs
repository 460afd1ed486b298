//! Nothing starts before its request has arrived and its inputs are available.

use super::arithmetic::differ;
use super::context::{Context, TOLERANCE, s};
use super::identity::Tasks;
use crate::log::Execution;
use crate::violation::ViolationCode as Code;

pub(super) fn check(context: &mut Context<'_>, tasks: &Tasks) {
    let log = context.log;
    for task in context.instance.task_ids() {
        let mut before: Option<&Execution> = None;
        for index in tasks.attempts(task).iter().map(|&index| index as usize) {
            let one = &log.executions[index];
            if context.sound.times[index] {
                attempt(context, tasks, index, before);
                before = Some(one);
            }
        }
    }
}

fn attempt(context: &mut Context<'_>, tasks: &Tasks, index: usize, before: Option<&Execution>) {
    let (instance, one) = (context.instance, &context.log.executions[index]);
    let request = &instance.requests[instance.request_of(one.task)];
    let starts = one.start.0.saturating_add(TOLERANCE);
    if starts < request.arrival.0 {
        let message =
            format!("it starts at {}, but its request arrives at {}", s(one.start), s(request.arrival));
        context.at(Code::BeforeArrival, index, message);
    }
    let (mut ready, mut known) = (request.arrival, true);
    for input in instance.predecessors(one.task) {
        let Some(end) = tasks.completed[input.index()] else {
            known = false;
            let message = format!("it runs although its input {} never completed", instance.task_name(input));
            context.at(Code::BeforeInput, index, message);
            continue;
        };
        ready = ready.max(end);
        if starts < end.0 {
            let input = instance.task_name(input);
            let message = format!("it starts at {}, but its input {input} ends at {}", s(one.start), s(end));
            context.at(Code::BeforeInput, index, message);
        }
    }
    // Under a real clock whoever schedules learns of arrivals and ends a little later than they are.
    let learnt_later = context.measured && one.ready > ready;
    match before {
        None if known && !learnt_later && one.attempt == 1 && differ(one.ready.0, ready.0) => {
            let message = format!("ready_time is {}, but arrival and inputs give {}", s(one.ready), s(ready));
            context.at(Code::Ready, index, message);
        }
        Some(last) if one.attempt > last.attempt && one.ready.0.saturating_add(TOLERANCE) < last.end.0 => {
            let message =
                format!("ready_time is {}, but the attempt before ended at {}", s(one.ready), s(last.end));
            context.at(Code::Ready, index, message);
        }
        _ => {}
    }
    // Where the start is before the true ready time, that was said above.
    if starts < one.ready.0 && starts >= ready.0 {
        context.at(
            Code::Ready,
            index,
            format!("it starts at {}, before its ready_time {}", s(one.start), s(one.ready)),
        );
    }
}
