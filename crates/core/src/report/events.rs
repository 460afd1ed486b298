//! The log as a story: one line for everything that happened, by time.

use super::loads::loads;
use crate::id::RequestId;
use crate::instance::Instance;
use crate::log::{ExecutionLog, Status};
use crate::time::Time;
use std::io::{self, Write};

/// At one instant in this order: ends, losses, arrivals, loads, starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ended(u32),
    Lost(u32),
    Arrived(u32),
    Loading(u32),
    Started(u32),
}

/// Writes the timestamped scheduler log.
pub fn write_events(instance: &Instance, log: &ExecutionLog, out: &mut impl Write) -> io::Result<()> {
    let loads = loads(instance, log);
    let mut events: Vec<(Time, Event)> =
        Vec::with_capacity(2 * log.executions.len() + instance.requests.len());
    events.extend((0..).zip(&instance.requests).map(|(id, request)| (request.arrival, Event::Arrived(id))));
    events.extend((0..).zip(&loads).map(|(number, load)| (load.start, Event::Loading(number))));
    events.extend((0..).zip(&log.losses).map(|(number, loss)| (loss.at, Event::Lost(number))));
    for (index, one) in (0..).zip(&log.executions) {
        events.push((one.end, Event::Ended(index)));
        // What was lost before its model was there never started.
        if one.end > one.start {
            events.push((one.start, Event::Started(index)));
        }
    }
    events.sort_unstable();
    let mut out = io::BufWriter::with_capacity(1 << 16, out);
    for (time, event) in events {
        write!(out, "[{:.2}s] ", time.seconds())?;
        match event {
            Event::Arrived(id) => {
                let request = &instance.requests[RequestId(id)];
                let workflow = &instance.workflows[request.workflow].name;
                writeln!(out, "Request {} arrived (workflow {workflow})", request.name)?;
            }
            Event::Loading(number) => {
                let load = &loads[number as usize];
                let (verb, kind) = if load.switch { ("Switching to", "switch") } else { ("Loading", "cold") };
                let cut = if load.lost { ", cut short by a lost GPU" } else { "" };
                let model = &instance.models[load.model].name;
                writeln!(
                    out,
                    "{verb} model {model} on GPU(s) {} ({}, {kind}{cut})",
                    load.gpus,
                    load.length()
                )?;
            }
            Event::Lost(number) => writeln!(out, "Lost GPU {}", log.losses[number as usize].gpu.0)?,
            Event::Started(index) | Event::Ended(index) => {
                let one = &log.executions[index as usize];
                let verb = match (event, one.status) {
                    (Event::Started(_), _) => "Started",
                    (_, Status::Completed) => "Completed",
                    (_, Status::Failed) => "Failed",
                    (_, Status::Lost) => "Lost",
                };
                let request = &instance.requests[instance.request_of(one.task)];
                let node = &instance.workflow_of(one.task).nodes[instance.node_of(one.task) as usize];
                write!(out, "{verb} node {node} of request {} on GPU(s) {}", request.name, one.gpus)?;
                if one.attempt > 1 || one.status != Status::Completed {
                    write!(out, " (attempt {})", one.attempt)?;
                }
                writeln!(out)?;
            }
        }
    }
    out.flush()
}
