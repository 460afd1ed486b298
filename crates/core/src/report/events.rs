//! The event log: one line per event, in time order.

use super::loads::{Loaded, loads};
use crate::id::{Gpus, RequestId};
use crate::instance::{Instance, Workflow};
use crate::log::{Execution, ExecutionLog, Status};
use crate::log_file::{digits, in_pieces, is_plain, shown};
use crate::time::Time;
use std::io::{self, Write};

/// At one instant in this order: ends, losses, unloads, arrivals, loads, starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ended(u32),
    Lost(u32),
    Unloaded(u32),
    Arrived(u32),
    Loading(u32),
    Started(u32),
}

/// Writes the timestamped scheduler log.
pub fn write_events(instance: &Instance, log: &ExecutionLog, out: &mut dyn Write) -> io::Result<()> {
    let loads = loads(instance, log);
    let mut events: Vec<(Time, Event)> =
        Vec::with_capacity(2 * log.executions.len() + instance.requests.len());
    events.extend((0..).zip(&instance.requests).map(|(id, request)| (request.arrival, Event::Arrived(id))));
    events.extend((0..).zip(&loads).map(|(number, load)| (load.start, Event::Loading(number))));
    events.extend((0..).zip(&log.losses).map(|(number, loss)| (loss.at, Event::Lost(number))));
    events.extend((0..).zip(&log.unloads).map(|(number, one)| (one.at, Event::Unloaded(number))));
    for (index, one) in (0..).zip(&log.executions) {
        events.push((one.end, Event::Ended(index)));
        // What was lost before its model was there never started.
        if one.end > one.start {
            events.push((one.start, Event::Started(index)));
        }
    }
    events.sort_unstable();
    let plain = plain_names(instance);
    in_pieces(&events, out, |_, piece| {
        let mut story = Story { instance, log, loads: &loads, plain, line: Vec::new() };
        piece.iter().for_each(|&(time, event)| story.write(time, event));
        story.line
    })?;
    out.flush()
}

/// Whether every name can be written as it is. Each is looked at once here, and not once a line.
fn plain_names(instance: &Instance) -> bool {
    let workflow = |one: &Workflow| is_plain(&one.name) && one.nodes.iter().all(|node| is_plain(node));
    instance.requests.iter().all(|request| is_plain(&request.name))
        && instance.models.iter().all(|model| is_plain(&model.name))
        && instance.workflows.iter().all(workflow)
}

/// Lines are put together from bytes: a run of a million nodes has millions, and the formatting of numbers by the
/// standard library would take most of the time.
struct Story<'a> {
    instance: &'a Instance,
    log: &'a ExecutionLog,
    loads: &'a [Loaded],
    /// No name has to be escaped.
    plain: bool,
    line: Vec<u8>,
}

impl Story<'_> {
    fn write(&mut self, time: Time, event: Event) {
        let (instance, log) = (self.instance, self.log);
        self.text("[");
        self.seconds(time.0);
        self.text("s] ");
        match event {
            Event::Arrived(id) => {
                let request = &instance.requests[RequestId(id)];
                let workflow = &instance.workflows[request.workflow].name;
                self.text("Request ");
                self.name(&request.name);
                self.text(" arrived (workflow ");
                self.name(workflow);
                self.text(")");
            }
            Event::Loading(number) => {
                let load = &self.loads[number as usize];
                let (verb, kind) = if load.switch { ("Switching to", "switch") } else { ("Loading", "cold") };
                let cut = if load.cut_short { ", cut short" } else { "" };
                self.texts(&[verb, " model "]);
                self.name(&instance.models[load.model].name);
                self.text(" on GPU(s) ");
                self.gpus(load.gpus);
                self.text(" (");
                self.seconds(load.length().0);
                self.texts(&["s, ", kind, cut, ")"]);
            }
            Event::Lost(number) => {
                self.text("Lost GPU ");
                self.number(log.losses[number as usize].gpu.0);
            }
            Event::Unloaded(number) => {
                let one = log.unloads[number as usize];
                self.text("Unloaded model ");
                self.name(&instance.models[one.model].name);
                self.text(" from GPU ");
                self.number(one.gpu.0);
            }
            Event::Started(index) => self.execution("Started", &log.executions[index as usize]),
            Event::Ended(index) => {
                let one = &log.executions[index as usize];
                let verb = match one.status {
                    Status::Completed => "Completed",
                    Status::Failed => "Failed",
                    Status::Lost => "Lost",
                    Status::Deferred => "Deferred",
                    Status::Cancelled => "Cancelled",
                };
                self.execution(verb, one);
            }
        }
        self.text("\n");
    }

    fn execution(&mut self, verb: &str, one: &Execution) {
        let instance = self.instance;
        let request = &instance.requests[instance.request_of(one.task)];
        let node = &instance.workflows[request.workflow].nodes[(one.task.0 - request.first_task.0) as usize];
        self.texts(&[verb, " node "]);
        self.name(node);
        self.text(" of request ");
        self.name(&request.name);
        self.text(" on GPU(s) ");
        self.gpus(one.gpus);
        if one.attempt > 1 || one.status != Status::Completed {
            self.text(" (attempt ");
            self.number(one.attempt);
            self.text(")");
        }
    }

    fn gpus(&mut self, gpus: Gpus) {
        for (place, gpu) in gpus.iter().enumerate() {
            self.text(if place == 0 { "[" } else { ", " });
            self.number(gpu.0);
        }
        self.text("]");
    }

    /// Two decimals.
    fn seconds(&mut self, micros: u64) {
        let hundredths = micros / 10_000 + u64::from(micros % 10_000 >= 5_000);
        digits(&mut self.line, hundredths / 100, 1);
        self.text(".");
        digits(&mut self.line, hundredths % 100, 2);
    }

    fn number(&mut self, number: u32) {
        digits(&mut self.line, u64::from(number), 1);
    }

    fn name(&mut self, name: &str) {
        if self.plain { self.text(name) } else { self.text(&shown(name)) }
    }

    fn texts(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.text(part));
    }

    fn text(&mut self, text: &str) {
        self.line.extend_from_slice(text.as_bytes());
    }
}
