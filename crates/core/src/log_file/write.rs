//! Writing both forms of a log. Times are written from their whole microseconds, so the same run gives the same bytes.

use super::SCHEMA;
use super::published::PublishedDeployment;
use super::summary::{Claims, Summary};
use crate::id::{Gpus, ModelId};
use crate::instance::Instance;
use crate::log::{Execution, ExecutionLog, Load, Loss, Unload};
use rayon::prelude::*;
use std::io::{self, Write};

/// Records that a thread puts into words at a time, and how many such pieces there are before they are written.
const PIECE: usize = 4096;
const PIECES: usize = 32;

/// The form with everything in one JSON object, one record a line.
pub fn write_json(
    instance: &Instance,
    log: &ExecutionLog,
    summary: &Summary,
    out: &mut dyn Write,
) -> io::Result<()> {
    let names = Names::of(instance);
    let mut head = Writer::new(&names);
    head.text("{\n  \"schema\": ");
    head.number(SCHEMA);
    head.text(",\n  \"summary\": ");
    head.summary(summary)?;
    head.published(summary)?;
    head.text(",\n  \"executions\": [");
    out.write_all(&head.buffer)?;
    list(&names, &log.executions, out, |writer, one| writer.execution(one))?;
    if !log.loads.is_empty() {
        out.write_all(b",\n  \"loads\": [")?;
        list(&names, &log.loads, out, |writer, load| writer.load(load, false))?;
    }
    if !log.losses.is_empty() {
        out.write_all(b",\n  \"lost_gpus\": [")?;
        list(&names, &log.losses, out, |writer, loss| writer.loss(*loss, false))?;
    }
    if !log.unloads.is_empty() {
        out.write_all(b",\n  \"unloads\": [")?;
        list(&names, &log.unloads, out, |writer, one| writer.unload(*one, false))?;
    }
    out.write_all(b"\n}\n")?;
    out.flush()
}

/// The form with a header line and then one record a line: executions, then loads, lost GPUs and unloads.
pub fn write_jsonl(
    instance: &Instance,
    log: &ExecutionLog,
    summary: &Summary,
    out: &mut dyn Write,
) -> io::Result<()> {
    let names = Names::of(instance);
    let mut head = Writer::new(&names);
    head.text("{\"kind\": \"header\", \"schema\": ");
    head.number(SCHEMA);
    head.text(", \"summary\": ");
    head.summary(summary)?;
    head.text("}\n");
    out.write_all(&head.buffer)?;
    lines(&names, &log.executions, out, |writer, one| writer.execution(one))?;
    lines(&names, &log.loads, out, |writer, load| writer.load(load, true))?;
    lines(&names, &log.losses, out, |writer, loss| writer.loss(*loss, true))?;
    lines(&names, &log.unloads, out, |writer, one| writer.unload(*one, true))?;
    out.flush()
}

/// The items of a JSON list, and its end.
fn list<T: Sync>(
    names: &Names<'_>,
    items: &[T],
    out: &mut dyn Write,
    each: impl Fn(&mut Writer<'_>, &T) + Sync,
) -> io::Result<()> {
    in_pieces(items, out, |first, piece| {
        let mut writer = Writer::new(names);
        for (place, item) in (first..).zip(piece) {
            writer.text(if place == 0 { "\n    " } else { ",\n    " });
            each(&mut writer, item);
        }
        writer.buffer
    })?;
    out.write_all(b"\n  ]")
}

fn lines<T: Sync>(
    names: &Names<'_>,
    items: &[T],
    out: &mut dyn Write,
    each: impl Fn(&mut Writer<'_>, &T) + Sync,
) -> io::Result<()> {
    in_pieces(items, out, |_, piece| {
        let mut writer = Writer::new(names);
        for item in piece {
            each(&mut writer, item);
            writer.text("\n");
        }
        writer.buffer
    })
}

/// Writes what `text` makes of pieces of a list, in order; the pieces are made on all cores. `text` is told the place of the
/// first item.
pub(crate) fn in_pieces<T: Sync>(
    items: &[T],
    out: &mut dyn Write,
    text: impl Fn(usize, &[T]) -> Vec<u8> + Sync,
) -> io::Result<()> {
    for (number, some) in items.chunks(PIECE * PIECES).enumerate() {
        let of_piece = |(place, piece): (usize, &[T])| text((number * PIECES + place) * PIECE, piece);
        let texts: Vec<Vec<u8>> = some.par_chunks(PIECE).enumerate().map(of_piece).collect();
        texts.iter().try_for_each(|text| out.write_all(text))?;
    }
    Ok(())
}

/// Names as JSON strings, escaped once: of models, of workflows, and of their nodes.
struct Names<'a> {
    instance: &'a Instance,
    models: Vec<String>,
    workflows: Vec<String>,
    nodes: Vec<Vec<String>>,
}

impl<'a> Names<'a> {
    fn of(instance: &'a Instance) -> Names<'a> {
        Names {
            instance,
            models: instance.models.iter().map(|model| quoted(&model.name)).collect(),
            workflows: instance.workflows.iter().map(|workflow| quoted(&workflow.name)).collect(),
            nodes: instance
                .workflows
                .iter()
                .map(|workflow| workflow.nodes.iter().map(|node| quoted(node)).collect())
                .collect(),
        }
    }
}

struct Writer<'a> {
    names: &'a Names<'a>,
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(names: &'a Names<'a>) -> Writer<'a> {
        Writer { names, buffer: Vec::new() }
    }

    fn summary(&mut self, summary: &Summary) -> io::Result<()> {
        serde_json::to_writer(&mut self.buffer, &Claims::from(summary)).map_err(io::Error::from)
    }

    /// The deployment of a static run, as the published programs write it.
    fn published(&mut self, summary: &Summary) -> io::Result<()> {
        let Some(deployment) = &summary.deployment else { return Ok(()) };
        let (gpus, per) = (summary.gpus, summary.gpus_per_server);
        let published = PublishedDeployment::of(deployment, gpus, per, summary.model_switches);
        let text = serde_json::to_string(&published).map_err(io::Error::from)?;
        // The fields of an object, to stand among others.
        self.text(",\n  ");
        self.text(text.trim_start_matches('{').strip_suffix('}').unwrap_or_default());
        Ok(())
    }

    fn execution(&mut self, execution: &Execution) {
        let instance = self.names.instance;
        let (task, id) = (execution.task, instance.request_of(execution.task));
        let request = &instance.requests[id];
        let (workflow, node) = (request.workflow.index(), instance.node_of(task) as usize);
        self.text("{\"request_id\": ");
        escape(&mut self.buffer, &request.name);
        self.text(", \"workflow_id\": ");
        self.buffer.extend_from_slice(self.names.workflows[workflow].as_bytes());
        self.text(", \"node_id\": ");
        self.buffer.extend_from_slice(self.names.nodes[workflow][node].as_bytes());
        self.text(", \"model_name\": ");
        self.buffer.extend_from_slice(self.names.models[instance.model_of(task).index()].as_bytes());
        self.text(", \"gpu_id\": ");
        self.number(u64::from(execution.gpus.first.0));
        self.gpus(execution.gpus);
        self.field(", \"arrival_time\": ", request.arrival.0);
        self.field(", \"ready_time\": ", execution.ready.0);
        self.field(", \"switch_time\": ", execution.switch.0);
        self.field(", \"start_time\": ", execution.start.0);
        self.field(", \"end_time\": ", execution.end.0);
        self.field(", \"execution_time\": ", execution.end.since(execution.start).0);
        self.field(", \"estimated_time\": ", instance.execution(task).0);
        if let Some((low, high)) = instance.interval(task) {
            self.field(", \"predicted_low\": ", low.0);
            self.field(", \"predicted_high\": ", high.0);
        }
        if let Some(expected) = &execution.expected {
            self.field(", \"expected_time\": ", expected.mean.0);
            self.field(", \"expected_low\": ", expected.low.0);
            self.field(", \"expected_high\": ", expected.high.0);
        }
        self.text(", \"batch_size\": ");
        self.number(u64::from(execution.batch));
        self.text(", \"attempt\": ");
        self.number(u64::from(execution.attempt));
        self.text(", \"status\": \"");
        self.text(execution.status.name());
        self.text("\"");
        self.evicted(&execution.evicted);
        self.text("}");
    }

    fn load(&mut self, load: &Load, kind: bool) {
        self.text(if kind { "{\"kind\": \"load\", \"model_name\": " } else { "{\"model_name\": " });
        self.buffer.extend_from_slice(self.names.models[load.model.index()].as_bytes());
        self.gpus(load.gpus);
        self.field(", \"start_time\": ", load.start.0);
        self.field(", \"end_time\": ", load.end.0);
        self.text(", \"status\": \"");
        self.text(load.status.name());
        self.text("\"");
        self.evicted(&load.evicted);
        self.text("}");
    }

    fn loss(&mut self, loss: Loss, kind: bool) {
        self.text(if kind { "{\"kind\": \"lost_gpu\", \"gpu_id\": " } else { "{\"gpu_id\": " });
        self.number(u64::from(loss.gpu.0));
        self.field(", \"time\": ", loss.at.0);
        if let Some(until) = loss.until {
            self.field(", \"until\": ", until.0);
        }
        self.text("}");
    }

    fn unload(&mut self, one: Unload, kind: bool) {
        self.text(if kind { "{\"kind\": \"unload\", \"gpu_id\": " } else { "{\"gpu_id\": " });
        self.number(u64::from(one.gpu.0));
        self.text(", \"model_name\": ");
        self.buffer.extend_from_slice(self.names.models[one.model.index()].as_bytes());
        self.field(", \"time\": ", one.at.0);
        self.text("}");
    }

    fn gpus(&mut self, gpus: Gpus) {
        self.text(", \"gpu_ids\": [");
        for (place, gpu) in gpus.iter().enumerate() {
            self.text(if place == 0 { "" } else { ", " });
            self.number(u64::from(gpu.0));
        }
        self.text("]");
    }

    fn evicted(&mut self, models: &[ModelId]) {
        for (place, model) in models.iter().enumerate() {
            self.text(if place == 0 { ", \"evicted\": [" } else { ", " });
            self.buffer.extend_from_slice(self.names.models[model.index()].as_bytes());
        }
        self.text(if models.is_empty() { "" } else { "]" });
    }

    fn field(&mut self, name: &str, micros: u64) {
        self.text(name);
        seconds(&mut self.buffer, micros);
    }

    fn number(&mut self, number: u64) {
        digits(&mut self.buffer, number, 1);
    }

    fn text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn escape(buffer: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\') {
        buffer.push(b'"');
        buffer.extend_from_slice(text.as_bytes());
        buffer.push(b'"');
    } else {
        buffer.extend_from_slice(quoted(text).as_bytes());
    }
}

/// Whole microseconds as seconds: exact, at least one decimal, no more than needed.
fn seconds(buffer: &mut Vec<u8>, micros: u64) {
    digits(buffer, micros / 1_000_000, 1);
    buffer.push(b'.');
    let (mut fraction, mut places) = (micros % 1_000_000, 6);
    while places > 1 && fraction % 10 == 0 {
        fraction /= 10;
        places -= 1;
    }
    digits(buffer, fraction, places);
}

/// A whole number with at least so many places.
pub(crate) fn digits(buffer: &mut Vec<u8>, mut number: u64, places: usize) {
    let (mut text, mut at) = ([b'0'; 20], 20);
    while number > 0 {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    buffer.extend_from_slice(&text[at.min(20 - places)..]);
}

#[cfg(test)]
mod tests {
    #[test]
    fn seconds_are_exact_and_have_a_decimal() {
        let rows = [
            (0, "0.0"),
            (1, "0.000001"),
            (8_500_000, "8.5"),
            (45_300_001, "45.300001"),
            (100_000_000, "100.0"),
            (10_010, "0.01001"),
            (u64::MAX, "18446744073709.551615"),
        ];
        for (micros, text) in rows {
            let mut buffer = Vec::new();
            super::seconds(&mut buffer, micros);
            assert_eq!(String::from_utf8(buffer).unwrap(), text);
        }
    }
}
