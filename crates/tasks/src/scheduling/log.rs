//! What happened, and its file: JSON lines, a head, a line a task, and a summary.

use super::machine::Machine;
use gswarm_core::Time;
use gswarm_core::input::{Code, Diagnostic};
use gswarm_learn::table::shown;
use serde::{Deserialize, Serialize};
use serde_json::error::Category;
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
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(b"{\"format\":\"gswarm-task-log/")
    }

    /// Reads the file.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(name: &str, bytes: &[u8]) -> Result<TaskLog, Diagnostic> {
        let fault = |code: Code, line: Option<usize>, message: String| Diagnostic {
            line: line.and_then(|line| u32::try_from(line).ok()),
            hint: Some("give the task_execution_log.jsonl that `gswarm tasks schedule` wrote".to_string()),
            ..Diagnostic::of_file(name, code, message)
        };
        let misread = |line: usize, error: &serde_json::Error| {
            let (code, reason) = reason(error);
            fault(code, Some(line), reason)
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|_| fault(Code::NotUtf8, None, "this is not UTF-8".to_string()))?;
        let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let lines: Vec<(usize, &str)> = numbered.filter(|(_, line)| !line.trim().is_empty()).collect();
        let Some((&(first, head), rest)) = lines.split_first() else {
            return Err(fault(Code::NoContent, None, "the file is empty".to_string()));
        };
        let head: Head = serde_json::from_str(head).map_err(|error| {
            let (code, reason) = reason(&error);
            fault(code, Some(first), format!("this is not a log of tasks: {reason}"))
        })?;
        if head.format != FORMAT {
            let message = format!("the format is `{}`; this gswarm reads {FORMAT}", shown(&head.format));
            return Err(fault(Code::UnknownChoice, Some(first), message));
        }
        let ends_early = |line: usize, tasks: usize| {
            let message = format!("the log ends after {tasks} of {} tasks, without its summary", head.tasks);
            fault(Code::Truncated, Some(line), message)
        };
        let Some((&(end, last), tasks)) = rest.split_last() else { return Err(ends_early(first, 0)) };
        let mut records = Vec::with_capacity(tasks.len());
        for &(number, line) in tasks {
            let line: Line = serde_json::from_str(line).map_err(|error| misread(number, &error))?;
            records.push((line.task.clone(), line.record()));
        }
        let summary: Summary = serde_json::from_str(last).map_err(|error| {
            // Where a task comes last, or a piece of a line, the rest was cut off.
            match serde_json::from_str::<Line>(last) {
                Ok(_) => ends_early(end, records.len() + 1),
                Err(other) if other.is_eof() || error.is_eof() => ends_early(end, records.len()),
                Err(_) => misread(end, &error),
            }
        })?;
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

/// What is wrong with a line. Where it stands in the file is said elsewhere.
fn reason(error: &serde_json::Error) -> (Code, String) {
    let code = match error.classify() {
        Category::Eof => Code::Truncated,
        Category::Data => Code::WrongType,
        Category::Syntax | Category::Io => Code::Syntax,
    };
    let text = error.to_string();
    (code, text.split(" at line ").next().unwrap_or(&text).to_owned())
}
