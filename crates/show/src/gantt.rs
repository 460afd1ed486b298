//! The data of a Gantt chart: a log as columns of small numbers, packed tightly enough for a million executions.
//!
//! Rows are executions and loads by the moment they took their GPUs. What can be told from something else is not sent: a
//! task's number says its request, node and model, the model how many GPUs; why a node waited is what its GPUs did meanwhile.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use gswarm_core::log::{ExecutionLog, Status};
use gswarm_core::{Instance, Time};
use serde_json::{Value, json};
use std::io::Write;

/// Above this many bars, times are rounded to a ten-millionth of the run or less.
const EXACT: usize = 200_000;
/// The most bars of one report.
pub const MOST_BARS: usize = 1_200_000;

/// A Gantt chart, ready for a page.
#[derive(Clone, Debug)]
pub struct Gantt {
    /// Which run it shows.
    pub title: String,
    /// What was rounded or left out.
    pub note: String,
    data: Value,
}

/// One bar: an execution with the load before it, or a load ahead of any.
struct Row {
    begin: u64,
    switch: u64,
    length: u64,
    wait: u64,
    gpu: u32,
    /// Its task and one; 0 for a load ahead.
    task: u32,
    /// Of a load ahead.
    model: u32,
    batch: u32,
    status: Status,
}

impl Gantt {
    /// Of a log, with at most so many bars; `bound` is drawn as a line.
    #[must_use]
    pub fn of(
        instance: &Instance,
        log: &ExecutionLog,
        title: String,
        bound: Option<f64>,
        most: usize,
    ) -> Gantt {
        let mut rows = rows(log);
        let all = rows.len();
        let mut notes = Vec::new();
        if all > most {
            notes.push(thin(&mut rows, most));
        }
        rows.sort_unstable_by_key(|row| (row.begin, row.gpu, row.task));
        let last = rows.iter().map(|row| row.begin + row.switch + row.length).max().unwrap_or(0);
        let tick = if all > EXACT { tick(last) } else { 1 };
        if tick > 1 {
            notes.push(format!(
                "Times on it are rounded to {} s; all other figures are exact.",
                tick as f64 / 1e6
            ));
        }
        if notes.is_empty() {
            notes.push(format!(
                "All {} bars are drawn, exact to the microsecond.",
                crate::number::grouped(all as f64, 0)
            ));
        } else if all <= most {
            notes.insert(0, format!("All {} bars are drawn.", crate::number::grouped(all as f64, 0)));
        }
        let data = json!({
            "tick": tick as f64 / 1e6,
            "count": rows.len(),
            "gpus": instance.cluster.gpus,
            "perServer": instance.cluster.gpus_per_server,
            "first": first_arrival(instance).seconds(),
            "last": last as f64 / 1e6,
            "bound": bound,
            "models": instance.models.iter().map(|model| json!([model.name, model.gpus])).collect::<Vec<_>>(),
            "workflows": instance.workflows.iter().map(|workflow| {
                json!([workflow.name, workflow.nodes, workflow.models.iter().map(|model| model.0).collect::<Vec<_>>()])
            }).collect::<Vec<_>>(),
            "columns": columns(&rows, tick),
            "requests": {
                "count": instance.requests.len(),
                "workflow": packed(instance.requests.iter().map(|request| u64::from(request.workflow.0))),
                "names": deflated(&names(instance)),
            },
        });
        Gantt { title, note: notes.join(" "), data }
    }

    /// As text that can stand in a script of a page.
    #[must_use]
    pub fn json(&self) -> String {
        self.data.to_string().replace('<', "\\u003c")
    }
}

fn first_arrival(instance: &Instance) -> Time {
    instance.requests.iter().map(|request| request.arrival).min().unwrap_or(Time::ZERO)
}

fn rows(log: &ExecutionLog) -> Vec<Row> {
    let executions = log.executions.iter().map(|one| Row {
        begin: one.start.0.saturating_sub(one.switch.0),
        switch: one.switch.0.min(one.start.0),
        length: one.end.since(one.start).0,
        wait: one.start.since(one.ready).0,
        gpu: one.gpus.first.0,
        task: one.task.0 + 1,
        model: 0,
        batch: one.batch,
        status: one.status,
    });
    let loads = log.loads.iter().map(|one| Row {
        begin: one.start.0,
        switch: one.end.since(one.start).0,
        length: 0,
        wait: 0,
        gpu: one.gpus.first.0,
        task: 0,
        model: one.model.0,
        batch: 1,
        status: one.status,
    });
    executions.chain(loads).collect()
}

/// Leaves out the shortest bars that have no load, and says what that comes to.
fn thin(rows: &mut Vec<Row>, most: usize) -> String {
    let before = rows.len();
    let worth = |row: &Row| (row.switch > 0, row.length);
    rows.sort_unstable_by_key(|row| std::cmp::Reverse(worth(row)));
    let total: u128 = rows.iter().map(|row| u128::from(row.length)).sum();
    let gone: u128 = rows[most..].iter().map(|row| u128::from(row.length)).sum();
    let longest = rows[most..].iter().map(|row| row.length).max().unwrap_or(0);
    rows.truncate(most);
    format!(
        "Thinned: of {} bars the {} shortest without a load are left out; none of them is longer than {:.3} s, and together they \
         are {:.2}% of the execution time.",
        crate::number::grouped(before as f64, 0),
        crate::number::grouped((before - most) as f64, 0),
        longest as f64 / 1e6,
        gone as f64 / (total.max(1)) as f64 * 100.0
    )
}

/// The largest power of ten microseconds of which the run has ten million.
fn tick(last: u64) -> u64 {
    let mut tick = 1;
    while last / (tick * 10) >= 10_000_000 {
        tick *= 10;
    }
    tick
}

fn columns(rows: &[Row], tick: u64) -> Value {
    let mut before = 0;
    let begins = rows.iter().map(|row| {
        let at = row.begin / tick;
        let step = at - before;
        before = at;
        step
    });
    let begins = packed(begins);
    let mut before = 0i64;
    let tasks = rows.iter().map(|row| {
        let step = i64::from(row.task) - before;
        before = i64::from(row.task);
        // Small numbers of either sign become small numbers.
        ((step << 1) ^ (step >> 63)) as u64
    });
    let tasks = packed(tasks);
    // Ends are rounded, not lengths: bars that touch go on touching.
    let cut = |from: u64, length: u64| (from + length) / tick - from / tick;
    let unusual = rows.iter().enumerate().filter(|(_, row)| row.status != Status::Completed);
    json!({
        "begin": begins,
        "switch": packed(rows.iter().map(|row| cut(row.begin, row.switch))),
        "length": packed(rows.iter().map(|row| cut(row.begin + row.switch, row.length))),
        "wait": packed(rows.iter().map(|row| row.wait / tick)),
        "gpu": packed(rows.iter().map(|row| u64::from(row.gpu))),
        "task": tasks,
        "batch": packed(rows.iter().map(|row| u64::from(row.batch))),
        "loads": rows.iter().filter(|row| row.task == 0).map(|row| row.model).collect::<Vec<_>>(),
        "unusual": unusual.map(|(at, row)| json!([at, row.status.name()])).collect::<Vec<_>>(),
    })
}

/// The names of all requests, a line each, without what a name shares with the one before it.
fn names(instance: &Instance) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut before: &str = "";
    for request in &instance.requests {
        let name = request.name.as_str();
        let mut shared = before.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count().min(255);
        while !name.is_char_boundary(shared) {
            shared -= 1;
        }
        bytes.push(shared as u8);
        let rest = &name.as_bytes()[shared..];
        push(&mut bytes, rest.len() as u64);
        bytes.extend_from_slice(rest);
        before = name;
    }
    bytes
}

/// Seven bits a byte, the lowest first; the eighth says that there is more.
fn push(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn packed(values: impl Iterator<Item = u64>) -> String {
    let mut bytes = Vec::new();
    values.for_each(|value| push(&mut bytes, value));
    deflated(&bytes)
}

/// Compressed as browsers can undo it, as text.
fn deflated(bytes: &[u8]) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(4));
    // Writing into memory does not fail.
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default();
    BASE64_STANDARD.encode(packed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use flate2::read::ZlibDecoder;
    use std::io::Read;

    fn unpacked(text: &Value) -> Vec<u64> {
        let packed = BASE64_STANDARD.decode(text.as_str().unwrap()).unwrap();
        let mut bytes = Vec::new();
        ZlibDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let (mut values, mut value, mut shift) = (Vec::new(), 0u64, 0);
        for byte in bytes {
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                values.push(value);
                (value, shift) = (0, 0);
            }
        }
        values
    }

    #[test]
    fn the_columns_hold_the_log() {
        let (instance, log) = testing::run("baseline", 20);
        let gantt = Gantt::of(&instance, &log, "t".into(), None, MOST_BARS);
        let columns = &gantt.data["columns"];
        assert_eq!(gantt.data["count"], log.executions.len() + log.loads.len());
        let busy: u64 = unpacked(&columns["length"]).iter().sum();
        assert_eq!(busy, log.executions.iter().map(|one| one.end.since(one.start).0).sum::<u64>());
        let waits: u64 = unpacked(&columns["wait"]).iter().sum();
        assert_eq!(waits, log.executions.iter().map(|one| one.start.since(one.ready).0).sum::<u64>());
        let begun: u64 = unpacked(&columns["begin"]).iter().sum();
        assert_eq!(begun, log.executions.iter().map(|one| one.start.0 - one.switch.0).max().unwrap());
        assert!(gantt.note.contains("exact"), "{}", gantt.note);
    }

    #[test]
    fn what_is_left_out_is_said_and_loads_stay() {
        let (instance, log) = testing::run("baseline", 20);
        let loads = log.executions.iter().filter(|one| one.switch.0 > 0).count();
        let most = loads + 5;
        let gantt = Gantt::of(&instance, &log, "t".into(), None, most);
        assert_eq!(gantt.data["count"], most);
        let switched =
            unpacked(&gantt.data["columns"]["switch"]).iter().filter(|&&switch| switch > 0).count();
        assert_eq!(switched, loads);
        assert!(
            gantt.note.contains(&format!("the {} shortest", log.executions.len() - most)),
            "{}",
            gantt.note
        );
    }

    #[test]
    fn ticks_keep_ten_million_steps() {
        assert_eq!((tick(5_000_000), tick(100_000_000), tick(2_000_000_000_000)), (1, 10, 100_000));
    }

    #[test]
    fn no_text_ends_the_script() {
        let (instance, log) = testing::run("baseline", 3);
        let mut gantt = Gantt::of(&instance, &log, "t".into(), None, MOST_BARS);
        gantt.data["models"] = json!(["</script>"]);
        assert!(!gantt.json().contains('<') && serde_json::from_str::<Value>(&gantt.json()).is_ok());
    }
}
