//! What happened, and its file: JSON lines, a head, a line a task, and a summary.

use super::machine::Machine;
use gswarm_core::Time;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// The first field of the head.
pub const FORMAT: &str = "gswarm-task-log/1";

/// A task's part on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuPart {
    /// Which one, from 0.
    pub gpu: u32,
    /// When its data set out.
    pub transfer_start: Time,
    /// When its data was there.
    pub transfer_end: Time,
    /// When it started.
    pub start: Time,
    /// When it was done.
    pub end: Time,
}

/// A task's part on the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuPart {
    /// When it started.
    pub start: Time,
    /// When it was done.
    pub end: Time,
}

/// What happened to a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskRecord {
    /// When it had come, and all that it waits for was done.
    pub ready: Time,
    /// What went to the GPU, in millionths.
    pub share: u32,
    /// Its part on a GPU, where it has one.
    pub gpu: Option<GpuPart>,
    /// Its part on the CPU, where it has one.
    pub cpu: Option<CpuPart>,
    /// When it was done.
    pub finish: Time,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskLog {
    /// Who decided.
    pub policy: String,
    /// Where it ran.
    pub machine: Machine,
    /// Tasks by name, in the order of the workload.
    pub records: Vec<(String, TaskRecord)>,
    /// The makespan that the log claims.
    pub makespan: Time,
    /// The energy that the log claims.
    pub joules: f64,
}

/// Why a file is no log.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LogError {
    /// From 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: String,
    policy: String,
    tasks: usize,
    machine: Machine,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    task: String,
    ready: u64,
    gpu_share: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<GpuLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<[u64; 2]>,
    finish: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuLine {
    device: u32,
    transfer: [u64; 2],
    run: [u64; 2],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Summary {
    makespan_us: u64,
    energy_joules: f64,
}

impl TaskLog {
    /// Writes the file.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let head = Head {
            format: FORMAT.to_string(),
            policy: self.policy.clone(),
            tasks: self.records.len(),
            machine: self.machine.clone(),
        };
        serde_json::to_writer(&mut *out, &head)?;
        out.write_all(b"\n")?;
        for (task, record) in &self.records {
            let line = Line {
                task: task.clone(),
                ready: record.ready.0,
                gpu_share: record.share,
                gpu: record.gpu.map(|part| GpuLine {
                    device: part.gpu,
                    transfer: [part.transfer_start.0, part.transfer_end.0],
                    run: [part.start.0, part.end.0],
                }),
                cpu: record.cpu.map(|part| [part.start.0, part.end.0]),
                finish: record.finish.0,
            };
            serde_json::to_writer(&mut *out, &line)?;
            out.write_all(b"\n")?;
        }
        let summary = Summary { makespan_us: self.makespan.0, energy_joules: self.joules };
        serde_json::to_writer(&mut *out, &summary)?;
        out.write_all(b"\n")
    }

    /// Whether a file begins as such a log does.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(b"{\"format\":\"gswarm-task-log/")
    }

    /// Reads the file.
    pub fn read(bytes: &[u8]) -> Result<TaskLog, LogError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| LogError { line: 1, reason: "this is not UTF-8".to_string() })?;
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let [head, tasks @ .., last] = lines.as_slice() else {
            return Err(LogError { line: 1, reason: "a head, tasks and a summary are expected".to_string() });
        };
        let head: Head = parse(head, 1)?;
        if head.format != FORMAT {
            return Err(LogError { line: 1, reason: format!("the format is not {FORMAT}") });
        }
        let mut records = Vec::with_capacity(tasks.len());
        for (at, line) in tasks.iter().enumerate() {
            let line: Line = parse(line, at + 2)?;
            records.push((line.task.clone(), line.record()));
        }
        let summary: Summary = parse(last, lines.len())?;
        Ok(TaskLog {
            policy: head.policy,
            machine: head.machine,
            records,
            makespan: Time(summary.makespan_us),
            joules: summary.energy_joules,
        })
    }
}

impl Line {
    fn record(&self) -> TaskRecord {
        TaskRecord {
            ready: Time(self.ready),
            share: self.gpu_share,
            gpu: self.gpu.as_ref().map(|part| GpuPart {
                gpu: part.device,
                transfer_start: Time(part.transfer[0]),
                transfer_end: Time(part.transfer[1]),
                start: Time(part.run[0]),
                end: Time(part.run[1]),
            }),
            cpu: self.cpu.map(|[start, end]| CpuPart { start: Time(start), end: Time(end) }),
            finish: Time(self.finish),
        }
    }
}

fn parse<'t, T: Deserialize<'t>>(text: &'t str, line: usize) -> Result<T, LogError> {
    serde_json::from_str(text).map_err(|error| LogError { line, reason: error.to_string() })
}
