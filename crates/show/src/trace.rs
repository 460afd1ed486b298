//! A log as a trace that Chrome's and Perfetto's viewers open: a process for each server, a track for each GPU, loads and
//! executions as pieces on it, arrows between nodes that depend on one another, and the queue as a counter.

use crate::run::queue_length;
use gswarm_core::log::{ExecutionLog, Status};
use gswarm_core::{GpuId, Gpus, Instance, Time};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Tracks of one GPU are numbered from its own number times this on: executions of a batch overlap, and viewers want
/// pieces of one track to be nested or apart.
const SLOTS: u32 = 1000;
/// The process of what is not on a GPU.
const WHOLE: u32 = u32::MAX >> 1;

/// Writes the trace, an event a line.
///
/// # Errors
/// What `out` says.
pub fn write_trace(instance: &Instance, log: &ExecutionLog, out: &mut dyn Write) -> io::Result<()> {
    let mut events = Events { out, first: true };
    events.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    let slots = slots(log);
    names(instance, &slots, &mut events)?;
    pieces(instance, log, &slots, &mut events)?;
    flows(instance, log, &slots, &mut events)?;
    for (at, waiting) in queue_length(log) {
        events.add(&json!({
            "ph": "C", "name": "ready and waiting", "pid": WHOLE, "ts": at * 1e6, "args": {"executions": waiting}
        }))?;
    }
    events.out.write_all(b"\n]}\n")
}

struct Events<'w> {
    out: &'w mut dyn Write,
    first: bool,
}

impl Events<'_> {
    fn add(&mut self, event: &Value) -> io::Result<()> {
        self.out.write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut *self.out, event)?;
        Ok(())
    }
}

/// For each execution, which track of its GPUs it is on: the first that is free.
fn slots(log: &ExecutionLog) -> Vec<u32> {
    let mut order: Vec<usize> = (0..log.executions.len()).collect();
    let begun =
        |at: usize| log.executions[at].start.0 - log.executions[at].switch.0.min(log.executions[at].start.0);
    order.sort_by_key(|&at| (begun(at), at));
    let mut slots = vec![0; log.executions.len()];
    // Executions that overlap on a GPU are of one replica, so the first GPU speaks for all.
    let mut busy: std::collections::BTreeMap<Gpus, Vec<Time>> = std::collections::BTreeMap::new();
    for at in order {
        let one = &log.executions[at];
        let ends = busy.entry(one.gpus).or_default();
        let free = ends.iter().position(|end| end.0 <= begun(at)).unwrap_or(ends.len());
        if free == ends.len() {
            ends.push(one.end);
        } else {
            ends[free] = one.end;
        }
        slots[at] = (free as u32).min(SLOTS - 1);
    }
    slots
}

fn track(instance: &Instance, gpu: GpuId, slot: u32) -> (u32, u32) {
    (instance.cluster.server_of(gpu.0), gpu.0 * SLOTS + slot)
}

fn names(instance: &Instance, slots: &[u32], events: &mut Events<'_>) -> io::Result<()> {
    let name = |what: &str, pid: u32, tid: u32, name: String| json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}});
    for server in 0..instance.cluster.servers() {
        events.add(&name("process_name", server, 0, format!("server {server}")))?;
    }
    events.add(&name("process_name", WHOLE, 0, "queue".to_owned()))?;
    let most = slots.iter().max().copied().unwrap_or(0);
    for gpu in (0..instance.cluster.gpus).map(GpuId) {
        for slot in 0..=most {
            let (pid, tid) = track(instance, gpu, slot);
            let suffix = if slot == 0 { String::new() } else { format!(", {} of a batch", slot + 1) };
            events.add(&name("thread_name", pid, tid, format!("GPU {}{suffix}", gpu.0)))?;
        }
    }
    Ok(())
}

fn pieces(instance: &Instance, log: &ExecutionLog, slots: &[u32], events: &mut Events<'_>) -> io::Result<()> {
    let known = |gpus: Gpus| gpus.range().end <= instance.cluster.gpus as usize;
    for (one, &slot) in log.executions.iter().zip(slots).filter(|(one, _)| known(one.gpus)) {
        let model = &instance.models[instance.model_of(one.task)].name;
        let node = instance.task_name(one.task);
        for gpu in one.gpus.iter() {
            let (pid, tid) = track(instance, gpu, slot);
            if one.switch.0 > 0 {
                let begin = one.start.0.saturating_sub(one.switch.0);
                events.add(&json!({
                    "ph": "X", "cat": "load", "name": format!("load {model}"), "pid": pid, "tid": tid,
                    "ts": begin, "dur": one.start.0 - begin, "args": {"model": model, "for": node}
                }))?;
            }
            events.add(&json!({
                "ph": "X", "cat": "execution", "name": node, "pid": pid, "tid": tid, "ts": one.start.0,
                "dur": one.end.since(one.start).0, "args": {
                    "model": model, "ready_us": one.ready.0, "waited_us": one.start.since(one.ready).0,
                    "batch": one.batch, "attempt": one.attempt, "status": one.status.name()
                }
            }))?;
        }
    }
    for one in log.loads.iter().filter(|one| known(one.gpus)) {
        let model = &instance.models[one.model].name;
        for gpu in one.gpus.iter() {
            let (pid, tid) = track(instance, gpu, 0);
            events.add(&json!({
                "ph": "X", "cat": "load", "name": format!("load {model}"), "pid": pid, "tid": tid,
                "ts": one.start.0, "dur": one.end.since(one.start).0, "args": {"model": model}
            }))?;
        }
    }
    Ok(())
}

/// From the end of each node to the start of those that read what it wrote.
fn flows(instance: &Instance, log: &ExecutionLog, slots: &[u32], events: &mut Events<'_>) -> io::Result<()> {
    let mut result = vec![usize::MAX; instance.tasks()];
    for (at, one) in log.executions.iter().enumerate().filter(|(_, one)| one.status == Status::Completed) {
        result[one.task.index()] = at;
    }
    let mut id = 0u64;
    for (at, one) in log.executions.iter().enumerate().filter(|&(at, one)| result[one.task.index()] == at) {
        for next in instance.successors(one.task).map(|task| result[task.index()]) {
            let Some(reader) = log.executions.get(next) else { continue };
            id += 1;
            let (pid, tid) = track(instance, one.gpus.first, slots[at]);
            events.add(&json!({
                "ph": "s", "cat": "flow", "name": "result", "id": id, "pid": pid, "tid": tid,
                "ts": one.end.0.saturating_sub(1).max(one.start.0)
            }))?;
            let (pid, tid) = track(instance, reader.gpus.first, slots[next]);
            events.add(&json!({
                "ph": "f", "bp": "e", "cat": "flow", "name": "result", "id": id, "pid": pid, "tid": tid,
                "ts": reader.start.0
            }))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn trace(instance: &Instance, log: &ExecutionLog) -> Vec<Value> {
        let mut bytes = Vec::new();
        write_trace(instance, log, &mut bytes).unwrap();
        let trace: Value = serde_json::from_slice(&bytes).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn every_execution_and_load_is_a_piece_on_each_of_its_gpus() {
        let (instance, log) = testing::run("baseline", 12);
        let events = trace(&instance, &log);
        let of = |phase: &str, category: Option<&str>| {
            let fits = |event: &&Value| {
                event["ph"] == phase && category.is_none_or(|category| event["cat"] == category)
            };
            events.iter().filter(fits).collect::<Vec<_>>()
        };
        let on_gpus: u32 = log.executions.iter().map(|one| one.gpus.count).sum();
        assert_eq!(of("X", Some("execution")).len(), on_gpus as usize);
        let busy: u64 = of("X", Some("execution")).iter().map(|event| event["dur"].as_u64().unwrap()).sum();
        let expected: u64 =
            log.executions.iter().map(|one| one.end.since(one.start).0 * u64::from(one.gpus.count)).sum();
        assert_eq!(busy, expected);
        let loads =
            log.executions.iter().filter(|one| one.switch.0 > 0).map(|one| one.gpus.count).sum::<u32>();
        assert_eq!(of("X", Some("load")).len(), loads as usize);
        // Eight stories have two edges each; both ends of each arrow are there.
        assert_eq!((of("s", None).len(), of("f", None).len()), (16, 16));
        assert!(!of("C", None).is_empty());
        assert_eq!(of("M", None).len(), 2 + 1 + 4);
    }

    #[test]
    fn pieces_of_one_track_do_not_overlap() {
        let (instance, log) = testing::run("baseline", 30);
        let mut pieces: Vec<(u64, u64, u64)> = trace(&instance, &log)
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|event| {
                (
                    event["tid"].as_u64().unwrap(),
                    event["ts"].as_u64().unwrap(),
                    event["dur"].as_u64().unwrap(),
                )
            })
            .collect();
        pieces.sort_unstable();
        for pair in pieces.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            assert!(pair[0].1 + pair[0].2 <= pair[1].1, "{pair:?}");
        }
    }
}
