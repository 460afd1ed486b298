//! Executions that share a replica: how many at once, and whether each has done its work at the speed of its batch.

use super::context::{Context, TOLERANCE, s, seconds};
use crate::id::{Gpus, ModelId};
use crate::instance::Model;
use crate::log::Status;
use crate::time::Time;
use crate::violation::ViolationCode as Code;

/// A time during which a replica executed without a pause.
pub(super) struct Session {
    pub model: ModelId,
    pub gpus: Gpus,
    pub start: Time,
    pub end: Time,
    /// One of its executions, to name it by.
    pub execution: u32,
}

/// Checks each replica by itself, and gives the times during which replicas executed.
pub(super) fn check(context: &mut Context<'_>) -> Vec<Session> {
    let (instance, log) = (context.instance, context.log);
    let mut rows: Vec<(u64, u32, Time, u32)> = context
        .placed()
        .filter(|(_, one)| one.end > one.start)
        .map(|(index, one)| {
            let window = u64::from(one.gpus.first.0) << 32 | u64::from(one.gpus.count);
            (window, instance.model_of(one.task).0, one.start, index as u32)
        })
        .collect();
    rows.sort_unstable();
    let mut sessions = Vec::new();
    for replica in rows.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let model = ModelId(replica[0].1);
        let executions: Vec<u32> = replica.iter().map(|row| row.3).collect();
        if instance.models[model].max_batch() <= 1 {
            alone(context, model, &executions, &mut sessions);
        } else {
            Sweep::new(&instance.models[model]).run(context, model, executions, &mut sessions);
        }
    }
    for (index, one) in log.executions.iter().enumerate() {
        if one.start == one.end && one.status == Status::Completed && context.sound(index) {
            context.at(Code::WorkLittle, index, "it takes no time, but has a result");
        }
    }
    sessions
}

/// A replica that runs one execution at a time.
fn alone(context: &mut Context<'_>, model: ModelId, executions: &[u32], sessions: &mut Vec<Session>) {
    let log = context.log;
    let mut last: Option<Session> = None;
    for index in executions.iter().map(|&index| index as usize) {
        let one = &log.executions[index];
        if one.batch > 1 {
            let message =
                format!("batch_size is {}, but `{}` does not batch", one.batch, context.model_name(index));
            context.at(Code::BatchSize, index, message);
        }
        work(context, index, one.end.since(one.start).0 as f64, 0);
        let session =
            Session { model, gpus: one.gpus, start: one.start, end: one.end, execution: index as u32 };
        match &mut last {
            Some(open) if one.start.0.saturating_add(TOLERANCE) < open.end.0 => {
                let other = context.instance.task_name(log.executions[open.execution as usize].task);
                let until = s(open.end);
                let message = format!(
                    "it starts at {} on GPUs {}, where {other} runs until {until}",
                    s(one.start),
                    one.gpus
                );
                context.at(Code::Overlap, index, message);
                open.end = open.end.max(one.end);
            }
            _ => sessions.extend(last.replace(session)),
        }
    }
    sessions.extend(last);
}

/// A replica that batches, from change to change of its batch.
struct Sweep<'a> {
    model: &'a Model,
    now: u64,
    running: u32,
    /// Work that an execution present all the time would have done, in microseconds.
    progress: f64,
    changes: u32,
    /// Each execution's `progress` and `changes` at its start.
    at_start: Vec<(f64, u32)>,
}

impl<'a> Sweep<'a> {
    fn new(model: &'a Model) -> Sweep<'a> {
        Sweep { model, now: 0, running: 0, progress: 0.0, changes: 0, at_start: Vec::new() }
    }

    /// Goes through the executions by start and by end at once.
    fn run(
        mut self,
        context: &mut Context<'_>,
        model: ModelId,
        by_start: Vec<u32>,
        sessions: &mut Vec<Session>,
    ) {
        let log = context.log;
        let mut by_end: Vec<u32> = (0..by_start.len() as u32).collect();
        let of = |place: u32| &log.executions[by_start[place as usize] as usize];
        by_end.sort_unstable_by_key(|&place| (of(place).end, place));
        self.at_start = vec![(0.0, 0); by_start.len()];
        let (mut next, mut opened) = (0u32, Time::ZERO);
        for &ending in &by_end {
            let end = of(ending).end;
            // All that start before this end, one instant after the other.
            while (next as usize) < by_start.len() && of(next).start < end {
                let start = of(next).start;
                self.advance(start.0);
                if self.running == 0 {
                    (opened, self.progress, self.changes) = (start, 0.0, 0);
                }
                let first = next;
                while (next as usize) < by_start.len() && of(next).start == start {
                    self.running += 1;
                    next += 1;
                }
                for place in first..next {
                    self.at_start[place as usize] = (self.progress, self.changes);
                    self.started(context, by_start[place as usize] as usize);
                }
            }
            self.advance(end.0);
            let (progress, changes) = self.at_start[ending as usize];
            let index = by_start[ending as usize];
            work(context, index as usize, self.progress - progress, self.changes - changes);
            self.running -= 1;
            if self.running == 0 {
                let gpus = of(ending).gpus;
                sessions.push(Session { model, gpus, start: opened, end, execution: index });
            }
        }
    }

    fn advance(&mut self, to: u64) {
        if self.running > 0 && to > self.now {
            let batch = (self.running as usize).min(self.model.slowdown.len());
            let slowdown = f64::from(self.model.slowdown[batch - 1]) / 1e6;
            self.progress += (to - self.now) as f64 / slowdown;
            self.changes += 1;
        }
        self.now = to;
    }

    fn started(&self, context: &mut Context<'_>, index: usize) {
        let (one, most) = (&context.log.executions[index], self.model.max_batch());
        if self.running > most {
            let message = format!(
                "{} run at once on GPUs {} at {}; the limit is {most}",
                self.running,
                one.gpus,
                s(one.start)
            );
            context.at(Code::BatchLimit, index, message);
        }
        if one.batch != 0 && one.batch != self.running {
            context.at(
                Code::BatchSize,
                index,
                format!("batch_size is {}, but {} run just after its start", one.batch, self.running),
            );
        }
    }
}

/// Holds the work done against the work that the node is. Each change of the batch may have been rounded.
fn work(context: &mut Context<'_>, index: usize, done: f64, changes: u32) {
    if context.measured {
        return;
    }
    let one = &context.log.executions[index];
    let needed = context.truth.time(context.instance, one.task, one.start).0;
    let slack = (TOLERANCE * (1 + u64::from(changes))) as f64;
    let numbers =
        || format!("it did {} of work, but the node has {}", seconds(done.round() as u64), seconds(needed));
    if done > needed as f64 + slack {
        context.at(Code::WorkMuch, index, numbers());
    } else if one.status == Status::Completed && done < needed as f64 - slack {
        context.at(Code::WorkLittle, index, numbers());
    }
}
